// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/results.h"

namespace gstzc::infer {
namespace {

// A GstValueArray of structures, growing.
class StructureArray {
public:
  StructureArray() { gst_value_array_init(&array_, 0); }
  ~StructureArray() {
    if (G_IS_VALUE(&array_)) g_value_unset(&array_);
  }
  StructureArray(const StructureArray &) = delete;
  StructureArray &operator=(const StructureArray &) = delete;

  void add(GstStructure *structure) { // takes it
    GValue item = G_VALUE_INIT;
    g_value_init(&item, GST_TYPE_STRUCTURE);
    g_value_take_boxed(&item, structure);
    gst_value_array_append_and_take_value(&array_, &item);
  }
  void moveTo(GstStructure *owner, const char *field) {
    gst_structure_take_value(owner, field, &array_);
    array_ = G_VALUE_INIT;
  }

private:
  GValue array_ = G_VALUE_INIT;
};

GstStructure *named(const char *name, const std::string &label, int index, float score) {
  return gst_structure_new(name, "label", G_TYPE_STRING, label.c_str(), "index", G_TYPE_INT, index, "score",
                           G_TYPE_DOUBLE, static_cast<double>(score), nullptr);
}

GstStructure *detection(const FrameBox &box) {
  GstStructure *s = named("detection", box.label, box.index, box.score);
  gst_structure_set(s, "x", G_TYPE_INT, box.x, "y", G_TYPE_INT, box.y, "w", G_TYPE_INT, box.width, "h", G_TYPE_INT,
                    box.height, nullptr);
  if (box.keypoints.empty()) return s;
  StructureArray points;
  for (const Point &point : box.keypoints)
    points.add(gst_structure_new("keypoint", "x", G_TYPE_DOUBLE, static_cast<double>(point.x), "y", G_TYPE_DOUBLE,
                                 static_cast<double>(point.y), "score", G_TYPE_DOUBLE, static_cast<double>(point.score),
                                 nullptr));
  points.moveTo(s, "keypoints");
  return s;
}

} // namespace

GstStructure *resultStructure(const GstBuffer *buffer, const ResultHead &head,
                              const std::vector<RegionFindings> &regions) {
  StructureArray detections, classes;
  for (const RegionFindings &region : regions) {
    const auto setObject = [&](GstStructure *s) {
      if (region.object) gst_structure_set(s, "object", G_TYPE_UINT, *region.object, nullptr);
    };
    for (size_t i = 0; i < region.findings.boxes.size(); ++i) {
      GstStructure *s = detection(region.findings.boxes[i]);
      if (i < region.ids.size()) gst_structure_set(s, "id", G_TYPE_UINT, region.ids[i], nullptr);
      setObject(s);
      detections.add(s);
    }
    for (const FrameClass &c : region.findings.classes) {
      GstStructure *s = named("class", c.label, c.index, c.score);
      setObject(s);
      classes.add(s);
    }
  }
  GstStructure *result =
      gst_structure_new("fenceinfer-result", "timestamp", G_TYPE_UINT64, GST_BUFFER_PTS(buffer), "frame", G_TYPE_UINT64,
                        head.frame, "width", G_TYPE_INT, head.width, "height", G_TYPE_INT, head.height, "fresh",
                        G_TYPE_BOOLEAN, static_cast<gboolean>(head.fresh), nullptr);
  detections.moveTo(result, "detections");
  classes.moveTo(result, "classes");
  return result;
}

} // namespace gstzc::infer
