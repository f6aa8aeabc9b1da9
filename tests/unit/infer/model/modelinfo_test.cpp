// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model_config.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

using namespace gstzc::infer;
using gstzc::test::TempDir;

namespace {

constexpr const char *kHeader = "[modelinfo]\nversion=1.0\ngroup-id=yolo-v8-out\n";
constexpr const char *kInput = "[images]\nid=yolo-v8-in\ntype=float32\ndims=1,3,480,640\ndir=input\n";

class ModelInfo : public testing::Test {
protected:
  gstzc::Result<ModelConfig> read(const std::string &text) {
    std::ofstream(path_, std::ios::binary) << text;
    return configFromModelInfo(path_);
  }

  TempDir dir_;
  const std::string path_ = dir_.file("model.onnx.modelinfo");
};

TEST_F(ModelInfo, OfADetector) {
  const auto config = read(std::string(kHeader) + kInput +
                           "ranges=0.0,1.0;0.0,1.0;0.0,1.0\n"
                           "[output0]\nid=yolo-v8-out\ntype=float32\ndims=1,-1,-1\ndir=output\ndims-order=col-major\n"
                           "[extra:0]\ntype=float32\ndir=output\n");
  ASSERT_TRUE(config.ok()) << config.error().message();
  ModelConfig expected;
  expected.width = 640, expected.height = 480;
  expected.layout = TensorLayout::Nchw;
  expected.mean = std::array{0.0f, 0.0f, 0.0f};
  expected.scale = std::array{1 / 255.0f, 1 / 255.0f, 1 / 255.0f};
  expected.tensors = {{"output0", {"yolo-v8-out", "yolo-v8-out", true}}};
  expected.claims = {{"images", true, "float32", {1, 3, 480, 640}},
                     {"output0", false, "float32", {1, -1, -1}, true},
                     {"extra:0", false, "float32", {}}};
  EXPECT_EQ(*config, expected);
}

TEST_F(ModelInfo, GroupOfSeveralOutputs) {
  const auto config = read("# as upstream's documentation has it\n"
                           "[modelinfo]\nversion=1.0\ngroup-id=ssd-mobilenet-v1-variant-1-out\n"
                           "[image_tensor:0]\nid=image_tensor_0\ntype=uint8\ndims=-1,-1,-1,3\ndir=input\n"
                           "ranges=0.0,255.0;0.0,255.0;0.0,255.0\n"
                           "[detection_boxes:0]\nid=ssd-mobilenet-v1-variant-1-out-boxes\ntype=float32\ndims=-1,-1,4\n"
                           "dir=output\n"
                           "[num_detections:0]\nid=generic-variant-1-out-count\ntype=float32\ndims=-1\ndir=output\n");
  ASSERT_TRUE(config.ok()) << config.error().message();
  EXPECT_EQ(config->layout, TensorLayout::Nhwc);
  EXPECT_FALSE(config->width);
  EXPECT_FALSE(config->height);
  EXPECT_EQ(config->mean, (std::array{0.0f, 0.0f, 0.0f}));
  EXPECT_EQ(config->scale, (std::array{1.0f, 1.0f, 1.0f}));
  const std::map<std::string, TensorTag> tensors = {
      {"detection_boxes:0", {"ssd-mobilenet-v1-variant-1-out-boxes", "ssd-mobilenet-v1-variant-1-out", false}},
      {"num_detections:0", {"generic-variant-1-out-count", "ssd-mobilenet-v1-variant-1-out", false}},
  };
  EXPECT_EQ(config->tensors, tensors);
}

// What black and white become, from the definition: min and max.
TEST_F(ModelInfo, RangesAreWhatBlackAndWhiteBecome) {
  struct {
    const char *lines;
    std::array<float, 3> black, white; // of red, green, blue
  } const rows[] = {
      {"ranges=0.0,1.0", {0, 0, 0}, {1, 1, 1}},
      {"ranges=-1.0,1.0", {-1, -1, -1}, {1, 1, 1}},
      {"ranges=16,235", {16, 16, 16}, {235, 235, 235}},
      {"ranges=0,255;-1,1;0,1", {0, -1, 0}, {255, 1, 1}},
      {"ranges=0,255;-1,1;0,1\ncaps=video/x-raw,format=BGR", {0, -1, 0}, {1, 1, 255}},
      {"ranges=0,255;-1,1;0,1;\ncaps=video/x-raw,format=RGBP", {0, -1, 0}, {255, 1, 1}},
      {"ranges=1,0", {1, 1, 1}, {0, 0, 0}},
      {"ranges= -2.1179 , 2.2489 ;-2.0357,2.4285;-1.8044,2.64",
       {-2.1179f, -2.0357f, -1.8044f},
       {2.2489f, 2.4285f, 2.64f}},
  };
  for (const auto &row : rows) {
    const auto config = read(std::string(kHeader) + kInput + row.lines + "\n");
    ASSERT_TRUE(config.ok()) << row.lines << ": " << config.error().message();
    ASSERT_TRUE(config->mean && config->scale) << row.lines;
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR((0 - (*config->mean)[c]) * (*config->scale)[c], row.black[c], 1e-4) << row.lines << " " << c;
      EXPECT_NEAR((255 - (*config->mean)[c]) * (*config->scale)[c], row.white[c], 1e-4) << row.lines << " " << c;
    }
  }
}

