// SPDX-License-Identifier: LGPL-2.1-or-later
// What is read from a model's file, what may be fixed in it, and what is said of files that are no model.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "tests/support/face_models.h"
#include "tests/unit/infer/engine/onnx_helpers.h"

using namespace gstzc::infer;
using namespace gstzc::test;

namespace {

using OnnxLoadTest = OnnxFixture;

// Sums over the width, so that the output has the open sizes that are left.
OnnxModel openModel() {
  OnnxModel model;
  model.input("image", kOnnxFloat, {"batch", 3, "height", "width"})
      .output("sums", kOnnxFloat, {"batch", 3, "height"})
      .constant("axis", {1}, std::vector<int64_t>{3})
      .node("ReduceSum", {"image", "axis"}, "sums", {OnnxAttribute::integer("keepdims", 0)});
  return model;
}

OnnxModel weightsIn(const std::string &file) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {2}).output("b", kOnnxFloat, {2}).constantFile("c", {2}, file);
  model.node("Add", {"a", "c"}, "b");
  return model;
}

TEST_F(OnnxLoadTest, OpenDimensionsHaveNames) {
  auto loaded = load(openModel());
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  const TensorInfo &image = loaded.engine->inputs()[0];
  EXPECT_EQ(image.describe(), "image (float32 [?,3,?,?])");
  EXPECT_EQ(image.dim_names, (std::vector<std::string>{"batch", "", "height", "width"}));
  EXPECT_EQ(loaded.engine->outputs()[0].dim_names, (std::vector<std::string>{"batch", "", "height"}));
}

TEST_F(OnnxLoadTest, DimensionsAreFixed) {
  auto loaded = load(openModel(), {.dimensions = {{"height", 2}, {"width", 5}}});
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(loaded.engine->inputs()[0].describe(), "image (float32 [?,3,2,5])");
  EXPECT_EQ(loaded.engine->inputs()[0].dim_names, (std::vector<std::string>{"batch", "", "", ""}));
  EXPECT_EQ(loaded.engine->outputs()[0].describe(), "sums (float32 [?,3,2])");
  std::vector<float> image(2 * 3 * 2 * 5, 0.5f);
  TensorView input = view(image, {2, 3, 2, 5});
  Cancellation cancel;
  auto outputs = loaded.engine->run({&input, 1}, cancel);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  EXPECT_EQ(outputs->tensors[0].dims, (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(values<float>(outputs->tensors[0]), std::vector<float>(12, 2.5f));
  input.dims = {2, 3, 5, 2}; // as many bytes
  EXPECT_FALSE(loaded.engine->run({&input, 1}, cancel).ok());
}

TEST_F(OnnxLoadTest, DimensionsThatCannotBeFixed) {
  struct {
    OnnxModel model;
    std::map<std::string, int64_t> dimensions;
    const char *says;
  } const rows[] = {
      {openModel(), {{"height", 2}, {"depth", 5}}, "has no open dimension depth; it has batch, height, width"},
      {smallConvolution(), {{"batch", 1}}, "has no open dimension batch; none of its inputs' dimensions has a name"},
      {openModel(), {{"height", 0}}, "model.onnx cannot be fixed to 0"},
      {openModel(), {{"height", -1}}, "model.onnx cannot be fixed to -1"},
      {openModel(), {{"", 1}}, "has no open dimension "},
  };
  for (const auto &row : rows) {
    auto loaded = load(row.model, {.dimensions = row.dimensions});
    ASSERT_EQ(loaded.engine, nullptr) << row.says;
    EXPECT_EQ(loaded.failure.kind, LoadFailure::BadModel);
    EXPECT_NE(loaded.failure.error.what.find(row.says), std::string::npos) << loaded.failure.error.message();
    EXPECT_FALSE(loaded.failure.error.remedy.empty());
  }
}

TEST_F(OnnxLoadTest, MetadataIsReadAsItIs) {
  const std::map<std::string, std::string> written = {
      {"names", "{0: 'person', 1: 'bicycle'}"}, {"stride", "32"}, {"empty", ""}, {"author", "J\xc3\xb6rg\nund andere"}};
  OnnxModel model = smallConvolution();
  for (const auto &[key, value] : written) model.metadata(key, value);
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(loaded.engine->metadata(), written);
  auto none = load(smallConvolution());
  ASSERT_NE(none.engine, nullptr);
  EXPECT_TRUE(none.engine->metadata().empty());
}

TEST_F(OnnxLoadTest, WeightsInAFileBesideTheModel) {
  const std::vector<float> weights = {10, 20};
  std::ofstream(dir_.file("weights.data"), std::ios::binary)
      .write(reinterpret_cast<const char *>(weights.data()), sizeof(float) * 2);
  auto loaded = load(weightsIn("weights.data"));
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<float> a = {1, 2};
  const TensorView input = view(a, {2});
  Cancellation cancel;
  auto outputs = loaded.engine->run({&input, 1}, cancel);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  EXPECT_EQ(values<float>(outputs->tensors[0]), (std::vector<float>{11, 22}));
}

// A model whose outputs nobody here understands still loads; they have no bytes.
TEST_F(OnnxLoadTest, OutputsThatAreNoNumbers) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {2})
      .output("text", kOnnxString, {2})
      .output("b", kOnnxFloat, {2})
      .node("Cast", {"a"}, "text", {OnnxAttribute::integer("to", kOnnxString)})
      .node("Identity", {"a"}, "b");
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(loaded.engine->outputs()[0].describe(), "text (another type [2])");
  std::vector<float> a = {1, 2};
  const TensorView input = view(a, {2});
  Cancellation cancel;
  auto outputs = loaded.engine->run({&input, 1}, cancel);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  EXPECT_EQ(outputs->tensors[0].type, TensorType::Other);
  EXPECT_EQ(outputs->tensors[0].data, nullptr);
  EXPECT_EQ(outputs->tensors[0].bytes, 0u);
  EXPECT_EQ(values<float>(outputs->tensors[1]), a);
}

