// SPDX-License-Identifier: LGPL-2.1-or-later
// JSON that a test looks into.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <json-glib/json-glib.h>

namespace gstzc::test {

class Json {
public:
  explicit Json(const std::string &text) : parser_(json_parser_new()) {
    GError *error = nullptr;
    EXPECT_TRUE(json_parser_load_from_data(parser_, text.data(), static_cast<gssize>(text.size()), &error))
        << (error != nullptr ? error->message : "") << "\n"
        << text;
    g_clear_error(&error);
  }
  ~Json() { g_object_unref(parser_); }
  Json(const Json &) = delete;
  Json &operator=(const Json &) = delete;
  JsonObject *object() const { return json_node_get_object(json_parser_get_root(parser_)); }
  // The value of a JSONPath's first match, "" for none.
  std::string at(const char *path) const {
    JsonNode *matches = json_path_query(path, json_parser_get_root(parser_), nullptr);
    std::string text;
    if (matches != nullptr) {
      JsonArray *array = json_node_get_array(matches);
      if (json_array_get_length(array) > 0) {
        JsonNode *node = json_array_get_element(array, 0);
        gchar *value = json_to_string(node, FALSE);
        text = value;
        g_free(value);
        if (text.size() > 1 && text.front() == '"') text = text.substr(1, text.size() - 2);
      }
      json_node_unref(matches);
    }
    return text;
  }

private:
  JsonParser *parser_;
};

} // namespace gstzc::test
