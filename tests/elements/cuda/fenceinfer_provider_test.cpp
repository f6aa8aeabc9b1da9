// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer with a model on the device, too: a stand-in for ONNX Runtime's provider for CUDA on the stand-in for
// libcuda. Nothing waits for the device before results are decoded, and tensors stay on it where they are asked for
// there.
#include <atomic>
#include <string>
#include <vector>

#include <gst/analytics/analytics.h>
#include <gst/cuda/gstcuda.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/gstzcdeviceevent.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/elements/cuda/on_cuda.h"
#include "tests/softcuda/onnxruntime/softonnxruntime.h"
#include "tests/support/scale.h"

namespace gstzc::test {
namespace {

template <typename F> F *softort(const char *name) {
  static void *const library = dlopen(SOFTCUDA_ONNXRUNTIME, RTLD_NOW);
  return reinterpret_cast<F *>(dlsym(library, name));
}
#define SOFTORT(name) (*softort<decltype(::name)>(#name))

constexpr int kLaunchFailed = 719;

class OnProvider : public OnCuda {
protected:
  void SetUp() override {
    if (softcuda<void()>("softcuda_reset") == nullptr) GTEST_SKIP() << "the provider is a stand-in, for the stand-in";
    SOFTORT(softort_reset)();
  }
  void TearDown() override {
    if (softcuda<void()>("softcuda_reset") == nullptr) return;
    if (auto *delay = softcuda<void(unsigned)>("softcuda_set_delay_us")) delay(0);
    for (int i = 0; i < 3000 && SOFTORT(softort_count)().live_memory > 0; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(SOFTORT(softort_count)().live_memory, 0u) << "somebody keeps the model's outputs";
    EXPECT_EQ(SOFTORT(softort_count)().misuses, 0u);
    EXPECT_EQ(softcuda<uint64_t()>("softcuda_misuses")(), 0u) << softcuda<const char *()>("softcuda_misuse_list")();
  }

  static std::string provider(const std::string &more = "") {
    return "preprocess-device=cuda execution-provider=cuda onnxruntime-library=" SOFTCUDA_ONNXRUNTIME " " + more;
  }
  std::string onDevice(const std::string &more = "", const std::string &file = "") {
    return infer(provider("tensor-memory=device " + more), file);
  }
  std::string detect(const std::string &more = "") {
    colouredObjects(64).save(dir_.file("objects.onnx"));
    return "fenceinfer name=infer model-file=" + dir_.file("objects.onnx") + " mean=0 scale=0.003 threshold=0.05 " +
           more;
  }
  static constexpr const char *kNv12 = "format=NV12,width=321,height=241";

  static std::vector<GstBuffer *> tensorBuffers(GstBuffer *frame) {
    std::vector<GstBuffer *> buffers;
    GstTensorMeta *meta = gst_buffer_get_tensor_meta(frame);
    for (gsize i = 0; meta != nullptr && i < meta->num_tensors; ++i) buffers.push_back(meta->tensors[i]->data);
    return buffers;
  }
  // That stop a thread until the device is done.
  static uint64_t waits() {
    uint64_t all = 0;
    auto *calls = softcuda<uint64_t(const char *)>("softcuda_calls");
    for (const char *name : {"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuMemcpyDtoH_v2",
                             "cuMemcpyHtoD_v2", "cuMemcpy2D_v2", "cuMemcpyDtoD_v2"})
      all += calls(name);
    return all;
  }
  static void expectRight(bool detects, const std::vector<GstBuffer *> &frames, const std::vector<Box> &boxes,
                          const Tensors &tensors) {
    if (!detects) {
      EXPECT_LE(largestDifference(tensors, tensorsOf(frames)), 1e-6f);
      return;
    }
    std::vector<Box> all;
    for (GstBuffer *frame : frames) {
      const auto found = boxesOf(frame);
      all.insert(all.end(), found.begin(), found.end());
    }
    expectSame(boxes, all);
  }
  static std::string loadError(const std::string &line) {
    Pipeline pipeline(line + " ! fakesink");
    return pipeline.run();
  }
};

TEST_F(OnProvider, DetectionsAreTheCpus) {
  const auto cpu = boxes(source(kNv12) + kUpload + detect());
  ASSERT_EQ(cpu.size(), 9u);
  for (const std::string &before : {std::string(kUpload), std::string(kImport)}) {
    SOFTORT(softort_reset)();
    const auto cuda = boxes(source(kNv12) + before + detect(provider()));
    EXPECT_EQ(last_device_.find("CUDA device 0"), 0u) << last_device_;
    expectSame(cpu, cuda);
    const auto counters = SOFTORT(softort_count)();
    EXPECT_EQ(counters.enqueued, 3u);
    EXPECT_EQ(counters.on_stream, 3u) << "on the stream that the frames are read on";
    EXPECT_EQ(counters.waited, 0u);
  }
}

TEST_F(OnProvider, SlowDevicesChangeNothing) {
  const auto cpu = boxes(source(kNv12, 8) + kUpload + detect());
  const Tensors tensors = run(source(kNv12, 8) + kUpload + infer());
  softcuda<void(unsigned)>("softcuda_set_delay_us")(2000);
  expectSame(cpu, boxes(source(kNv12, 8) + kUpload + detect(provider("workers=1"))));
  EXPECT_LE(largestDifference(tensors, run(source(kNv12, 8) + kUpload + infer(provider()))), 1e-6f);
  EXPECT_LE(largestDifference(tensors, run(source(kNv12, 8) + kUpload + onDevice())), 1e-6f);
}

TEST_F(OnProvider, NobodyWaitsForTheDevice) {
  const auto waitsOf = [&](int frames) {
    softcuda<void()>("softcuda_reset")();
    boxes(source(kNv12, frames) + kUpload + detect(provider()));
    return waits();
  };
  const uint64_t few = waitsOf(4);
  EXPECT_EQ(waitsOf(40), few) << "what waits is not what frames do";
}

TEST_F(OnProvider, TensorsStayOnTheDevice) {
  const Tensors cpu = run(source(kNv12) + kUpload + infer());
  Pipeline pipeline(source(kNv12) + kUpload + onDevice() + " ! fakesink name=out");
  pipeline.keep("out");
  ASSERT_EQ(pipeline.run(), "");
  gst_element_set_state(pipeline.element(), GST_STATE_NULL); // they outlive the element
  const auto kept = pipeline.kept();
  ASSERT_EQ(kept.size(), 3u);
  auto *calls = softcuda<uint64_t(const char *)>("softcuda_calls");
  const uint64_t down = calls("cuMemcpy2DAsync_v2");
  for (GstBuffer *frame : kept) {
    const auto buffers = tensorBuffers(frame);
    ASSERT_EQ(buffers.size(), 1u);
    ASSERT_EQ(gst_buffer_n_memory(buffers[0]), 1u);
    GstMemory *memory = gst_buffer_peek_memory(buffers[0], 0);
    EXPECT_TRUE(gst_is_cuda_memory(memory));
    EXPECT_EQ(gst_memory_get_sizes(memory, nullptr, nullptr), 3u * 24 * 40 * sizeof(float));
    EXPECT_TRUE(GST_MEMORY_FLAG_IS_SET(memory, GST_MEMORY_FLAG_READONLY));
    GstZcFenceMeta *fence = gst_buffer_get_zc_fence_meta(buffers[0]);
    ASSERT_NE(fence, nullptr);
    GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(fence);
    ASSERT_NE(event, nullptr);
    EXPECT_STREQ(gst_zc_device_event_get_kind(event), "cuda-event");
    EXPECT_EQ(gst_buffer_get_zc_fence_meta(frame), nullptr) << "the frame itself is complete";
    GstMapInfo map; // an address of the device
    ASSERT_TRUE(gst_buffer_map(buffers[0], &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
    EXPECT_NE(softcuda<void *(uint64_t, size_t)>("softcuda_ptr")(reinterpret_cast<uint64_t>(map.data), map.size),
              nullptr);
    gst_buffer_unmap(buffers[0], &map);
  }
  EXPECT_EQ(calls("cuMemcpy2DAsync_v2"), down) << "nothing has come to the host";
  EXPECT_LE(largestDifference(cpu, tensorsOf(kept)), 1e-6f);
  EXPECT_EQ(calls("cuMemcpy2DAsync_v2"), down + 3) << "until somebody looked";
}

// The device is so slow that none of its work can be over when the frames leave, one behind the other.
TEST_F(OnProvider, AFrameLeavesBeforeItsTensorsAreThere) {
  Pipeline pipeline(source("format=NV12,width=64,height=48", 3) + kUpload + onDevice() + " ! fakesink name=out");
  pipeline.keep("out");
  struct Seen {
    std::atomic<int> pending = 0, all = 0;
  } seen;
  pipeline.withPad("out", "sink", [&](GstPad *pad) {
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER,
        [](GstPad *, GstPadProbeInfo *info, gpointer data) {
          auto *into = static_cast<Seen *>(data);
          const auto buffers = tensorBuffers(GST_PAD_PROBE_INFO_BUFFER(info));
          GstZcFenceMeta *fence = buffers.empty() ? nullptr : gst_buffer_get_zc_fence_meta(buffers[0]);
          if (fence == nullptr) return GST_PAD_PROBE_OK;
          ++into->all;
          if (gst_zc_device_event_get_status(gst_zc_fence_meta_get_event(fence)) == 0) ++into->pending;
          return GST_PAD_PROBE_OK;
        },
        &seen, nullptr);
  });
  gst_element_set_state(pipeline.element(), GST_STATE_PAUSED);
  softcuda<void(unsigned)>("softcuda_set_delay_us")(50'000);
  ASSERT_EQ(pipeline.run(), "");
  EXPECT_EQ(seen.all, 3);
  EXPECT_GT(seen.pending, 0);
  softcuda<void(unsigned)>("softcuda_set_delay_us")(0);
  EXPECT_EQ(tensorsOf(pipeline.kept()).size(), 3u);
}

TEST_F(OnProvider, BothAreTheSameResults) {
  const auto line = [&](const std::string &more) {
    Pipeline pipeline(source(kNv12) + kUpload + detect(more) + " output=both ! fakesink name=out");
    pipeline.keep("out");
    EXPECT_EQ(pipeline.run(), "") << more;
    std::pair<Tensors, std::vector<Box>> all;
    for (GstBuffer *frame : pipeline.kept()) {
      std::vector<float> values;
      for (GstBuffer *buffer : tensorBuffers(frame)) {
        GstMapInfo map;
        EXPECT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READ));
        const auto *floats = reinterpret_cast<const float *>(map.data);
        values.insert(values.end(), floats, floats + map.size / sizeof(float));
        gst_buffer_unmap(buffer, &map);
      }
      all.first.push_back(values);
      const auto found = boxesOf(frame);
      all.second.insert(all.second.end(), found.begin(), found.end());
    }
    return all;
  };
  const auto cpu = line("");
  ASSERT_EQ(cpu.second.size(), 9u);
  for (const char *memory : {"tensor-memory=host", "tensor-memory=device"}) {
    SCOPED_TRACE(memory);
    const auto cuda = line(provider(memory));
    EXPECT_LE(largestDifference(cpu.first, cuda.first), 1e-5f);
    expectSame(cpu.second, cuda.second);
  }
}

TEST_F(OnProvider, ObjectsAreLookedAtOnTheDeviceToo) {
  const std::string places = dir_.file("places.onnx");
  placedObjects(64, {{0.1f, 0.1f, 0.6f, 0.5f, 0}, {0.3f, 0.5f, 0.9f, 0.95f, 0}}).save(places);
  colourClassifier({1, 3, 16, 16}).save(dir_.file("colours.onnx"));
  Pipeline pipeline(source(kNv12) + kImport + "fenceinfer model-file=" + places +
                    " ! fenceinfer name=infer model-file=" + dir_.file("colours.onnx") +
                    " inference-region=objects decoder=classification mean=0 scale=0.003 threshold=0 " + provider() +
                    " ! fakesink name=out");
  pipeline.keep("out");
  ASSERT_EQ(pipeline.run(), "");
  EXPECT_EQ(SOFTORT(softort_count)().enqueued, 6u);
  EXPECT_EQ(pipeline.stat("infer", "inferred"), 6u);
}

TEST_F(OnProvider, AllFramesOfALongStreamLeaveInOrder) {
  const int frames = rounds(200);
  for (const std::string &line : {infer(provider("max-in-flight=8")), onDevice("max-in-flight=8")}) {
    Pipeline pipeline(source("format=NV12,width=64,height=48", frames) + kUpload + line + " ! fakesink name=out");
    pipeline.keep("out");
    ASSERT_EQ(pipeline.run(), "");
    const auto kept = pipeline.kept();
    ASSERT_EQ(kept.size(), static_cast<size_t>(frames));
    for (size_t i = 1; i < kept.size(); ++i) ASSERT_GT(GST_BUFFER_PTS(kept[i]), GST_BUFFER_PTS(kept[i - 1]));
    EXPECT_EQ(pipeline.stat("infer", "inferred"), static_cast<guint64>(frames));
  }
}

TEST_F(OnProvider, FlushesAndStopsWhileTheDeviceIsSlow) {
  for (const std::string &line : {infer(provider()), onDevice(), detect(provider())}) {
    softcuda<void(unsigned)>("softcuda_set_delay_us")(5000);
    Pipeline pipeline("videotestsrc ! video/x-raw,format=NV12,width=64,height=48,framerate=30/1 ! " +
                      std::string(kUpload) + line + " ! fakesink name=out sync=false");
    pipeline.play();
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(20ms);
      EXPECT_TRUE(gst_element_seek_simple(pipeline.element(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0));
    }
    EXPECT_EQ(pipeline.next(GST_MESSAGE_ERROR), nullptr);
    EXPECT_EQ(gst_element_set_state(pipeline.element(), GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
  }
}

// --- what can go wrong

// Where the stream goes on its results are the CPU's.
TEST_F(OnProvider, EachCallThatFailsIsOneErrorOrNone) {
  constexpr int kFrames = 4;
  const std::string frames = source("format=NV12,width=64,height=48", kFrames) + kUpload;
  const auto cpu = boxes(frames + detect());
  const Tensors tensors = run(frames + infer());
  ASSERT_FALSE(cpu.empty());
  ASSERT_EQ(tensors.size(), static_cast<size_t>(kFrames));
  int went_on = 0;
  for (const char *function : {"cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuStreamWaitEvent", "cuMemHostAlloc",
                               "cuEventCreate", "cuLaunchHostFunc", "cuEventQuery", "cuStreamCreate"}) {
    for (const bool detects : {true, false}) {
      const std::string line = detects ? detect(provider("output=both tensor-memory=device")) : onDevice();
      for (unsigned nth = 1; nth <= 4; ++nth) {
        SCOPED_TRACE(std::string(function) + " " + std::to_string(nth) + " " + line);
        std::string error;
        {
          Pipeline pipeline(frames + line + " ! fakesink name=out");
          pipeline.keep("out");
          softcuda<void(const char *, unsigned, int)>("softcuda_fail")(function, nth, kLaunchFailed);
          error = pipeline.run();
          gst_element_set_state(pipeline.element(), GST_STATE_NULL);
          softcuda<void()>("softcuda_reset")(); // what is looked at from here on, the device does
          const auto kept = pipeline.kept();
          if (!error.empty()) {
            EXPECT_NE(error.find("CUDA"), std::string::npos) << error;
          } else {
            ++went_on;
            EXPECT_EQ(kept.size(), static_cast<size_t>(kFrames));
            expectRight(detects, kept, cpu, tensors);
          }
        }
        auto *live = softcuda<uint64_t(const char *)>("softcuda_live");
        for (int i = 0; i < 1000 && live(nullptr) > 0; ++i) std::this_thread::sleep_for(10ms);
        ASSERT_EQ(live(nullptr), 0u) << softcuda<const char *()>("softcuda_live_list")() << error;
      }
    }
  }
  EXPECT_GT(went_on, 0) << "nothing was compared";
}

TEST_F(OnProvider, ARunThatFailsIsOneErrorThatNamesTheModel) {
  for (const std::string &line : {infer(provider()), onDevice()}) {
    Pipeline pipeline(source(kNv12, 8) + kUpload + line + " ! fakesink");
    SOFTORT(softort_fail_run)(3);
    const std::string error = pipeline.run();
    EXPECT_NE(error.find("picture.onnx"), std::string::npos) << error;
    EXPECT_NE(error.find("this run was to fail"), std::string::npos) << error;
  }
}

TEST_F(OnProvider, WhatCannotBeOnTheDeviceIsSaidBeforeTheFirstFrame) {
  const std::string from = source(kNv12) + kUpload;
  std::string error = loadError(from + infer("tensor-memory=device execution-provider=cpu"));
  EXPECT_NE(error.find("tensor-memory=device"), std::string::npos) << error;
  EXPECT_NE(error.find("cpu of ONNX Runtime"), std::string::npos) << error;
  EXPECT_NE(error.find("execution-provider"), std::string::npos) << error;

  copyOfThePicture(kOnnxFloat, {OnnxDim("batch"), 3, 24, 40}).save(dir_.file("open.onnx"));
  error = loadError(from + onDevice("batch-size=4", dir_.file("open.onnx")));
  EXPECT_NE(error.find("batch-size=1"), std::string::npos) << error;
}

// Elements that share a model share its stream, which is the first one's.
TEST_F(OnProvider, WhoSharesAModelWaitsForItsOwnStream) {
  const std::string shared = provider("model-instance-id=shared"), caps = kNv12;
  const Tensors cpu = run(source(caps) + kUpload + infer());
  Pipeline pipeline(source(caps) + kUpload + "tee name=t t. ! queue ! " + infer(shared) + " ! fakesink name=out t. ! " +
                    "queue ! fenceinfer name=second model-file=" + picture() +
                    " decoder=none output=tensor-meta resize-mode=letterbox mean=10,20,30 scale=0.02 " + shared +
                    " ! fakesink name=other");
  pipeline.keep("other");
  ASSERT_EQ(pipeline.run(), "");
  EXPECT_LE(largestDifference(cpu, tensorsOf(pipeline.kept())), 1e-6f);

  const std::string error = loadError(
      source(caps) + kUpload + "tee name=t t. ! queue ! " + infer(shared) + " ! fakesink t. ! queue ! " +
      "fenceinfer model-file=" + picture() +
      " decoder=none output=tensor-meta resize-mode=letterbox mean=10,20,30 scale=0.02 tensor-memory=device " + shared);
  if (!error.empty()) { // the one that asks may be the first
    EXPECT_NE(error.find("model-instance-id"), std::string::npos) << error;
  }
}

TEST_F(OnProvider, AnotherModelTakesOverOnTheSameStream) {
  colourClassifier({1, 3, 16, 16}).save(dir_.file("other.onnx"));
  Pipeline pipeline("videotestsrc ! video/x-raw,format=NV12,width=64,height=48,framerate=30/1 ! " +
                    std::string(kUpload) + infer(provider()) + " ! fakesink name=out");
  pipeline.play();
  GstMessage *prerolled = pipeline.next(GST_MESSAGE_ASYNC_DONE, 30 * GST_SECOND);
  ASSERT_NE(prerolled, nullptr);
  gst_message_unref(prerolled);
  pipeline.withElement("infer", [&](GstElement *element) {
    g_object_set(element, "model-file", dir_.file("other.onnx").c_str(), nullptr);
  });
  GstMessage *told = nullptr;
  do {
    gst_clear_message(&told);
    told = pipeline.next(static_cast<GstMessageType>(GST_MESSAGE_ELEMENT | GST_MESSAGE_ERROR), 30 * GST_SECOND);
  } while (told != nullptr && GST_MESSAGE_TYPE(told) == GST_MESSAGE_ELEMENT &&
           !gst_message_has_name(told, "fenceinfer-model"));
  ASSERT_NE(told, nullptr);
  gboolean success = FALSE;
  ASSERT_TRUE(gst_structure_get_boolean(gst_message_get_structure(told), "success", &success));
  EXPECT_TRUE(success);
  gst_message_unref(told);
  const uint64_t before = SOFTORT(softort_count)().on_stream;
  for (int i = 0; i < 3000 && SOFTORT(softort_count)().on_stream == before; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_GT(SOFTORT(softort_count)().on_stream, before);
  EXPECT_EQ(SOFTORT(softort_count)().waited, 0u);
}

} // namespace
} // namespace gstzc::test
