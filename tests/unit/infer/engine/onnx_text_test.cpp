// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_text.h"

#include <gtest/gtest.h>

using gstzc::infer::shortMessage;

// Messages as ONNX Runtime 1.21 and 1.23 wrote them, paths shortened.
TEST(OnnxText, LeavesOutPlacesAndPrefixes) {
  struct {
    const char *message, *expected;
  } const rows[] = {
      {"", ""},
      {"Protobuf parsing failed.", "Protobuf parsing failed"},
      {"two\nlines\n", "two lines"},
      {"/src/onnxruntime/core/session/provider_bridge_ort.cc:1844 onnxruntime::Provider& "
       "onnxruntime::ProviderLibrary::Get() [ONNXRuntimeError] : 1 : FAIL : Failed to load library libx_cuda.so with "
       "error: libcudart.so.12: cannot open shared object file: No such file or directory\n",
       "Failed to load library libx_cuda.so with error: libcudart.so.12: cannot open shared object file: No such file "
       "or directory"},
      {"/src/webgpu_context.cc:87 onnxruntime::webgpu::WebGpuContext::Initialize(const "
       "onnxruntime::webgpu::Config&, int, bool)::<lambda()>::<lambda(wgpu::Status, wgpu::Adapter*)> status == "
       "wgpu::Status::Success was false. Failed to get a WebGPU adapter: No supported adapters\n",
       "Failed to get a WebGPU adapter: No supported adapters"},
      {"Non-zero status code returned while running Reshape node. Name:'' Status Message: "
       "/build/a-b/reshape_helper.h:47 "
       "onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, "
       "bool) input_shape_size == size was false. The input tensor cannot be reshaped. Input shape:{2,3}, requested "
       "shape:{4}",
       "Non-zero status code returned while running Reshape node. Name:'' Status Message: The input tensor cannot be "
       "reshaped. Input shape:{2,3}, requested shape:{4}"},
      {"a.cc:5 int std::f<int, char>(int) const [with T = int] value", "value"},
      {"file.cc:12 and no function at all", "and no function at all"},
      {"file.cc:12 void a::b(int) x > 0 was false. ", "x > 0 was false"},
      {"a.cc:1 b.cc:2 said at c.cc:3", "said at"},
      {"at.cc: 5 and file.c:5 and x.cc:5y stay", "at.cc: 5 and file.c:5 and x.cc:5y stay"},
      {"[ONNXRuntimeError] : cut", "[ONNXRuntimeError] : cut"},
      {"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : [ONNXRuntimeError] : 1 : FAIL : both", "both"},
      {"what it says\nStacktrace:\n/lib/a.so(+0x1)", "what it says"},
      {"  . ", ""},
  };
  for (const auto &row : rows) EXPECT_EQ(shortMessage(row.message), row.expected) << row.message;
}

TEST(OnnxText, LongMessagesEndAtAWord) {
  const std::string end = " …";
  std::string words;
  for (int i = 0; i < 100; ++i) words += "twelve bytes ";
  const std::string text = shortMessage(words);
  ASSERT_GT(text.size(), 400u);
  EXPECT_LE(text.size(), 510u);
  ASSERT_TRUE(text.ends_with(end)) << text;
  const std::string kept = text.substr(0, text.size() - end.size());
  EXPECT_TRUE(words.starts_with(kept + " ")) << text;
  // one word of characters of three bytes, which is not cut inside one
  std::string word = "x";
  for (int i = 0; i < 1000; ++i) word += "…";
  const std::string cut = shortMessage(word);
  EXPECT_EQ((cut.size() - 1 - end.size()) % 3, 0u) << cut.size();
  EXPECT_LE(cut.size(), 510u);
}

TEST(OnnxText, UnbalancedBracketsAndHugeMessagesEnd) {
  EXPECT_EQ(shortMessage("a.cc:1 a::b(((((("), "");
  EXPECT_EQ(shortMessage("a.cc:1 ))))>>> a::b text"), "))))>>> a::b text");
  EXPECT_LE(shortMessage(std::string(1 << 20, 'x')).size(), 510u);
  std::string places;
  for (int i = 0; i < 20000; ++i) places += "a.cc:1 ";
  EXPECT_LE(shortMessage(places + "end").size(), 510u);
}
