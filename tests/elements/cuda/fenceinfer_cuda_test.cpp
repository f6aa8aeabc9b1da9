// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer with frames that a CUDA device reads: the same tensors as the CPU makes, the same frames go on.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gst/allocators/allocators.h>
#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcdeviceevent.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/elements/cuda/on_cuda.h"
#include "tests/support/fence_events.h"
#include "tests/support/quickest.h"

namespace gstzc::test {
namespace {

const char *const kCaps[] = {
    "format=NV12,width=320,height=240",
    "format=RGBA,width=320,height=240",
    "format=I420,width=320,height=240",
    "format=NV12,width=641,height=359",
    "format=I420,width=641,height=359",
    "format=P010_10LE,width=320,height=240",
    "format=NV12,width=320,height=240,colorimetry=bt709,chroma-site=mpeg2",
};

TEST_F(OnCuda, ImportedFramesGiveTheCpusTensors) {
  for (const char *caps : kCaps) {
    SCOPED_TRACE(caps);
    const Tensors cpu = run(source(caps) + infer());
    EXPECT_EQ(last_device_, "cpu");
    const Tensors cuda = run(source(caps) + kImport + infer());
    EXPECT_EQ(last_device_.find("CUDA device 0"), 0u) << last_device_;
    EXPECT_LE(largestDifference(cpu, cuda), 1e-6f);
  }
}

TEST_F(OnCuda, DmaBufsThatTheElementImportsGiveThemToo) {
  for (const char *caps : kCaps) {
    SCOPED_TRACE(caps);
    const Tensors cpu = run(source(caps) + kUpload + infer());
    EXPECT_EQ(last_device_, "cpu");
    const Tensors cuda = run(source(caps) + kUpload + infer("preprocess-device=cuda"));
    EXPECT_EQ(last_device_.find("CUDA device 0"), 0u) << last_device_;
    EXPECT_LE(largestDifference(cpu, cuda), 1e-6f);
  }
}

// Where nothing but the bridge shows a dma-buf right, the element copies each frame of a buffer that comes round again.
TEST_F(OnCuda, FramesThatTheElementHasToCopyGiveThemToo) {
  auto *fault = softcuda<void(const char *)>("softcuda_set_import_fault");
  if (fault == nullptr) GTEST_SKIP() << "faults are the stand-in's";
  constexpr int kFrames = 12; // more than the pool has
  const std::string moving = "videotestsrc pattern=snow num-buffers=" + std::to_string(kFrames) +
                             " ! video/x-raw,format=NV12,width=1920,height=1080,framerate=30/1 ! ";
  const Tensors cpu = run(moving + kUpload + infer());
  fault("egl:2M,register:2M,dmabuf:2M");
  Pipeline pipeline(moving + kUpload + infer("preprocess-device=cuda") + " ! fakesink name=out");
  pipeline.keep("out");
  EXPECT_EQ(pipeline.run(), "");
  fault(nullptr);
  EXPECT_LE(largestDifference(cpu, tensorsOf(pipeline.kept())), 1e-6f);
  EXPECT_EQ(pipeline.stat("infer", "copies"), static_cast<guint64>(kFrames));
}

TEST_F(OnCuda, TheSameDmaBufGoesOn) {
  Pipeline pipeline(source("format=NV12,width=320,height=240") + "dmabufupload name=up memory=memfd ! " +
                    infer("preprocess-device=cuda") + " ! fakesink name=out");
  pipeline.keep("infer");
  pipeline.keep("out");
  ASSERT_EQ(pipeline.run(), "");
  const auto kept = pipeline.kept();
  ASSERT_EQ(kept.size(), 6u);
  std::vector<GstMemory *> came, left;
  for (GstBuffer *buffer : kept) {
    EXPECT_TRUE(gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0)));
    (gst_buffer_get_tensor_meta(buffer) != nullptr ? left : came).push_back(gst_buffer_peek_memory(buffer, 0));
  }
  EXPECT_EQ(came, left);
  EXPECT_EQ(pipeline.stat("infer", "copies"), 0u);
}