TEST_F(OnnxLoadTest, LoadedAgainAndAgain) {
  for (int i = 0; i < 50; ++i) {
    auto loaded = load(smallConvolution(), {.intra_threads = 1 + i % 2});
    ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
    if (i % 10 == 0) expectSmallConvolution(*loaded.engine);
  }
}

TEST_F(OnnxLoadTest, BadFiles) {
  struct {
    std::string name;
    LoadFailure kind;
    const char *says;
  } const rows[] = {
      {"missing.onnx", LoadFailure::NotFound, "No such file"},
      {"folder", LoadFailure::NotFound, "is a directory"},
      {"fifo", LoadFailure::NotFound, "no regular file"},
      {"empty.onnx", LoadFailure::BadModel, "is empty"},
      {"garbage.onnx", LoadFailure::BadModel, "rotobuf"},
      {"truncated.onnx", LoadFailure::BadModel, "loading the model"},
      {"unknown.onnx", LoadFailure::BadModel, "NoSuchOperator"},
      {"opset.onnx", LoadFailure::BadModel, "9999"},
      {"weights.onnx", LoadFailure::BadModel, "nowhere.data"},
  };
  std::filesystem::create_directory(dir_.file("folder"));
  ASSERT_EQ(mkfifo(dir_.file("fifo").c_str(), 0600), 0);
  std::ofstream(dir_.file("empty.onnx")).close();
  std::ofstream(dir_.file("garbage.onnx")) << "this is no protobuf \xff\xff\xff";
  const std::string whole = constantFaces(128, {}, 0).serialize();
  std::ofstream(dir_.file("truncated.onnx"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  OnnxModel unknown;
  unknown.input("a", kOnnxFloat, {1}).output("b", kOnnxFloat, {1}).node("NoSuchOperator", {"a"}, "b");
  unknown.save(dir_.file("unknown.onnx"));
  smallConvolution().opset(9999).save(dir_.file("opset.onnx"));
  weightsIn("nowhere.data").save(dir_.file("weights.onnx"));
  for (const auto &row : rows) {
    auto loaded = loadOnnxEngine(dir_.file(row.name), {});
    ASSERT_EQ(loaded.engine, nullptr) << row.name;
    EXPECT_EQ(loaded.failure.kind, row.kind) << row.name;
    const std::string text = loaded.failure.error.message();
    EXPECT_NE(text.find(row.name), std::string::npos) << text;
    EXPECT_EQ(text.find(row.name), text.rfind(row.name)) << "names the file twice: " << text;
    EXPECT_NE(text.find(row.says), std::string::npos) << text;
    EXPECT_EQ(text.find(".cc:"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(text.find(".."), std::string::npos) << text;
    EXPECT_FALSE(loaded.failure.error.remedy.empty()) << text;
  }
}

} // namespace
