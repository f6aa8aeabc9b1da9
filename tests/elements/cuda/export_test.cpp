// SPDX-License-Identifier: LGPL-2.1-or-later
// cudadmabufexport: each way back, what is refused, and that nobody reads before the device is done.
#include "tests/elements/cuda/import_pipeline.h"

#include <algorithm>
#include <set>

#include <cuda.h>

#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcpool.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr Layout kFrame = {"frame", GST_VIDEO_FORMAT_NV12, 1920, 1080};

class CudaExport : public CudaImport {
protected:
  void SetUp() override {
    CudaImport::SetUp();
    if (!has("cudaupload")) GTEST_SKIP() << "no element cudaupload: plugin nvcodec found no libnvcuvid";
  }
  void TearDown() override {
    CudaImport::TearDown();
    SoftCuda::get().setProfile(nullptr);
  }
  // Frames of the device's own memory, that no dma-buf is behind.
  static std::string deviceSource(const std::string &properties) {
    return "appsrc name=src format=time caps=video/x-raw,format=NV12,width=1920,height=1080,framerate=25/1 ! "
           "cudaupload ! video/x-raw(memory:CUDAMemory) ! queue ! cudadmabufexport name=up " +
           properties + " ! video/x-raw(memory:DMABuf) ! appsink name=sink sync=false";
  }
  // Plays with a downstream that answers ALLOCATION queries; it has to be there when the caps come.
  std::unique_ptr<Downstream> startWith(const std::string &line, void (*answer)(GstQuery *)) {
    pipeline = std::make_unique<Pipeline>(line);
    auto downstream = std::make_unique<Downstream>(*pipeline, answer);
    pipeline->setState(GST_STATE_PLAYING);
    return downstream;
  }
  // Frames in which the device has still to do something when they come: it clears the first row.
  void keepBusy() {
    GstPad *pad = gst_element_get_static_pad(pipeline->element("up"), "sink");
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER,
        [](GstPad *, GstPadProbeInfo *info, gpointer) {
          GstMemory *memory = gst_buffer_peek_memory(GST_PAD_PROBE_INFO_BUFFER(info), 0);
          GstMapInfo map;
          EXPECT_TRUE(gst_memory_map(memory, &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
          GstCudaMemory *frame = GST_CUDA_MEMORY_CAST(memory);
          gst_cuda_context_push(frame->context);
          const CUstream stream = gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(frame));
          const auto at = reinterpret_cast<CUdeviceptr>(map.data);
          EXPECT_EQ(CuMemsetD2D8Async(at, static_cast<size_t>(frame->info.stride[0]), 0, 1920, 1, stream),
                    CUDA_SUCCESS);
          gst_cuda_context_pop(nullptr);
          gst_memory_unmap(memory, &map);
          GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
          return GST_PAD_PROBE_OK;
        },
        nullptr, nullptr);
    gst_object_unref(pad);
    busy_ = true;
  }
  static GstBuffer *systemFrame(const Picture &picture, guint64 number) {
    GstBuffer *buffer = gst_buffer_new_memdup(picture.bytes.data(), picture.bytes.size());
    GST_BUFFER_PTS(buffer) = number * 40 * GST_MSECOND;
    return buffer;
  }
  // As many frames, each pulled before the next; how they came is up to `look`.
  void pass(unsigned count, const std::function<void(GstBuffer *, unsigned)> &look = {}) {
    const GstVideoInfo info = plainInfo(kFrame);
    for (unsigned i = 0; i < count; ++i) {
      Picture picture(info, i);
      push(systemFrame(picture, i));
      GstSample *sample = pipeline->pull();
      ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
      GstBuffer *buffer = gst_sample_get_buffer(sample);
      if (look) look(buffer, i);
      if (busy_) std::fill_n(picture.bytes.begin(), 1920, 0);
      EXPECT_TRUE(picture.sameAs(buffer, info)) << "frame " << i;
      gst_sample_unref(sample);
    }
    end();
    pipeline->drain();
    EXPECT_EQ(pipeline->waitEnd(), "");
  }
  bool busy_ = false;

