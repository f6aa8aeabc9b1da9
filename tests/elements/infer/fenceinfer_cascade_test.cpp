// SPDX-License-Identifier: LGPL-2.1-or-later
// A second model on what the first one found: inference-region=objects.
#include "tests/elements/infer/fixture.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "gst/zerocopy/gstzcinferencemeta.h"
#include "tests/elements/infer/pipeline.h"
#include "tests/support/small_models.h"

namespace gstzc::test {
namespace {

constexpr int kWidth = 320, kHeight = 160;
constexpr const char *kCaps = "video/x-raw,format=RGB,width=320,height=160,framerate=30/1";

struct Patch {
  int x, y, w, h;
  std::array<guint8, 3> colour;
};
constexpr std::array<guint8, 3> kRed = {255, 0, 0}, kGreen = {0, 255, 0}, kBlue = {0, 0, 255};

GstBuffer *painted(const std::vector<Patch> &patches) {
  GstBuffer *buffer = solid("RGB", kWidth, kHeight, {0, 0, 0});
  GstMapInfo map;
  gst_buffer_map(buffer, &map, GST_MAP_WRITE);
  for (const Patch &p : patches)
    for (int y = p.y; y < p.y + p.h; ++y)
      for (int x = p.x; x < p.x + p.w; ++x) std::copy_n(p.colour.data(), 3, map.data + (y * kWidth + x) * 3);
  gst_buffer_unmap(buffer, &map);
  return buffer;
}

// A red car at the left, a blue person at the right; as boxes of a frame of 320x160 (32,40 64x80) and (192,40 64x80).
const std::vector<PlacedObject> kObjects = {{0.25f, 0.1f, 0.75f, 0.3f, 0, 0.9f}, {0.25f, 0.6f, 0.75f, 0.8f, 1, 0.8f}};
const std::vector<Patch> kPatches = {{32, 40, 64, 80, kRed}, {192, 40, 64, 80, kBlue}};

class Cascade : public FenceInferTest {
protected:
  void SetUp() override {
    std::ofstream(dir_.file("kinds.txt")) << "car\nperson\n";
    std::ofstream(dir_.file("colours.txt")) << "red\ngreen\nblue\n";
  }
  // its scores are 10 for the colour and 0 for the others
  std::string colours(const OnnxModel::Dims &dims = {1, 3, 16, 16}) {
    return "model-file=\"" + save(colourClassifier(dims), "colours.onnx") + "\" decoder=classification labels-file=\"" +
           dir_.file("colours.txt") + "\" mean=0 scale=0.0392 threshold=0.5 ";
  }

