// SPDX-License-Identifier: LGPL-2.1-or-later
// The real ONNX Runtime on models that the test writes.
#include "gst/infer/engine/onnx_engine.h"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>

#include <gst/gst.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/face_models.h"
#include "tests/support/temp_dir.h"

using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

class OnnxEngineTest : public testing::Test {
protected:
  LoadResult load(const OnnxModel &model, const EngineOptions &options = {}) {
    model.save(dir_.file("model.onnx"));
    return loadOnnxEngine(dir_.file("model.onnx"), options);
  }
  TempDir dir_;
};

TensorView view(std::vector<float> &data, std::vector<int64_t> dims) {
  return {TensorType::Float32, std::move(dims), data.data(), data.size() * sizeof(float), MemorySpace::Host};
}

// As an application's may: it writes to the very stream that the first session is kept from.
void logToStandardError(GstDebugCategory *category, GstDebugLevel, const gchar *, const gchar *, gint, GObject *,
                        GstDebugMessage *, gpointer) {
  if (g_str_equal(gst_debug_category_get_name(category), "fenceinfer-onnx")) std::cerr << "logged\n";
}

// The first test, so that it creates the first session of the process: libraries that write there write then.
TEST_F(OnnxEngineTest, FirstSessionWritesNothingToStandardErrorButOthersDo) {
  std::stringbuf caught;
  std::streambuf *const before = std::cerr.rdbuf(&caught);
  const gboolean logging = gst_debug_is_active();
  gst_debug_set_active(TRUE);
  gst_debug_remove_log_function(gst_debug_log_default);
  gst_debug_add_log_function(logToStandardError, nullptr, nullptr);
  gst_debug_set_threshold_for_name("fenceinfer-onnx", GST_LEVEL_TRACE);
  std::ofstream(dir_.file("garbage.onnx")) << "no model";
  auto failed = loadOnnxEngine(dir_.file("garbage.onnx"), {}); // must not use up the silence
  auto loaded = load(constantFaces(128, {}, 0));
  gst_debug_unset_threshold_for_name("fenceinfer-onnx");
  gst_debug_remove_log_function(logToStandardError);
  gst_debug_add_log_function(gst_debug_log_default, nullptr, nullptr);
  gst_debug_set_active(logging);
  std::cerr << "Schema of something else\nand more";
  EXPECT_EQ(std::cerr.rdbuf(), &caught) << "the stream's buffer is put back";
  std::cerr.rdbuf(before);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(failed.engine, nullptr);
  std::string rest, line;
  size_t logged = 0;
  for (std::istringstream lines(caught.str()); std::getline(lines, line);) {
    if (line == "logged")
      ++logged;
    else
      rest += line + "|";
  }
  EXPECT_EQ(rest, "Schema of something else|and more|");
  EXPECT_GT(logged, 0u);
}

TEST_F(OnnxEngineTest, ReadsNamesTypesAndShapes) {
  auto loaded = load(constantFaces(128, {}, 0));
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  ASSERT_EQ(loaded.engine->inputs().size(), 1u);
  EXPECT_EQ(loaded.engine->inputs()[0].describe(), "image (float32 [1,128,128,3])");
  ASSERT_EQ(loaded.engine->outputs().size(), 4u);
  EXPECT_EQ(loaded.engine->outputs()[2].describe(), "boxes:0 (float32 [1,512,16])");
  EXPECT_EQ(loaded.engine->name().rfind("ONNX Runtime 1.", 0), 0u) << loaded.engine->name();
}

TEST_F(OnnxEngineTest, OpenDimensionsAndOtherTypes) {
  OnnxModel model;
  model.input("u8", kOnnxUInt8, {-1, 3, -1, 4})
      .output("out", kOnnxUInt8, {-1, 3, -1, 4})
      .node("Identity", {"u8"}, "out");
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(loaded.engine->inputs()[0].describe(), "u8 (uint8 [?,3,?,4])");
}

