// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/yunet.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

// 96x64: grids of 12x8, 6x4, 3x2.
const InputPlan kInput = picture(96, 64);
constexpr int kStride[] = {8, 16, 32};
constexpr int64_t kCells[] = {96, 24, 6};

struct Faces {
  TestOutputs outputs;
  std::vector<float> *cls[3], *obj[3], *bbox[3], *kps[3];

  explicit Faces(bool names = true) {
    const auto all = [&](std::vector<float> *(&tensors)[3], const char *name, int64_t last) {
      for (int g = 0; g < 3; ++g) {
        const std::string full = names ? std::string(name) + "_" + std::to_string(kStride[g]) : "x";
        tensors[g] = &outputs.add(full, {1, kCells[g], last});
      }
    };
    all(cls, "cls", 1);
    all(obj, "obj", 1);
    all(bbox, "bbox", 4);
    all(kps, "kps", 10);
  }

  void face(int grid, size_t cell, float c, float o, float b0, float b1, float b2, float b3) {
    (*cls[grid])[cell] = c;
    (*obj[grid])[cell] = o;
    const float box[] = {b0, b1, b2, b3};
    for (size_t i = 0; i < 4; ++i) (*bbox[grid])[cell * 4 + i] = box[i];
    for (size_t i = 0; i < 10; ++i) (*kps[grid])[cell * 10 + i] = 0.25f * static_cast<float>(i);
  }
};

TEST(YuNet, OneFaceOfEachGrid) {
  const float log3 = std::log(3.0f);
  for (const bool names : {true, false}) {
    Faces faces(names);
    faces.face(0, 12 * 7 + 11, 0.81f, 1, 0.5f, 0.25f, 0, 0);
    faces.face(1, 6 * 1 + 2, 1, 0.64f, 0.5f, 0.5f, log3, 0);
    faces.face(2, 0, 0.49f, 0.49f, 0.5f, -0.5f, 0, log3);
    auto decoder = decoderFor(DecoderKind::Auto, kInput, faces.outputs);
    ASSERT_NE(decoder, nullptr);
    EXPECT_STREQ(decoder->name(), "yunet");
    EXPECT_EQ(decoder->classes(), 1);
    const auto found = detect(*decoder, faces.outputs, {.threshold = 0.4f});
    ASSERT_EQ(found.size(), 3u);
    EXPECT_NEAR(found[0].score, 0.9, 1e-6);
    expectBox(found[0], kInput, 92 - 4, 58 - 4, 92 + 4, 58 + 4);
    EXPECT_NEAR(found[1].score, 0.8, 1e-6);
    expectBox(found[1], kInput, 40 - 24, 24 - 8, 40 + 24, 24 + 8);
    EXPECT_NEAR(found[2].score, 0.49, 1e-6);
    expectBox(found[2], kInput, 16 - 16, -16 - 48, 16 + 16, -16 + 48);
    ASSERT_EQ(found[1].keypoints.size(), 5u);
    for (int k = 0; k < 5; ++k) { // relative to the cell, not to the box
      EXPECT_NEAR(found[1].keypoints[k].x * 96, (2 + 0.5 * k) * 16, 1e-3);
      EXPECT_NEAR(found[1].keypoints[k].y * 64, (1 + 0.5 * k + 0.25) * 16, 1e-3);
    }
  }
}

TEST(YuNet, OutputsInAnyOrder) {
  Faces faces;
  faces.face(1, 8, 1, 1, 0.5f, 0.5f, 0, 0);
  Outputs outputs = faces.outputs.outputs();
  std::vector<TensorInfo> infos = faces.outputs.infos;
  std::rotate(infos.begin(), infos.begin() + 5, infos.end());
  std::rotate(outputs.tensors.begin(), outputs.tensors.begin() + 5, outputs.tensors.end());
  auto made = makeDecoder({}, kInput, infos);
  ASSERT_TRUE(made.ok()) << made.error().message();
  auto findings = (*made)->decode(outputs, {});
  ASSERT_TRUE(findings.ok()) << findings.error().message();
  ASSERT_EQ(findings->detections.size(), 1u);
  expectBox(findings->detections[0], kInput, 40 - 8, 24 - 8, 40 + 8, 24 + 8);
}

