// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that a device reads, where the device is one of the test's own: which ones those are, and all that a stream
// can do meanwhile.
#include "tests/elements/infer/fixture.h"

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "gst/infer/device/tensor_device.h"
#include "tests/support/fake_tensor_device.h"

namespace gstzc::test {
namespace {

using namespace std::chrono_literals;

constexpr const char *kCuda = "video/x-raw(memory:CUDAMemory),format=RGB,width=128,height=128,framerate=30/1";
constexpr const char *kDmaBuf = "video/x-raw(memory:DMABuf),format=RGB,width=128,height=128,framerate=30/1";
constexpr const char *kSystem = "video/x-raw,format=RGB,width=128,height=128,framerate=30/1";

class OnDevice : public FenceInferTest {
protected:
  OnDevice() {
    configure_ = [](FakeTensorDevice &) {};
    infer::registerTensorDevice("cuda", [](GstElement *) -> Result<std::shared_ptr<infer::TensorDevice>> {
      auto made = std::make_shared<FakeTensorDevice>();
      configure_(*made);
      made_ = made;
      ++count_;
      return std::shared_ptr<infer::TensorDevice>(std::move(made));
    });
    count_ = 0;
    destroyed_before_ = FakeTensorDevice::destroyed();
  }
  ~OnDevice() override {
    stop();
    infer::registerTensorDevice("cuda", nullptr);
  }

  std::string faces(float raw_score = 3.0f, const char *name = "fast.onnx") {
    return save(constantFaces(128, {kMiddleFace}, raw_score), name);
  }
  GstFlowReturn push(guint64 number = 0) {
    GstBuffer *buffer = solid("RGB", 128, 128, {1, 2, 3});
    GST_BUFFER_OFFSET(buffer) = number;
    return gst_harness_push(harness_, buffer);
  }
  size_t boxesOfNext() {
    GstBuffer *out = gst_harness_pull(harness_);
    EXPECT_NE(out, nullptr);
    if (out == nullptr) return 0;
    const size_t boxes = boxesOf(out).size();
    gst_buffer_unref(out);
    return boxes;
  }
  std::string device() {
    GstStructure *stats = nullptr;
    g_object_get(harness_->element, "stats", &stats, nullptr);
    const char *text = gst_structure_get_string(stats, "device");
    const std::string name = text != nullptr ? text : "";
    gst_structure_free(stats);
    return name;
  }
  static std::shared_ptr<FakeTensorDevice> made() { return made_.lock(); }
  // The tests' plugins may include the real one.
  static void forgetPlugin() {
    infer::registerTensorDevice("cuda", nullptr);
    GstPlugin *plugin = gst_registry_find_plugin(gst_registry_get(), "zerocopycuda");
    if (plugin != nullptr) gst_registry_remove_plugin(gst_registry_get(), plugin);
    gst_clear_object(&plugin);
  }

