// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/json_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gstzc::json {
namespace {

constexpr size_t kMaxWarnings = 64;
constexpr size_t kShownBytes = 60;

GType typeOf(JsonNode *node) {
  return node != nullptr && JSON_NODE_HOLDS_VALUE(node) ? json_node_get_value_type(node) : G_TYPE_INVALID;
}

constexpr std::string_view kSpace = " \t\r\n";

// Calls `look` with each character outside of strings, and its place, until that returns false.
template <typename Look> void outsideOfStrings(std::string_view text, Look look) {
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && !look(c, i))
      return;
  }
}

// json-glib's parser calls itself for each level, takes several values one after another, and is given texts of others:
// looked through before. Nothing, or what is wrong with the text as a whole.
std::optional<std::string> wrongShape(std::string_view text, size_t max_depth) {
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "not JSON: it is empty";
  if (text[begin] != '{' && text[begin] != '[') return "an object is needed";
  size_t depth = 0;
  std::optional<std::string> wrong; // one that does not end is the parser's to refuse
  outsideOfStrings(text, [&](char c, size_t i) {
    if ((c == '[' || c == '{') && ++depth > max_depth)
      wrong = "values nested more than " + std::to_string(max_depth) + " deep";
    if (wrong || (c != ']' && c != '}') || --depth > 0) return !wrong;
    const size_t more = text.find_first_not_of(kSpace, i + 1);
    if (more == std::string_view::npos) return false;
    wrong = "not JSON: there is more after its end, at byte " + std::to_string(more);
    return false;
  });
  return wrong;
}

// What json-glib takes beyond JSON (comments, assignments to variables, names without quotes) hides brackets from the
// count above: outside of strings there is nothing but JSON's own characters.
std::optional<size_t> foreignCharacter(std::string_view text) {
  std::optional<size_t> found;
  outsideOfStrings(text, [&](char c, size_t i) {
    const bool number = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
    // true, false, null
    if (number || (c != '\0' && std::strchr(" \t\r\n[]{},:truefalsn", c) != nullptr)) return true;
    found = i;
    return false;
  });
  return found;
}

} // namespace

bool Value::isString() const { return typeOf(node_) == G_TYPE_STRING; }
bool Value::isInteger() const { return typeOf(node_) == G_TYPE_INT64; }
bool Value::isNumber() const { return isInteger() || typeOf(node_) == G_TYPE_DOUBLE; }
bool Value::isBoolean() const { return typeOf(node_) == G_TYPE_BOOLEAN; }

std::string Value::shown() const {
  if (node_ == nullptr) return "nothing";
  if (isObject()) return "an object";
  if (isArray()) return "a list";
  if (typeOf(node_) == G_TYPE_DOUBLE && !std::isfinite(json_node_get_double(node_)))
    return "a number that is too large"; // JSON has no text for it
  gchar *text = json_to_string(node_, FALSE);
  std::string result = text != nullptr ? text : "?";
  g_free(text);
  if (result.size() > kShownBytes) {
    size_t end = kShownBytes;
    while (end > 0 && (static_cast<unsigned char>(result[end]) & 0xc0) == 0x80) --end; // not within a character
    result = result.substr(0, end) + "…";
  }
  return result;
}

void Value::fail(const std::string &why) const {
  if (document_ == nullptr) return;
  document_->fail({document_->name() + ": " + (path_.empty() ? "the whole" : path_) + ": " + shown() + ": " + why, 0,
                   "docs/negotiation.md describes the keys"});
}

std::string Value::text(size_t max_bytes) const {
  if (!exists() || document_->error()) return {};
  if (!isString()) {
    fail("a string is needed");
    return {};
  }
  const char *value = json_node_get_string(node_);
  const size_t length = std::strlen(value);
  if (length > max_bytes) {
    fail("longer than " + std::to_string(max_bytes) + " bytes");
    return {};
  }
  return {value, length};
}

int64_t Value::integer(int64_t min, int64_t max) const {
  if (!exists() || document_->error()) return 0;
  const int64_t value = isInteger() ? json_node_get_int(node_) : 0;
  if (isInteger() && value >= min && value <= max) return value;
  fail("an integer of " + std::to_string(min) + " to " + std::to_string(max) + " is needed");
  return 0;
}

uint64_t Value::bits() const {
  if (!exists() || document_->error()) return 0;
  if (isInteger()) return static_cast<uint64_t>(json_node_get_int(node_));
  fail("an integer is needed");
  return 0;
}

