// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames in CUDA memory that no element made, so that whatever calls the driver afterwards is the element under test;
// and a stream that does not go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include <dlfcn.h>

#include <cuda.h>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "tests/support/video_layouts.h"

namespace gstzc::test {

// One context and one stream that all of them are written on.
class DeviceFrames {
public:
  DeviceFrames() : context_(gst_cuda_context_new(0)), stream_(gst_cuda_stream_new(context_)) {}
  ~DeviceFrames() {
    gst_clear_cuda_stream(&stream_);
    gst_object_unref(context_);
  }
  DeviceFrames(const DeviceFrames &) = delete;
  DeviceFrames &operator=(const DeviceFrames &) = delete;

  GstCudaContext *context() const { return context_; }
  CUstream stream() const { return gst_cuda_stream_get_handle(stream_); }

  // On the device when it returns.
  GstBuffer *frame(const GstVideoInfo &info, const Picture &picture, guint64 number = 0) const {
    GstMemory *memory = gst_cuda_allocator_alloc(nullptr, context_, stream_, &info);
    EXPECT_NE(memory, nullptr);
    write(memory, picture);
    GstBuffer *buffer = frameIn(memory, number);
    gst_memory_unref(memory);
    return buffer;
  }
  // Another one in memory of a frame before it, as of a pool.
  static GstBuffer *frameIn(GstMemory *memory, guint64 number) {
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_memory_ref(memory));
    const GstVideoInfo &own = GST_CUDA_MEMORY_CAST(memory)->info;
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&own),
                                   GST_VIDEO_INFO_WIDTH(&own), GST_VIDEO_INFO_HEIGHT(&own),
                                   GST_VIDEO_INFO_N_PLANES(&own), own.offset, own.stride);
    GST_BUFFER_PTS(buffer) = number * 40 * GST_MSECOND;
    return buffer;
  }
  static void write(GstMemory *memory, const Picture &picture) {
    const GstVideoInfo &own = GST_CUDA_MEMORY_CAST(memory)->info;
    GstMapInfo map;
    EXPECT_TRUE(gst_memory_map(memory, &map, GST_MAP_WRITE));
    for (guint p = 0; p < picture.planes(); ++p)
      for (gsize row = 0; row < picture.rows(p); ++row)
        std::memcpy(map.data + own.offset[p] + row * static_cast<gsize>(own.stride[p]),
                    &picture.bytes[picture.at(p, row)], picture.rowBytes(p));
    gst_memory_unmap(memory, &map);
    EXPECT_TRUE(gst_memory_map(memory, &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
    gst_memory_unmap(memory, &map);
    gst_cuda_memory_sync(GST_CUDA_MEMORY_CAST(memory));
  }

private:
  GstCudaContext *const context_;
  GstCudaStream *stream_;
};

// What is enqueued on the stream from now on waits for release(). The frames' context has to live longer.
class StreamBlock {
public:
  explicit StreamBlock(const DeviceFrames &frames) : StreamBlock(frames.context(), frames.stream()) {}
  StreamBlock(GstCudaContext *context, CUstream stream) : context_(context), stream_(stream) {
    gst_cuda_context_push(context_);
    CUdeviceptr address = 0;
    EXPECT_EQ(driver<decltype(cuMemHostAlloc)>("cuMemHostAlloc")(&word_, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP),
              CUDA_SUCCESS);
    std::memset(word_, 0, sizeof(uint32_t));
    EXPECT_EQ(driver<decltype(cuMemHostGetDevicePointer_v2)>("cuMemHostGetDevicePointer_v2")(&address, word_, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(driver<decltype(cuStreamWaitValue32_v2)>("cuStreamWaitValue32_v2")(stream_, address, 1,
                                                                                 CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
    gst_cuda_context_pop(nullptr);
  }
  ~StreamBlock() {
    release();
    gst_cuda_context_push(context_);
    EXPECT_EQ(CuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(CuMemFreeHost(word_), CUDA_SUCCESS);
    gst_cuda_context_pop(nullptr);
  }
  StreamBlock(const StreamBlock &) = delete;
  StreamBlock &operator=(const StreamBlock &) = delete;

  void release() const { std::atomic_ref(*static_cast<uint32_t *>(word_)).store(1, std::memory_order_release); }

private:
  // functions that libgstcuda does not have
  template <typename F> static F *driver(const char *name) {
    static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<F *>(dlsym(library, name));
  }
  GstCudaContext *const context_;
  const CUstream stream_;
  void *word_ = nullptr;
};

} // namespace gstzc::test