  static inline std::function<void(FakeTensorDevice &)> configure_;
  static inline std::weak_ptr<FakeTensorDevice> made_;
  static inline int count_ = 0;
  int destroyed_before_ = 0;
};

TEST_F(OnDevice, ReadsCudaMemoryWhateverTheSetting) {
  for (const char *setting : {"auto", "cpu", "cuda"}) {
    start(faces(), kCuda, std::string("preprocess-device=") + setting);
    ASSERT_EQ(push(), GST_FLOW_OK);
    EXPECT_EQ(boxesOfNext(), 1u);
    ASSERT_NE(made(), nullptr) << setting;
    EXPECT_EQ(made()->fills, 1);
    EXPECT_EQ(made()->last_kind, MemoryKind::Cuda);
    EXPECT_EQ(device(), "fake device 0");
    EXPECT_EQ(stat("copies"), 3u) << "the device's own";
    EXPECT_EQ(stat("bytes-copied"), 300u);
    stop();
  }
  EXPECT_EQ(count_, 3) << "one for each run";
  EXPECT_EQ(FakeTensorDevice::destroyed(), destroyed_before_ + 3);
}

TEST_F(OnDevice, ReadsDmaBufsWhereItIsAskedTo) {
  start(faces(), kDmaBuf);
  ASSERT_EQ(push(), GST_FLOW_OK);
  EXPECT_EQ(boxesOfNext(), 1u);
  EXPECT_EQ(count_, 0) << "nobody asked for a device";
  EXPECT_EQ(device(), "cpu");
  stop();

  start(faces(), kDmaBuf, "preprocess-device=cuda");
  GstBuffer *buffer = solid("RGB", 128, 128, {1, 2, 3});
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  ASSERT_EQ(gst_harness_push(harness_, buffer), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_EQ(gst_buffer_peek_memory(out, 0), memory) << "the same memory goes on";
  EXPECT_EQ(boxesOf(out).size(), 1u);
  gst_buffer_unref(out);
  EXPECT_EQ(made()->last_kind, MemoryKind::DmaBuf);
  EXPECT_EQ(stat("mappings-made"), 0u) << "the CPU has not looked";
}

TEST_F(OnDevice, OneElementCanSeeBothKindsOfFramesInOneRun) {
  start(faces(), kSystem);
  ASSERT_EQ(push(), GST_FLOW_OK);
  EXPECT_EQ(boxesOfNext(), 1u);
  EXPECT_EQ(device(), "cpu");
  gst_harness_set_src_caps_str(harness_, kCuda);
  ASSERT_EQ(push(), GST_FLOW_OK);
  EXPECT_EQ(boxesOfNext(), 1u);
  EXPECT_EQ(device(), "fake device 0");
  gst_harness_set_src_caps_str(harness_, kSystem);
  ASSERT_EQ(push(), GST_FLOW_OK);
  EXPECT_EQ(boxesOfNext(), 1u);
  EXPECT_EQ(device(), "cpu");
  EXPECT_EQ(made()->fills, 1);
}

TEST_F(OnDevice, FramesThatAreNotLookedAtAreNotRead) {
  start(faces(), kCuda, "inference-interval=3");
  for (guint64 i = 0; i < 6; ++i) {
    ASSERT_EQ(push(i), GST_FLOW_OK);
    EXPECT_EQ(boxesOfNext(), i % 3 == 0 ? 1u : 0u);
  }
  EXPECT_EQ(made()->fills, 2);
}

// --- what can be missing

TEST_F(OnDevice, WithoutThePluginTheErrorSaysSoOnlyWhereItIsNeeded) {
  forgetPlugin();
  start(faces(), kSystem);
  ASSERT_EQ(push(), GST_FLOW_OK);
  EXPECT_EQ(boxesOfNext(), 1u);
  GstCaps *possible = gst_pad_peer_query_caps(harness_->srcpad, nullptr);
  gchar *text = gst_caps_to_string(possible);
  EXPECT_EQ(std::string(text).find("CUDAMemory"), std::string::npos) << "who has other memory must not be led here";
  g_free(text);
  gst_caps_unref(possible);
  EXPECT_EQ(message(GST_MESSAGE_ERROR, 0), nullptr);
  stop();

  start(faces(), kCuda);
  EXPECT_EQ(push(), GST_FLOW_NOT_NEGOTIATED);
  expectError(GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, {"zerocopycuda", "is not installed", "gst-inspect-1.0"});
}

TEST_F(OnDevice, WithThePluginItIsAmongTheCaps) {
  start(faces(), kSystem);
  GstCaps *possible = gst_pad_peer_query_caps(harness_->srcpad, nullptr);
  gchar *text = gst_caps_to_string(possible);
  EXPECT_NE(std::string(text).find("CUDAMemory"), std::string::npos) << text;
  g_free(text);
  gst_caps_unref(possible);
}

TEST_F(OnDevice, AskedForByThePropertyItHasToBeThereBeforeTheFirstFrame) {
  forgetPlugin();
  GstElement *element = gst_element_factory_make("fenceinfer", nullptr);
  bus_ = gst_bus_new();
  gst_element_set_bus(element, bus_);
  g_object_set(element, "model-file", faces().c_str(), nullptr);
  gst_util_set_object_arg(G_OBJECT(element), "preprocess-device", "cuda");
  EXPECT_EQ(gst_element_set_state(element, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  expectError(GST_LIBRARY_ERROR, GST_LIBRARY_ERROR_INIT, {"preprocess-device=cuda", "zerocopycuda"});
  gst_util_set_object_arg(G_OBJECT(element), "preprocess-device", "auto");
  EXPECT_NE(gst_element_set_state(element, GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  gst_element_set_state(element, GST_STATE_NULL);
  gst_object_unref(element);
}

TEST_F(OnDevice, CapsThatTheDeviceRefusesAreOneError) {
  configure_ = [](FakeTensorDevice &fake) { fake.refuse_caps = true; };
  start(faces(), kCuda);
  EXPECT_EQ(push(), GST_FLOW_NOT_NEGOTIATED);
  expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT, {"fake device 0", "Use others"});
}

TEST_F(OnDevice, ADeviceThatFailsIsOneErrorThatNamesIt) {
  configure_ = [](FakeTensorDevice &fake) { fake.fail = true; };
  start(faces(), kCuda);
  GstFlowReturn flow = GST_FLOW_OK;
  for (int i = 0; i < 1000 && flow == GST_FLOW_OK; ++i) flow = push();
  EXPECT_EQ(flow, GST_FLOW_ERROR);
  expectError(GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED, {"fake device 0: the device failed"});
}

// --- streams that end, stop and begin anew while the device has frames

TEST_F(OnDevice, TheEndOfTheStreamComesAfterTheFramesThatItHas) {
  configure_ = [](FakeTensorDevice &fake) { fake.hold = true; };
  start(faces(), kCuda);
  for (guint64 i = 0; i < 3; ++i) ASSERT_EQ(push(i), GST_FLOW_OK);
  gst_harness_push_event(harness_, gst_event_new_eos());
  EXPECT_EQ(gst_harness_try_pull(harness_), nullptr);
  made()->release();
  for (guint64 i = 0; i < 3; ++i) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(GST_BUFFER_OFFSET(out), i);
    EXPECT_EQ(boxesOf(out).size(), 1u);
    gst_buffer_unref(out);
  }
  for (bool eos = false; !eos;) {
    GstEvent *event = gst_harness_pull_event(harness_);
    ASSERT_NE(event, nullptr);
    eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
    gst_event_unref(event);
  }
}

TEST_F(OnDevice, AFlushDoesNotWaitForIt) {
  configure_ = [](FakeTensorDevice &fake) { fake.hold = true; };
  start(faces(), kCuda);
  for (guint64 i = 0; i < 3; ++i) ASSERT_EQ(push(i), GST_FLOW_OK);
  gst_harness_push_event(harness_, gst_event_new_flush_start());
  gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE));
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  gst_harness_push_event(harness_, gst_event_new_segment(&segment));
  EXPECT_EQ(stat("dropped"), 3u);
  const auto fake = made();
  ASSERT_NE(fake, nullptr);
  fake->hold = false;
  ASSERT_EQ(push(7), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_EQ(GST_BUFFER_OFFSET(out), 7u);
  gst_buffer_unref(out);
  fake->release(); // nobody wants them
  EXPECT_EQ(gst_harness_try_pull(harness_), nullptr);
}

TEST_F(OnDevice, StoppingDoesNotWaitForIt) {
  configure_ = [](FakeTensorDevice &fake) { fake.hold = true; };
  start(faces(), kCuda);
  for (guint64 i = 0; i < 3; ++i) ASSERT_EQ(push(i), GST_FLOW_OK);
  stop();
  EXPECT_EQ(made(), nullptr) << "somebody keeps the device";
  EXPECT_EQ(FakeTensorDevice::destroyed(), destroyed_before_ + 1);
}

TEST_F(OnDevice, LeakyOldDropsWhatTheDeviceHasAndNoWorker) {
  configure_ = [](FakeTensorDevice &fake) { fake.hold = true; };
  start(faces(), kCuda, "drop-policy=leaky-old max-in-flight=2");
  for (guint64 i = 0; i < 6; ++i) ASSERT_EQ(push(i), GST_FLOW_OK);
  EXPECT_EQ(stat("dropped"), 4u);
  made()->release();
  for (guint64 i = 4; i < 6; ++i) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(GST_BUFFER_OFFSET(out), i);
    gst_buffer_unref(out);
  }
}

TEST_F(OnDevice, AnotherModelTakesOverForTheSameDevice) {
  start(faces(), kCuda);
  ASSERT_EQ(push(), GST_FLOW_OK);
  EXPECT_EQ(boxesOfNext(), 1u);
  const auto before = made();
  const std::string two = save(constantFaces(128, {kMiddleFace, {400, 20, 20, 16, 16}}, 2.0f), "two.onnx");
  g_object_set(harness_->element, "model-file", two.c_str(), nullptr);
  GstMessage *told = message(GST_MESSAGE_ELEMENT);
  ASSERT_NE(told, nullptr);
  gboolean success = FALSE;
  gst_structure_get_boolean(gst_message_get_structure(told), "success", &success);
  EXPECT_TRUE(success) << gst_structure_get_string(gst_message_get_structure(told), "error");
  gst_message_unref(told);
  ASSERT_EQ(push(), GST_FLOW_OK);
  EXPECT_EQ(boxesOfNext(), 2u);
  EXPECT_EQ(count_, 1);
  EXPECT_EQ(before->fills, 2);
}

} // namespace
} // namespace gstzc::test
