// SPDX-License-Identifier: LGPL-2.1-or-later
// Text in columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gstzc::inspect {

// Columns are as wide as their widest cell, two blanks apart; the last one is wrapped at its blanks so that lines stay
// within kLineWidth, its further lines under its first.
class Table {
public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  // Missing cells at the end are empty.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  size_t size() const { return rows_.size() - 1; } // without the head
  std::string text() const;

private:
  std::vector<std::vector<std::string>> rows_;
};

constexpr size_t kLineWidth = 120; // characters

// In lines of `width` characters at most, broken at blanks; words that are longer stand alone. At least one line.
std::vector<std::string> wrap(const std::string &text, size_t width);

// Each line of the text wrapped to kLineWidth, what continues it indented by so many blanks; its own ones at the
// beginning stay. Ends with a newline.
std::string wrapLines(const std::string &text, size_t indent);

// "a, b, c"; past `most` entries "a, b and 7 more".
std::string joined(const std::vector<std::string> &entries, size_t most = static_cast<size_t>(-1));

} // namespace gstzc::inspect
