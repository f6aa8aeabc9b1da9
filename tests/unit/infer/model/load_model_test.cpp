// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <new>

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/unit/infer/model/fake_engine.h"

using namespace gstzc::infer;
using namespace gstzc::test;

namespace {

using Labels = std::vector<std::string>;

TensorInfo tensor(const char *name, std::vector<int64_t> dims, TensorType type = TensorType::Float32) {
  return {name, type, std::move(dims), {}};
}

// The family whose shapes are known for sure: 128x128, one class.
FakeModel faces(int batch = 1) {
  const int64_t b = batch;
  return {{tensor("image", {b, 128, 128, 3})}, {tensor("raw", {b, 896, 1}), tensor("boxes", {b, 896, 16})}, {}, {}};
}

class LoadModel : public testing::Test {
protected:
  LoadedModel load(const FakeModel &model) {
    return loadModelWith(options_, [&](const EngineOptions &options) {
      opened_.push_back(options);
      return LoadResult{std::make_unique<FakeEngine>(model), {}};
    });
  }
  // What is said of a model that does not load; always with the file's name.
  std::string refusal(const FakeModel &model, LoadFailure kind = LoadFailure::BadModel) {
    const LoadedModel loaded = load(model);
    if (loaded.model) return "loads";
    EXPECT_EQ(loaded.failure.kind, kind);
    EXPECT_NE(loaded.failure.error.what.find("model file " + options_.file), std::string::npos)
        << loaded.failure.error.message();
    EXPECT_FALSE(loaded.failure.error.remedy.empty()) << loaded.failure.error.message();
    return loaded.failure.error.message();
  }
  void write(const std::string &name, const std::string &text) { std::ofstream(dir_.file(name)) << text; }

