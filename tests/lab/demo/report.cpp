// SPDX-License-Identifier: LGPL-2.1-or-later
#include <memory>

#include <json-glib/json-glib.h>

#include "tests/lab/demo/first_light.h"

namespace firstlight {
namespace {

class Writer {
public:
  Writer() : builder_(json_builder_new()) {}
  ~Writer() { g_object_unref(builder_); }
  Writer &name(const char *text) { return json_builder_set_member_name(builder_, text), *this; }
  Writer &value(const std::string &text) { return json_builder_add_string_value(builder_, text.c_str()), *this; }
  Writer &value(uint64_t number) { return json_builder_add_int_value(builder_, static_cast<gint64>(number)), *this; }
  Writer &value(double number) { return json_builder_add_double_value(builder_, number), *this; }
  Writer &object() { return json_builder_begin_object(builder_), *this; }
  Writer &endObject() { return json_builder_end_object(builder_), *this; }
  Writer &array() { return json_builder_begin_array(builder_), *this; }
  Writer &endArray() { return json_builder_end_array(builder_), *this; }

  std::string text() {
    JsonNode *root = json_builder_get_root(builder_);
    gchar *json = json_to_string(root, TRUE);
    std::string result = std::string(json) + "\n";
    g_free(json);
    json_node_unref(root);
    return result;
  }

private:
  JsonBuilder *builder_;
};

} // namespace

std::string toJson(const std::vector<Report> &reports) {
  Writer json;
  json.object().name("runs").array();
  for (const Report &r : reports) {
    json.object();
    json.name("name").value(r.name).name("frames").value(uint64_t{r.frames}).name("shown").value(uint64_t{r.shown});
    json.name("detections").value(uint64_t{r.boxes.size()}).name("boxes").array();
    for (const Box &b : r.boxes) {
      json.object().name("label").value(b.label).name("score").value(b.score);
      for (auto [side, value] : {std::pair{"x1", b.x1}, {"y1", b.y1}, {"x2", b.x2}, {"y2", b.y2}})
        json.name(side).value(uint64_t(value));
      json.endObject();
    }
    json.endArray();
    json.name("bytes_copied")
        .value(r.bytes_copied)
        .name("copies")
        .value(r.copies)
        .name("fence_waits")
        .value(r.fence_waits);
    json.name("buffers").value(uint64_t{r.buffers}).name("foreign_buffers").value(uint64_t{r.foreign});
    json.name("devices").array();
    for (const std::string &device : r.devices) json.value(device);
    json.endArray();
    json.name("latency_ms").object();
    for (auto [name, p] : {std::pair{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}})
      json.name(name).value(percentile(r.latencies_ms, p));
    json.endObject().endObject();
  }
  return json.endArray().endObject().text();
}

} // namespace firstlight
