// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/json_writer.h"

namespace gstzc {
namespace {

std::string valid(std::string_view text) {
  gchar *made = g_utf8_make_valid(text.data(), static_cast<gssize>(text.size()));
  std::string result = made;
  g_free(made);
  return result;
}

} // namespace

JsonWriter &JsonWriter::key(std::string_view name) {
  json_builder_set_member_name(builder_, valid(name).c_str());
  return *this;
}

void JsonWriter::value(std::string_view text) { json_builder_add_string_value(builder_, valid(text).c_str()); }

void JsonWriter::value(const std::vector<std::string> &texts) {
  beginArray();
  for (const std::string &text : texts) value(text);
  endArray();
}

std::string JsonWriter::text(unsigned indent) const {
  JsonNode *root = json_builder_get_root(builder_);
  JsonGenerator *generator = json_generator_new();
  json_generator_set_root(generator, root);
  json_generator_set_pretty(generator, TRUE);
  json_generator_set_indent(generator, indent);
  gsize length = 0;
  gchar *data = json_generator_to_data(generator, &length);
  std::string text(data, length);
  g_free(data);
  g_object_unref(generator);
  json_node_unref(root);
  return text + "\n";
}

} // namespace gstzc