TEST_F(OnCuda, OnlyTheTensorCrossesToTheHost) {
  auto *calls = softcuda<uint64_t(const char *)>("softcuda_calls");
  if (calls == nullptr) GTEST_SKIP() << "counts are the stand-in's";
  constexpr int kFrames = 20;
  const auto down = [&] {
    return calls("cuMemcpyDtoHAsync_v2") + calls("cuMemcpyDtoH_v2") + calls("cuMemcpy2DAsync_v2") +
           calls("cuMemcpy2D_v2");
  };
  // what the import does to check its content is in both
  run(source("format=NV12,width=320,height=240", kFrames) + kImport + "identity ! fenceinfer name=infer model-file=" +
      picture() + " decoder=none output=tensor-meta inference-interval=1000");
  const uint64_t without = down();
  softcuda<void()>("softcuda_reset")();
  run(source("format=NV12,width=320,height=240", kFrames) + kImport + infer());
  EXPECT_EQ(down() - without, kFrames - 1u) << "one tensor a frame; the first frame was looked at before, too";
}

TEST_F(OnCuda, AllFramesOfALongStreamLeaveInOrder) {
  Pipeline pipeline(source("format=NV12,width=64,height=48", 300) + kImport + infer("max-in-flight=8") +
                    " ! fakesink name=out");
  pipeline.keep("out");
  ASSERT_EQ(pipeline.run(), "");
  const auto kept = pipeline.kept();
  ASSERT_EQ(kept.size(), 300u);
  for (size_t i = 1; i < kept.size(); ++i) ASSERT_GT(GST_BUFFER_PTS(kept[i]), GST_BUFFER_PTS(kept[i - 1]));
  EXPECT_EQ(pipeline.stat("infer", "inferred"), 300u);
}

TEST_F(OnCuda, BatchesGatherTheTensors) {
  copyOfThePicture(kOnnxFloat, {OnnxDim("batch"), 3, 24, 40}).save(dir_.file("open.onnx"));
  const std::string caps = "format=NV12,width=320,height=240", file = dir_.file("open.onnx");
  const Tensors cpu = run(source(caps, 8) + infer("", file));
  const Tensors cuda = run(source(caps, 8) + kImport + infer("batch-size=4 batch-timeout=1000 workers=1", file));
  EXPECT_LE(largestDifference(cpu, cuda), 1e-6f);
}

TEST_F(OnCuda, ObjectsAreCutOutOnTheDevice) {
  const std::string places = dir_.file("places.onnx");
  placedObjects(64, {{0.1f, 0.1f, 0.6f, 0.5f, 0}, {0.3f, 0.5f, 0.9f, 0.95f, 0}}).save(places);
  colourClassifier({1, 3, 16, 16}).save(dir_.file("colours.onnx"));
  const auto line = [&](const std::string &between) {
    return source("format=NV12,width=320,height=240") + between + "fenceinfer name=first model-file=" + places +
           " ! fenceinfer name=infer model-file=" + dir_.file("colours.onnx") +
           " inference-region=objects decoder=classification mean=0 scale=0.003 threshold=0";
  };
  const auto scores = [&](const std::string &text) {
    Pipeline pipeline(text + " ! fakesink name=out");
    pipeline.keep("out");
    EXPECT_EQ(pipeline.run(), "");
    std::vector<float> all;
    for (GstBuffer *buffer : pipeline.kept()) {
      GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
      gpointer state = nullptr;
      GstAnalyticsClsMtd mtd;
      while (gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_cls_mtd_get_mtd_type(), &mtd))
        for (gsize i = 0; i < gst_analytics_cls_mtd_get_length(&mtd); ++i)
          all.push_back(gst_analytics_cls_mtd_get_level(&mtd, i));
    }
    return all;
  };
  const auto cpu = scores(line("")), cuda = scores(line(kImport));
  ASSERT_EQ(cpu.size(), cuda.size());
  EXPECT_GE(cpu.size(), 6u);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_NEAR(cpu[i], cuda[i], 1e-5f);
}

