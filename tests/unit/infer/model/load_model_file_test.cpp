// SPDX-License-Identifier: LGPL-2.1-or-later
// loadModel() with the engine it is made for.
#include "gst/infer/model/model.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/face_models.h"
#include "tests/support/temp_dir.h"

using namespace gstzc::infer;
using namespace gstzc::test;

namespace {

class LoadModelFile : public testing::Test {
protected:
  // What is said of a file with these bytes.
  std::string refusal(const std::string &bytes) {
    std::ofstream(options_.file, std::ios::binary) << bytes;
    const auto loaded = loadModel(options_);
    if (loaded.model) return "loads";
    EXPECT_EQ(loaded.failure.kind, LoadFailure::BadModel);
    return loaded.failure.error.message();
  }

  TempDir dir_;
  ModelOptions options_ = {.file = dir_.file("net.onnx")};
};

TEST_F(LoadModelFile, IsReadyForPictures) {
  constantFaces(128, {}, 0.0f).save(options_.file);
  const auto loaded = loadModel(options_);
  ASSERT_TRUE(loaded.model) << loaded.failure.error.message();
  EXPECT_STREQ(loaded.model->decoder->name(), "blazeface");
  EXPECT_EQ(loaded.model->engine->outputs().size(), 4u);
  EXPECT_EQ(loaded.model->tags.size(), 4u);
  EXPECT_NE(describe(*loaded.model).find("ONNX Runtime"), std::string::npos);
}

TEST_F(LoadModelFile, RefusalsNameTheFile) {
  const std::string good = constantFaces(128, {}, 0.0f).serialize();
  OnnxModel flat, clash, mystery;
  flat.input("sound", kOnnxFloat, {1, 16000})
      .output("text", kOnnxFloat, {1, 16000})
      .node("Identity", {"sound"}, "text");
  clash.input("image", kOnnxFloat, {1, 8, 8, 3})
      .output("out", kOnnxFloat, {1, -1})
      .constant("shape", {2}, std::vector<int64_t>{1, 7})
      .node("Reshape", {"image", "shape"}, "out");
  mystery.input("image", kOnnxFloat, {1, 8, 8, 3})
      .output("out", kOnnxFloat, {1, 8, 8, 3})
      .node("Identity", {"image"}, "out");
  struct {
    const char *says;
    std::string bytes;
    std::vector<std::string> parts;
  } const rows[] = {
      {"garbage", "this is no model", {}},
      {"empty", "", {"empty"}},
      {"truncated", good.substr(0, good.size() / 2), {}},
      {"no picture", flat.serialize(), {"sound (float32 [1,16000])"}},
      {"cannot run", clash.serialize(), {}},
      {"no decoder", mystery.serialize(), {"out (float32 [1,8,8,3])"}},
  };
  for (const auto &row : rows) {
    const std::string said = refusal(row.bytes);
    EXPECT_NE(said.find(options_.file), std::string::npos) << row.says << ": " << said;
    for (const std::string &part : row.parts) EXPECT_NE(said.find(part), std::string::npos) << row.says << ": " << said;
  }
  options_.file = dir_.file("nowhere.onnx");
  EXPECT_EQ(loadModel(options_).failure.kind, LoadFailure::NotFound);
}

} // namespace
