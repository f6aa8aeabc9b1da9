// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/input_plan.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

constexpr auto kNchw = TensorLayout::Nchw, kNhwc = TensorLayout::Nhwc;

TensorInfo image(std::vector<int64_t> dims, TensorType type = TensorType::Float32) {
  return {"image:0", type, std::move(dims), {}};
}

TEST(InputPlan, ReadsLayoutSizeAndChannels) {
  struct {
    std::vector<int64_t> dims;
    TensorLayout layout;
    int width, height, channels;
  } const rows[] = {
      {{1, 3, 240, 320}, kNchw, 320, 240, 3}, {{1, 128, 96, 3}, kNhwc, 96, 128, 3},
      {{-1, 3, 64, 64}, kNchw, 64, 64, 3},    {{1, 3, 10, 3}, kNchw, 3, 10, 3},
      {{1, 1, 28, 28}, kNchw, 28, 28, 1},     {{1, 28, 32, 1}, kNhwc, 32, 28, 1},
      {{1, 1, 1, 1}, kNchw, 1, 1, 1},         {{1, 1, 10, 3}, kNchw, 3, 10, 1},
      {{1, 3, 10, 1}, kNchw, 1, 10, 3},       {{1, 3, 4096, 4096}, kNchw, 4096, 4096, 3},
  };
  for (const auto &row : rows) {
    const TensorInfo info = image(row.dims);
    auto plan = planInput({info});
    ASSERT_TRUE(plan.ok()) << info.describe() << ": " << plan.error().message();
    EXPECT_EQ(plan->layout, row.layout) << info.describe();
    EXPECT_EQ(plan->width, row.width) << info.describe();
    EXPECT_EQ(plan->height, row.height) << info.describe();
    EXPECT_EQ(plan->channels, row.channels) << info.describe();
    EXPECT_EQ(plan->bytes(), size_t{4} * row.channels * row.width * row.height);
    std::vector<int64_t> dims = row.dims;
    dims[0] = 7;
    EXPECT_EQ(plan->dims(7), dims);
  }
}

TEST(InputPlan, TypesThatPicturesHave) {
  struct {
    TensorType type;
    size_t bytes;
  } const rows[] = {{TensorType::Float32, 4}, {TensorType::Float16, 2}, {TensorType::UInt8, 1}, {TensorType::Int8, 1}};
  for (const auto &row : rows) {
    auto plan = planInput({image({1, 3, 2, 5}, row.type)});
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->type, row.type);
    EXPECT_EQ(plan->bytes(), row.bytes * 30);
  }
}

TEST(InputPlan, WishesFillWhatIsOpen) {
  struct {
    const char *name;
    std::vector<int64_t> dims;
    InputWishes wishes;
    TensorLayout layout;
    int width, height, batch;
    bool open_batch;
  } const rows[] = {
      {"both sides", {1, 3, -1, -1}, {.width = 640, .height = 384}, kNchw, 640, 384, 1, false},
      {"one side", {1, -1, 320, 3}, {.height = 240}, kNhwc, 320, 240, 1, false},
      {"the same as fixed", {1, 3, 8, 9}, {.width = 9, .height = 8}, kNchw, 9, 8, 1, false},
      {"everything open but the channels",
       {-1, -1, -1, 3},
       {.width = 7, .height = 5, .batch = 4},
       kNhwc,
       7,
       5,
       4,
       true},
      {"open batch, no wish", {-1, 3, 8, 8}, {}, kNchw, 8, 8, 1, true},
      {"open batch", {-1, 3, 8, 8}, {.batch = 16}, kNchw, 8, 8, 16, true},
      {"a batch that is none", {-1, 3, 8, 8}, {.batch = -2}, kNchw, 8, 8, 1, true},
      {"fixed batch", {4, 3, 8, 8}, {}, kNchw, 8, 8, 4, false},
      {"fixed batch against the wish", {4, 3, 8, 8}, {.batch = 16}, kNchw, 8, 8, 4, false},
      {"fixed batch of one against the wish", {1, 3, 8, 8}, {.batch = 16}, kNchw, 8, 8, 1, false},
      {"layout of a shape that has two", {1, 3, 10, 3}, {.layout = kNhwc}, kNhwc, 10, 3, 1, false},
      {"layout as it would be read anyway", {1, 3, 10, 3}, {.layout = kNchw}, kNchw, 3, 10, 1, false},
      {"layout that is the only one", {1, 8, 9, 3}, {.layout = kNhwc}, kNhwc, 9, 8, 1, false},
  };
  for (const auto &row : rows) {
    auto plan = planInput({image(row.dims)}, row.wishes);
    ASSERT_TRUE(plan.ok()) << row.name << ": " << plan.error().message();
    EXPECT_EQ(plan->layout, row.layout) << row.name;
    EXPECT_EQ(plan->width, row.width) << row.name;
    EXPECT_EQ(plan->height, row.height) << row.name;
    EXPECT_EQ(plan->batch, row.batch) << row.name;
    EXPECT_EQ(plan->open_batch, row.open_batch) << row.name;
  }
}

