// SPDX-License-Identifier: LGPL-2.1-or-later
#include "json_writer.h"

namespace gstzc::inspect {

void JsonWriter::value(std::string_view text) {
  gchar *valid = g_utf8_make_valid(text.data(), static_cast<gssize>(text.size()));
  json_builder_add_string_value(builder_, valid);
  g_free(valid);
}

void JsonWriter::value(const std::vector<std::string> &texts) {
  beginArray();
  for (const std::string &text : texts) value(text);
  endArray();
}

std::string JsonWriter::text() const {
  JsonNode *root = json_builder_get_root(builder_);
  JsonGenerator *generator = json_generator_new();
  json_generator_set_root(generator, root);
  json_generator_set_pretty(generator, TRUE);
  json_generator_set_indent(generator, 2);
  gsize length = 0;
  gchar *data = json_generator_to_data(generator, &length);
  std::string text(data, length);
  g_free(data);
  g_object_unref(generator);
  json_node_unref(root);
  return text + "\n";
}

} // namespace gstzc::inspect