  // A downstream that waits for fences itself.
  static void knowsFences(GstQuery *query) {
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
    gst_query_add_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr);
  }
};

TEST_F(CudaExport, ImportedFramesGoBackAsTheDmaBufsThatTheyWere) {
  start(sourceLine(kTelling) + " ! queue ! cudadmabufexport name=back ! video/x-raw(memory:DMABuf) ! "
                               "appsink name=sink sync=false");
  const GstVideoInfo info = infoOf(kTelling);
  for (unsigned i = 0; i < 4; ++i) {
    const Picture picture(info, i);
    GstBuffer *frame = frames.buffer(kTelling, picture, i);
    const BufferId id = idOf(frame);
    push(frame);
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    GstBuffer *out = gst_sample_get_buffer(sample);
    EXPECT_EQ(idOf(out), id) << "frame " << i;
    EXPECT_TRUE(picture.sameAs(out, plainInfo(kTelling)));
    EXPECT_EQ(GST_BUFFER_PTS(out), i * 40 * GST_MSECOND);
    gst_sample_unref(sample);
  }
  EXPECT_EQ(pipeline->stat("originals", "back"), 4u);
  EXPECT_EQ(pipeline->stat("copies", "back"), 0u);
  EXPECT_EQ(pipeline->stat("exports", "back"), 0u);
  EXPECT_EQ(pipeline->stat("copies"), 0u);
}

TEST_F(CudaExport, AFrameGivesItsBufferBackAfterWhoHasItsDmaBuf) {
  start(sourceLine(kTelling) + " ! cudadmabufexport name=back ! video/x-raw(memory:DMABuf) ! "
                               "appsink name=sink sync=false");
  GstBuffer *frame = frames.buffer(kTelling, Picture(infoOf(kTelling)));
  bool gone = false;
  gst_mini_object_weak_ref(
      GST_MINI_OBJECT_CAST(frame), [](gpointer data, GstMiniObject *) { *static_cast<bool *>(data) = true; }, &gone);
  push(frame);
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_FALSE(gone);
  gst_sample_unref(sample);
  pipeline.reset();
  EXPECT_TRUE(gone);
}

TEST_F(CudaExport, MemoryOfTheDeviceIsExportedOnce) {
  SoftCuda::get().setProfile("dgpu");
  start(deviceSource(""));
  std::set<BufferId> dmabufs;
  pass(12, [&](GstBuffer *buffer, unsigned) { dmabufs.insert(idOf(buffer)); });
  EXPECT_EQ(chosenRoute(), "address-range");
  EXPECT_EQ(pipeline->stat("exports"), dmabufs.size());
  EXPECT_EQ(pipeline->stat("exports") + pipeline->stat("hits"), 12u);
  EXPECT_LT(pipeline->stat("exports"), 6u) << "memories that come round again have their dma-buf";
  EXPECT_EQ(pipeline->stat("copies"), 0u);
}

