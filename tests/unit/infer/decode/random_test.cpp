// SPDX-License-Identifier: LGPL-2.1-or-later
// Models that nobody made: whatever their tensors are, and whatever is in these, nothing but places comes of it.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "gst/infer/decode/decoder.h"

using namespace gstzc::infer;

namespace {

class Random {
public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }
  bool chance(int one_in) { return below(one_in) == 0; }
  template <typename T> T of(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int>(list.size()))];
  }

  // What nets give, and what they should not.
  float number() {
    constexpr float huge = std::numeric_limits<float>::max(), inf = std::numeric_limits<float>::infinity();
    if (chance(40)) return of({huge, -huge, inf, -inf, std::numeric_limits<float>::quiet_NaN(), 0.0f, -0.0f, 1e-40f});
    if (chance(40)) return std::bit_cast<float>(static_cast<uint32_t>(engine_()));
    const float unit = static_cast<float>(below(10001)) / 10000;
    return chance(3) ? unit * 640 : chance(3) ? (unit - 0.5f) * 20 : unit;
  }

private:
  std::mt19937 engine_;
};

// Shapes of known families, mostly, with a dimension or a name changed.
std::vector<TensorInfo> outputsOf(Random &random, const InputPlan &input) {
  const int64_t cells = int64_t{input.width / 8} * (input.height / 8) +
                        int64_t{input.width / 16} * (input.height / 16) +
                        int64_t{input.width / 32} * (input.height / 32);
  const int64_t n = random.of<int64_t>({cells, 3 * cells, 100, 300, 896, 1917, 4420, -1, 0, 1, 21});
  const int64_t c = random.of<int64_t>({1, 2, 3, 4, 5, 6, 7, 16, 21, 57, 84, 85, -1, 0});
  std::vector<TensorInfo> infos;
  const auto add = [&](const char *name, std::vector<int64_t> dims) {
    if (random.chance(25)) dims[static_cast<size_t>(random.below(static_cast<int>(dims.size())))] = random.below(9) - 1;
    if (random.chance(50)) dims.pop_back();
    const auto type = random.chance(8) ? random.of({TensorType::Float16, TensorType::Int32, TensorType::Int64,
                                                    TensorType::UInt8, TensorType::Int8, TensorType::Other})
                                       : TensorType::Float32;
    infos.push_back({random.chance(30) ? "other" : name, type, std::move(dims), {}});
  };
  switch (random.below(10)) {
  case 0: add("a", {1, 896, 1}), add("b", {1, 896, 16}); break;
  case 1: add("scores", {1, n, c}), add("boxes", {1, n, 4}); break;
  case 2: add("logits", {1, n, c}), add("pred_boxes", {1, n, 4}); break;
  case 3:
    add("detection_boxes", {1, n, 4}), add("detection_classes", {1, n}), add("detection_scores", {1, n});
    add("num_detections", {1});
    break;
  case 4: add("loc", {1, n, 4}), add("conf", {1, n, c}), add("prior", {1, 2, n > 0 ? 4 * n : n}); break;
  case 5:
    for (const auto &[name, last] : {std::pair{"cls_", 1}, {"obj_", 1}, {"bbox_", 4}, {"kps_", 10}})
      for (const int s : {8, 16, 32})
        add((std::string(name) + std::to_string(s)).c_str(), {1, int64_t{input.width / s} * (input.height / s), last});
    break;
  case 6: add("output0", {1, c, n}); break;
  case 7: add("output0", {1, n, c}); break;
  case 8:
    add("output0", random.chance(2) ? std::vector<int64_t>{1, c, n} : std::vector<int64_t>{1, n, c});
    add("output1", {1, 2, input.height / 4, input.width / 4});
    break;
  default:
    add("map", random.chance(2) ? std::vector<int64_t>{1, c, input.height / 4, input.width / 4}
                                : std::vector<int64_t>{1, 1000});
  }
  return infos;
}

struct Made {
  Outputs outputs;
  std::vector<std::vector<uint64_t>> storage; // exactly as large as the tensors, but for their last 8 bytes
};

