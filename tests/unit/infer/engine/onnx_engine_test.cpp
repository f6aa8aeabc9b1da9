// SPDX-License-Identifier: LGPL-2.1-or-later
// The real ONNX Runtime runs models that the test writes.
#include "gst/infer/engine/onnx_engine.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>
#include <thread>

#include <gst/gst.h>
#include <gtest/gtest.h>

#include "tests/support/face_models.h"
#include "tests/unit/infer/engine/onnx_helpers.h"

using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

using OnnxEngineTest = OnnxFixture;

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
  OnnxModel constant; // nor must a model without any operator that the library looks up
  constant.constant("out", {1}, std::vector<float>{1}).output("out", kOnnxFloat, {1});
  auto empty = load(constant);
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
  EXPECT_NE(empty.engine, nullptr) << empty.failure.error.message();
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
  EXPECT_EQ(loaded.engine->inputs()[0].dim_names, std::vector<std::string>(4));
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

TEST_F(OnnxEngineTest, WrongInputsAreErrorsThatNameFileTensorAndShape) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {2, 3}).output("b", kOnnxFloat, {2, 3}).node("Identity", {"a"}, "b");
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr);
  Cancellation cancel;
  const auto error = [&](std::span<const TensorView> inputs) -> std::string {
    auto outputs = loaded.engine->run(inputs, cancel);
    return outputs.ok() ? "no error" : outputs.error().what;
  };
  const std::string file = dir_.file("model.onnx");
  const std::string input = "input a (float32 [2,3]) of the model " + file + " was given ";
  EXPECT_EQ(error({}), "the model " + file + " has 1 inputs, 0 were given");
  std::vector<float> data(6);
  std::vector<int32_t> integers(6);
  const TensorView good = view(data, {2, 3});
  TensorView device = good, small = good, null = good, other = good;
  device.space = MemorySpace::Device;
  small.bytes = 20;
  null.data = nullptr;
  other.type = TensorType::Other;
  struct {
    TensorView given;
    const char *text;
  } const rows[] = {
      {view(data, {3, 2}), "float32 [3,2]"},
      {view(data, {6}), "float32 [6]"},
      {view(data, {}), "float32 []"},
      {view(data, {2, -3}), "float32 [2,?]"},
      {view(TensorType::Int32, integers, {2, 3}), "int32 [2,3]"},
      {other, "another type [2,3]"},
      {device, "float32 [2,3] in device memory, which cpu does not read here"},
      {small, "float32 [2,3] with 20 bytes instead of 24"},
      {null, "float32 [2,3] with 0 bytes instead of 24"},
  };
  for (const auto &row : rows) EXPECT_EQ(error({&row.given, 1}), input + row.text);
  EXPECT_EQ(error({&good, 1}), "no error");
}

TEST_F(OnnxEngineTest, SizesThatNoMemoryHoldsAreRefused) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {-1, -1}).output("b", kOnnxFloat, {-1, -1}).node("Identity", {"a"}, "b");
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr);
  std::vector<float> data(4);
  Cancellation cancel;
  const TensorView huge = view(data, {int64_t(1) << 62, 4}); // 2^66 bytes
  EXPECT_FALSE(loaded.engine->run({&huge, 1}, cancel).ok());
}

// What fits the inputs may still not fit the nodes behind.
TEST_F(OnnxEngineTest, FailureInsideTheModelSaysWhatWasGiven) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {-1, -1})
      .output("b", kOnnxFloat, {-1})
      .constant("four", {1}, std::vector<int64_t>{4})
      .node("Reshape", {"a", "four"}, "b");
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<float> data(6);
  const TensorView input = view(data, {2, 3});
  Cancellation cancel;
  auto outputs = loaded.engine->run({&input, 1}, cancel);
  ASSERT_FALSE(outputs.ok());
  const std::string what = outputs.error().what;
  EXPECT_EQ(what.rfind("running the model " + dir_.file("model.onnx") + ": ", 0), 0u) << what;
  EXPECT_NE(what.find("(given a: float32 [2,3])"), std::string::npos) << what;
  EXPECT_NE(what.find("Reshape"), std::string::npos) << what;
  EXPECT_EQ(what.find(".h:"), std::string::npos) << what;
  EXPECT_EQ(what.find("onnxruntime::"), std::string::npos) << what;
  EXPECT_EQ(outputs.error().code, 0);
}