  void start(const std::string &second, const std::vector<PlacedObject> &objects = kObjects,
             const std::string &first = "") {
    const std::string detector = save(placedObjects(32, objects), "detector.onnx");
    const std::string line = "fenceinfer name=first model-file=\"" + detector + "\" labels-file=\"" +
                             dir_.file("kinds.txt") + "\" " + first + " ! fenceinfer name=second " + second;
    harness_ = gst_harness_new_parse(line.c_str());
    bus_ = gst_bus_new();
    gst_element_set_bus(harness_->element, bus_);
    gst_harness_set_src_caps_str(harness_, kCaps);
  }
  // without a first one: objects are what the frame brings
  void alone() {
    const std::string line = "fenceinfer name=second inference-region=objects " + colours();
    harness_ = gst_harness_new_parse(line.c_str());
    bus_ = gst_bus_new();
    gst_element_set_bus(harness_->element, bus_);
    gst_harness_set_src_caps_str(harness_, kCaps);
  }
  GstBuffer *next(const std::vector<Patch> &patches = kPatches) {
    EXPECT_EQ(gst_harness_push(harness_, painted(patches)), GST_FLOW_OK);
    return gst_harness_pull(harness_);
  }
  guint64 statOfSecond(const char *field) {
    GstElement *second = gst_bin_get_by_name(GST_BIN(harness_->element), "second");
    GstStructure *stats = nullptr;
    g_object_get(second, "stats", &stats, nullptr);
    gst_object_unref(second);
    guint64 value = G_MAXUINT64;
    EXPECT_TRUE(gst_structure_get_uint64(stats, field, &value)) << field;
    gst_structure_free(stats);
    return value;
  }
};

struct Object {
  guint id = 0;
  Box box;
  std::vector<std::string> classes; // related to it
  std::vector<Box> parts;           // contained in it
};

std::string nameOf(GQuark quark) { return quark != 0 ? g_quark_to_string(quark) : ""; }

std::vector<Object> objectsOf(GstBuffer *buffer) {
  std::vector<Object> objects;
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  gpointer state = nullptr;
  GstAnalyticsODMtd od;
  while (meta != nullptr &&
         gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_od_mtd_get_mtd_type(), &od)) {
    Object object;
    object.id = od.id;
    gst_analytics_od_mtd_get_location(&od, &object.box.x, &object.box.y, &object.box.w, &object.box.h,
                                      &object.box.score);
    object.box.label = nameOf(gst_analytics_od_mtd_get_obj_type(&od));
    gpointer related = nullptr;
    GstAnalyticsMtd other;
    while (gst_analytics_relation_meta_get_direct_related(meta, od.id, GST_ANALYTICS_REL_TYPE_RELATE_TO,
                                                          gst_analytics_cls_mtd_get_mtd_type(), &related, &other)) {
      const auto *cls = reinterpret_cast<GstAnalyticsClsMtd *>(&other);
      for (gsize i = 0; i < gst_analytics_cls_mtd_get_length(cls); ++i)
        object.classes.push_back(nameOf(gst_analytics_cls_mtd_get_quark(cls, i)));
    }
    related = nullptr;
    while (gst_analytics_relation_meta_get_direct_related(meta, od.id, GST_ANALYTICS_REL_TYPE_CONTAIN,
                                                          gst_analytics_od_mtd_get_mtd_type(), &related, &other)) {
      Box part;
      const auto *inner = reinterpret_cast<GstAnalyticsODMtd *>(&other);
      gst_analytics_od_mtd_get_location(inner, &part.x, &part.y, &part.w, &part.h, &part.score);
      object.parts.push_back(part);
    }
    objects.push_back(object);
  }
  return objects;
}

using Names = std::vector<std::string>;

TEST_F(Cascade, EachObjectHasItsClass) {
  const struct {
    const char *properties;
    Names car, person;
    guint64 inferred, skipped;
  } rows[] = {
      {"", {"red"}, {"blue"}, 2, 0},
      {"object-class=car", {"red"}, {}, 1, 0},
      {"object-class=\"dog, person\"", {}, {"blue"}, 1, 0},
      {"object-class=dog", {}, {}, 0, 1},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.properties);
    start(colours() + "inference-region=objects " + row.properties);
    GstBuffer *out = next();
    const auto objects = objectsOf(out);
    ASSERT_EQ(objects.size(), 2u);
    EXPECT_EQ(objects[0].box.label, "car");
    EXPECT_EQ(objects[0].classes, row.car);
    EXPECT_EQ(objects[1].box.label, "person");
    EXPECT_EQ(objects[1].classes, row.person);
    EXPECT_EQ(statOfSecond("inferred"), row.inferred);
    EXPECT_EQ(statOfSecond("skipped"), row.skipped);
    EXPECT_EQ(statOfSecond("frames"), 1u);
    gst_buffer_unref(out);
    stop();
  }
}

// The whole frame is black but for a fifth.
TEST_F(Cascade, TheWholeFrameIsNotRelatedToObjects) {
  start(colours());
  GstBuffer *out = next({{0, 0, kWidth, kHeight, kGreen}});
  const auto objects = objectsOf(out);
  ASSERT_EQ(objects.size(), 2u);
  EXPECT_TRUE(objects[0].classes.empty());
  EXPECT_TRUE(objects[1].classes.empty());
  GstAnalyticsClsMtd cls;
  gpointer state = nullptr;
  ASSERT_TRUE(gst_analytics_relation_meta_iterate(gst_buffer_get_analytics_relation_meta(out), &state,
                                                  gst_analytics_cls_mtd_get_mtd_type(), &cls));
  EXPECT_EQ(nameOf(gst_analytics_cls_mtd_get_quark(&cls, 0)), "green");
  gst_buffer_unref(out);
}

