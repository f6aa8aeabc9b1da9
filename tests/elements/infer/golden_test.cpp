// SPDX-License-Identifier: LGPL-2.1-or-later
// What fenceinfer finds in pictures and clips with published models, against the reference models on the same frames.
#include "tests/elements/infer/golden_media.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include <gst/analytics/analytics.h>

#include "gst/zerocopy/gstzckeypointmtd.h"
#include "tests/reference/models_reference.h"

namespace gstzc::test {
namespace {

using reference::OnnxModel;
using reference::Picture;

constexpr double kLeastOverlap = 0.8, kScore = 0.05, kPoint = 4, kShare = 0.01;

// Of the element and of the reference alike: inside the frame, as boxes of fenceinfer are.
reference::Box inFrame(reference::Box box, const Picture &picture) {
  box.x1 = std::clamp<double>(box.x1, 0, picture.width), box.x2 = std::clamp<double>(box.x2, 0, picture.width);
  box.y1 = std::clamp<double>(box.y1, 0, picture.height), box.y2 = std::clamp<double>(box.y2, 0, picture.height);
  return box;
}

struct Detector {
  std::string name;
  std::string model; // its file; empty: not on this machine
  std::string properties;
  double threshold, iou_threshold;
  std::vector<std::string> labels; // by the reference's class
  std::function<std::vector<reference::Box>(const OnnxModel &, const Picture &)> reference;