TEST_F(CudaExport, WhoDoesNotKnowFencesGetsFramesThatAreDone) {
  SoftCuda::get().setProfile("dgpu");
  start(deviceSource(""));
  keepBusy();
  SoftCuda::get().setDelay(20'000);
  pass(4);
  EXPECT_EQ(pipeline->stat("waits"), 4u);
}

TEST_F(CudaExport, WhoKnowsFencesGetsFramesAtOnceWithAnEvent) {
  SoftCuda::get().setProfile("dgpu");
  const auto downstream = startWith(deviceSource(""), knowsFences);
  keepBusy();
  SoftCuda::get().setDelay(20'000);
  pass(4, [](GstBuffer *buffer, unsigned) {
    GstZcFenceMeta *meta = gst_buffer_get_zc_fence_meta(buffer);
    ASSERT_NE(meta, nullptr);
    ASSERT_NE(gst_zc_fence_meta_get_event(meta), nullptr);
    GError *error = nullptr;
    EXPECT_TRUE(gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 10 * GST_SECOND, &error)) << error->message;
    EXPECT_EQ(gst_zc_device_event_get_status(gst_zc_fence_meta_get_event(meta)), 1);
  });
  EXPECT_EQ(pipeline->stat("waits"), 0u);
}

TEST_F(CudaExport, ADeviceThatCannotExportSaysSoAndWhatToDo) {
  SoftCuda::get().setProfile("orin");
  start(deviceSource(""));
  push(systemFrame(Picture(plainInfo(kFrame)), 0));
  const std::string error = pipeline->waitEnd();
  EXPECT_NE(error.find("address-range: the device cannot make dma-bufs"), std::string::npos) << error;
  EXPECT_NE(error.find("original: the frame did not come from dmabufcudaimport"), std::string::npos) << error;
  EXPECT_NE(error.find("allow-copy=true"), std::string::npos) << error;
}

// A pool of dma-bufs that a consumer offers.
void offerPool(GstQuery *query) {
  GstCaps *caps = nullptr;
  gst_query_parse_allocation(query, &caps, nullptr);
  const auto frame = parseFrameCaps(caps);
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  GstBufferPool *pool = gst_zc_pool_new(allocator, 512);
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(GST_VIDEO_INFO_SIZE(&frame->info)), 2, 0);
  gst_buffer_pool_config_set_allocator(config, allocator, nullptr);
  gst_buffer_pool_set_config(pool, config);
  gst_query_add_allocation_pool(query, pool, static_cast<guint>(GST_VIDEO_INFO_SIZE(&frame->info)), 2, 0);
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  gst_object_unref(allocator);
  gst_object_unref(pool);
}

TEST_F(CudaExport, WhereCopiesAreAllowedTheDeviceCopies) {
  SoftCuda::get().setProfile("orin");
  for (const unsigned delay : {0u, 5'000u}) {
    SoftCuda::get().setDelay(delay);
    const auto downstream = startWith(deviceSource("allow-copy=true"), offerPool);
    pass(5);
    EXPECT_EQ(chosenRoute(), "device-copy");
    EXPECT_EQ(stageOf("address-range"), "refused-buffer");
    EXPECT_EQ(pipeline->stat("copies"), 5u);
    EXPECT_EQ(pipeline->stat("bytes-copied"), 5u * 1920 * 1080 * 3 / 2);
    pipeline.reset();
  }
}

TEST_F(CudaExport, ARouteThatDoesNotExistIsNamed) {
  start("appsrc name=src ! cudadmabufexport name=up route=teleport ! fakesink");
  const std::string error = pipeline->waitEnd();
  EXPECT_NE(error.find("route=teleport"), std::string::npos) << error;
  EXPECT_NE(error.find("address-range"), std::string::npos) << error;
}

TEST_F(CudaExport, EachCallOfTheDriverMayFail) {
  if (!SoftCuda::get().there()) GTEST_SKIP() << "only the stand-in fails on demand";
  SoftCuda::get().setProfile("dgpu");
  const auto once = [&] {
    start(deviceSource(""));
    push(systemFrame(Picture(plainInfo(kFrame)), 0));
    end();
    gst_app_sink_set_drop(GST_APP_SINK(pipeline->element("sink")), TRUE); // the end comes though nobody takes frames
    gst_app_sink_set_max_buffers(GST_APP_SINK(pipeline->element("sink")), 1);
    GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), GST_SECOND);
    if (sample != nullptr) gst_sample_unref(sample);
    const std::string error = pipeline->waitEnd();
    pipeline.reset();
    return error;
  };
  ASSERT_EQ(once(), "");
  for (const char *function : {"cuMemGetHandleForAddressRange", "cuMemGetAddressRange_v2", "cuEventCreate",
                               "cuEventRecord", "cuLaunchHostFunc", "cuStreamWaitEvent"}) {
    SoftCuda::get().fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_NE(once(), "timeout") << function;
    EXPECT_EQ(SoftCuda::get().live(), 0u) << function << ": " << SoftCuda::get().liveList();
    SoftCuda::get().reset();
  }
}

} // namespace
