// SPDX-License-Identifier: LGPL-2.1-or-later
// loadModel() with models that leave the picture's size or the batch open, or fix a batch.
#include "gst/infer/model/model.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/unit/infer/model/fake_engine.h"

using namespace gstzc::infer;
using namespace gstzc::test;

namespace {

using Dims = std::map<std::string, int64_t>;

// BlazeFace's shapes, with the input's dimensions as told.
FakeModel faces(std::vector<int64_t> dims, std::vector<std::string> names = {}, int64_t batch = 1) {
  return {{{"image", TensorType::Float32, std::move(dims), std::move(names)}},
          {{"raw", TensorType::Float32, {batch, 896, 1}, {}}, {"boxes", TensorType::Float32, {batch, 896, 16}, {}}},
          {},
          {}};
}

class LoadModelSizes : public testing::Test {
protected:
  // An engine that fixes named dimensions, as ONNX Runtime does.
  LoadedModel load(const FakeModel &model) {
    opened_.clear();
    return loadModelWith(options_, [&](const EngineOptions &options) {
      opened_.push_back(options.dimensions);
      FakeModel opened = model;
      for (auto *infos : {&opened.inputs, &opened.outputs})
        for (TensorInfo &info : *infos)
          for (size_t i = 0; i < info.dim_names.size(); ++i)
            if (const auto found = options.dimensions.find(info.dim_names[i]); found != options.dimensions.end())
              info.dims[i] = found->second;
      return LoadResult{std::make_unique<FakeEngine>(opened), {}};
    });
  }
  void setSize(int width, int height) { options_.user.width = width, options_.user.height = height; }

