// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model_config.h"

#include <fstream>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

using namespace gstzc::infer;
using gstzc::test::TempDir;

namespace {

using Labels = std::vector<std::string>;

class LabelsFile : public testing::Test {
protected:
  gstzc::Result<Labels> read(const std::string &text) {
    std::ofstream(path_, std::ios::binary) << text;
    return readLabels(path_);
  }
  std::string refusal(const std::string &text) {
    const auto labels = read(text);
    return labels ? "" : labels.error().message();
  }

  TempDir dir_;
  const std::string path_ = dir_.file("labels.txt");
};

TEST_F(LabelsFile, OneALine) {
  struct {
    const char *text;
    Labels labels;
  } const rows[] = {
      {"person\nbicycle\n", {"person", "bicycle"}},
      {"person\nbicycle", {"person", "bicycle"}},
      {"person\r\nbicycle\r\n", {"person", "bicycle"}},
      {"\xef\xbb\xbfperson\n", {"person"}},
      {"\nperson\n\ncar\n", {"", "person", "", "car"}},
      {"\r\nperson\r\n", {"", "person"}},
      {"person\n\n\n", {"person"}},
      {"person\r\n\r\n", {"person"}},
      {"traffic light\n caf\xc3\xa9 \n", {"traffic light", " caf\xc3\xa9 "}},
  };
  for (const auto &row : rows) {
    const auto labels = read(row.text);
    ASSERT_TRUE(labels.ok()) << row.text << ": " << labels.error().message();
    EXPECT_EQ(*labels, row.labels) << row.text;
  }
}

TEST_F(LabelsFile, RefusalsNameTheFileAndTheLine) {
  EXPECT_NE(refusal("a\nb\n\xff\xfe\n").find(path_ + " is no UTF-8 text: line 3"), std::string::npos);
  EXPECT_NE(refusal(std::string("a\nb\0c\n", 6)).find("line 2"), std::string::npos);
  EXPECT_NE(refusal("").find("has no labels"), std::string::npos);
  EXPECT_NE(refusal("\n\n").find("has no labels"), std::string::npos);
  EXPECT_NE(refusal("\xef\xbb\xbf").find("has no labels"), std::string::npos);
  EXPECT_NE(refusal(std::string((1 << 20) + 1, 'a')).find("is longer than 1048576 bytes"), std::string::npos);
  EXPECT_EQ(refusal(std::string(1 << 20, 'a')), "");
}

TEST_F(LabelsFile, WhatIsNoFile) {
  const auto missing = readLabels(dir_.file("nowhere"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ENOENT);
  EXPECT_NE(missing.error().message().find("labels file " + dir_.file("nowhere")), std::string::npos);

  const auto folder = readLabels(dir_.path());
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.error().message().find("is no regular file"), std::string::npos);

  ASSERT_EQ(mkfifo(dir_.file("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(readLabels(dir_.file("fifo")).ok()); // and does not wait for a writer
}

TEST(ModelConfig, TheStrongerSourceWinsWhereItSpeaks) {
  ModelConfig weak;
  weak.width = 640, weak.height = 480;
  weak.resize = ResizeMode::Letterbox;
  weak.mean = std::array{1.0f, 2.0f, 3.0f};
  weak.bgr = true;
  weak.classes = 80;
  weak.labels = {"person"};
  weak.tensors = {{"boxes", {"weak-boxes", "weak", false}}, {"scores", {"weak-scores", "weak", false}}};

  ModelConfig strong;
  strong.width = 320;
  strong.bgr = false;
  strong.scaling = Scaling::Area;
  strong.scale = std::array{4.0f, 5.0f, 6.0f};
  strong.padding = 0.0f;
  strong.layout = TensorLayout::Nhwc;
  strong.decoder = DecoderKind::None;
  strong.keypoints = 5, strong.keypoint_values = 2;
  strong.tensors = {{"boxes", {"strong-boxes", "", true}}};

  ModelConfig both;
  both.width = 320, both.height = 480;
  both.layout = TensorLayout::Nhwc;
  both.resize = ResizeMode::Letterbox;
  both.scaling = Scaling::Area;
  both.mean = std::array{1.0f, 2.0f, 3.0f};
  both.scale = std::array{4.0f, 5.0f, 6.0f};
  both.padding = 0.0f;
  both.bgr = false;
  both.decoder = DecoderKind::None;
  both.classes = 80;
  both.keypoints = 5, both.keypoint_values = 2;
  both.labels = {"person"};
  both.tensors = {{"boxes", {"strong-boxes", "", true}}, {"scores", {"weak-scores", "weak", false}}};
  EXPECT_EQ(merge(weak, strong), both);

  EXPECT_EQ(merge(both, {}), both);
  EXPECT_EQ(merge({}, both), both);
  strong.labels = {"car"};
  EXPECT_EQ(merge(weak, strong).labels, Labels{"car"});
}

} // namespace
