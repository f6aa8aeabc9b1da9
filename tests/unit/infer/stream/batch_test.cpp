// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/batch.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

using namespace gstzc;
using namespace gstzc::infer;

namespace {

TEST(Batch, TheLimitIsTheUsersUnlessTheModelFixesIt) {
  struct {
    int plan;
    bool open;
    int wanted, expected;
  } const rows[] = {{1, true, 1, 1},  {1, true, 8, 1},  {8, true, 1, 1},  {8, true, 4, 4},  {8, true, 9, 8},
                    {4, true, 0, 1},  {4, true, -3, 1}, {0, true, 4, 1},  {-1, true, 4, 1}, {4, false, 1, 4},
                    {4, false, 2, 4}, {4, false, 9, 4}, {1, false, 8, 1}, {0, false, 8, 1}};
  for (const auto &row : rows) {
    InputPlan plan;
    plan.batch = row.plan;
    plan.open_batch = row.open;
    EXPECT_EQ(batchLimit(plan, row.wanted), row.expected) << row.plan << row.open << " " << row.wanted;
  }
}

TEST(Batch, AShareIsRoundedUp) {
  struct {
    size_t waiting, idle, expected;
  } const rows[] = {{0, 1, 0}, {1, 1, 1}, {5, 1, 5}, {1, 2, 1}, {2, 2, 1}, {3, 2, 2}, {4, 2, 2}, {5, 2, 3}, {7, 0, 7}};
  for (const auto &row : rows) EXPECT_EQ(fairShare(row.waiting, row.idle), row.expected) << row.waiting << row.idle;
}

TEST(Batch, ScratchGrowsAndStays) {
  Scratch scratch;
  auto small = scratch.atLeast(100);
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*small) % Scratch::kAlignment, 0u);
  auto again = scratch.atLeast(10);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *small);
  auto large = scratch.atLeast(100'000);
  ASSERT_TRUE(large.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*large) % Scratch::kAlignment, 0u);
  std::memset(*large, 1, 100'000);
  auto nothing = Scratch().atLeast(0);
  EXPECT_TRUE(nothing.ok());
}

TEST(Batch, MemoryThatIsNotThereIsAnError) {
  Scratch scratch;
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 70}) {
    const auto refused = scratch.atLeast(bytes);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ENOMEM);
  }
  EXPECT_TRUE(scratch.atLeast(10).ok());
}

// A batch of three, of which two are pictures: output a [3,2] int64, output b [3] uint8, output c [3,0] float.
TEST(Batch, OutputsAreSharedOut) {
  auto memory = std::make_shared<std::array<int64_t, 7>>(std::array<int64_t, 7>{10, 11, 20, 21, 30, 31, 0});
  auto *bytes = reinterpret_cast<uint8_t *>(memory->data() + 6);
  for (uint8_t i = 0; i < 3; ++i) bytes[i] = static_cast<uint8_t>(i + 1);
  Outputs whole;
  whole.tensors = {{TensorType::Int64, {3, 2}, memory->data(), 48},
                   {TensorType::UInt8, {3}, bytes, 3},
                   {TensorType::Float32, {3, 0}, nullptr, 0, MemorySpace::Device}};
  whole.owner = memory;
  auto parts = splitOutputs(whole, {}, 3, 2);
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const Outputs &part = (*parts)[i];
    ASSERT_EQ(part.tensors.size(), 3u);
    EXPECT_EQ(part.tensors[0].dims, (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(part.tensors[0].bytes, 16u);
    EXPECT_EQ(part.tensors[0].type, TensorType::Int64);
    const auto tens = static_cast<int64_t>(10 * (i + 1));
    EXPECT_EQ(static_cast<int64_t *>(part.tensors[0].data)[0], tens);
    EXPECT_EQ(static_cast<int64_t *>(part.tensors[0].data)[1], tens + 1);
    EXPECT_EQ(part.tensors[1].dims, (std::vector<int64_t>{1}));
    EXPECT_EQ(part.tensors[1].bytes, 1u);
    EXPECT_EQ(*static_cast<uint8_t *>(part.tensors[1].data), i + 1);
    EXPECT_EQ(part.tensors[2].dims, (std::vector<int64_t>{1, 0}));
    EXPECT_EQ(part.tensors[2].bytes, 0u);
    EXPECT_EQ(part.tensors[2].space, MemorySpace::Device);
    EXPECT_EQ(part.owner, memory);
  }
}

TEST(Batch, OneAloneHasTheOutputsAsTheyAre) {
  Outputs whole;
  whole.tensors = {{TensorType::Float32, {17, 7}, nullptr, 476}, {TensorType::Int64, {}, nullptr, 8}};
  auto parts = splitOutputs(whole, {}, 1, 1);
  ASSERT_TRUE(parts.ok());
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ((*parts)[0].tensors[0].dims, (std::vector<int64_t>{17, 7}));
  EXPECT_TRUE((*parts)[0].tensors[1].dims.empty());
}

TEST(Batch, OutputsWithoutTheBatchAreErrors) {
  const std::vector<TensorInfo> infos = {{"boxes", TensorType::Float32, {-1, 4}, {}}};
  struct {
    std::vector<TensorView> tensors;
    const char *text;
  } const rows[] = {
      {{{TensorType::Float32, {1, 4}, nullptr, 16}}, "boxes (float32 [1,4])"},
      {{{TensorType::Float32, {}, nullptr, 4}}, "boxes (float32 [])"},
      {{{TensorType::Float32, {-2, 4}, nullptr, 16}}, "boxes (float32 [?,4])"},
      {{{TensorType::Float32, {2, 4}, nullptr, 33}}, "boxes (float32 [2,4])"},
      {{{TensorType::Float32, {2, 4}, nullptr, 32}, {TensorType::Int32, {8}, nullptr, 32}}, "output 1 (int32 [8])"},
  };
  for (const auto &row : rows) {
    Outputs whole;
    whole.tensors = row.tensors;
    const auto parts = splitOutputs(whole, infos, 2, 2);
    ASSERT_FALSE(parts.ok()) << row.text;
    EXPECT_NE(parts.error().what.find(row.text), std::string::npos) << parts.error().what;
    EXPECT_NE(parts.error().what.find("2 pictures"), std::string::npos) << parts.error().what;
  }
}

} // namespace
