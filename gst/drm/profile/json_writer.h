// SPDX-License-Identifier: LGPL-2.1-or-later
// JSON through json-glib: profiles, and the outputs of zerocopy-inspect.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <json-glib/json-glib.h>

namespace gstzc {

// Objects and arrays in the order they are written. Text that is no UTF-8 (a file's name, what
// a driver calls its things) has its bytes replaced.
class JsonWriter {
public:
  JsonWriter() : builder_(json_builder_new()) {}
  ~JsonWriter() { g_object_unref(builder_); }
  JsonWriter(const JsonWriter &) = delete;
  JsonWriter &operator=(const JsonWriter &) = delete;

  JsonWriter &key(std::string_view name);
  void beginObject() { json_builder_begin_object(builder_); }
  void endObject() { json_builder_end_object(builder_); }
  void beginArray() { json_builder_begin_array(builder_); }
  void endArray() { json_builder_end_array(builder_); }

  // What is written by `members` or `items` is in it.
  template <typename Members> void object(Members members) {
    beginObject();
    members();
    endObject();
  }
  template <typename Items> void list(Items items) {
    beginArray();
    items();
    endArray();
  }

  void value(std::string_view text);
  void value(const char *text) { value(std::string_view(text)); }
  void value(const std::string &text) { value(std::string_view(text)); }
  void value(bool b) { json_builder_add_boolean_value(builder_, b); }
  void value(int64_t i) { json_builder_add_int_value(builder_, i); }
  void value(uint32_t i) { value(static_cast<int64_t>(i)); }
  void value(int i) { value(static_cast<int64_t>(i)); }
  void value(size_t i) { value(static_cast<int64_t>(i)); }
  void value(double d) { json_builder_add_double_value(builder_, d); }
  void value(const std::vector<std::string> &texts);
  void null() { json_builder_add_null_value(builder_); }

  template <typename T> void member(std::string_view name, const T &v) {
    key(name);
    value(v);
  }
  // null where there is no text
  void memberOrNull(std::string_view name, const std::string &text) {
    key(name);
    if (text.empty())
      null();
    else
      value(text);
  }

  // The root has to be complete. `indent`: spaces a level. Ends with a newline.
  std::string text(unsigned indent = 2) const;

private:
  JsonBuilder *builder_;
};

} // namespace gstzc