// Tensors of the declared shapes, with open dimensions chosen; some are others than declared.
Made fill(Random &random, const std::vector<TensorInfo> &infos, const InputPlan &input) {
  Made made;
  for (const TensorInfo &info : infos) {
    TensorView view{info.type, info.dims, nullptr, 0, MemorySpace::Host};
    for (int64_t &dim : view.dims)
      if (dim < 0) dim = random.of<int64_t>({0, 1, 2, 84, 85, 300, input.width});
    if (random.chance(30) && !view.dims.empty()) view.dims.back() += random.below(3) - 1;
    view.bytes = tensorBytes(view.type, view.dims).value_or(0);
    std::vector<uint64_t> &bytes = made.storage.emplace_back(view.bytes / 8 + 1);
    for (size_t i = 0; i < view.bytes / 4; ++i) {
      const float value = random.number();
      std::memcpy(reinterpret_cast<char *>(bytes.data()) + 4 * i, &value, sizeof value);
    }
    if (random.chance(60) && view.bytes > 0) --view.bytes;
    made.outputs.tensors.push_back(view);
  }
  for (size_t i = 0; i < infos.size(); ++i) made.outputs.tensors[i].data = made.storage[i].data();
  return made;
}

void expectPlaces(const Findings &findings, const DecodeOptions &options) {
  const auto most = static_cast<size_t>(options.max_detections);
  EXPECT_LE(findings.detections.size(), most);
  EXPECT_LE(findings.classifications.size(), most);
  float last = 1;
  for (const Detection &object : findings.detections) {
    for (const float edge : {object.left, object.top, object.right, object.bottom}) EXPECT_TRUE(std::isfinite(edge));
    EXPECT_TRUE(object.right > object.left && object.bottom > object.top);
    EXPECT_TRUE(object.score >= options.threshold && object.score <= last) << object.score;
    EXPECT_TRUE(object.label >= 0 && object.label <= 1 << 20) << object.label;
    last = object.score;
    for (const Point &point : object.keypoints) {
      EXPECT_TRUE(std::isfinite(point.x) && std::isfinite(point.y));
      EXPECT_TRUE(point.score >= 0 && point.score <= 1) << point.score;
    }
    if (object.mask) {
      EXPECT_EQ(object.mask->values.size(), static_cast<size_t>(object.mask->width) * object.mask->height);
    }
  }
  for (const Classification &found : findings.classifications)
    EXPECT_TRUE(found.score >= options.threshold && found.score <= 1 && found.label >= 0) << found.score;
  if (findings.segmentation) {
    EXPECT_EQ(findings.segmentation->classes.size(),
              static_cast<size_t>(findings.segmentation->width) * findings.segmentation->height);
  }
}

TEST(RandomModels, GiveNothingButPlaces) {
  int decoded = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    InputPlan input;
    input.width = random.of({32, 64, 96, 128, 300, 1, 33});
    input.height = random.chance(3) ? random.of({32, 64, 240, 2}) : input.width;
    input.layout = random.of({TensorLayout::Nchw, TensorLayout::Nhwc});
    const DecoderWishes wishes = {
        .kind = random.chance(2)
                    ? DecoderKind::Auto
                    : static_cast<DecoderKind>(random.below(static_cast<int>(DecoderKind::Segmentation) + 1)),
        .classes = random.chance(3) ? random.below(90) : 0,
        .keypoints = random.chance(5) ? random.below(20) : 0,
        .keypoint_values = random.chance(5) ? random.below(4) : 0,
    };
    const std::vector<TensorInfo> infos = outputsOf(random, input);
    const auto decoder = makeDecoder(wishes, input, infos);
    if (!decoder) {
      EXPECT_FALSE(decoder.error().what.empty() || decoder.error().remedy.empty());
      continue;
    }
    if (*decoder == nullptr) continue;
    const Made made = fill(random, infos, input);
    const DecodeOptions options = {random.of({0.0f, 0.01f, 0.5f, 1.0f}), random.of({0.0f, 0.3f, 1.0f}),
                                   random.of({0, 1, 10, 100})};
    const auto findings = (*decoder)->decode(made.outputs, options);
    if (!findings) continue;
    ++decoded;
    expectPlaces(*findings, options);
    if (HasFailure()) FAIL() << (*decoder)->name();
  }
  EXPECT_GT(decoded, 300); // else the shapes above are not what the decoders take
}

} // namespace
