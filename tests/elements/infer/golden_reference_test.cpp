// SPDX-License-Identifier: LGPL-2.1-or-later
// The reference models against results that were found with other implementations of decoding and resizing: without
// this, two programs that agree could both be wrong.
#include "tests/elements/infer/golden_media.h"

#include <algorithm>
#include <map>

#include "tests/reference/models_reference.h"

namespace gstzc::test {
namespace {

using reference::Box;
using reference::Fit;
using reference::OnnxModel;
using reference::Picture;

constexpr double kPixels = 6, kScore = 0.05, kShare = 0.01;

const std::string kRfb = "models/version-RFB-320.onnx", kYuNet = "models/yunet_n_dynamic.onnx",
                  kYolox = "models/yolox_nano.onnx", kDeepLab = "models/deeplab_v3_1_default_1.onnx";

struct Expected {
  int label;
  double low_score, high_score, x1, y1, x2, y2;
  std::vector<std::array<double, 2>> points = {};
};

Expected one(double score, double x1, double y1, double x2, double y2, std::vector<std::array<double, 2>> points = {}) {
  return {0, score, score, x1, y1, x2, y2, std::move(points)};
}

// In any order. One whose score is nearer to the threshold than scores are comparable may be there or not.
void expectBoxes(const std::vector<Box> &found, const std::vector<Expected> &expected, const std::string &what,
                 double threshold = 0) {
  SCOPED_TRACE(what);
  const auto sure = [&](const Box &b) { return b.score >= threshold + kScore; };
  EXPECT_EQ(static_cast<size_t>(std::count_if(found.begin(), found.end(), sure)), expected.size());
  for (const Expected &e : expected) {
    const Box target = {1, e.label, e.x1, e.y1, e.x2, e.y2, {}};
    const Box *best = nullptr;
    for (const Box &b : found)
      if (b.label == e.label && (best == nullptr || overlap(b, target) > overlap(*best, target))) best = &b;
    if (best == nullptr) {
      ADD_FAILURE() << "nothing of class " << e.label;
      continue;
    }
    EXPECT_GE(best->score, e.low_score - kScore);
    EXPECT_LE(best->score, e.high_score + kScore);
    EXPECT_NEAR(best->x1, e.x1, kPixels);
    EXPECT_NEAR(best->y1, e.y1, kPixels);
    EXPECT_NEAR(best->x2, e.x2, kPixels);
    EXPECT_NEAR(best->y2, e.y2, kPixels);
    for (size_t k = 0; k < e.points.size(); ++k)
      for (int axis = 0; axis < 2; ++axis)
        EXPECT_NEAR(best->points.at(k)[axis], e.points[k][axis], kPixels) << "point " << k;
  }
}

Picture load(const std::string &file) {
  Picture picture;
  runFrames(
      file, "format=RGB", "identity", [](int) { return true; },
      [&](GstSample *sample, int) { picture = pictureOf(sample); });
  return picture;
}

// Of a picture in format RGB.
Picture crop(const Picture &picture, int x, int y, int width, int height) {
  Picture part = picture;
  part.width = width, part.height = height;
  part.strides.assign(1, width * 3);
  part.planes = {{}};
  for (int row = y; row < y + height; ++row) {
    const auto from = picture.planes[0].begin() + static_cast<ptrdiff_t>(row) * picture.strides[0] + x * 3;
    part.planes[0].insert(part.planes[0].end(), from, from + width * 3);
  }
  return part;
}

class ReferenceModels : public testing::Test {
protected:
  void SetUp() override {
    for (const std::string &file : {astronaut_, chelsea_, sharedFile(kRfb)}) GSTZC_NEEDS(file, "../shared");
  }
  const std::string astronaut_ = sharedFile("media/astronaut.png"), chelsea_ = sharedFile("media/chelsea.png");
};

TEST_F(ReferenceModels, Rfb320) {
  const OnnxModel model(sharedFile(kRfb));
  expectBoxes(rfb320(model, load(astronaut_)), {one(1.0, 179, 63, 269, 173)}, "astronaut");
  const auto cat = rfb320(model, load(chelsea_)); // no cat is a face, but this model thinks so
  ASSERT_EQ(cat.size(), 2u);
  EXPECT_NEAR(cat[0].score, 0.972, kScore);
  EXPECT_NEAR(cat[1].score, 0.754, kScore);
}

TEST_F(ReferenceModels, YuNet) {
  const OnnxModel model(sharedFile(kYuNet));
  const Picture astronaut = load(astronaut_);
  expectBoxes(yunet(model, astronaut, 320, 320),
              {one(0.937, 180, 60, 270, 177, {{204, 105}, {247, 105}, {224, 128}, {205, 145}, {243, 145}})}, "320x320");
  expectBoxes(yunet(model, astronaut, 640, 640), {one(0.945, 181, 54, 274, 178)}, "640x640");
  expectBoxes(yunet(model, astronaut, 320, 256, Fit::Letterbox), {one(0.933, 182, 62, 274, 177)},
              "320x256, letterboxed");
  expectBoxes(yunet(model, load(chelsea_), 320, 320), {}, "chelsea");

  // two of the same picture in one run
  reference::Target form;
  form.width = form.height = 320;
  form.nchw = form.bgr = true;
  const auto single = inputOf(astronaut, form).tensor;
  reference::Tensor both = single;
  both.dims[0] = 2;
  both.values.insert(both.values.end(), single.values.begin(), single.values.end());
  const auto outputs = model.run(both);
  const std::map<int, int64_t> cells = {{8, 1600}, {16, 400}, {32, 100}};
  for (const auto &[stride, count] : cells) {
    EXPECT_EQ(outputs.at("cls_" + std::to_string(stride)).dims, (std::vector<int64_t>{2, count, 1}));
    EXPECT_EQ(outputs.at("kps_" + std::to_string(stride)).dims, (std::vector<int64_t>{2, count, 10}));
    const auto &boxes = outputs.at("bbox_" + std::to_string(stride));
    ASSERT_EQ(boxes.dims, (std::vector<int64_t>{2, count, 4}));
    const size_t half = boxes.values.size() / 2;
    for (size_t i = 0; i < half; ++i) ASSERT_NEAR(boxes.values[i], boxes.values[half + i], 1e-3) << i;
  }
}

TEST_F(ReferenceModels, YoloxNanoOnPictures) {
  const OnnxModel model(sharedFile(kYolox));
  expectBoxes(yoloxNano(model, load(astronaut_)), {one(0.926, 11, 20, 369, 507)}, "astronaut");
  expectBoxes(yoloxNano(model, load(chelsea_)), {{15, 0.622, 0.622, -14, -17, 450, 301}}, "chelsea");
}

TEST_F(ReferenceModels, YoloxNanoOnClips) {
  const OnnxModel model(sharedFile(kYolox));
  const auto bottle = [](double x1, double y1, double x2, double y2) {
    return Expected{39, 0.89, 0.93, x1, y1, x2, y2};
  };
  const std::vector<Expected> all = {bottle(286, 109, 344, 316), bottle(509, 107, 571, 318), bottle(57, 109, 123, 316)};
  const std::vector<Expected> two = {all[0], all[1]};
  const std::vector<Expected> person_too = {// who lifts the left bottle
                                            all[0], all[1], bottle(58, 99, 123, 307), one(0.669, 0, 0, 133, 236)};
  const std::vector<Expected> nobody;
  struct {
    const char *file;
    std::map<int, std::vector<Expected>> frames;
  } const clips[] = {
      {"media/bottle-detection.mp4",
       {{0, all}, {20, all}, {60, all}, {100, all}, {150, all}, {200, person_too}, {250, two}, {300, two}}},
      {"media/one-by-one-person-detection.mp4",
       {{0, nobody},
        {20, nobody},
        {100, {one(0.881, 381, 16, 517, 407)}},
        {150, {one(0.866, 383, 16, 517, 405)}},
        {200, nobody},
        {250, {one(0.894, 387, 4, 550, 374)}},
        {300, {one(0.894, 381, 9, 543, 376)}}}},
  };
  for (const auto &clip : clips) {
    size_t seen = 0;
    ASSERT_TRUE(runFrames(
        sharedFile(clip.file), "format=NV12", "identity", [&](int n) { return clip.frames.contains(n); },
        [&](GstSample *sample, int n) {
          ++seen;
          expectBoxes(yoloxNano(model, pictureOf(sample)), clip.frames.at(n),
                      std::string(clip.file) + " frame " + std::to_string(n), 0.3);
        },
        clip.frames.rbegin()->first));
    EXPECT_EQ(seen, clip.frames.size());
  }
}

TEST_F(ReferenceModels, DeepLab) {
  const OnnxModel model(sharedFile(kDeepLab));
  const auto person = deeplabShares(model, load(astronaut_)), cat = deeplabShares(model, load(chelsea_));
  EXPECT_NEAR(person[0], 0.548, kShare);
  EXPECT_NEAR(person[15], 0.451, kShare);
  EXPECT_NEAR(cat[0], 0.257, kShare);
  EXPECT_NEAR(cat[8], 0.743, kShare);
}

TEST_F(ReferenceModels, BlazeFace) {
  const std::string front_file = blazeFaceFile("GSTZC_BLAZEFACE_MODEL"),
                    back_file = blazeFaceFile("GSTZC_BLAZEFACE_BACK_MODEL");
  GSTZC_NEEDS(front_file, "BlazeFace (GSTZC_BLAZEFACE_MODEL; scripts/demo fetches it)");
  GSTZC_NEEDS(back_file, "BlazeFace's back model (GSTZC_BLAZEFACE_BACK_MODEL; scripts/demo fetches it)");
  const OnnxModel front(front_file), back(back_file);
  const Picture astronaut = load(astronaut_), chelsea = load(chelsea_);
  expectBoxes(blazeFace(front, astronaut, 128),
              {one(0.921, 179, 82, 271, 175, {{207, 100}, {251, 109}, {226, 124}, {222, 145}, {177, 110}, {271, 127}})},
              "front");
  expectBoxes(blazeFace(back, astronaut, 256),
              {one(0.877, 172, 74, 277, 180, {{203, 102}, {248, 103}, {224, 128}, {223, 150}, {177, 111}, {273, 114}})},
              "back");
  EXPECT_EQ(blazeFace(front, astronaut, 128, 0.5, 1).size(), 8u) << "before suppression";
  EXPECT_EQ(blazeFace(back, astronaut, 256, 0.5, 1).size(), 6u) << "before suppression";
  expectBoxes(blazeFace(front, crop(astronaut, 96, 0, 256, 256), 128), {one(0.924, 77, 72, 180, 175)}, "a part");
  expectBoxes(blazeFace(front, chelsea, 128), {}, "front, chelsea");
  const auto cat = blazeFace(back, chelsea, 256); // which it takes for a face
  ASSERT_EQ(cat.size(), 1u);
  EXPECT_NEAR(cat[0].score, 0.781, kScore);
}

} // namespace
} // namespace gstzc::test