// Of float16, c000 is -2 and 7bff is 65504, the largest.
TEST_F(OnnxEngineTest, AllTypesInAndOut) {
  OnnxModel model;
  const std::pair<const char *, OnnxType> types[] = {{"f16", kOnnxFloat16}, {"u8", kOnnxUInt8},  {"i8", kOnnxInt8},
                                                     {"i32", kOnnxInt32},   {"i64", kOnnxInt64}, {"f32", kOnnxFloat}};
  for (const auto &[name, type] : types) {
    const std::string in = std::string("in ") + name, out = std::string("out ") + name;
    model.input(in, type, {2}).output(out, kOnnxFloat, {2}).output("same " + out, type, {2});
    model.node("Cast", {in}, out, {OnnxAttribute::integer("to", kOnnxFloat)}).node("Identity", {in}, "same " + out);
  }
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<uint16_t> half = {0xc000, 0x7bff};
  std::vector<uint8_t> u8 = {0, 255};
  std::vector<int8_t> i8 = {-128, 127};
  std::vector<int32_t> i32 = {-5, 1 << 20};
  std::vector<int64_t> i64 = {-7, int64_t(1) << 40};
  std::vector<float> f32 = {0.25f, -1e30f};
  const TensorView inputs[] = {view(TensorType::Float16, half, {2}), view(TensorType::UInt8, u8, {2}),
                               view(TensorType::Int8, i8, {2}),      view(TensorType::Int32, i32, {2}),
                               view(TensorType::Int64, i64, {2}),    view(f32, {2})};
  Cancellation cancel;
  auto outputs = loaded.engine->run(inputs, cancel);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  ASSERT_EQ(outputs->tensors.size(), 12u);
  const std::vector<float> expected[] = {{-2, 65504},         {0, 255},       {-128, 127}, {-5, 1024 * 1024},
                                         {-7, 1099511627776}, {0.25f, -1e30f}};
  for (size_t i = 0; i < 6; ++i) {
    const TensorView &cast = outputs->tensors[2 * i], &same = outputs->tensors[2 * i + 1];
    EXPECT_EQ(values<float>(cast), expected[i]) << i;
    EXPECT_EQ(same.type, inputs[i].type) << i;
    ASSERT_EQ(same.bytes, inputs[i].bytes) << i;
    EXPECT_EQ(memcmp(same.data, inputs[i].data, same.bytes), 0) << i;
  }
}

TEST_F(OnnxEngineTest, OpenBatchTakesAnyNumber) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {"batch", 2})
      .output("sum", kOnnxFloat, {"batch"})
      .constant("axis", {1}, std::vector<int64_t>{1})
      .node("ReduceSum", {"a", "axis"}, "sum", {OnnxAttribute::integer("keepdims", 0)});
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(loaded.engine->outputs()[0].describe(), "sum (float32 [?])");
  Cancellation cancel;
  for (const int64_t n : {1, 3, 64}) {
    std::vector<float> data(static_cast<size_t>(2 * n), 1.5f);
    const TensorView input = view(data, {n, 2});
    auto outputs = loaded.engine->run({&input, 1}, cancel);
    ASSERT_TRUE(outputs.ok()) << outputs.error().message();
    EXPECT_EQ(outputs->tensors[0].dims, (std::vector<int64_t>{n}));
    EXPECT_EQ(values<float>(outputs->tensors[0]), std::vector<float>(static_cast<size_t>(n), 3.0f));
  }
}

