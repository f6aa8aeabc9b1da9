// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading JSON with bounds, and errors that say where. The first error counts; after it every value reads as empty, so
// that readers need no checks of their own before the end.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <json-glib/json-glib.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc::json {

class Document;

// A value and its place. Belongs to its document.
class Value {
public:
  Value() = default;
  Value(Document *document, JsonNode *node, std::string path)
      : document_(document), node_(node), path_(std::move(path)) {}

  bool exists() const { return node_ != nullptr && !JSON_NODE_HOLDS_NULL(node_); } // a null counts as absent
  bool isNull() const { return node_ != nullptr && JSON_NODE_HOLDS_NULL(node_); }
  bool isObject() const { return node_ != nullptr && JSON_NODE_HOLDS_OBJECT(node_); }
  bool isArray() const { return node_ != nullptr && JSON_NODE_HOLDS_ARRAY(node_); }
  bool isString() const;
  bool isInteger() const;
  bool isNumber() const; // integers too
  bool isBoolean() const;
  const std::string &path() const { return path_; }

  // Errors where the value has another type or is out of bounds. Of an absent value: nothing, and no error.
  std::string text(size_t max_bytes = 4096) const;
  int64_t integer(int64_t min, int64_t max) const;
  uint64_t bits() const; // any integer, as 64 bits
  double number(double min, double max) const;
  bool boolean() const;

  // Of an object; absent ones do not exist().
  Value member(const char *name) const;
  std::vector<std::pair<std::string, Value>> members(size_t max) const;
  std::vector<Value> items(size_t max) const;
  // Keys that are not in the list, as a warning of the document; an error if this is no object.
  void allow(std::initializer_list<const char *> keys) const;

  void fail(const std::string &why) const; // "name: path: value: why"

private:
  std::string shown() const; // the value, shortened
  Document *document_ = nullptr;
  JsonNode *node_ = nullptr;
  std::string path_;
};

class Document {
public:
  explicit Document(std::string name) : name_(std::move(name)) {}
  ~Document();
  Document(const Document &) = delete;
  Document &operator=(const Document &) = delete;

  // False with an error: too large, nested too deeply, no JSON.
  bool parse(std::string_view text, size_t max_bytes, size_t max_depth);
  Value root();

  const std::string &name() const { return name_; }
  const std::optional<Error> &error() const { return error_; }
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }
  void warn(std::string text);
  std::vector<std::string> takeWarnings() { return std::move(warnings_); }

private:
  std::string name_;
  JsonParser *parser_ = nullptr;
  std::optional<Error> error_;
  std::vector<std::string> warnings_;
};

} // namespace gstzc::json