  TempDir dir_;
  ModelOptions options_ = {.file = dir_.file("net.onnx")};
  std::vector<Dims> opened_; // EngineOptions::dimensions of each time
};

TEST_F(LoadModelSizes, AnOpenSizeIsFixedInTheEngine) {
  const FakeModel model = faces({-1, 3, -1, -1}, {"batch", "", "height", "width"}, -1);
  setSize(128, 128);
  auto loaded = load(model);
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  EXPECT_EQ(opened_, (std::vector<Dims>{{}, {{"height", 128}, {"width", 128}}}));
  EXPECT_EQ(loaded.model->engine->inputs()[0].dims, (std::vector<int64_t>{-1, 3, 128, 128})); // the batch stays open
  EXPECT_EQ(loaded.model->plan.width, 128);
  EXPECT_TRUE(loaded.model->plan.open_batch);

  options_.engine.dimensions = {{"height", 128}};
  loaded = load(model);
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  EXPECT_EQ(opened_, (std::vector<Dims>{{{"height", 128}}, {{"height", 128}, {"width", 128}}}));
}

TEST_F(LoadModelSizes, TheSizeComesFromTheMetadataOrTheModelInfoFile) {
  FakeModel model = faces({1, -1, -1, 3}, {"", "rows", "columns", ""});
  EXPECT_EQ(load(model).failure.kind, LoadFailure::BadModel);
  EXPECT_EQ(opened_.size(), 1u);

  model.metadata = {{"imgsz", "[128, 128]"}};
  EXPECT_TRUE(load(model).model);
  EXPECT_EQ(opened_.back(), (Dims{{"rows", 128}, {"columns", 128}}));

  // which is above them
  std::ofstream(dir_.file("net.onnx.modelinfo")) << "[modelinfo]\nversion=1.0\n[image]\ndir=input\ndims=1,256,256,3\n";
  EXPECT_TRUE(load(model).model);
  EXPECT_EQ(opened_.back(), (Dims{{"rows", 256}, {"columns", 256}}));
}

TEST_F(LoadModelSizes, AContradictionIsAnErrorUnlessTheMetadataSayIt) {
  FakeModel model = faces({1, 128, 128, 3});
  model.metadata = {{"imgsz", "[640, 640]"}};
  const auto loaded = load(model);
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  EXPECT_EQ(loaded.model->plan.width, 128);
  EXPECT_EQ(loaded.model->known.width, std::nullopt);

  setSize(640, 640);
  EXPECT_NE(load(model).failure.error.message().find("image (float32 [1,128,128,3])"), std::string::npos);

  options_.user = {};
  std::ofstream(dir_.file("net.onnx.modelinfo")) << "[modelinfo]\nversion=1.0\n[image]\ndir=input\ndims=1,64,64,3\n";
  EXPECT_NE(load(model).failure.error.message().find(dir_.file("net.onnx.modelinfo")), std::string::npos);
}

TEST_F(LoadModelSizes, NamesThatSayNothingStayOpen) {
  setSize(128, 128);
  struct {
    std::vector<std::string> names;
    std::vector<Dims> opened;
  } const rows[] = {
      {{}, {{}}},
      {{"batch", "", "", ""}, {{}}},
      {{"open", "open", "open", ""}, {{}}}, // the batch's name too
      {{"batch", "side", "side", ""}, {{}, {{"side", 128}}}},
  };
  for (const auto &row : rows) {
    const auto loaded = load(faces({-1, -1, -1, 3}, row.names, -1));
    ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
    EXPECT_EQ(opened_, row.opened) << row.opened.size();
  }
  setSize(128, 256);                                                         // one name for two sizes
  EXPECT_FALSE(load(faces({1, -1, -1, 3}, {"", "side", "side", ""})).model); // and no decoder for it
  EXPECT_EQ(opened_.size(), 1u);
}

TEST_F(LoadModelSizes, OutputsThatStayOpenAreMeasured) {
  setSize(128, 128);
  FakeModel model = faces({1, -1, -1, 3});
  for (TensorInfo &output : model.outputs) output.dims[1] = -1;
  model.run = [](const TensorView &) -> gstzc::Result<Outputs> { return tensors(faces({}).outputs); };
  const auto loaded = load(model);
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  EXPECT_STREQ(loaded.model->decoder->name(), "blazeface");
}

TEST_F(LoadModelSizes, Batches) {
  struct {
    const char *says;
    int64_t input, output; // first dimensions
    int wished;
    const char *refused; // nullptr: loads
    int batch;
    bool open;
  } const rows[] = {
      {"open", -1, -1, 4, nullptr, 4, true},
      {"open, one wished", -1, -1, 1, nullptr, 1, true},
      {"fixed", 4, 4, 1, nullptr, 4, false},
      {"fixed, outputs open", 4, -1, 1, nullptr, 4, false},
      {"one", 1, 1, 4, nullptr, 1, false},
      {"outputs of one", -1, 1, 4, "raw (float32 [1,896,1]) is not one for each of the 4 pictures", 0, false},
      {"outputs of one, fixed", 4, 1, 1, "raw (float32 [1,896,1]) is not one for each of the 4 pictures", 0, false},
      {"outputs of others", 4, 3, 1, "raw (float32 [3,896,1]) is not one for each of the 4 pictures", 0, false},
  };
  for (const auto &row : rows) {
    options_.batch = row.wished;
    std::vector<int64_t> fed;
    FakeModel model = faces({row.input, 128, 128, 3}, {}, row.output);
    model.run = [&](const TensorView &input) -> gstzc::Result<Outputs> {
      fed = input.dims;
      EXPECT_EQ(input.bytes, size_t{4 * 3 * 128 * 128} * static_cast<size_t>(input.dims[0]));
      return tensors(faces({}, {}, input.dims[0]).outputs);
    };
    const auto loaded = load(model);
    if (row.refused != nullptr) {
      EXPECT_NE(loaded.failure.error.message().find(row.refused), std::string::npos)
          << row.says << ": " << loaded.failure.error.message();
      EXPECT_NE(loaded.failure.error.message().find(options_.file), std::string::npos);
      continue;
    }
    ASSERT_TRUE(loaded.model) << row.says << ": " << loaded.failure.error.message();
    EXPECT_EQ(loaded.model->plan.batch, row.batch) << row.says;
    EXPECT_EQ(loaded.model->plan.open_batch, row.open) << row.says;
    EXPECT_EQ(fed, (std::vector<int64_t>{row.batch, 128, 128, 3})) << row.says;
  }
}

TEST_F(LoadModelSizes, AnOpenBatchThatTheModelDoesNotKeep) {
  options_.batch = 4;
  FakeModel model = faces({-1, 128, 128, 3}, {}, -1);
  model.run = [](const TensorView &) -> gstzc::Result<Outputs> { return tensors(faces({}).outputs); };
  const std::string said = load(model).failure.error.message();
  EXPECT_NE(said.find("raw (float32 [1,896,1]) is not one for each of the 4 pictures"), std::string::npos) << said;
  EXPECT_NE(said.find("batch-size=1"), std::string::npos) << said;
}

TEST_F(LoadModelSizes, AnEngineThatFailsTheSecondTime) {
  setSize(128, 128);
  const FakeModel model = faces({1, -1, -1, 3}, {"", "h", "w", ""});
  int times = 0;
  const auto loaded = loadModelWith(options_, [&](const EngineOptions &) {
    if (++times == 2) return LoadResult{nullptr, {LoadFailure::BadModel, {"the size does not fit", 0, ""}}};
    return LoadResult{std::make_unique<FakeEngine>(model), {}};
  });
  EXPECT_FALSE(loaded.model);
  EXPECT_EQ(loaded.failure.error.what, "the size does not fit");
}

} // namespace