TEST_F(OnCuda, DetectionsAreTheCpus) {
  colouredObjects(64).save(dir_.file("objects.onnx"));
  const std::string caps = "format=NV12,width=321,height=241",
                    detect = "fenceinfer name=infer model-file=" + dir_.file("objects.onnx") +
                             " mean=0 scale=0.003 threshold=0.05 ";
  const auto cpu = boxes(source(caps) + kUpload + detect);
  EXPECT_EQ(last_device_, "cpu");
  ASSERT_EQ(cpu.size(), 9u) << "three of each frame";
  for (const std::string &line :
       {source(caps) + kImport + detect, source(caps) + kUpload + detect + "preprocess-device=cuda"}) {
    const auto cuda = boxes(line);
    EXPECT_EQ(last_device_.find("CUDA device 0"), 0u) << last_device_;
    expectSame(cpu, cuda);
  }
}

TEST_F(OnCuda, FacesAreWhereTheCpuFindsThem) {
  const char *const model = std::getenv("GSTZC_BLAZEFACE_MODEL"), *const photo = std::getenv("GSTZC_PHOTO");
  if (model == nullptr || photo == nullptr) GTEST_SKIP() << "the demo's model and photograph are not there";
  const std::string from = std::string("filesrc location=") + photo +
                           " ! pngdec ! videoconvert ! video/x-raw,format=NV12 ! ",
                    detect = std::string("fenceinfer name=infer model-file=") + model + " ";
  const auto cpu = boxes(from + kUpload + detect);
  EXPECT_EQ(last_device_, "cpu");
  EXPECT_FALSE(cpu.empty());
  const auto cuda = boxes(from + kImport + detect);
  EXPECT_EQ(last_device_.find("CUDA device 0"), 0u) << last_device_;
  expectSame(cpu, cuda);
}

// GStreamer's own elements: the frames carry no event of ours, only a stream.
TEST_F(OnCuda, FramesOfStockElementsAreReadBehindTheirStream) {
  GstElementFactory *factory = gst_element_factory_find("cudaupload");
  if (factory == nullptr) GTEST_SKIP() << "no cudaupload";
  gst_object_unref(factory);
  if (auto *delay = softcuda<void(unsigned)>("softcuda_set_delay_us")) delay(2000);
  for (const char *caps : {"format=NV12,width=320,height=240", "format=I420,width=641,height=359"}) {
    const Tensors cpu = run(source(caps) + infer());
    const Tensors cuda = run(source(caps) + "cudaupload ! video/x-raw(memory:CUDAMemory) ! " + infer());
    EXPECT_EQ(last_device_.find("CUDA device 0"), 0u) << last_device_;
    EXPECT_LE(largestDifference(cpu, cuda), 1e-6f) << caps;
  }
}

// Imported frames that a converter reads on its stream before they come here, or beside.
TEST_F(OnCuda, FramesOfAConverterBehindTheImporterAreRight) {
  GstElementFactory *factory = gst_element_factory_find("cudaconvertscale");
  if (factory == nullptr) GTEST_SKIP() << "no cudaconvertscale";
  gst_object_unref(factory);
  const std::string moving = "videotestsrc num-buffers=10 horizontal-speed=37 ! video/x-raw,format=NV12,width=640,"
                             "height=480,framerate=30/1 ! ";
  const std::string convert = "cudaconvertscale ! video/x-raw(memory:CUDAMemory),format=RGBA,width=320,height=240 ! ";
  const Tensors converted = run(moving + "cudaupload ! video/x-raw(memory:CUDAMemory) ! " + convert + infer());
  const Tensors plain = run(moving + infer());
  for (const unsigned microseconds : {0u, 2000u}) {
    SCOPED_TRACE(microseconds);
    if (auto *delay = softcuda<void(unsigned)>("softcuda_set_delay_us")) delay(microseconds);
    EXPECT_EQ(largestDifference(run(moving + kImport + convert + infer()), converted), 0);
    EXPECT_LE(largestDifference(run(moving + kImport + infer() + " ! " + convert + "identity"), plain), 1e-6f);
    EXPECT_LE(largestDifference(run(moving + kImport + "tee name=t t. ! queue ! " + convert +
                                    "fakesink sync=false t. ! queue ! " + infer()),
                                plain),
              1e-6f);
  }
}

TEST_F(OnCuda, SlowDevicesChangeNothing) {
  auto *delay = softcuda<void(unsigned)>("softcuda_set_delay_us");
  if (delay == nullptr) GTEST_SKIP() << "the stand-in's";
  const Tensors cpu = run(source("format=NV12,width=320,height=240", 8) + infer());
  delay(2000);
  const Tensors cuda = run(source("format=NV12,width=320,height=240", 8) + kImport + infer());
  EXPECT_LE(largestDifference(cpu, cuda), 1e-6f);
}