  std::vector<reference::Box> expected(const OnnxModel &session, const Picture &picture) const {
    std::vector<reference::Box> boxes;
    for (const reference::Box &box : reference(session, picture))
      if (const auto inside = inFrame(box, picture); inside.x2 > inside.x1 && inside.y2 > inside.y1)
        boxes.push_back(inside);
    return boxes;
  }
  std::string element() const {
    gchar text[2][G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_dtostr(text[0], sizeof text[0], threshold);
    g_ascii_dtostr(text[1], sizeof text[1], iou_threshold);
    return "fenceinfer model-file=\"" + model + "\" threshold=" + text[0] + " iou-threshold=" + text[1] + " " +
           properties;
  }
};

// Each box that is surely above the threshold has one of its class on the other side, in the same place.
size_t expectPartners(const std::vector<reference::Box> &boxes, const std::vector<reference::Box> &others,
                      double threshold, const char *whose) {
  size_t matched = 0;
  for (const reference::Box &box : boxes) {
    const reference::Box *partner = nullptr;
    for (const reference::Box &other : others)
      if (other.label == box.label && (partner == nullptr || overlap(box, other) > overlap(box, *partner)))
        partner = &other;
    const double shared = partner != nullptr ? overlap(box, *partner) : 0;
    if (shared < kLeastOverlap && box.score < threshold + kScore) continue;
    EXPECT_GE(shared, kLeastOverlap) << whose << " class " << box.label << ", score " << box.score << ", at " << box.x1
                                     << " " << box.y1 << " " << box.x2 << " " << box.y2;
    if (partner == nullptr) continue;
    EXPECT_NEAR(box.score, partner->score, kScore);
    EXPECT_EQ(box.points.size(), partner->points.size());
    for (size_t k = 0; k < std::min(box.points.size(), partner->points.size()); ++k)
      for (int axis = 0; axis < 2; ++axis)
        EXPECT_NEAR(box.points[k][axis], partner->points[k][axis], kPoint) << whose << " point " << k;
    ++matched;
  }
  return matched;
}

std::vector<reference::Box> found(GstBuffer *buffer, const std::vector<std::string> &labels) {
  std::vector<reference::Box> boxes;
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  gpointer state = nullptr;
  GstAnalyticsODMtd object;
  while (gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_od_mtd_get_mtd_type(), &object)) {
    gint x, y, w, h;
    gfloat score;
    gst_analytics_od_mtd_get_location(&object, &x, &y, &w, &h, &score);
    const std::string label = g_quark_to_string(gst_analytics_od_mtd_get_obj_type(&object));
    const auto at = std::find(labels.begin(), labels.end(), label);
    EXPECT_NE(at, labels.end()) << label;
    reference::Box box = {score,
                          static_cast<int>(at - labels.begin()),
                          static_cast<double>(x),
                          static_cast<double>(y),
                          static_cast<double>(x + w),
                          static_cast<double>(y + h),
                          {}};
    gpointer related = nullptr;
    GstZcKeypointsMtd points;
    if (gst_analytics_relation_meta_get_direct_related(meta, object.id, GST_ANALYTICS_REL_TYPE_CONTAIN,
                                                       gst_zc_keypoints_mtd_get_mtd_type(), &related, &points))
      for (gsize k = 0; k < gst_zc_keypoints_mtd_get_count(&points); ++k) {
        gfloat px, py, confidence;
        gst_zc_keypoints_mtd_get_position(&points, k, &px, &py, &confidence);
        box.points.push_back({px, py});
      }
    boxes.push_back(box);
  }
  return boxes;
}

struct Footage {
  const char *file, *format;
  int step;             // each so many frames one is looked at
  size_t frames, boxes; // that there are, at least
};

void compare(const Detector &detector, const Footage &footage) {
  SCOPED_TRACE(detector.name + " on " + footage.file + " as " + footage.format);
  const OnnxModel session(detector.model);
  size_t frames = 0, matched = 0;
  const auto see = [&](GstSample *sample, int number) {
    if (testing::Test::HasFailure()) return; // one frame says enough
    SCOPED_TRACE("frame " + std::to_string(number));
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    ASSERT_NE(gst_buffer_get_analytics_relation_meta(buffer), nullptr) << "nobody looked at the frame";
    const auto ours = found(buffer, detector.labels), theirs = detector.expected(session, pictureOf(sample));
    EXPECT_LE(std::max(ours.size(), theirs.size()), std::min(ours.size(), theirs.size()) + 1);
    matched += expectPartners(ours, theirs, detector.threshold, "only fenceinfer has");
    expectPartners(theirs, ours, detector.threshold, "only the reference has");
    ++frames;
  };
  ASSERT_TRUE(runFrames(
      sharedFile(footage.file), std::string("format=") + footage.format, detector.element(),
      [&](int number) { return number % footage.step == 0; }, see));
  EXPECT_GE(frames, footage.frames);
  EXPECT_GE(matched, footage.boxes);
}

constexpr const char *kAstronaut = "media/astronaut.png", *kChelsea = "media/chelsea.png",
                     *kBottles = "media/bottle-detection.mp4", *kPeople = "media/one-by-one-person-detection.mp4";

class Golden : public testing::Test {
protected:
  void SetUp() override {
    for (const char *file : {kAstronaut, kChelsea, kBottles, kPeople}) GSTZC_NEEDS(sharedFile(file), "../shared");
  }
};

Detector blazeFaceDetector(const char *variable, int side) {
  return {"BlazeFace", blazeFaceFile(variable), "decoder=blazeface", 0.5, 0.3, {"face"}, [side](auto &model, auto &p) {
            return blazeFace(model, p, side, 0.5, 0.3, reference::Overlapping::Average);
          }};
}

TEST_F(Golden, BlazeFaceFront) {
  const Detector detector = blazeFaceDetector("GSTZC_BLAZEFACE_MODEL", 128);
  GSTZC_NEEDS(detector.model, "BlazeFace (GSTZC_BLAZEFACE_MODEL; scripts/demo fetches it)");
  compare(detector, {kAstronaut, "RGB", 1, 1, 1});
  compare(detector, {kAstronaut, "NV12", 1, 1, 1});
  compare(detector, {kChelsea, "RGB", 1, 1, 0});
  compare(detector, {kBottles, "NV12", 5, 238, 0});
  compare(detector, {kPeople, "NV12", 5, 279, 0});
}

TEST_F(Golden, BlazeFaceBack) {
  const Detector detector = blazeFaceDetector("GSTZC_BLAZEFACE_BACK_MODEL", 256);
  GSTZC_NEEDS(detector.model, "BlazeFace's back model (GSTZC_BLAZEFACE_BACK_MODEL; scripts/demo fetches it)");
  compare(detector, {kAstronaut, "RGB", 1, 1, 1});
  compare(detector, {kChelsea, "RGB", 1, 1, 1}); // which it takes for a face
  compare(detector, {kPeople, "NV12", 5, 279, 1});
}

TEST_F(Golden, Rfb320) {
  const Detector detector = {
      "RFB-320", sharedFile("models/version-RFB-320.onnx"), "", 0.6, 0.3, {"face"}, [](auto &model, auto &p) {
        return rfb320(model, p, 0.6, 0.3);
      }};
  GSTZC_NEEDS(detector.model, "../shared");
  compare(detector, {kAstronaut, "RGB", 1, 1, 1});
  compare(detector, {kAstronaut, "NV12", 1, 1, 1});
  compare(detector, {kChelsea, "RGB", 1, 1, 2}); // which it takes for faces
  compare(detector, {kBottles, "NV12", 5, 238, 0});
  compare(detector, {kPeople, "NV12", 5, 279, 1});
}

Detector yuNetDetector(int width, int height, reference::Fit fit) {
  return {"YuNet " + std::to_string(width) + "x" + std::to_string(height),
          sharedFile("models/yunet_n_dynamic.onnx"),
          "input-width=" + std::to_string(width) + " input-height=" + std::to_string(height) +
              " resize-mode=" + (fit == reference::Fit::Stretch ? "stretch" : "letterbox") + " pad-value=0",
          0.6,
          0.3,
          {"face"},
          [=](auto &model, auto &p) { return yunet(model, p, width, height, fit, 0.6, 0.3); }};
}

TEST_F(Golden, YuNet) {
  const Detector square = yuNetDetector(320, 320, reference::Fit::Stretch),
                 large = yuNetDetector(640, 640, reference::Fit::Stretch),
                 wide = yuNetDetector(320, 256, reference::Fit::Letterbox);
  GSTZC_NEEDS(square.model, "../shared");
  for (const Detector *detector : {&square, &large, &wide}) {
    compare(*detector, {kAstronaut, "RGB", 1, 1, 1});
    compare(*detector, {kAstronaut, "NV12", 1, 1, 1});
    compare(*detector, {kChelsea, "RGB", 1, 1, 0});
  }
  compare(square, {kBottles, "NV12", 5, 238, 0});
  compare(wide, {kPeople, "NV12", 5, 279, 1});
}

TEST_F(Golden, YoloxNano) {
  const std::string labels_file = sharedFile("models/coco80.names");
  GSTZC_NEEDS(labels_file, "../shared");
  std::vector<std::string> labels;
  std::ifstream in(labels_file);
  for (std::string line; std::getline(in, line);) labels.push_back(line);
  const Detector detector = {"YOLOX-nano",
                             sharedFile("models/yolox_nano.onnx"),
                             "labels-file=\"" + labels_file + "\"",
                             0.3,
                             0.45,
                             labels,
                             [](auto &model, auto &p) { return yoloxNano(model, p, 0.3, 0.45); }};
  GSTZC_NEEDS(detector.model, "../shared");
  compare(detector, {kAstronaut, "RGB", 1, 1, 1});
  compare(detector, {kAstronaut, "NV12", 1, 1, 1});
  compare(detector, {kChelsea, "RGB", 1, 1, 1});
  compare(detector, {kBottles, "NV12", 5, 238, 400});
  compare(detector, {kPeople, "NV12", 5, 279, 100});
}

// Parts of the frame that the classes have, of the one semantic segmentation on it.
std::vector<double> shares(GstBuffer *buffer, int width, int height) {
  std::vector<double> result(256);
  GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
  gpointer state = nullptr;
  GstAnalyticsSegmentationMtd mtd;
  if (meta == nullptr ||
      !gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_segmentation_mtd_get_mtd_type(), &mtd)) {
    ADD_FAILURE() << "no segmentation";
    return result;
  }
  gint x, y;
  guint w, h;
  GstBuffer *mask = gst_analytics_segmentation_mtd_get_mask(&mtd, &x, &y, &w, &h);
  EXPECT_EQ(x, 0);
  EXPECT_EQ(y, 0);
  EXPECT_EQ(w, static_cast<guint>(width));
  EXPECT_EQ(h, static_cast<guint>(height));
  const GstVideoMeta *video = gst_buffer_get_video_meta(mask);
  GstMapInfo map;
  if (video != nullptr && gst_buffer_map(mask, &map, GST_MAP_READ)) {
    for (guint row = 0; row < video->height; ++row)
      for (guint column = 0; column < video->width; ++column) {
        const guint region = map.data[row * video->stride[0] + column];
        result.at(gst_analytics_segmentation_mtd_get_region_id(&mtd, region)) += 1.0 / (video->width * video->height);
      }
    gst_buffer_unmap(mask, &map);
  } else {
    ADD_FAILURE() << "a mask that cannot be read";
  }
  gst_buffer_unref(mask);
  return result;
}

TEST_F(Golden, DeepLab) {
  const std::string model = sharedFile("models/deeplab_v3_1_default_1.onnx");
  GSTZC_NEEDS(model, "../shared");
  const OnnxModel session(model);
  const Footage rows[] = {{kAstronaut, "RGB", 1, 1, 0},
                          {kAstronaut, "NV12", 1, 1, 0},
                          {kChelsea, "RGB", 1, 1, 0},
                          {kBottles, "NV12", 25, 48, 0},
                          {kPeople, "NV12", 25, 56, 0}};
  for (const Footage &footage : rows) {
    SCOPED_TRACE(std::string(footage.file) + " as " + footage.format);
    size_t frames = 0;
    const auto see = [&](GstSample *sample, int number) {
      if (testing::Test::HasFailure()) return;
      SCOPED_TRACE("frame " + std::to_string(number));
      const Picture picture = pictureOf(sample);
      const auto ours = shares(gst_sample_get_buffer(sample), picture.width, picture.height);
      const auto theirs = deeplabShares(session, picture);
      for (size_t c = 0; c < theirs.size(); ++c) EXPECT_NEAR(ours[c], theirs[c], kShare) << "class " << c;
      ++frames;
    };
    ASSERT_TRUE(runFrames(
        sharedFile(footage.file), std::string("format=") + footage.format,
        "fenceinfer mean=127.5 scale=0.00784313725 model-file=\"" + model + "\"",
        [&](int number) { return number % footage.step == 0; }, see));
    EXPECT_GE(frames, footage.frames);
  }
}

} // namespace
} // namespace gstzc::test