TEST_F(OnnxEngineTest, RunsWithTwoThreadsAndOutputsOutliveTheRun) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {2, 3}).output("sum", kOnnxFloat, {2, 3}).node("Add", {"a", "a"}, "sum");
  auto loaded = load(model, {.intra_threads = 2});
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<float> a = {1, 2, 3, 4, 5, 6}, other(6, 0);
  Cancellation cancel;
  const TensorView first = view(a, {2, 3}), second = view(other, {2, 3});
  auto outputs = loaded.engine->run({&first, 1}, cancel);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  ASSERT_TRUE(loaded.engine->run({&second, 1}, cancel).ok());
  ASSERT_EQ(outputs->tensors.size(), 1u);
  EXPECT_EQ(outputs->tensors[0].dims, (std::vector<int64_t>{2, 3}));
  for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(static_cast<float *>(outputs->tensors[0].data)[i], 2.0f * (i + 1));
}

TEST_F(OnnxEngineTest, WrongInputsAreErrors) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {2, 3}).output("b", kOnnxFloat, {2, 3}).node("Identity", {"a"}, "b");
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr);
  Cancellation cancel;
  EXPECT_FALSE(loaded.engine->run({}, cancel).ok());
  std::vector<float> data(6);
  TensorView wrong = view(data, {3, 2});
  EXPECT_FALSE(loaded.engine->run({&wrong, 1}, cancel).ok());
  wrong = view(data, {2, 3});
  wrong.space = MemorySpace::Device;
  EXPECT_FALSE(loaded.engine->run({&wrong, 1}, cancel).ok());
}

TEST_F(OnnxEngineTest, CancelEndsALongRun) {
  auto loaded = load(slowFaces({}, 0, 4000));
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<float> image(256 * 256 * 3, 0.5f);
  const TensorView input = view(image, {1, 256, 256, 3});
  Cancellation cancel;
  auto run = std::async(std::launch::async, [&] { return loaded.engine->run({&input, 1}, cancel); });
  EXPECT_EQ(run.wait_for(100ms), std::future_status::timeout) << "the model is not slow enough for this test";
  const auto start = std::chrono::steady_clock::now();
  cancel.cancel();
  ASSERT_EQ(run.wait_for(5s), std::future_status::ready);
  auto outputs = run.get();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  ASSERT_FALSE(outputs.ok());
  EXPECT_EQ(outputs.error().code, ECANCELED);
  // and the next one before it begins
  auto next = loaded.engine->run({&input, 1}, cancel);
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code, ECANCELED);
}

TEST_F(OnnxEngineTest, BadFiles) {
  struct {
    std::string name;
    LoadFailure kind;
    const char *says;
  } const rows[] = {
      {"missing.onnx", LoadFailure::NotFound, "No such file"},
      {"directory", LoadFailure::NotFound, "is a directory"},
      {"fifo", LoadFailure::NotFound, "no regular file"},
      {"empty.onnx", LoadFailure::BadModel, "is empty"},
      {"garbage.onnx", LoadFailure::BadModel, "rotobuf"},
      {"truncated.onnx", LoadFailure::BadModel, "loading the model"},
      {"unknown.onnx", LoadFailure::BadModel, "NoSuchOperator"},
  };
  std::filesystem::create_directory(dir_.file("directory"));
  ASSERT_EQ(mkfifo(dir_.file("fifo").c_str(), 0600), 0);
  std::ofstream(dir_.file("empty.onnx")).close();
  std::ofstream(dir_.file("garbage.onnx")) << "this is no protobuf \xff\xff\xff";
  const std::string whole = constantFaces(128, {}, 0).serialize();
  std::ofstream(dir_.file("truncated.onnx"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  OnnxModel unknown;
  unknown.input("a", kOnnxFloat, {1}).output("b", kOnnxFloat, {1}).node("NoSuchOperator", {"a"}, "b");
  unknown.save(dir_.file("unknown.onnx"));
  for (const auto &row : rows) {
    auto loaded = loadOnnxEngine(dir_.file(row.name), {});
    ASSERT_EQ(loaded.engine, nullptr) << row.name;
    EXPECT_EQ(loaded.failure.kind, row.kind) << row.name;
    const std::string text = loaded.failure.error.message();
    EXPECT_NE(text.find(row.name), std::string::npos) << text;
    EXPECT_NE(text.find(row.says), std::string::npos) << text;
    EXPECT_FALSE(loaded.failure.error.remedy.empty()) << text;
  }
}

} // namespace