TEST_F(ModelInfo, Inputs) {
  constexpr auto nchw = TensorLayout::Nchw, nhwc = TensorLayout::Nhwc;
  struct {
    const char *lines;
    std::optional<TensorLayout> layout;
    std::optional<int> width, height;
    std::optional<bool> bgr;
  } const rows[] = {
      {"dims=-1,3,-1,-1", nchw, {}, {}, {}},
      {"dims=-1, 3, 48, -1", nchw, {}, 48, {}},
      {"dims=1,48,64,3", nhwc, 64, 48, {}},
      {"dims=1,1,48,64\nranges=0,1\ncaps=video/x-raw,format=GRAY8", nchw, 64, 48, {}},
      {"dims=1,3,48,3", {}, {}, {}, {}}, // either
      {"dims=1,4,48,64", {}, {}, {}, {}},
      {"dims=3,48,64", {}, {}, {}, {}},
      {"caps=video/x-raw, format=(string)BGRP", {}, {}, {}, true},
      {"caps=video/x-raw,format=RGB,width=64", {}, {}, {}, false},
      {"caps=video/x-raw(memory:SystemMemory), format=\"RGBP\";", {}, {}, {}, false},
      {"caps=video/x-raw,framerate=[0/1,30/1],format = BGR", {}, {}, {}, true},
      {"caps=PLACEHOLDER_CAPS", {}, {}, {}, {}},
  };
  for (const auto &row : rows) {
    const auto config = read(std::string(kHeader) + "[in]\ndir=input\ntype=float32\n" + row.lines + "\n");
    ASSERT_TRUE(config.ok()) << row.lines << ": " << config.error().message();
    EXPECT_EQ(config->layout, row.layout) << row.lines;
    EXPECT_EQ(config->width, row.width) << row.lines;
    EXPECT_EQ(config->height, row.height) << row.lines;
    EXPECT_EQ(config->bgr, row.bgr) << row.lines;
    EXPECT_TRUE(config->tensors.empty()) << row.lines;
  }
}

TEST_F(ModelInfo, Versions) {
  for (const char *version : {"1.0", "1.1", "1.7"})
    EXPECT_TRUE(read(std::string("[modelinfo]\nversion=") + version + "\n").ok()) << version;
  for (const char *version : {"2.0", "0.9", "1", "1.0.0", "", "one", "1.x", "1.-1", "99999999999.0"}) {
    const auto config = read(std::string("[modelinfo]\nversion=") + version + "\n");
    ASSERT_FALSE(config.ok()) << version;
    EXPECT_NE(config.error().what.find(path_ + ", section [modelinfo]: version=" + version), std::string::npos)
        << config.error().message();
  }
}