// --- what can go wrong

TEST_F(OnCuda, ADeviceThatRefusesIsOneErrorThatNamesIt) {
  auto *fail = softcuda<void(const char *, unsigned, int)>("softcuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "faults are the stand-in's";
  constexpr int kLaunchFailed = 719;
  for (const char *function : {"cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuModuleLoadData"}) {
    SCOPED_TRACE(function);
    Pipeline pipeline(source("format=NV12,width=320,height=240", 50) + kUpload + infer("preprocess-device=cuda") +
                      " ! fakesink name=out");
    pipeline.keep("out");
    fail(function, 0, kLaunchFailed);
    const std::string error = pipeline.run();
    EXPECT_TRUE(pipeline.kept().empty()) << "a frame without its tensor";
    EXPECT_NE(error.find("CUDA device 0"), std::string::npos) << error;
    softcuda<void()>("softcuda_reset")();
    GstMessage *second = pipeline.next(GST_MESSAGE_ERROR);
    if (second != nullptr) { // upstream's word on the flow is no second explanation
      EXPECT_NE(g_strcmp0(GST_OBJECT_NAME(GST_MESSAGE_SRC(second)), "infer"), 0);
      gst_message_unref(second);
    }
  }
}

// Whoever it is that calls: one error, or all frames with the CPU's tensors.
TEST_F(OnCuda, EachFunctionThatFailsOnceIsAnErrorOrChangesNothing) {
  auto *fail = softcuda<void(const char *, unsigned, int)>("softcuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "faults are the stand-in's";
  auto *calls = softcuda<uint64_t(const char *)>("softcuda_calls");
  auto *live = softcuda<uint64_t(const char *)>("softcuda_live");
  constexpr int kUnknownFailure = 999;
  constexpr uint64_t kFirstCalls = 2;
  const std::string frames = source("format=NV12,width=320,height=240", 4);
  const Tensors cpu = run(frames + infer());
  for (const std::string &line : {frames + kUpload + infer("preprocess-device=cuda"), frames + kImport + infer()}) {
    softcuda<void()>("softcuda_reset")();
    ASSERT_LE(largestDifference(cpu, run(line)), 1e-6f);
    std::map<std::string, uint64_t> made;
    std::istringstream names(softcuda<const char *()>("softcuda_call_names")());
    for (std::string name; std::getline(names, name);) made[name] = calls(name.c_str());
    ASSERT_GT(made.size(), 10u);
    int went_on = 0;
    for (const auto &[name, times] : made)
      for (unsigned nth = 1; nth <= std::min(times, kFirstCalls); ++nth) {
        SCOPED_TRACE(name + ", call " + std::to_string(nth) + " of " + line);
        {
          Pipeline pipeline(line + " ! fakesink name=out");
          pipeline.keep("out");
          fail(name.c_str(), nth, kUnknownFailure);
          const std::string error = pipeline.run();
          gst_element_set_state(pipeline.element(), GST_STATE_NULL);
          if (error.empty()) {
            ++went_on;
            EXPECT_LE(largestDifference(cpu, tensorsOf(pipeline.kept())), 1e-6f);
          }
        }
        EXPECT_EQ(softcuda<uint64_t()>("softcuda_misuses")(), 0u) << softcuda<const char *()>("softcuda_misuse_list")();
        softcuda<void()>("softcuda_reset")();
        for (int i = 0; i < 1000 && live(nullptr) > 0; ++i) std::this_thread::sleep_for(10ms);
        ASSERT_EQ(live(nullptr), 0u) << softcuda<const char *()>("softcuda_live_list")();
      }
    EXPECT_GT(went_on, 0) << "nothing was compared";
  }
}

TEST_F(OnCuda, FlushesAndStopsWhileTheDeviceIsSlow) {
  if (auto *delay = softcuda<void(unsigned)>("softcuda_set_delay_us")) delay(5000);
  Pipeline pipeline("videotestsrc is-live=false ! video/x-raw,format=NV12,width=64,height=48,framerate=30/1 ! " +
                    std::string(kImport) + infer() + " ! fakesink name=out sync=false");
  pipeline.play();
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(gst_element_seek_simple(pipeline.element(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0));
  }
  EXPECT_EQ(pipeline.next(GST_MESSAGE_ERROR), nullptr);
  EXPECT_EQ(gst_element_set_state(pipeline.element(), GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
}

TEST_F(OnCuda, StopsAtOnceUnderAFenceThatNeverComes) {
  constexpr std::chrono::milliseconds kStop{200};
  const EventSource never;
  for (const std::string &rest : {"dmabufcudaimport name=import fence-timeout=60000 ! " + infer(),
                                  infer("preprocess-device=cuda fence-timeout=60000")}) {
    SCOPED_TRACE(rest);
    const auto took = quickest(kStop, [&] {
      Pipeline pipeline("videotestsrc ! video/x-raw,format=NV12,width=1920,height=1080,framerate=30/1 ! "
                        "dmabufupload name=up memory=memfd ! " +
                        rest + " ! fakesink name=out sync=false async=false");
      pipeline.withPad("up", "src", [&](GstPad *pad) {
        gst_pad_add_probe(
            pad, GST_PAD_PROBE_TYPE_BUFFER,
            [](GstPad *, GstPadProbeInfo *info, gpointer fd) {
              GstBuffer *frame = GST_PAD_PROBE_INFO_BUFFER(info);
              if (GST_BUFFER_PTS(frame) < 100 * GST_MSECOND) return GST_PAD_PROBE_OK; // the first are looked at
              GstZcDeviceEvent *event =
                  gst_zc_device_event_new_eventfd(UniqueFd::duplicate(GPOINTER_TO_INT(fd)).release(), nullptr);
              gst_buffer_add_zc_event_meta(frame, event, 0);
              gst_zc_device_event_unref(event);
              return GST_PAD_PROBE_OK;
            },
            GINT_TO_POINTER(never.fd()), nullptr);
      });
      pipeline.play();
      for (int i = 0; i < 20'000 && FencePoller::process().counters().pending == 0; ++i)
        std::this_thread::sleep_for(1ms);
      EXPECT_GT(FencePoller::process().counters().pending, 0u);
      std::this_thread::sleep_for(50ms);
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(gst_element_set_state(pipeline.element(), GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
      const auto lasted = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(lasted, 20s);
      EXPECT_EQ(pipeline.next(GST_MESSAGE_ERROR), nullptr);
      return lasted;
    });
    if (measuresTime()) {
      EXPECT_LE(took, kStop);
    }
  }
}

TEST_F(OnCuda, AnotherModelTakesOver) {
  colourClassifier({1, 3, 16, 16}).save(dir_.file("other.onnx"));
  Pipeline pipeline("videotestsrc ! video/x-raw,format=NV12,width=64,height=48,framerate=30/1 ! " +
                    std::string(kImport) + infer() + " ! fakesink name=out");
  pipeline.play();
  GstMessage *prerolled = pipeline.next(GST_MESSAGE_ASYNC_DONE, 30 * GST_SECOND);
  ASSERT_NE(prerolled, nullptr);
  gst_message_unref(prerolled);
  pipeline.withElement("infer", [&](GstElement *element) {
    g_object_set(element, "model-file", dir_.file("other.onnx").c_str(), nullptr);
  });
  GstMessage *told =
      pipeline.next(static_cast<GstMessageType>(GST_MESSAGE_ELEMENT | GST_MESSAGE_ERROR), 30 * GST_SECOND);
  while (told != nullptr && GST_MESSAGE_TYPE(told) == GST_MESSAGE_ELEMENT &&
         !gst_message_has_name(told, "fenceinfer-model")) {
    gst_message_unref(told);
    told = pipeline.next(static_cast<GstMessageType>(GST_MESSAGE_ELEMENT | GST_MESSAGE_ERROR), 30 * GST_SECOND);
  }
  ASSERT_NE(told, nullptr);
  gboolean success = FALSE;
  ASSERT_TRUE(gst_structure_get_boolean(gst_message_get_structure(told), "success", &success));
  EXPECT_TRUE(success);
  gst_message_unref(told);
  EXPECT_EQ(pipeline.next(GST_MESSAGE_ERROR), nullptr);
}

} // namespace
} // namespace gstzc::test
