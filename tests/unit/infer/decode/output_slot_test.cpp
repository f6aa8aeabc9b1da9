// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/output_slot.h"

#include <cmath>
#include <limits>

#include "tensors.h"

using namespace gstzc::infer;
using namespace gstzc::infer::test;

namespace {

TEST(Declared, Table) {
  const auto info = [](std::vector<int64_t> dims, TensorType type = TensorType::Float32) {
    return tensorInfo("t", std::move(dims), type);
  };
  EXPECT_TRUE(declared(info({1, 5, 4}), {kAnySize, 4}));
  EXPECT_TRUE(declared(info({-1, -1, 4}), {kAnySize, 4}));
  EXPECT_TRUE(declared(info({8, 5, 4}, TensorType::Float16), {5, 4}));
  EXPECT_FALSE(declared(info({1, 5, -1}), {kAnySize, 4})); // could be anything
  EXPECT_FALSE(declared(info({1, 5, 5}), {kAnySize, 4}));
  EXPECT_FALSE(declared(info({5, 4}), {kAnySize, 4}));
  EXPECT_FALSE(declared(info({1, 1, 5, 4}), {kAnySize, 4}));
  EXPECT_FALSE(declared(info({}), {kAnySize, 4}));
  EXPECT_FALSE(declared(info({1, 5, 4}, TensorType::Int64), {kAnySize, 4}));
}

TEST(OutputSlot, ReadsWhatWasDeclared) {
  TestOutputs t;
  t.add("a", {1, 2, 3}) = {0, 1, 2, 3, 4, 5};
  const OutputSlot slot(0, tensorInfo("a", {-1, -1, 3}));
  const Outputs outputs = t.outputs();
  const auto tensor = slot.read(outputs);
  ASSERT_TRUE(tensor.ok()) << tensor.error().message();
  EXPECT_EQ(tensor->dim(1), 2u);
  EXPECT_EQ(tensor->numbers.size(), 6u);
  EXPECT_FLOAT_EQ(tensor->numbers[5], 5);
}

TEST(OutputSlot, WhatComesOtherwiseIsAnErrorThatNamesTensorAndShape) {
  TestOutputs t;
  t.add("head", {1, 2, 3});
  const OutputSlot slot(0, tensorInfo("head", {1, 2, 3}));
  const struct {
    const char *name;
    void (*spoil)(TensorView &);
  } rows[] = {
      {"size", [](TensorView &v) { v.dims = {1, 3, 2}; }},
      {"rank", [](TensorView &v) { v.dims = {1, 6}; }},
      {"no rank", [](TensorView &v) { v.dims = {}; }},
      {"batch", [](TensorView &v) { v.dims = {2, 2, 3}; }},
      {"negative", [](TensorView &v) { v.dims = {1, -2, 3}; }},
      {"type", [](TensorView &v) { v.type = TensorType::Int32; }},
      {"bytes", [](TensorView &v) { v.bytes -= 1; }},
      {"no data", [](TensorView &v) { v.data = nullptr; }},
      {"device", [](TensorView &v) { v.space = MemorySpace::Device; }},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.name);
    Outputs outputs = t.outputs();
    row.spoil(outputs.tensors[0]);
    const auto tensor = slot.read(outputs);
    ASSERT_FALSE(tensor.ok());
    EXPECT_NE(tensor.error().message().find("head (float32 [1,2,3])"), std::string::npos) << tensor.error().message();
  }
  EXPECT_FALSE(slot.read({}).ok());
}

TEST(OutputSlot, SizesThatNoMemoryHolds) {
  TestOutputs t;
  t.add("a", {1, 2, 2});
  const OutputSlot slot(0, tensorInfo("a", {1, -1, -1}));
  Outputs outputs = t.outputs();
  outputs.tensors[0].dims = {1, int64_t{1} << 62, 4}; // 2^64 elements would be 0 of them
  EXPECT_FALSE(slot.read(outputs).ok());
  outputs.tensors[0].dims = {1, int64_t{1} << 62, 1}; // and these have 2^64 bytes
  EXPECT_FALSE(slot.read(outputs).ok());
}

TEST(OutputSlot, EmptyTensors) {
  TestOutputs t;
  t.add("a", {1, 0, 4});
  const OutputSlot slot(0, tensorInfo("a", {1, -1, 4}));
  Outputs outputs = t.outputs();
  outputs.tensors[0].data = nullptr;
  const auto tensor = slot.read(outputs);
  ASSERT_TRUE(tensor.ok()) << tensor.error().message();
  EXPECT_EQ(tensor->numbers.size(), 0u);
}

TEST(OutputSlot, ConstantsHaveNoBatch) {
  TestOutputs t;
  t.add("priors", {5, 4});
  const OutputSlot slot(0, t.infos[0], false), batched(0, t.infos[0]);
  const Outputs outputs = t.outputs();
  EXPECT_TRUE(slot.read(outputs).ok());
  EXPECT_FALSE(batched.read(outputs).ok());
}

TEST(Numbers, OfEachType) {
  for (const TensorType type : {TensorType::Float32, TensorType::Float16, TensorType::Int32, TensorType::Int64}) {
    TestOutputs t;
    t.add("a", {1, 4}, 0, type) = {0, -3, 17, 100};
    const Outputs outputs = t.outputs();
    const auto tensor = OutputSlot(0, t.infos[0]).read(outputs);
    ASSERT_TRUE(tensor.ok()) << tensorTypeName(type);
    EXPECT_FLOAT_EQ(tensor->numbers[1], -3) << tensorTypeName(type);
    EXPECT_FLOAT_EQ(tensor->numbers[2], 17) << tensorTypeName(type);
    const float sum = tensor->numbers.with([](const auto &at) { return at(0) + at(1) + at(2) + at(3); });
    EXPECT_FLOAT_EQ(sum, 114) << tensorTypeName(type);
  }
  const uint8_t bytes[] = {0, 3, 255};
  EXPECT_TRUE(Numbers::readable(TensorType::UInt8));
  EXPECT_FLOAT_EQ(Numbers(TensorType::UInt8, bytes, 3)[2], 255);
  EXPECT_FALSE(Numbers::readable(TensorType::Int8));
  EXPECT_FALSE(Numbers::readable(TensorType::Other));
}

TEST(ClassIndex, Table) {
  EXPECT_EQ(classIndex(0), 0);
  EXPECT_EQ(classIndex(-0.0f), 0);
  EXPECT_EQ(classIndex(79), 79);
  EXPECT_EQ(classIndex(78.9999f), 79); // computed in half precision
  EXPECT_EQ(classIndex(-1), std::nullopt);
  EXPECT_EQ(classIndex(-0.6f), std::nullopt);
  EXPECT_EQ(classIndex(1e30f), std::nullopt);
  EXPECT_EQ(classIndex(std::numeric_limits<float>::quiet_NaN()), std::nullopt);
  EXPECT_EQ(classIndex(std::numeric_limits<float>::infinity()), std::nullopt);
}

} // namespace