TEST_F(ModelInfo, WhatWasNotFilledIn) {
  const auto config = read("[modelinfo]\nversion=1.0\ngroup-id=PLACEHOLDER_GROUP\n"
                           "[out]\ndir=output\nid=PLACEHOLDER_ID\n[boxes]\ndir=output\nid=boxes\n");
  ASSERT_TRUE(config.ok()) << config.error().message();
  const std::map<std::string, TensorTag> tensors = {{"boxes", {"boxes", "", false}}};
  EXPECT_EQ(config->tensors, tensors);
}

TEST_F(ModelInfo, RefusalsNameSectionKeyAndValue) {
  struct {
    const char *lines, *says;
  } const rows[] = {
      {"[out]\ndir=sideways", "[out]: dir=sideways is no direction. Write dir=input"},
      {"[out]\ndir=output\ntype=float", "[out]: type=float is no type"},
      {"[out]\ndir=output\ndims=1,x", "[out]: dims=1,x is no list of dimensions"},
      {"[out]\ndir=output\ndims=1,0", "dims=1,0"},
      {"[out]\ndir=output\ndims=1,-2", "dims=1,-2"},
      {"[out]\ndir=output\ndims=1,2.5", "dims=1,2.5"},
      {"[out]\ndir=output\ndims=1,99999999999999999999", "dims=1,9999"},
      {"[out]\ndir=output\ndims=", "dims= is no list"},
      {"[out]\ndir=output\ndims-order=fortran", "[out]: dims-order=fortran is no order"},
      {"[in]\ndir=input\ndims=1,3,99999,640", "a picture of 99999 pixels"},
      {"[in]\ndir=input\nranges=0,1,2", "[in]: ranges=0,1,2 has \"0,1,2\", which is no range"},
      {"[in]\ndir=input\nranges=0", "has \"0\""},
      {"[in]\ndir=input\nranges=a,b", "has \"a,b\""},
      {"[in]\ndir=input\nranges=", "is no range"},
      {"[in]\ndir=input\nranges=0,1;;0,1", "has \"\""},
      {"[in]\ndir=input\nranges=nan,1", "no useful range"},
      {"[in]\ndir=input\nranges=0,inf", "no useful range"},
      {"[in]\ndir=input\nranges=0,1e300", "no useful range"},
      {"[in]\ndir=input\nranges=1,1", "no useful range"},
      {"[in]\ndir=input\nranges=0,1;0,1;0,1;0,1", "more ranges than the 3 channels"},
      {"[in]\ndir=input\nranges=0,1;0,1", "has 2 ranges"},
      {"[in]\ndir=input\ndims=1,1,8,8\nranges=0,1;0,1;0,1", "has 3 ranges for 1 channels"},
      {"[in]\ndir=input\nranges=PLACEHOLDER", "was not filled in"},
      {"[in]\nranges=0", "has \"0\""}, // an input by what it has
      {"[in]\ndir=input\ncaps=audio/x-raw,format=S16LE", "no caps of video"},
      {"[in]\ndir=input\ncaps=video/x-raw", "no format that pictures"},
      {"[in]\ndir=input\ncaps=video/x-raw,format=NV12", "format=NV12 have no format"},
      {"[in]\ndir=input\ncaps=;;;", "no caps of video"},
      {"[in]\ndir=input\ncaps=[ideo/x-raw,format=RGB", "no caps of video"},
      {"[in]\ndir=input\ncaps=", "no caps of video"},
      {"[in]\ndir=input\ncaps=video/x-raw,format={RGB,BGR}", "no format that pictures"},
      {"[in]\ndir=input\ncaps=video/x-raw,format=\"", "no format that pictures"},
  };
  for (const auto &row : rows) {
    const auto config = read(std::string(kHeader) + row.lines + "\n");
    ASSERT_FALSE(config.ok()) << row.lines;
    EXPECT_NE(config.error().message().find(row.says), std::string::npos) << config.error().message();
    EXPECT_NE(config.error().message().find(path_), std::string::npos) << config.error().message();
    EXPECT_FALSE(config.error().remedy.empty()) << row.lines;
  }
}