TEST(InputPlan, RefusalsNameTensorAndShape) {
  struct {
    std::vector<TensorInfo> inputs;
    InputWishes wishes;
    const char *says;
  } const rows[] = {
      {{}, {}, "0 inputs"},
      {{image({1, 3, 8, 8}), image({1, 3, 8, 8})}, {}, "2 inputs: image:0 (float32 [1,3,8,8]), image:0"},
      {{image({3, 8, 8})}, {}, "image:0 (float32 [3,8,8]) has rank 3"},
      {{image({1, 1, 3, 8, 8})}, {}, "has rank 5"},
      {{image({})}, {}, "has rank 0"},
      {{image({1, 4, 8, 8})}, {}, "image:0 (float32 [1,4,8,8]) does not have 1 or 3 channels"},
      {{image({1, -1, 8, 8})}, {}, "[1,?,8,8]) does not have 1 or 3 channels"},
      {{image({1, 3, 8, 8})}, {.layout = kNhwc}, "[1,3,8,8]) does not have 1 or 3 channels where NHWC has them"},
      {{image({1, 8, 8, 3})}, {.layout = kNchw}, "[1,8,8,3]) does not have 1 or 3 channels where NCHW has them"},
      {{image({0, 3, 8, 8})}, {}, "batch of 0 pictures"},
      {{image({int64_t{1} << 40, 3, 8, 8})}, {}, "batch of 1099511627776 pictures of 8x8. 1 to 1398101"},
      {{image({-1, 3, 4096, 4096})}, {.batch = 6}, "batch of 6 pictures of 4096x4096. 1 to 5 of them"},
      {{image({1, 3, -1, -1})}, {}, "image:0 (float32 [1,3,?,?]) leaves its height open"},
      {{image({1, 3, -1, -1})}, {.height = 8}, "leaves its width open. Set input-width"},
      {{image({1, 3, 8, 9})}, {.width = 8}, "[1,3,8,9]) fixes its width, 8 is asked for"},
      {{image({1, 3, 8, 9})}, {.height = 9}, "fixes its height, 9 is asked for"},
      {{image({1, 3, 0, 8})}, {}, "8x0"},
      {{image({1, 3, int64_t{1} << 40, 8})}, {}, "Each side has to be"},
      {{image({1, 3, -1, 8})}, {.height = 16385}, "8x16385. Each side has to be"},
      {{image({1, 3, 16384, 16384})}, {}, "16384x16384. It may have 16777216 pixels"},
      {{image({1, 3, 8, 8}, TensorType::Int64)}, {}, "image:0 (int64 [1,3,8,8]) has a type"},
      {{image({1, 3, 8, 8}, TensorType::Int32)}, {}, "has a type"},
      {{image({1, 3, 8, 8}, TensorType::Other)}, {}, "another type"},
  };
  for (const auto &row : rows) {
    auto plan = planInput(row.inputs, row.wishes);
    ASSERT_FALSE(plan.ok()) << row.says;
    EXPECT_NE(plan.error().message().find(row.says), std::string::npos) << plan.error().message();
    EXPECT_FALSE(plan.error().remedy.empty());
  }
}

} // namespace