// The size of an output may be known only after the run.
TEST_F(OnnxEngineTest, OutputsOfOpenSize) {
  OnnxModel model;
  model.input("a", kOnnxFloat, {6}).output("where", kOnnxInt64, {1, "count"}).node("NonZero", {"a"}, "where");
  auto loaded = load(model);
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<float> data = {0, 1, 0, 2, 0, 3}, none(6, 0.0f);
  Cancellation cancel;
  const TensorView first = view(data, {6}), second = view(none, {6});
  auto outputs = loaded.engine->run({&first, 1}, cancel);
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  EXPECT_EQ(values<int64_t>(outputs->tensors[0]), (std::vector<int64_t>{1, 3, 5}));
  auto empty = loaded.engine->run({&second, 1}, cancel);
  ASSERT_TRUE(empty.ok()) << empty.error().message();
  EXPECT_EQ(empty->tensors[0].dims, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(empty->tensors[0].bytes, 0u);
}

TEST_F(OnnxEngineTest, ManyThreadsRunOneSession) {
  auto loaded = load(smallConvolution());
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<std::thread> threads;
  for (int t = 0; t < 10; ++t)
    threads.emplace_back([&, t] {
      Cancellation cancel;
      for (int i = 0; i < 100; ++i) {
        std::vector<float> x(9, static_cast<float>(100 * t + i)); // the kernel's numbers sum to 10
        const TensorView input = view(x, {1, 1, 3, 3});
        auto outputs = loaded.engine->run({&input, 1}, cancel);
        ASSERT_TRUE(outputs.ok()) << outputs.error().message();
        ASSERT_EQ(values<float>(outputs->tensors[0]), std::vector<float>(4, 10 * x[0] + 0.5f));
      }
    });
  for (std::thread &thread : threads) thread.join();
}

TEST_F(OnnxEngineTest, OutputsOutliveTheEngine) {
  auto loaded = load(smallConvolution());
  ASSERT_NE(loaded.engine, nullptr);
  std::vector<float> x(9, 1.0f);
  const TensorView input = view(x, {1, 1, 3, 3});
  Cancellation cancel;
  auto outputs = loaded.engine->run({&input, 1}, cancel);
  ASSERT_TRUE(outputs.ok());
  loaded.engine.reset();
  EXPECT_EQ(values<float>(outputs->tensors[0]), std::vector<float>(4, 10.5f));
}

TEST_F(OnnxEngineTest, CancellationStopsOnlyItsOwnRuns) {
  auto loaded = load(slowFaces({}, 0, 4000));
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  std::vector<float> image(256 * 256 * 3, 0.5f);
  const TensorView input = view(image, {1, 256, 256, 3});
  Cancellation stopped, other;
  auto first = std::async(std::launch::async, [&] { return loaded.engine->run({&input, 1}, stopped); });
  auto second = std::async(std::launch::async, [&] { return loaded.engine->run({&input, 1}, other); });
  stopped.cancel();
  auto ended = first.get();
  EXPECT_EQ(second.wait_for(0ms), std::future_status::timeout);
  other.cancel();
  auto also = second.get();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, ECANCELED);
  ASSERT_FALSE(also.ok());
  EXPECT_EQ(also.error().code, ECANCELED);
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

// A stream of CUDA is nothing to who runs on the CPU, and must not be kept.
TEST_F(OnnxEngineTest, OnTheCpuThereIsNoStream) {
  smallConvolution().save(dir_.file("model.onnx"));
  const auto owner = std::make_shared<int>(0);
  auto loaded = loadOnnxEngine(dir_.file("model.onnx"), {.provider = "cpu"}, {0, owner.get(), owner});
  ASSERT_NE(loaded.engine, nullptr) << loaded.failure.error.message();
  EXPECT_EQ(loaded.engine->stream(), nullptr);
  EXPECT_EQ(owner.use_count(), 1);
  expectSmallConvolution(*loaded.engine);
  auto refused = loaded.engine->enqueue({});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ENOSYS);
  EXPECT_NE(refused.error().what.find("ONNX Runtime"), std::string::npos) << refused.error().message();
}

} // namespace