// The second model's boxes are in parts of the object: its middle.
TEST_F(Cascade, PartsLieInTheirObject) {
  const std::string parts = save(placedObjects(16, {{0.25f, 0.25f, 0.75f, 0.75f, 0, 0.7f}}), "parts.onnx");
  start("model-file=\"" + parts + "\" inference-region=objects resize-mode=stretch");
  GstBuffer *out = next();
  const auto objects = objectsOf(out);
  ASSERT_EQ(objects.size(), 4u) << "two objects and a part of each";
  const int middles[] = {32 + 16, 192 + 16};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(objects[i].parts.size(), 1u);
    const Box &part = objects[i].parts[0];
    EXPECT_EQ(part.x, middles[i]);
    EXPECT_EQ(part.y, 60);
    EXPECT_EQ(part.w, 32);
    EXPECT_EQ(part.h, 40);
    EXPECT_FLOAT_EQ(part.score, 0.7f);
  }
  gst_buffer_unref(out);
}

// More objects than a batch and fewer: none is lost, and each has its own result.
TEST_F(Cascade, BatchesOfObjects) {
  constexpr int count = 10; // in a row, 32 pixels each
  std::vector<PlacedObject> objects;
  std::vector<Patch> patches;
  const std::array<guint8, 3> palette[] = {kRed, kGreen, kBlue};
  const char *const names[] = {"red", "green", "blue"};
  for (int i = 0; i < count; ++i) {
    const float left = static_cast<float>(i) / count;
    objects.push_back({0.25f, left, 0.75f, left + 1.0f / count, 0, 0.9f});
    patches.push_back({i * kWidth / count, 40, kWidth / count, 80, palette[i % 3]});
  }
  const struct {
    const char *what;
    OnnxModel::Dims dims;
    const char *properties;
  } rows[] = {
      {"one by one", {1, 3, 16, 16}, ""},
      {"an open batch, objects left over", {"batch", 3, 16, 16}, "batch-size=4 workers=1"},
      {"an open batch, larger than needed", {"batch", 3, 16, 16}, "batch-size=16 workers=1 batch-timeout=20"},
      {"a fixed batch", {4, 3, 16, 16}, "workers=2"},
      {"more objects than frames are held", {1, 3, 16, 16}, "max-in-flight=1"},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    start(colours(row.dims) + "inference-region=objects " + row.properties, objects);
    for (int frame = 0; frame < 3; ++frame) {
      GstBuffer *out = next(patches);
      const auto found = objectsOf(out);
      ASSERT_EQ(found.size(), static_cast<size_t>(count));
      for (const Object &object : found)
        EXPECT_EQ(object.classes, Names{names[object.box.x / (kWidth / count) % 3]}) << object.box.x;
      gst_buffer_unref(out);
    }
    EXPECT_EQ(statOfSecond("inferred"), 3u * count);
    stop();
  }
}

// Boxes that another element made may leave the frame.
TEST_F(Cascade, ObjectsThatLeaveTheFrame) {
  const struct {
    const char *what;
    int x, y, w, h;
    Names classes;
  } rows[] = {
      {"over the left edge", -32, 0, 64, 160, {"red"}},
      {"over the right edge", 300, 0, 40, 160, {"red"}},
      {"over all edges", -10, -10, 340, 180, {"red"}},
      {"far outside", 5000, 5000, 64, 64, {}},
      {"nothing wide", 10, 10, 0, 20, {}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    alone();
    GstBuffer *in = painted({{0, 0, kWidth, kHeight, kRed}});
    GstAnalyticsODMtd od;
    gst_analytics_relation_meta_add_od_mtd(gst_buffer_add_analytics_relation_meta(in), g_quark_from_string("car"),
                                           row.x, row.y, row.w, row.h, 0.9f, &od);
    ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    const auto objects = objectsOf(out);
    ASSERT_EQ(objects.size(), 1u);
    EXPECT_EQ(objects[0].classes, row.classes);
    EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr);
    gst_buffer_unref(out);
    stop();
  }
}

