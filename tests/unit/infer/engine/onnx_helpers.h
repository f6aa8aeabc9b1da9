// SPDX-License-Identifier: LGPL-2.1-or-later
// What the tests with the real ONNX Runtime share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/engine/onnx_engine.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/temp_dir.h"

namespace gstzc::test {

class OnnxFixture : public testing::Test {
protected:
  infer::LoadResult load(const OnnxModel &model, const infer::EngineOptions &options = {}) {
    model.save(dir_.file("model.onnx"));
    return infer::loadOnnxEngine(dir_.file("model.onnx"), options);
  }
  TempDir dir_;
};

template <typename T> infer::TensorView view(infer::TensorType type, std::vector<T> &data, std::vector<int64_t> dims) {
  return {type, std::move(dims), data.data(), data.size() * sizeof(T), infer::MemorySpace::Host};
}
inline infer::TensorView view(std::vector<float> &data, std::vector<int64_t> dims) {
  return view(infer::TensorType::Float32, data, std::move(dims));
}

template <typename T> std::vector<T> values(const infer::TensorView &tensor) {
  const T *const first = static_cast<const T *>(tensor.data);
  return {first, first + tensor.bytes / sizeof(T)};
}

// A convolution of "x" (1,1,3,3) with the kernel 1 2 / 3 4 that adds half: of 1…9 it makes 37.5 47.5 / 67.5 77.5.
inline OnnxModel smallConvolution() {
  OnnxModel model;
  model.input("x", kOnnxFloat, {1, 1, 3, 3})
      .output("y", kOnnxFloat, {1, 1, 2, 2})
      .constant("kernel", {1, 1, 2, 2}, std::vector<float>{1, 2, 3, 4})
      .constant("bias", {1}, std::vector<float>{0.5f})
      .node("Conv", {"x", "kernel", "bias"}, "y", {{"kernel_shape", {2, 2}}});
  return model;
}

inline void expectSmallConvolution(infer::Engine &engine) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const infer::TensorView input = view(x, {1, 1, 3, 3});
  infer::Cancellation cancel;
  auto outputs = engine.run({&input, 1}, cancel);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  ASSERT_EQ(outputs->tensors.size(), 1u);
  EXPECT_EQ(values<float>(outputs->tensors[0]), (std::vector<float>{37.5f, 47.5f, 67.5f, 77.5f}));
}

} // namespace gstzc::test