TEST(YuNet, ScoresAreClampedAndNumbersThatAreNoneLeftOut) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Faces faces;
  faces.face(0, 0, 4, 0.25f, 0.5f, 0.5f, 0, 0); // 1 * 0.25
  faces.face(0, 5, -1, -1, 0.5f, 0.5f, 0, 0);   // 0, not 1
  faces.face(0, 10, nan, 1, 0.5f, 0.5f, 0, 0);
  faces.face(0, 30, 1, 1, 0.5f, 0.5f, 200, 0);
  faces.face(0, 35, 1, 1, nan, 0.5f, 0, 0);
  faces.face(0, 60, 1, 1, 0.5f, 0.5f, 0, 0);
  (*faces.kps[0])[60 * 10 + 3] = nan;
  auto decoder = decoderFor(DecoderKind::YuNet, kInput, faces.outputs);
  ASSERT_NE(decoder, nullptr);
  const auto found = detect(*decoder, faces.outputs, {.threshold = 0.5f});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FLOAT_EQ(found[0].score, 0.5f);
}

TEST(YuNet, SuppressionOverAllGrids) {
  Faces faces;
  faces.face(0, 0, 1, 1, 1, 1, std::log(2.0f), std::log(2.0f)); // 0 0 16 16
  faces.face(1, 0, 0.81f, 0.81f, 0.5f, 0.5f, 0, 0);             // the same
  auto decoder = decoderFor(DecoderKind::YuNet, kInput, faces.outputs);
  ASSERT_NE(decoder, nullptr);
  EXPECT_EQ(detect(*decoder, faces.outputs).size(), 1u);
}

TEST(YuNet, OpenSizesAreCheckedWhenTheyCome) {
  Faces faces;
  std::vector<TensorInfo> open = faces.outputs.infos;
  for (TensorInfo &info : open) info.dims[0] = info.dims[1] = -1;
  auto made = makeDecoder({}, kInput, open);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_TRUE(detect(**made, faces.outputs).empty());
  Outputs outputs = faces.outputs.outputs();
  outputs.tensors[7].dims[1] = 23; // bbox_16
  auto findings = (*made)->decode(outputs, {});
  ASSERT_FALSE(findings.ok());
  EXPECT_NE(findings.error().message().find("bbox_16"), std::string::npos) << findings.error().message();
  EXPECT_NE(findings.error().message().find("24 rows"), std::string::npos) << findings.error().message();
}

TEST(YuNet, DoesNotMatchOthers) {
  Faces faces;
  std::vector<TensorInfo> infos = faces.outputs.infos;
  const auto fits = [](const InputPlan &input, const std::vector<TensorInfo> &outputs) {
    return YuNetDecoder::match({}, input, outputs) != nullptr;
  };
  EXPECT_TRUE(fits(kInput, infos));
  EXPECT_FALSE(fits(picture(96, 96), infos));
  EXPECT_FALSE(fits(picture(96, 60), infos));
  auto lacking = infos;
  lacking.pop_back();
  EXPECT_FALSE(fits(kInput, lacking));
  auto strange = infos;
  strange[0].name = "x";
  strange[0].dims[1] = -1; // neither a name nor a size
  EXPECT_FALSE(fits(kInput, strange));
  auto integers = infos;
  integers[4].type = TensorType::Int64;
  EXPECT_FALSE(fits(kInput, integers));
}

TEST(YuNet, Defaults) {
  Faces faces;
  const auto decoder = decoderFor(DecoderKind::YuNet, kInput, faces.outputs);
  ASSERT_NE(decoder, nullptr);
  EXPECT_TRUE(decoder->defaults().preprocess.normalisation.bgr);
  EXPECT_FLOAT_EQ(decoder->defaults().preprocess.normalisation.scale[1], 1);
  EXPECT_EQ(decoder->defaults().labels, std::vector<std::string>{"face"});
}

} // namespace