TEST_F(Cascade, FramesWithoutResultsPass) {
  alone();
  for (int i = 0; i < 3; ++i) {
    GstBuffer *in = painted({});
    ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    EXPECT_EQ(out, in);
    gst_buffer_unref(out);
  }
  EXPECT_EQ(statOfSecond("inferred"), 0u);
  EXPECT_EQ(statOfSecond("skipped"), 3u);
}

// Frames between two that the first one looks at carry its last boxes: the second model looks at them there.
TEST_F(Cascade, RepeatedObjectsAreLookedAtAfresh) {
  start(colours() + "inference-region=objects", kObjects, "inference-interval=2 repeat-results=true");
  const std::array<guint8, 3> palette[] = {kRed, kGreen, kBlue, kRed};
  const char *const names[] = {"red", "green", "blue", "red"};
  for (int i = 0; i < 4; ++i) {
    GstBuffer *out = next({{0, 0, kWidth, kHeight, palette[i]}});
    const auto objects = objectsOf(out);
    ASSERT_EQ(objects.size(), 2u) << i;
    for (const Object &object : objects) EXPECT_EQ(object.classes, Names{names[i]}) << i;
    EXPECT_EQ(gst_zc_inference_meta_is_fresh(gst_buffer_get_zc_inference_meta(out, "first")), i % 2 == 0) << i;
    EXPECT_TRUE(gst_zc_inference_meta_is_fresh(gst_buffer_get_zc_inference_meta(out, "second"))) << i;
    gst_buffer_unref(out);
  }
}

// Behind a tee: the second model adds to a frame of its own.
TEST_F(Cascade, OnFramesThatOthersHave) {
  const std::string detector = save(placedObjects(32, kObjects), "detector.onnx");
  Pipeline pipeline("videotestsrc pattern=blue num-buffers=5 ! " + std::string(kCaps) + " ! fenceinfer model-file=\"" +
                    detector + "\" ! tee name=t t. ! queue ! fenceinfer " + colours() +
                    "inference-region=objects ! fakesink name=second async=false "
                    "t. ! queue ! fakesink name=first async=false");
  pipeline.keep("second");
  pipeline.keep("first");
  ASSERT_EQ(pipeline.run(), "");
  int with = 0, without = 0;
  for (GstBuffer *buffer : pipeline.kept()) {
    const auto objects = objectsOf(buffer);
    ASSERT_EQ(objects.size(), 2u);
    EXPECT_EQ(objects[0].classes.size(), objects[1].classes.size());
    ++(objects[0].classes == Names{"blue"} ? with : without);
  }
  EXPECT_EQ(with, 5);
  EXPECT_EQ(without, 5);
}

TEST_F(Cascade, MessagesNameTheObject) {
  start(colours() + "inference-region=objects message-results=true");
  GstBuffer *out = next();
  const auto objects = objectsOf(out);
  ASSERT_EQ(objects.size(), 2u);
  GstMessage *posted = message(GST_MESSAGE_ELEMENT);
  ASSERT_NE(posted, nullptr);
  const GValue *classes = gst_structure_get_value(gst_message_get_structure(posted), "classes");
  ASSERT_EQ(gst_value_array_get_size(classes), 2u);
  for (guint i = 0; i < 2; ++i) {
    const GstStructure *one = gst_value_get_structure(gst_value_array_get_value(classes, i));
    guint object = G_MAXUINT;
    EXPECT_TRUE(gst_structure_get_uint(one, "object", &object));
    EXPECT_EQ(object, objects[i].id);
    EXPECT_STREQ(gst_structure_get_string(one, "label"), i == 0 ? "red" : "blue");
  }
  gst_message_unref(posted);
  gst_buffer_unref(out);
}

} // namespace
} // namespace gstzc::test
