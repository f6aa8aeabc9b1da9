// SPDX-License-Identifier: LGPL-2.1-or-later
// Reads values as Python's repr() writes them, which is how exporters put lists and dictionaries into a model's
// metadata: "{0: 'person', 1: \"driver's seat\"}", "[640, 640]". JSON of the same values is read too.
// Grammar: docs.python.org, Lexical analysis, Literals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gstzc::infer {

struct Literal {
  enum class Kind { None, Bool, Integer, Real, Text, List, Dict };
  Kind kind = Kind::None;
  int64_t integer = 0; // of Bool: 0 or 1
  double real = 0;
  std::string text;           // UTF-8
  std::vector<Literal> items; // of List; tuples are lists; of Dict: key, value, key, value, …

  bool truth() const { return kind == Kind::Bool && integer != 0; }
  // The value of a text key; null where this is no Dict or has no such key.
  const Literal *find(std::string_view key) const;
};

// Nothing where the text is not one value of these kinds, nests deeper than 16, has an integer beyond 64 bits or text
// that is no UTF-8.
std::optional<Literal> parseLiteral(std::string_view text);

} // namespace gstzc::infer