TEST_F(ModelInfo, WhatIsNoModelInfo) {
  struct {
    std::string text;
    const char *says;
  } const rows[] = {
      {"", "no section [modelinfo]"},
      {"[other]\nversion=1.0\n", "no section [modelinfo]"},
      {"[modelinfo]\ngroup-id=x\n", "there is no version"},
      {"version=1.0\n", "is no key file"},
      {"[modelinfo\nversion=1.0\n", "is no key file"},
      {"[modelinfo]\nversion\n", "is no key file"},
      {"[modelinfo]\nversion=1.0\n[out]\ndir=out", "dir=out is no direction"}, // cut short
      {"{\"version\": 1}", "is no key file"},
      {std::string("\x08\x08\x12\x00onnx", 8), "line 1"},
      {"\x7f"
       "ELF\xff\xff",
       "is no UTF-8 text"},
      {std::string((1 << 20) + 1, '#'), "is longer than"},
  };
  for (const auto &row : rows) {
    const auto config = read(row.text);
    ASSERT_FALSE(config.ok()) << row.says;
    EXPECT_NE(config.error().message().find(row.says), std::string::npos) << config.error().message();
    EXPECT_NE(config.error().message().find(path_), std::string::npos) << config.error().message();
  }
  const auto missing = configFromModelInfo(dir_.file("nowhere"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ENOENT);
}

// Cut short anywhere or with any one byte changed, a file is read or refused by its name.
TEST_F(ModelInfo, DamagedFiles) {
  const std::string good = std::string(kHeader) + kInput + "ranges=0,1;-1,1;0,255\ncaps=video/x-raw,format=BGR\n" +
                           "[output0]\nid=yolo-v8-out\ntype=float32\ndims=1,-1\ndir=output\ndims-order=col-major\n";
  ASSERT_TRUE(read(good).ok());
  const auto check = [&](const std::string &text, size_t at) {
    const auto config = configFromModelInfoText(text, path_);
    const std::string said = config ? path_ : config.error().what;
    EXPECT_NE(said.find(path_), std::string::npos) << at << ": " << said;
  };
  for (size_t i = 0; i < good.size(); ++i) {
    check(good.substr(0, i), i);
    for (const char byte : {'\0', '\n', '\\', '[', '=', ';', ',', '-', '9', '\xff'}) {
      std::string changed = good;
      changed[i] = byte;
      check(changed, i);
    }
  }
}

TEST_F(ModelInfo, IsFoundBesideTheModel) {
  const std::string model = dir_.file("net.onnx");
  EXPECT_EQ(modelInfoBeside(model), "");
  std::ofstream(dir_.file("net.modelinfo")) << "x";
  EXPECT_EQ(modelInfoBeside(model), dir_.file("net.modelinfo"));
  std::ofstream(model + ".modelinfo") << "x";
  EXPECT_EQ(modelInfoBeside(model), model + ".modelinfo");

  EXPECT_EQ(modelInfoBeside(dir_.file("net")), dir_.file("net.modelinfo"));
  EXPECT_EQ(modelInfoBeside(dir_.file("other.onnx")), "");
  EXPECT_EQ(modelInfoBeside("./net"), ""); // the dot is not the extension's
  EXPECT_EQ(modelInfoBeside(""), "");
}

TEST(ModelInfoText, ErrorsStayShort) {
  const std::string header = "[modelinfo]\nversion=1.0\ngroup-id=g\n", digits(500000, '1');
  for (const std::string &text :
       {std::string(500000, 'x'), header + "[in]\ndir=input\ndims=" + digits + "\n",
        header + "[in]\ndir=input\nranges=" + digits + ",1\n", header + "[" + digits + "]\ndir=" + digits + "\n"}) {
    const auto config = configFromModelInfoText(text, "a.modelinfo");
    ASSERT_FALSE(config.ok());
    EXPECT_LT(config.error().message().size(), 600u);
    EXPECT_NE(config.error().message().find("a.modelinfo"), std::string::npos);
  }
}

} // namespace
