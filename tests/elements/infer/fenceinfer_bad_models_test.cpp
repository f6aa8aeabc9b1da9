// SPDX-License-Identifier: LGPL-2.1-or-later
// Models and settings that cannot work: one error that names file, tensor and shape, and an element that works again
// afterwards.
#include "tests/elements/infer/fixture.h"

#include <fstream>
#include <mutex>

#include "tests/elements/infer/pipeline.h"
#include "tests/support/small_models.h"

namespace gstzc::test {
namespace {

constexpr const char *kCaps = "video/x-raw,format=RGB,width=16,height=16,framerate=30/1";
constexpr const char *kTensors = "decoder=none output=tensor-meta ";

// Memory that is refused ends the process under the sanitizers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Its node "out" makes a tensor of zeros, as many as these; not before there is a picture.
OnnxModel filled(const std::vector<int64_t> &dims) {
  OnnxModel model;
  model.input("image", kOnnxFloat, {1, 3, 16, 16})
      .node("ReduceMean", {"image"}, "mean", {OnnxAttribute::integer("keepdims", 0)})
      .constant("zero", {}, std::vector<float>{0})
      .node("Mul", {"mean", "zero"}, "nothing")
      .node("Cast", {"nothing"}, "none", {OnnxAttribute::integer("to", kOnnxInt64)})
      .constant("dims", {static_cast<int64_t>(dims.size())}, dims)
      .node("Add", {"dims", "none"}, "size")
      .node("ConstantOfShape", {"size"}, "out");
  return model;
}

class BadModels : public FenceInferTest {
protected:
  std::string good() { return save(colourClassifier({1, 3, 16, 16}), "good.onnx"); }

