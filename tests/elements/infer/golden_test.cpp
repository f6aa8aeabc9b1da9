// SPDX-License-Identifier: LGPL-2.1-or-later
// What fenceinfer finds in pictures and clips with published models, against the reference models on the same frames.
#include "tests/elements/infer/golden_media.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/elements/infer/fixture.h"
#include "tests/reference/models_reference.h"

namespace gstzc::test {
namespace {

using reference::OnnxModel;
using reference::RgbPicture;

constexpr double kLeastOverlap = 0.8, kScore = 0.05;

// Of the element and of the reference alike: inside the frame, as boxes of fenceinfer are.
reference::Box inFrame(reference::Box box, const RgbPicture &picture) {
  box.x1 = std::clamp<double>(box.x1, 0, picture.width), box.x2 = std::clamp<double>(box.x2, 0, picture.width);
  box.y1 = std::clamp<double>(box.y1, 0, picture.height), box.y2 = std::clamp<double>(box.y2, 0, picture.height);
  return box;
}

struct Detector {
  const char *name;
  std::string model; // its file; empty: not on this machine
  std::string properties;
  double threshold, iou_threshold;
  std::vector<std::string> labels; // by the reference's class
  std::function<std::vector<reference::Box>(const OnnxModel &, const RgbPicture &)> reference;

  std::vector<reference::Box> expected(const OnnxModel &session, const RgbPicture &picture) const {
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
    ++matched;
  }
  return matched;
}

std::vector<reference::Box> found(GstBuffer *buffer, const std::vector<std::string> &labels) {
  std::vector<reference::Box> boxes;
  for (const Box &b : boxesOf(buffer)) {
    const auto label = std::find(labels.begin(), labels.end(), b.label);
    EXPECT_NE(label, labels.end()) << b.label;
    boxes.push_back({b.score,
                     static_cast<int>(label - labels.begin()),
                     static_cast<double>(b.x),
                     static_cast<double>(b.y),
                     static_cast<double>(b.x + b.w),
                     static_cast<double>(b.y + b.h),
                     {}});
  }
  return boxes;
}

struct Footage {
  const char *file, *format;
  int step;             // each so many frames one is looked at
  size_t frames, boxes; // that there are, at least
};

void compare(const Detector &detector, const Footage &footage) {
  SCOPED_TRACE(std::string(detector.name) + " on " + footage.file + " as " + footage.format);
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

} // namespace
} // namespace gstzc::test
