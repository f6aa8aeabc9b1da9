// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/input_plan.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

TensorInfo image(std::vector<int64_t> dims, TensorType type = TensorType::Float32) {
  return {"image:0", type, std::move(dims)};
}

TEST(InputPlan, ReadsLayoutAndSize) {
  struct {
    std::vector<int64_t> dims;
    TensorLayout layout;
    int width, height;
  } const rows[] = {
      {{1, 3, 240, 320}, TensorLayout::Nchw, 320, 240},
      {{1, 128, 96, 3}, TensorLayout::Nhwc, 96, 128},
      {{-1, 3, 64, 64}, TensorLayout::Nchw, 64, 64},
      {{1, 3, 10, 3}, TensorLayout::Nchw, 3, 10},
  };
  for (const auto &row : rows) {
    const TensorInfo info = image(row.dims);
    auto plan = planInput({info});
    ASSERT_TRUE(plan.ok()) << info.describe() << ": " << plan.error().message();
    EXPECT_EQ(plan->layout, row.layout) << info.describe();
    EXPECT_EQ(plan->width, row.width) << info.describe();
    EXPECT_EQ(plan->height, row.height) << info.describe();
    EXPECT_EQ(plan->dims()[0], 1);
    EXPECT_EQ(plan->bytes(), size_t{12} * row.width * row.height);
  }
}

TEST(InputPlan, RefusalsNameTensorAndShape) {
  struct {
    std::vector<TensorInfo> inputs;
    const char *says;
  } const rows[] = {
      {{}, "0 inputs"},
      {{image({1, 3, 8, 8}), image({1, 3, 8, 8})}, "2 inputs: image:0 (float32 [1,3,8,8]), image:0"},
      {{image({3, 8, 8})}, "image:0 (float32 [3,8,8]) has rank 3"},
      {{image({1, 1, 3, 8, 8})}, "has rank 5"},
      {{image({1, 4, 8, 8})}, "image:0 (float32 [1,4,8,8]) does not have 3 channels"},
      {{image({1, -1, 8, 8})}, "[1,?,8,8]) does not have 3 channels"},
      {{image({2, 3, 8, 8})}, "batch of 2"},
      {{image({1, 3, -1, -1})}, "leaves its width or height open"},
      {{image({1, 3, 0, 8})}, "8x0"},
      {{image({1, 3, int64_t{1} << 40, 8})}, "Each side has to be"},
      {{image({1, 3, 16384, 16384})}, "16384x16384. It may have 16777216 pixels"},
      {{image({1, 3, 8, 8}, TensorType::Int64)}, "image:0 (int64 [1,3,8,8]) has a type"},
      {{image({1, 3, 8, 8}, TensorType::Other)}, "another type"},
  };
  for (const auto &row : rows) {
    auto plan = planInput(row.inputs);
    ASSERT_FALSE(plan.ok()) << row.says;
    EXPECT_NE(plan.error().message().find(row.says), std::string::npos) << plan.error().message();
    EXPECT_FALSE(plan.error().remedy.empty());
  }
}

} // namespace