  // One error on the way to PAUSED; with the good model instead it plays.
  void expectRefused(const std::string &properties, GQuark domain, gint code, const std::vector<std::string> &says) {
    GError *parse = nullptr;
    GstElement *element = gst_parse_launch(("fenceinfer " + properties).c_str(), &parse);
    ASSERT_EQ(parse, nullptr) << parse->message;
    bus_ = gst_bus_new();
    gst_element_set_bus(element, bus_);
    EXPECT_EQ(gst_element_set_state(element, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
    expectError(domain, code, says);
    EXPECT_EQ(gst_element_set_state(element, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
    g_object_set(element, "model-file", good().c_str(), "mean", nullptr, "scale", nullptr, "execution-provider", "cpu",
                 "provider-options", nullptr, "labels-file", nullptr, "modelinfo-file", nullptr, nullptr);
    gst_util_set_object_arg(G_OBJECT(element), "decoder", "none");
    EXPECT_NE(gst_element_set_state(element, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
    EXPECT_EQ(gst_element_set_state(element, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
    GstMessage *more = message(GST_MESSAGE_ERROR, 0);
    EXPECT_EQ(more, nullptr);
    gst_clear_message(&more);
    gst_element_set_bus(element, nullptr);
    gst_object_unref(element);
    gst_clear_object(&bus_);
  }
  std::string file(const char *name) { return "model-file=\"" + dir_.file(name) + "\" "; }
};

TEST_F(BadModels, AreRefusedWithFileTensorAndShape) {
  const std::string whole = colourClassifier({1, 3, 16, 16}).serialize();
  std::ofstream(dir_.file("truncated.onnx"), std::ios::binary) << whole.substr(0, whole.size() / 2);
  std::ofstream(dir_.file("zeros.onnx"), std::ios::binary) << std::string(4096, '\0');
  OnnxModel none;
  none.input("image", kOnnxFloat, {1, 3, 16, 16}).node("Identity", {"image"}, "copy");
  save(none, "none.onnx");
  OnnxModel two; // inputs
  two.input("image", kOnnxFloat, {1, 3, 16, 16})
      .input("other", kOnnxFloat, {1, 3, 16, 16})
      .node("Add", {"image", "other"}, "sum")
      .output("sum", kOnnxFloat, {1, 3, 16, 16});
  save(two, "two.onnx");
  OnnxModel unknown;
  unknown.input("image", kOnnxFloat, {1, 3, 16, 16})
      .node("NoSuchOperation", {"image"}, "out")
      .output("out", kOnnxFloat, {1, 3, 16, 16});
  save(unknown, "unknown.onnx");
  OnnxModel declared = filled({1, 1024, 32768, 32768}); // 2^40 numbers
  declared.output("out", kOnnxFloat, {1, 1024, 32768, 32768});
  save(declared, "declared.onnx");
  OnnxModel liar; // whose output is another than it declares, which only a run shows
  liar.input("image", kOnnxFloat, {1, 3, 16, 16})
      .node("NonZero", {"image"}, "found")
      .output("found", kOnnxInt64, {4, 5});
  save(liar, "liar.onnx");
  save(copyOfThePicture(kOnnxInt32, {1, 3, 16, 16}), "int32.onnx");
  save(copyOfThePicture(kOnnxFloat, {1, 3, 0, 16}), "nothing.onnx");
  save(copyOfThePicture(kOnnxFloat, {1, 3, 16, 40000}), "wide.onnx");
  const struct {
    const char *file;
    std::vector<std::string> says;
  } rows[] = {
      {"truncated.onnx", {"truncated.onnx"}},
      {"zeros.onnx", {"zeros.onnx"}},
      {"none.onnx", {"none.onnx", "output"}},
      {"two.onnx", {"two.onnx", "2 inputs", "image (float32 [1,3,16,16])", "other"}},
      {"unknown.onnx", {"unknown.onnx", "NoSuchOperation"}},
      {"declared.onnx", {"declared.onnx", "out (float32 [1,1024,32768,32768])", "elements"}},
      {"liar.onnx", {"liar.onnx", "found (int64 [4,"}},
      {"int32.onnx", {"int32.onnx", "image (int32 [1,3,16,16])", "type"}},
      {"nothing.onnx", {"nothing.onnx", "image"}},
      {"wide.onnx", {"wide.onnx", "image (float32 [1,3,16,40000])", "40000x16"}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.file);
    expectRefused(kTensors + file(row.file), GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, row.says);
  }
}

// Where the file does not declare how large an output is, only a run shows it.
TEST_F(BadModels, AnOutputThatNoMemoryHolds) {
  if (kSanitized) GTEST_SKIP() << "sanitizers end the process where memory is refused";
  OnnxModel model = filled({1, 1024, 32768, 32768});
  model.output("out", kOnnxFloat, {-1, -1, -1, -1});
  save(model, "huge.onnx");
  expectRefused(kTensors + file("huge.onnx"), GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ,
                {"huge.onnx", "first run", "image (float32 [1,3,16,16])", "ConstantOfShape"});
}

// What depends on no picture the library makes while it loads the model.
TEST_F(BadModels, AConstantThatNoMemoryHolds) {
  if (kSanitized) GTEST_SKIP() << "sanitizers end the process where memory is refused";
  OnnxModel model;
  model.input("image", kOnnxFloat, {1, 3, 16, 16})
      .constant("size", {4}, std::vector<int64_t>{1, 1024, 32768, 32768})
      .node("ConstantOfShape", {"size"}, "out")
      .output("out", kOnnxFloat, {1, 1024, 32768, 32768});
  save(model, "constant.onnx");
  expectRefused(kTensors + file("constant.onnx"), GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ,
                {"constant.onnx", "memory", "smaller tensors"});
}

// The first picture that is not black makes it divide by nothing.
TEST_F(BadModels, NumbersThatAreNoneEndTheStream) {
  OnnxModel model;
  model.input("image", kOnnxFloat, {1, 3, 16, 16})
      .node("ReduceMean", {"image"}, "means", {{"axes", {2, 3}}, OnnxAttribute::integer("keepdims", 0)})
      .node("Neg", {"means"}, "negative")
      .node("Sqrt", {"negative"}, "scores")
      .output("scores", kOnnxFloat, {1, 3});
  save(model, "nan.onnx");
  Pipeline pipeline("videotestsrc pattern=white ! " + std::string(kCaps) + " ! fenceinfer name=infer mean=0 scale=1 " +
                    "decoder=classification " + file("nan.onnx") + " ! fakesink");
  const std::string text = pipeline.run();
  for (const char *words : {"nan.onnx", "scores (float32 [1,3])", "not numbers", "mean"})
    EXPECT_NE(text.find(words), std::string::npos) << words << ": " << text;
  EXPECT_GE(pipeline.stat("infer", "errors"), 1u);
  int ours = 0; // the source says that it was stopped
  while (GstMessage *more = pipeline.next(GST_MESSAGE_ERROR)) {
    ours += std::string(GST_OBJECT_NAME(GST_MESSAGE_SRC(more))) == "infer" ? 1 : 0;
    gst_message_unref(more);
  }
  EXPECT_EQ(ours, 0) << "a second error";
  EXPECT_EQ(gst_element_set_state(pipeline.element(), GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
  pipeline.withElement("infer", [&](GstElement *infer) { g_object_set(infer, "model-file", good().c_str(), nullptr); });
  EXPECT_EQ(gst_element_set_state(pipeline.element(), GST_STATE_PAUSED), GST_STATE_CHANGE_ASYNC);
  EXPECT_EQ(gst_element_get_state(pipeline.element(), nullptr, nullptr, 10 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
}

// A model that fails for one picture only: the stream ends with the library's words and ours round them.
TEST_F(BadModels, ARunThatFailsEndsTheStream) {
  OnnxModel model; // picks the row that the picture's mean says; there are four
  model.input("image", kOnnxFloat, {1, 3, 16, 16})
      .node("ReduceMean", {"image"}, "mean", {OnnxAttribute::integer("keepdims", 0)})
      .node("Cast", {"mean"}, "row", {OnnxAttribute::integer("to", kOnnxInt64)})
      .constant("rows", {4, 1}, std::vector<float>{0, 1, 2, 3})
      .node("Gather", {"rows", "row"}, "out")
      .output("out", kOnnxFloat, {1});
  start(save(model, "four.onnx"), kCaps, std::string(kTensors) + "mean=0 scale=1");
  ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 16, 16, {2, 2, 2})), GST_FLOW_OK);
  gst_buffer_unref(gst_harness_pull(harness_));
  gst_harness_push(harness_, solid("RGB", 16, 16, {9, 9, 9}));
  expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, {"four.onnx", "image: float32 [1,3,16,16]"});
  EXPECT_EQ(stat("errors"), 1u);
}

TEST_F(BadModels, SettingsThatDoNotFit) {
  std::ofstream(dir_.file("two.txt")) << "one\ntwo\n";
  std::ofstream(dir_.file("broken.modelinfo")) << "[modelinfo]\nversion=9.0\n";
  const std::string model = "model-file=\"" + good() + "\" ";
  const struct {
    std::string properties;
    GQuark domain;
    gint code;
    std::vector<std::string> says;
  } rows[] = {
      {"mean=abc", GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, {"mean is \"abc\"", "one number, or three"}},
      {"scale=\"1,2\"", GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, {"scale is \"1,2\"", "one number, or three"}},
      {"mean=\"1,2,3,4\"", GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, {"mean is \"1,2,3,4\""}},
      {"scale=inf", GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, {"scale is \"inf\""}},
      {"decoder=yolov8", GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ, {"decoder=yolov8", "scores (float32 [1,3])"}},
      {"decoder=classification labels-file=\"" + dir_.file("two.txt") + "\"",
       GST_RESOURCE_ERROR,
       GST_RESOURCE_ERROR_READ,
       {"two.txt has 2 labels", "good.onnx has 3 classes"}},
      {"labels-file=/nowhere/labels.txt",
       GST_RESOURCE_ERROR,
       GST_RESOURCE_ERROR_NOT_FOUND,
       {"/nowhere/labels.txt", "No such file"}},
      {"modelinfo-file=/nowhere/info",
       GST_RESOURCE_ERROR,
       GST_RESOURCE_ERROR_NOT_FOUND,
       {"/nowhere/info", "No such file"}},
      {"modelinfo-file=\"" + dir_.file("broken.modelinfo") + "\"",
       GST_RESOURCE_ERROR,
       GST_RESOURCE_ERROR_READ,
       {"broken.modelinfo", "version=9.0"}},
      {"provider-options=\"options,threads=2\"",
       GST_LIBRARY_ERROR,
       GST_LIBRARY_ERROR_SETTINGS,
       {"threads=2", "execution-provider"}},
      {"execution-provider=nosuch", GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS, {"nosuch", "execution-provider"}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.properties);
    expectRefused(model + row.properties, row.domain, row.code, row.says);
  }
}

// The warnings that are logged while it lives.
class LoggedWarnings {
public:
  LoggedWarnings() {
    gst_debug_set_threshold_for_name("fenceinfer*", GST_LEVEL_WARNING);
    gst_debug_set_threshold_for_name("onnx*", GST_LEVEL_WARNING);
    gst_debug_remove_log_function(gst_debug_log_default);
    gst_debug_add_log_function(log, this, nullptr);
  }
  ~LoggedWarnings() {
    gst_debug_remove_log_function_by_data(this);
    gst_debug_add_log_function(gst_debug_log_default, nullptr, nullptr);
  }
  LoggedWarnings(const LoggedWarnings &) = delete;
  LoggedWarnings &operator=(const LoggedWarnings &) = delete;
  std::string text() {
    std::lock_guard lock(mutex_);
    return text_;
  }

private:
  static void log(GstDebugCategory *, GstDebugLevel level, const gchar *, const gchar *, gint, GObject *,
                  GstDebugMessage *message, gpointer data) {
    auto *self = static_cast<LoggedWarnings *>(data);
    if (level != GST_LEVEL_WARNING) return;
    std::lock_guard lock(self->mutex_);
    self->text_ += std::string(gst_debug_message_get(message)) + "\n";
  }
  std::mutex mutex_;
  std::string text_;
};

// Debian's ONNX Runtime has no CUDA: a GPU that was asked for and is not there is an error, unless the user does not
// mind.
TEST_F(BadModels, AGpuThatIsNotThere) {
  const std::string cuda = "model-file=\"" + good() + "\" " + kTensors + "execution-provider=cuda ";
  GstElement *probe = gst_parse_launch(("fenceinfer " + cuda).c_str(), nullptr);
  const bool has_cuda = gst_element_set_state(probe, GST_STATE_PAUSED) != GST_STATE_CHANGE_FAILURE;
  gst_element_set_state(probe, GST_STATE_NULL);
  gst_object_unref(probe);
  if (has_cuda) GTEST_SKIP() << "this machine has CUDA";
  for (const char *options : {"", "provider-options=\"options,device_id=0\""}) {
    SCOPED_TRACE(options);
    expectRefused(cuda + options, GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_SETTINGS,
                  {"cuda", "execution-provider=cpu", "allow-cpu-fallback=true"});
    LoggedWarnings warnings;
    start(good(), kCaps, std::string(kTensors) + "execution-provider=cuda allow-cpu-fallback=true " + options);
    ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 16, 16, {2, 2, 2})), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_NE(gst_buffer_get_tensor_meta(out), nullptr);
    gst_buffer_unref(out);
    stop();
    EXPECT_NE(warnings.text().find("runs on the CPU"), std::string::npos);
  }
}

} // namespace
} // namespace gstzc::test
