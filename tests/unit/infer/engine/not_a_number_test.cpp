// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/not_a_number.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

template <typename T> TensorView view(std::vector<T> &values, TensorType type) {
  return {type, {static_cast<int64_t>(values.size())}, values.data(), values.size() * sizeof(T), MemorySpace::Host};
}

TEST(NotANumber, IsFoundWhereverItIs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t at : {0, 1, 4095, 4096, 8191, 9999}) {
    for (const float value : {nan, -nan, std::numeric_limits<float>::signaling_NaN()}) {
      std::vector<float> good(100, 1.0f), bad(10000, 0.0f);
      bad[at] = value;
      Outputs outputs;
      outputs.tensors = {view(good, TensorType::Float32), view(bad, TensorType::Float32)};
      EXPECT_EQ(firstNotANumber(outputs), 1u) << at;
    }
  }
}

TEST(NotANumber, InfinitiesAndOtherTypesAreNone) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> numbers = {
      infinity, -infinity, 0, -0.0f, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
  std::vector<int32_t> integers = {0x7fffffff, -1};
  std::vector<uint16_t> halves = {0x7c00, 0xfc00, 0x7bff, 0};
  Outputs outputs;
  outputs.tensors = {view(numbers, TensorType::Float32), view(integers, TensorType::Int32),
                     view(halves, TensorType::Float16)};
  EXPECT_EQ(firstNotANumber(outputs), std::nullopt);
  EXPECT_EQ(firstNotANumber({}), std::nullopt);
}

TEST(NotANumber, Half) {
  for (const uint16_t bits : {0x7c01, 0xfe00, 0x7fff}) {
    std::vector<uint16_t> halves = {0, bits};
    Outputs outputs;
    outputs.tensors = {view(halves, TensorType::Float16)};
    EXPECT_EQ(firstNotANumber(outputs), 0u) << bits;
  }
}

} // namespace
