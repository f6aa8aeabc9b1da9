// SPDX-License-Identifier: LGPL-2.1-or-later
// Output tensors made by hand.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/decode/decoder.h"

namespace gstzc::infer::test {

inline TensorInfo tensorInfo(std::string name, std::vector<int64_t> dims, TensorType type = TensorType::Float32) {
  return {std::move(name), type, std::move(dims), {}};
}

// What one run gives. Numbers are kept as float and stored as the tensor's type when asked for.
class TestOutputs {
public:
  // All numbers `value`. The reference is valid as long as this lives.
  std::vector<float> &add(std::string name, std::vector<int64_t> dims, float value = 0,
                          TensorType type = TensorType::Float32) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    infos.push_back(tensorInfo(std::move(name), std::move(dims), type));
    return numbers_.emplace_back(count, value);
  }

  Outputs outputs() {
    Outputs result;
    bytes_.assign(numbers_.size(), {});
    for (size_t i = 0; i < numbers_.size(); ++i) {
      bytes_[i].resize(std::max<size_t>(numbers_[i].size(), 1)); // 8 bytes each are enough for every type
      for (size_t n = 0; n < numbers_[i].size(); ++n) store(infos[i].type, bytes_[i].data(), n, numbers_[i][n]);
      result.tensors.push_back({infos[i].type, infos[i].dims, bytes_[i].data(),
                                numbers_[i].size() * tensorTypeSize(infos[i].type), MemorySpace::Host});
    }
    return result;
  }

  std::vector<TensorInfo> infos;

private:
  static void store(TensorType type, int64_t *to, size_t n, float value) {
    switch (type) {
    case TensorType::Float16: reinterpret_cast<uint16_t *>(to)[n] = half(value); break;
    case TensorType::Int32: reinterpret_cast<int32_t *>(to)[n] = static_cast<int32_t>(value); break;
    case TensorType::Int64: to[n] = static_cast<int64_t>(value); break;
    default: reinterpret_cast<float *>(to)[n] = value;
    }
  }
  // For values that a half can hold: cuts the fraction off.
  static uint16_t half(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
    const int exponent = static_cast<int>(bits >> 23 & 0xffu) - 112;
    if (exponent <= 0) return sign;
    return static_cast<uint16_t>(sign | std::min(exponent, 31) << 10 | (bits >> 13 & 0x3ffu));
  }

  std::deque<std::vector<float>> numbers_;
  std::vector<std::vector<int64_t>> bytes_;
};

inline InputPlan picture(int width, int height, TensorLayout layout = TensorLayout::Nchw,
                         TensorType type = TensorType::Float32) {
  InputPlan plan;
  plan.width = width;
  plan.height = height;
  plan.layout = layout;
  plan.type = type;
  return plan;
}

// Corners in pixels of a picture of that size.
inline void expectBox(const Detection &object, const InputPlan &input, double left, double top, double right,
                      double bottom, double tolerance = 1e-3) {
  EXPECT_NEAR(object.left * input.width, left, tolerance);
  EXPECT_NEAR(object.top * input.height, top, tolerance);
  EXPECT_NEAR(object.right * input.width, right, tolerance);
  EXPECT_NEAR(object.bottom * input.height, bottom, tolerance);
}

// The decoder that the class itself makes, or a failure of the test and null.
inline std::unique_ptr<Decoder> decoderFor(DecoderKind kind, const InputPlan &input, const TestOutputs &outputs,
                                           DecoderWishes wishes = {}) {
  wishes.kind = kind;
  auto made = makeDecoder(wishes, input, outputs.infos);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message());
  return made.ok() ? made.take() : nullptr;
}

// What it finds; empty, and a failure of the test, where it gives an error.
inline std::vector<Detection> detect(const Decoder &decoder, TestOutputs &outputs, const DecodeOptions &options = {}) {
  auto findings = decoder.decode(outputs.outputs(), options);
  EXPECT_TRUE(findings.ok()) << (findings.ok() ? "" : findings.error().message());
  return findings.ok() ? findings->detections : std::vector<Detection>{};
}

} // namespace gstzc::infer::test
