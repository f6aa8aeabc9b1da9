// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs with bound inputs and outputs: which sessions take them, and, with the host's memory standing for a device's,
// that they give what other runs give.
#include "gst/infer/engine/onnx_binding.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/engine/onnx_session.h"
#include "tests/support/small_models.h"
#include "tests/support/temp_dir.h"

using namespace gstzc;
using namespace gstzc::infer;

namespace {

TEST(OnnxBinding, OnlyProvidersOfCudaReadItsMemory) {
  EXPECT_EQ(cudaDeviceOf("cuda", {}), 0);
  EXPECT_EQ(cudaDeviceOf("tensorrt", {{"trt_fp16_enable", "1"}, {"device_id", "2"}}), 2);
  for (const char *provider : {"cpu", "migraphx", "openvino", "xnnpack"})
    EXPECT_EQ(cudaDeviceOf(provider, {}), std::nullopt);
  for (const char *odd : {"", "-1", "one", "1x", "99999999999"})
    EXPECT_EQ(cudaDeviceOf("cuda", {{"device_id", odd}}), std::nullopt) << odd;
}

TEST(OnnxBinding, ABoundRunGivesItsOutputs) {
  test::TempDir dir;
  test::colourClassifier({1, 3, 2, 2}).save(dir.file("model.onnx"));
  auto runtime = OnnxRuntime::get("");
  ASSERT_TRUE(runtime.ok()) << runtime.error().message();
  const OrtApi &api = *(*runtime)->api;
  SessionResult made = createSession(**runtime, dir.file("model.onnx"), {});
  ASSERT_NE(made.session, nullptr) << made.failure.error.message();

  OrtMemoryInfo *raw_host = nullptr;
  ASSERT_EQ(api.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &raw_host), nullptr);
  const auto host = own(raw_host, api.ReleaseMemoryInfo);
  std::array<float, 12> picture = {1, 2, 3, 4, 10, 20, 30, 40, 5, 5, 5, 5};
  const std::array<int64_t, 4> dims = {1, 3, 2, 2};
  OrtValue *raw_input = nullptr;
  ASSERT_EQ(api.CreateTensorWithDataAsOrtValue(host.get(), picture.data(), sizeof picture, dims.data(), dims.size(),
                                               ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &raw_input),
            nullptr);
  const auto input = own(raw_input, api.ReleaseValue);
  const char *const input_names[] = {"image"}, *const output_names[] = {"scores"};
  OrtValue *const inputs[] = {raw_input};
  OrtValue *outputs[] = {nullptr};
  OrtStatus *status =
      runBound(api, made.session.get(), nullptr, {input_names, inputs}, output_names, host.get(), outputs);
  ASSERT_EQ(status, nullptr) << api.GetErrorMessage(status);
  ASSERT_NE(outputs[0], nullptr);
  const auto output = own(outputs[0], api.ReleaseValue);
  void *data = nullptr;
  ASSERT_EQ(api.GetTensorMutableData(outputs[0], &data), nullptr);
  const auto *scores = static_cast<const float *>(data);
  EXPECT_FLOAT_EQ(scores[0], 2.5f);
  EXPECT_FLOAT_EQ(scores[1], 25);
  EXPECT_FLOAT_EQ(scores[2], 5);

  const char *const wrong[] = {"no such input"};
  OrtValue *none[] = {nullptr};
  OrtStatus *refused = runBound(api, made.session.get(), nullptr, {wrong, inputs}, output_names, host.get(), none);
  ASSERT_NE(refused, nullptr);
  api.ReleaseStatus(refused);
  EXPECT_EQ(none[0], nullptr);
}

} // namespace