double Value::number(double min, double max) const {
  if (!exists() || document_->error()) return 0;
  const double value = isNumber() ? json_node_get_double(node_) : NAN;
  if (value >= min && value <= max) return value; // not so of NAN
  char range[64];
  std::snprintf(range, sizeof range, "a number of %g to %g is needed", min, max);
  fail(range);
  return 0;
}

bool Value::boolean() const {
  if (!exists() || document_->error()) return false;
  if (isBoolean()) return json_node_get_boolean(node_) != FALSE;
  fail("true or false is needed");
  return false;
}

Value Value::member(const char *name) const {
  if (!isObject()) return {document_, nullptr, path_};
  JsonNode *node = json_object_get_member(json_node_get_object(node_), name);
  return {document_, node, path_.empty() ? name : path_ + "." + name};
}

std::vector<std::pair<std::string, Value>> Value::members(size_t max) const {
  std::vector<std::pair<std::string, Value>> result;
  if (!exists() || document_->error()) return result;
  if (!isObject()) {
    fail("an object is needed");
    return result;
  }
  JsonObject *object = json_node_get_object(node_);
  if (json_object_get_size(object) > max) {
    fail("more than " + std::to_string(max) + " members");
    return result;
  }
  JsonObjectIter iter;
  json_object_iter_init_ordered(&iter, object);
  const gchar *name = nullptr;
  JsonNode *node = nullptr;
  while (json_object_iter_next_ordered(&iter, &name, &node)) result.emplace_back(name, member(name));
  return result;
}

std::vector<Value> Value::items(size_t max) const {
  std::vector<Value> result;
  if (!exists() || document_->error()) return result;
  if (!isArray()) {
    fail("a list is needed");
    return result;
  }
  JsonArray *array = json_node_get_array(node_);
  const guint n = json_array_get_length(array);
  if (n > max) {
    fail("more than " + std::to_string(max) + " entries");
    return result;
  }
  result.reserve(n);
  for (guint i = 0; i < n; ++i)
    result.emplace_back(document_, json_array_get_element(array, i), path_ + "[" + std::to_string(i) + "]");
  return result;
}

void Value::allow(std::initializer_list<const char *> keys) const {
  if (!exists() || document_->error()) return;
  if (!isObject()) return fail("an object is needed");
  JsonObjectIter iter;
  json_object_iter_init_ordered(&iter, json_node_get_object(node_));
  const gchar *name = nullptr;
  JsonNode *node = nullptr;
  while (json_object_iter_next_ordered(&iter, &name, &node))
    if (std::none_of(keys.begin(), keys.end(), [&](const char *key) { return std::strcmp(key, name) == 0; }))
      document_->warn((path_.empty() ? "" : path_ + ".") + std::string(name).substr(0, kShownBytes) +
                      " is not known: ignored");
}

Document::~Document() {
  if (parser_ != nullptr) g_object_unref(parser_);
}

bool Document::parse(std::string_view text, size_t max_bytes, size_t max_depth) {
  const auto refuse = [&](const std::string &why, const std::string &remedy) {
    fail({name_ + ": " + why, 0, remedy});
    return false;
  };
  if (text.size() > max_bytes)
    return refuse("more than " + std::to_string(max_bytes) + " bytes, which no description of a display has",
                  "Give the file of one device"); // how much more is not known: nobody reads on
  if (const auto at = foreignCharacter(text))
    return refuse("not JSON: a character at byte " + std::to_string(*at) + " that only strings may have", "");
  if (const auto why = wrongShape(text, max_depth)) return refuse(*why, "");
  parser_ = json_parser_new();
  GError *error = nullptr;
  if (!json_parser_load_from_data(parser_, text.data(), static_cast<gssize>(text.size()), &error)) {
    const std::string why = error != nullptr ? error->message : "unreadable";
    g_clear_error(&error);
    return refuse("not JSON: " + why, "");
  }
  if (json_parser_get_root(parser_) == nullptr) return refuse("not JSON: it is empty", "");
  return true;
}

Value Document::root() { return {this, parser_ != nullptr ? json_parser_get_root(parser_) : nullptr, ""}; }

void Document::warn(std::string text) {
  if (warnings_.size() < kMaxWarnings)
    warnings_.push_back(std::move(text));
  else if (warnings_.size() == kMaxWarnings)
    warnings_.emplace_back("… and further keys");
}

} // namespace gstzc::json