  TempDir dir_;
  ModelOptions options_ = {.file = dir_.file("net.onnx")};
  std::vector<EngineOptions> opened_;
};

TEST_F(LoadModel, TakesTheFamilysDefaults) {
  const auto loaded = load(faces());
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  const Model &model = *loaded.model;
  EXPECT_EQ(model.file, options_.file);
  EXPECT_EQ(model.plan.width, 128);
  EXPECT_EQ(model.plan.layout, TensorLayout::Nhwc);
  ASSERT_TRUE(model.decoder);
  const FamilyDefaults &family = model.decoder->defaults();
  EXPECT_STREQ(model.decoder->name(), "blazeface");
  EXPECT_EQ(model.preprocess.resize, family.preprocess.resize);
  EXPECT_EQ(model.preprocess.normalisation.mean, family.preprocess.normalisation.mean);
  EXPECT_EQ(model.threshold, family.threshold);
  EXPECT_EQ(model.iou_threshold, family.iou_threshold);
  EXPECT_EQ(model.labels, family.labels);
  EXPECT_EQ(model.label(0), family.labels.at(0));
  EXPECT_EQ(model.label(1), "");
  EXPECT_EQ(model.label(-1), "");
  EXPECT_EQ(model.tags, std::vector<TensorTag>(2));
  EXPECT_EQ(opened_.size(), 1u);
}

TEST_F(LoadModel, EachSourceIsAboveTheOneBefore) {
  FakeModel fake = faces();
  fake.metadata = {{"task", "detect"},        {"stride", "32"},         {"names", "{0: 'head'}"},
                   {"raw", "id-of-metadata"}, {"boxes", "id-of-boxes"}, {"nothing", "of-the-models"}};
  auto model = load(fake).model;
  ASSERT_TRUE(model);
  EXPECT_EQ(model->preprocess.resize, ResizeMode::Letterbox);
  EXPECT_EQ(model->preprocess.normalisation.padding, 114.0f);
  EXPECT_FLOAT_EQ(model->preprocess.normalisation.scale[0], 1 / 255.0f);
  EXPECT_EQ(model->labels, Labels{"head"});
  EXPECT_EQ(model->tags[0].id, "id-of-metadata");
  EXPECT_EQ(model->known.tensors.size(), 2u); // those that the model has

  write("net.onnx.modelinfo", "[modelinfo]\nversion=1.0\ngroup-id=group\n[image]\ndir=input\nranges=0,255\n"
                              "[raw]\ndir=output\nid=id-of-file\n");
  model = load(fake).model;
  ASSERT_TRUE(model);
  EXPECT_EQ(model->preprocess.normalisation.scale, (std::array{1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(model->preprocess.normalisation.padding, 114.0f);
  EXPECT_EQ(model->tags[0], (TensorTag{"id-of-file", "group", false}));
  EXPECT_EQ(model->tags[1].id, "id-of-boxes");

  options_.user.scale = std::array{2.0f, 2.0f, 2.0f};
  options_.user.resize = ResizeMode::Stretch;
  options_.user.bgr = true;
  options_.user.labels = {"visage"};
  model = load(fake).model;
  ASSERT_TRUE(model);
  EXPECT_EQ(model->preprocess.normalisation.scale, (std::array{2.0f, 2.0f, 2.0f}));
  EXPECT_EQ(model->preprocess.resize, ResizeMode::Stretch);
  EXPECT_TRUE(model->preprocess.normalisation.bgr);
  EXPECT_EQ(model->labels, Labels{"visage"});

  write("labels.txt", "gesicht\n");
  options_.labels_file = dir_.file("labels.txt");
  model = load(fake).model;
  ASSERT_TRUE(model);
  EXPECT_EQ(model->labels, Labels{"gesicht"});
}

TEST_F(LoadModel, ANamedModelInfoFileIsReadInsteadOfTheOneBeside) {
  write("net.onnx.modelinfo", "broken");
  write("other.modelinfo", "[modelinfo]\nversion=1.0\n[raw]\ndir=output\nid=other\n");
  const auto beside = load(faces());
  ASSERT_FALSE(beside.model);
  EXPECT_NE(beside.failure.error.message().find("modelinfo file " + dir_.file("net.onnx.modelinfo")),
            std::string::npos);
  options_.modelinfo_file = dir_.file("other.modelinfo");
  const auto named = load(faces());
  ASSERT_TRUE(named.model);
  EXPECT_EQ(named.model->tags[0].id, "other");
  options_.modelinfo_file = dir_.file("nowhere.modelinfo");
  const auto missing = load(faces());
  ASSERT_FALSE(missing.model);
  EXPECT_EQ(missing.failure.kind, LoadFailure::NotFound);
}

TEST_F(LoadModel, MetadataDoNotMakeAModelFail) {
  FakeModel fake = faces();
  fake.metadata = {{"task", "detect"},           {"stride", "32"},        {"end2end", "True"}, {"imgsz", "[640, 640]"},
                   {"names", "['a', 'b', 'c']"}, {"kpt_shape", "[17, 3]"}};
  const auto loaded = load(fake);
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  EXPECT_STREQ(loaded.model->decoder->name(), "blazeface");
  EXPECT_EQ(loaded.model->plan.width, 128);
  EXPECT_FALSE(loaded.model->known.decoder);
}

TEST_F(LoadModel, LabelsFileHasOneLineForEachClass) {
  options_.labels_file = dir_.file("labels.txt");
  write("labels.txt", "background\nface\n");
  const std::string one_more = refusal(faces());
  EXPECT_NE(one_more.find(dir_.file("labels.txt") + " has 2 labels"), std::string::npos) << one_more;
  EXPECT_NE(one_more.find("has 1 classes"), std::string::npos) << one_more;
  EXPECT_NE(one_more.find("leave out the line for the background"), std::string::npos) << one_more;
  write("labels.txt", "a\nb\nc\n");
  EXPECT_NE(refusal(faces()).find("Name the labels file that belongs to the model"), std::string::npos);

  options_.labels_file = dir_.file("nowhere.txt");
  EXPECT_EQ(load(faces()).failure.kind, LoadFailure::NotFound);
}

TEST_F(LoadModel, WithoutADecoder) {
  options_.user.decoder = DecoderKind::None;
  FakeModel fake = {
      {tensor("image", {1, 3, 8, 8})}, {tensor("detection_boxes", {1, 100, 4}), tensor("x", {7})}, {}, {}};
  const auto loaded = load(fake);
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  EXPECT_FALSE(loaded.model->decoder);
  EXPECT_EQ(loaded.model->preprocess.normalisation.scale, (std::array{1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(loaded.model->tags[0].id, "ssd-mobilenet-v1-variant-1-out-boxes");
  EXPECT_EQ(loaded.model->tags[1], TensorTag());
  options_.labels_file = dir_.file("labels.txt");
  write("labels.txt", "a\nb\n");
  EXPECT_EQ(load(fake).model->labels, (Labels{"a", "b"}));
}

TEST_F(LoadModel, WholeNumbersAreFedAsTheyAre) {
  options_.user.decoder = DecoderKind::None;
  FakeModel fake = {{tensor("image", {1, 3, 8, 8}, TensorType::UInt8)}, {tensor("out", {1, 7})}, {}, {}};
  fake.metadata = {{"task", "detect"}, {"stride", "32"}}; // 0..1
  auto model = load(fake).model;
  ASSERT_TRUE(model);
  EXPECT_EQ(model->preprocess.normalisation.scale, (std::array{1.0f, 1.0f, 1.0f}));
  EXPECT_EQ(model->preprocess.normalisation.mean, (std::array{0.0f, 0.0f, 0.0f}));
  EXPECT_EQ(model->preprocess.normalisation.padding, 114.0f);
  options_.user.scale = std::array{0.5f, 0.5f, 0.5f};
  EXPECT_EQ(load(fake).model->preprocess.normalisation.scale, (std::array{0.5f, 0.5f, 0.5f}));
}

// What a family is trained with would leave a byte few values.
TEST_F(LoadModel, WholeNumbersAreFedAsTheyAreWhateverTheFamily) {
  FakeModel fake = faces();
  for (const auto &[type, mean] : {std::pair{TensorType::UInt8, 0.0f}, std::pair{TensorType::Int8, 128.0f}}) {
    fake.inputs[0].type = type;
    const auto model = load(fake).model;
    ASSERT_TRUE(model);
    EXPECT_STREQ(model->decoder->name(), "blazeface");
    EXPECT_EQ(model->preprocess.resize, ResizeMode::Letterbox);
    EXPECT_EQ(model->preprocess.normalisation.mean, (std::array{mean, mean, mean}));
    EXPECT_EQ(model->preprocess.normalisation.scale, (std::array{1.0f, 1.0f, 1.0f}));
  }
}

TEST_F(LoadModel, RefusalsNameFileTensorAndShape) {
  const auto error = [](const char *what) {
    return [=](const TensorView &) -> gstzc::Result<Outputs> { return gstzc::Error{what, 0, "remedy"}; };
  };
  const auto gives = [](std::vector<TensorInfo> infos) {
    return [infos](const TensorView &) -> gstzc::Result<Outputs> { return tensors(infos); };
  };
  FakeModel rank = faces(), two = faces(), none = faces(), open = faces(), type = faces(), size = faces();
  rank.inputs[0].dims = {128, 128, 3};
  two.inputs.push_back(tensor("second", {1, 3}));
  none.inputs.clear();
  open.inputs[0].dims = {1, 128, 128, 5};
  type.inputs[0].type = TensorType::Int64;
  size.inputs[0].dims = {1, 3, 0, 128};
  FakeModel silent = faces(), huge = faces(), unknown = faces();
  silent.outputs.clear();
  huge.outputs[1].dims = {1, int64_t{1} << 40, int64_t{1} << 40};
  unknown.outputs = {tensor("mystery", {1, 7, 11, 13, 2})};
  FakeModel fails = faces(), fewer = faces(), other_rank = faces(), other_dim = faces(), other_type = faces();
  fails.run = error("node Conv_3: out of luck");
  fewer.run = gives({tensor("raw", {1, 896, 1})});
  other_rank.run = gives({tensor("raw", {896, 1}), tensor("boxes", {1, 896, 16})});
  other_dim.run = gives({tensor("raw", {1, 895, 1}), tensor("boxes", {1, 896, 16})});
  other_type.run = gives({tensor("raw", {1, 896, 1}, TensorType::UInt8), tensor("boxes", {1, 896, 16})});
  struct {
    const FakeModel &model;
    std::vector<const char *> says;
  } const rows[] = {
      {rank, {"image (float32 [128,128,3])", "rank"}},
      {two, {"2 inputs", "image", "second"}},
      {none, {"0 inputs"}},
      {open, {"image (float32 [1,128,128,5])"}},
      {type, {"image (int64 [1,128,128,3])"}},
      {size, {"image (float32 [1,3,0,128])"}},
      {silent, {"has no outputs"}},
      {huge, {"boxes (float32 [1,1099511627776,1099511627776])", "elements"}},
      {unknown, {"mystery (float32 [1,7,11,13,2])"}},
      {fails, {"node Conv_3: out of luck", "image (float32 [1,128,128,3])", "remedy"}},
      {fewer, {"1 tensors for 2 outputs"}},
      {other_rank, {"raw (float32 [1,896,1]) came as raw (float32 [896,1])"}},
      {other_dim, {"raw (float32 [1,896,1]) came as raw (float32 [1,895,1])"}},
      {other_type, {"raw (float32 [1,896,1]) came as raw (uint8 [1,896,1])"}},
  };
  for (const auto &row : rows) {
    const std::string said = refusal(row.model);
    for (const char *says : row.says) EXPECT_NE(said.find(says), std::string::npos) << says << " in: " << said;
  }

  options_.user.decoder = DecoderKind::BlazeFace;
  EXPECT_NE(refusal(unknown).find("decoder=blazeface does not fit"), std::string::npos);
}

TEST_F(LoadModel, NumbersOfTheFirstRunDoNotMatter) {
  FakeModel fake = faces();
  fake.run = [&](const TensorView &input) -> gstzc::Result<Outputs> {
    EXPECT_EQ(input.dims, (std::vector<int64_t>{1, 128, 128, 3}));
    EXPECT_EQ(input.bytes, size_t{128 * 128 * 3 * 4});
    const float *const picture = static_cast<const float *>(input.data);
    EXPECT_TRUE(std::all_of(picture, picture + 128 * 128 * 3, [](float value) { return value == 0.0f; }));
    return tensors(faces().outputs, std::vector<float>(896, 1e30f));
  };
  EXPECT_TRUE(load(fake).model);
}

// A model that divides by the deviation of its picture has no numbers for an empty one.
TEST_F(LoadModel, OnlyWhatIsNeverNumbersIsSaidToBe) {
  for (const bool always : {true, false}) {
    FakeModel fake = faces();
    fake.run = [always](const TensorView &input) -> gstzc::Result<Outputs> {
      const float *const picture = static_cast<const float *>(input.data);
      const bool flat = std::all_of(picture, picture + 128 * 128 * 3, [&](float value) { return value == picture[0]; });
      return tensors(faces().outputs,
                     std::vector<float>(896, always || flat ? std::numeric_limits<float>::quiet_NaN() : 0.0f));
    };
    const auto loaded = load(fake);
    ASSERT_TRUE(loaded.model) << "a start goes on until there is a frame";
    EXPECT_EQ(loaded.model->not_numbers, always ? "raw (float32 [1,896,1])" : "");
  }
}

TEST_F(LoadModel, CanBeEnded) {
  Cancellation cancel;
  FakeModel fake = faces();
  fake.run = [&](const TensorView &) -> gstzc::Result<Outputs> {
    cancel.cancel();
    return tensors(faces().outputs);
  };
  const auto open = [&](const EngineOptions &) { return LoadResult{std::make_unique<FakeEngine>(fake), {}}; };
  const auto loaded = loadModelWith(options_, open, &cancel);
  EXPECT_FALSE(loaded.model);
  EXPECT_EQ(loaded.failure.error.code, ECANCELED);
}

TEST_F(LoadModel, AModelInfoFileThatContradictsTheModelIsAnError) {
  const auto said = [&](const std::string &section) {
    write("net.onnx.modelinfo", "[modelinfo]\nversion=1.0\n" + section);
    const auto loaded = load(faces());
    return loaded.model ? std::string("loads") : loaded.failure.error.message();
  };
  EXPECT_EQ(said("[image]\ndir=input\ntype=float32\ndims=-1,128,128,3\n"), "loads");
  const std::string text = said("[image]\ndir=input\ntype=uint8\n");
  for (const std::string &words : {dir_.file("net.onnx.modelinfo"), options_.file, std::string("type=uint8"),
                                   std::string("image (float32 [1,128,128,3])")})
    EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST_F(LoadModel, WhatTheEngineSays) {
  const auto loaded = loadModelWith(options_, [](const EngineOptions &) {
    return LoadResult{nullptr, {LoadFailure::NoLibrary, {"no library", 0, "install it"}}};
  });
  EXPECT_FALSE(loaded.model);
  EXPECT_EQ(loaded.failure.kind, LoadFailure::NoLibrary);
  EXPECT_EQ(loaded.failure.error.message(), "no library. install it");

  const auto full = loadModelWith(options_, [](const EngineOptions &) -> LoadResult { throw std::bad_alloc(); });
  EXPECT_FALSE(full.model);
  EXPECT_EQ(full.failure.error.code, ENOMEM);
}

TEST_F(LoadModel, DescribesItselfInALine) {
  options_.user.resize = ResizeMode::Letterbox;
  options_.user.padding = 114.0f;
  options_.user.mean = std::array{123.5f, 116.0f, 103.0f};
  options_.user.scale = std::array{0.5f, 0.5f, 0.5f};
  const auto loaded = load(faces());
  ASSERT_TRUE(loaded.model);
  EXPECT_EQ(describe(*loaded.model), "model file " + options_.file +
                                         ": Fake 1.0 on cpu, decoder blazeface, input image (float32 [1,128,128,3]) of "
                                         "128x128, letterboxed with 114, bilinear, RGB, mean 123.5:116:103, scale 0.5, "
                                         "1 labels");
}

} // namespace
