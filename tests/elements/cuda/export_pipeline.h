// SPDX-License-Identifier: LGPL-2.1-or-later
// Pipelines with `cudadmabufexport name=up` behind a device that has the frames.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include <cuda.h>

#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcpool.h"
#include "tests/elements/cuda/device_frames.h"
#include "tests/elements/cuda/import_pipeline.h"

namespace gstzc::test {

constexpr Layout kFrame = {"frame", GST_VIDEO_FORMAT_NV12, 1920, 1080};

// A pool of dma-bufs that a consumer offers, and nothing else.
inline void offerOnlyPool(GstQuery *query) {
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
  gst_object_unref(allocator);
  gst_object_unref(pool);
}
inline void offerPool(GstQuery *query) {
  offerOnlyPool(query);
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
}

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
  // The same, of a test's DeviceFrames.
  static std::string framesSource(const std::string &properties) {
    return "appsrc name=src format=time caps=\"video/x-raw(memory:CUDAMemory),format=NV12,width=1920,height=1080,"
           "framerate=25/1\" ! cudadmabufexport name=up " +
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
  // What the last message on the route said; takes them all off the bus.
  bool tells(const char *field) const {
    GstBus *bus = gst_element_get_bus(pipeline->get());
    gboolean last = FALSE;
    while (GstMessage *found = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT)) {
      if (gst_message_has_name(found, "cudadmabufexport-route"))
        gst_structure_get_boolean(gst_message_get_structure(found), field, &last);
      gst_message_unref(found);
    }
    gst_object_unref(bus);
    return last;
  }
  bool busy_ = false;

  // A downstream that waits for fences itself.
  static void knowsFences(GstQuery *query) {
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
    gst_query_add_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr);
  }
};

} // namespace gstzc::test
