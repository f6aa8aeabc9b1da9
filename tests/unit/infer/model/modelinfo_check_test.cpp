// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model_config.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

std::string check(const std::string &sections) {
  const auto config = configFromModelInfoText("[modelinfo]\nversion=1.0\n" + sections, "net.modelinfo");
  if (!config) return config.error().message();
  const auto status =
      checkModelInfo(config->claims, "net.modelinfo", "net.onnx", {{"in", TensorType::Float32, {-1, 3, 32, 32}, {}}},
                     {{"out", TensorType::Float32, {1, 10, 4}, {}}, {"odd", TensorType::Other, {1}, {}}});
  return status ? "" : status.error().message();
}

TEST(ModelInfoCheck, WhatAgrees) {
  for (const char *sections : {"", "[in]\n", "[out]\n", "[in]\ndir=input\ntype=float32\ndims=1,3,32,32\n",
                               "[in]\ndir=input\ndims=-1,-1,-1,-1\n", "[in]\ndims=8,3,32,32\n",
                               "[out]\ndir=output\ntype=float32\ndims=1,10,4\nid=a\n",
                               "[out]\ndims=4,10,1\ndims-order=col-major\n", "[odd]\ntype=float64\n"})
    EXPECT_EQ(check(sections), "") << sections;
}

TEST(ModelInfoCheck, RefusalsNameFileSectionKeyAndBothValues) {
  struct {
    const char *sections;
    std::vector<const char *> says;
  } const rows[] = {
      {"[nosuch]\ndir=input\nranges=0,1\n", {"[nosuch]", "no tensor", "in", "out, odd"}},
      {"[out]\ndir=input\n", {"[out]", "dir=input", "an output"}},
      {"[in]\ndir=output\n", {"[in]", "dir=output", "an input"}},
      {"[in]\ntype=uint8\n", {"[in]", "type=uint8", "in (float32 [?,3,32,32])"}},
      {"[odd]\ntype=float32\n", {"[odd]", "type=float32"}},
      {"[in]\ndir=input\ndims=1,3,64,64\n", {"dims=1,3,64,64", "in (float32 [?,3,32,32])"}},
      {"[in]\ndir=input\ndims=1,32,32,3\n", {"dims=1,32,32,3"}},
      {"[in]\ndir=input\ndims=3,32,32\n", {"dims=3,32,32"}},
      {"[out]\ndir=output\ndims=4,10,1\n", {"dims=4,10,1", "out (float32 [1,10,4])"}},
  };
  for (const auto &row : rows) {
    const std::string text = check(row.sections);
    EXPECT_NE(text.find("modelinfo file net.modelinfo"), std::string::npos) << row.sections << text;
    EXPECT_NE(text.find("net.onnx"), std::string::npos) << row.sections << text;
    for (const char *words : row.says) EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
  }
}

} // namespace
