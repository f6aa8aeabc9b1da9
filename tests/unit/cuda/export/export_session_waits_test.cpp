// SPDX-License-Identifier: LGPL-2.1-or-later
// Each wait of the way back from the device is needed: left out, somebody has a frame that is not written yet.
#include "ext/cuda/export/export_session.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <cuda.h>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "ext/cuda/memory/import_memory.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/fence_events.h"
#include "tests/unit/cuda/support/gst_device_test.h"
#include "tests/unit/cuda/support/mutations.h"
#include "tests/unit/cuda/support/stand_ins.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using std::chrono::milliseconds;

namespace {

constexpr int kWidth = 256, kHeight = 64; // rows of whole pages of the host
constexpr guint8 kBefore = 1, kAfter = 2;

class ExportMutations : public GstDeviceTest {
protected:
  void SetUp() override {
    GstDeviceTest::SetUp();
    if (HasFatalFailure()) return;
    other_ = need(newStream(context_));
    events_ = need(EventSource::create(context_));
    gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_GRAY8, kWidth, kHeight);
  }
  void TearDown() override {
    session_.reset();
    events_.reset();
    other_ = {};
    GstDeviceTest::TearDown();
  }
  void open(const char *route, bool allow_copy) {
    session_ =
        need(ExportSession::open(gst_context_, {route, allow_copy}, std::make_shared<ExportSession::Counters>()));
  }
  void fill(GstMemory *memory, guint8 value, CUstream on) const {
    GstMapInfo map;
    ASSERT_TRUE(gst_memory_map(memory, &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
    gst_cuda_context_push(gst_context_);
    EXPECT_EQ(CuMemsetD2D8Async(reinterpret_cast<CUdeviceptr>(map.data),
                                static_cast<size_t>(GST_CUDA_MEMORY_CAST(memory)->info.stride[0]), value, kWidth,
                                kHeight, on),
              CUDA_SUCCESS);
    gst_cuda_context_pop(nullptr);
    gst_memory_unmap(memory, &map);
  }
  // In which everything is written.
  GstBuffer *frame() const {
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, need(newCudaMemory(gst_context_, producer_, info_)));
    fill(gst_buffer_peek_memory(buffer, 0), kBefore, gst_cuda_stream_get_handle(producer_));
    EXPECT_TRUE(becomesIdle(context_, gst_cuda_stream_get_handle(producer_)));
    return buffer;
  }
  Result<GstBuffer *> target() const {
    GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_allocator_alloc(allocator, GST_VIDEO_INFO_SIZE(&info_), nullptr));
    gst_object_unref(allocator);
    return buffer;
  }
  GstBuffer *exported(GstBuffer *from, milliseconds timeout = std::chrono::minutes(1)) {
    return need(session_->exportFrame(from, info_, {[this] { return target(); }, true, timeout}));
  }
  // Somebody who is not on the device still writes it.
  static void addFence(GstBuffer *buffer, const gstzc::test::EventSource &writer) {
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(writer.fd()).release(), nullptr);
    gst_buffer_add_zc_event_meta(buffer, event, 1);
    gst_zc_device_event_unref(event);
  }
  static bool isReady(GstBuffer *buffer, milliseconds patience) {
    GError *error = nullptr;
    const bool ready = gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ,
                                                 static_cast<GstClockTime>(patience.count()) * GST_MSECOND, &error);
    g_clear_error(&error);
    return ready;
  }

  Stream other_;
  std::shared_ptr<cuda::EventSource> events_;
  GstVideoInfo info_ = {};
  std::unique_ptr<ExportSession> session_;
};

// What came as a dma-buf that somebody still writes leaves as one.
TEST_F(ExportMutations, TheFencesOfTheOriginal) {
  open("original", false);
  expectNoticed("export-original-fences", [this](milliseconds patience) {
    GstBuffer *buffer = frame(), *before = need(target());
    const gstzc::test::EventSource producer;
    addFence(before, producer);
    setFrameOf(gst_buffer_peek_memory(buffer, 0), before);
    gst_buffer_unref(before);
    GstBuffer *out = exported(buffer);
    const bool early = isReady(out, patience);
    producer.signal();
    EXPECT_TRUE(isReady(out, kPatience));
    gst_buffer_unref(out);
    gst_buffer_unref(buffer);
    return !early;
  });
}

TEST_F(ExportMutations, TheFencesOfAFrameThatIsExported) {
  open("address-range", false);
  GstBuffer *buffer = frame();
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  gst_buffer_unref(exported(buffer));
  expectNoticed("export-range-fences", [&](milliseconds patience) {
    GstBuffer *next = gst_buffer_new(), *out = nullptr;
    gst_buffer_append_memory(next, gst_memory_ref(memory));
    bool early = false;
    {
      const Blocker blocker(context_, other_.get());
      fill(memory, kAfter, other_.get());
      GstZcDeviceEvent *event = need(events_->record(other_.get(), nullptr));
      gst_buffer_add_zc_event_meta(next, event, 1);
      gst_zc_device_event_unref(event);
      GST_MINI_OBJECT_FLAG_UNSET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
      out = exported(next);
      early = isReady(out, patience);
    }
    EXPECT_TRUE(isReady(out, kPatience));
    gst_buffer_unref(out);
    gst_buffer_unref(next);
    return !early;
  });
  gst_buffer_unref(buffer);
}

// To compare a frame that is not complete would find differences that are none.
TEST_F(ExportMutations, OnlyACompleteFrameIsCompared) {
  expectNoticed("export-check", [this](milliseconds) {
    open("address-range", false);
    GstBuffer *buffer = frame();
    GST_MINI_OBJECT_FLAG_SET(gst_buffer_peek_memory(buffer, 0), GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    uint64_t compared = 0;
    {
      const Blocker blocker(context_, gst_cuda_stream_get_handle(producer_));
      const uint64_t before = SOFTCUDA(softcuda_calls)("cuMemcpy2DAsync_v2");
      gst_buffer_unref(exported(buffer));
      compared = SOFTCUDA(softcuda_calls)("cuMemcpy2DAsync_v2") - before;
    }
    gst_buffer_unref(buffer);
    return compared == 0;
  });
}

TEST_F(ExportMutations, TheEventOfAFrameThatTheDeviceStillWrites) {
  open("address-range", false);
  GstBuffer *buffer = frame();
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  gst_buffer_unref(exported(buffer)); // the stand-in cannot export memory that is in use
  expectNoticed("export-event", [&](milliseconds patience) {
    GstBuffer *out = nullptr;
    bool early = false;
    {
      const Blocker blocker(context_, gst_cuda_stream_get_handle(producer_));
      fill(memory, kAfter, gst_cuda_stream_get_handle(producer_));
      GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
      out = exported(buffer);
      early = isReady(out, patience);
    }
    EXPECT_TRUE(isReady(out, kPatience));
    gst_buffer_unref(out);
    return !early;
  });
  gst_buffer_unref(buffer);
}

TEST_F(ExportMutations, TheCopysWaitForTheFramesEvent) {
  open("device-copy", true);
  expectNoticed("export-copy", [this](milliseconds patience) {
    GstBuffer *buffer = frame();
    GstBuffer *out = nullptr;
    {
      const Blocker blocker(context_, other_.get());
      fill(gst_buffer_peek_memory(buffer, 0), kAfter, other_.get());
      GstZcDeviceEvent *event = need(events_->record(other_.get(), nullptr));
      gst_buffer_add_zc_event_meta(buffer, event, 1);
      gst_zc_device_event_unref(event);
      out = exported(buffer);
      becomesIdle(context_, gst_cuda_stream_get_handle(producer_), patience); // copied, if nothing waits
    }
    EXPECT_TRUE(isReady(out, kPatience));
    guint8 pixel = 0;
    gst_buffer_extract(out, 0, &pixel, 1);
    gst_buffer_unref(out);
    gst_buffer_unref(buffer);
    return pixel == kAfter;
  });
}

TEST_F(ExportMutations, TheCopyWaitsForFencesThatAreNotTheDevices) {
  open("device-copy", true);
  expectNoticed("export-copy-fences", [this](milliseconds patience) {
    GstBuffer *buffer = frame();
    const gstzc::test::EventSource writer;
    addFence(buffer, writer);
    GstBuffer *out = exported(buffer);
    isReady(out, patience);
    fill(gst_buffer_peek_memory(buffer, 0), kAfter, other_.get());
    EXPECT_TRUE(becomesIdle(context_, other_.get()));
    writer.signal();
    EXPECT_TRUE(isReady(out, kPatience));
    guint8 pixel = 0;
    gst_buffer_extract(out, 0, &pixel, 1);
    gst_buffer_unref(out);
    gst_buffer_unref(buffer);
    return pixel == kAfter;
  });
}

// It is none: nobody knows what was copied.
TEST_F(ExportMutations, TheCopyOfAFrameWhoseFenceDoesNotComeSaysSo) {
  open("device-copy", true);
  GstBuffer *buffer = frame();
  const gstzc::test::EventSource writer;
  addFence(buffer, writer);
  GstBuffer *out = exported(buffer, milliseconds(1));
  GError *error = nullptr;
  EXPECT_FALSE(gst_buffer_wait_zc_fences(out, GST_ZC_FENCE_ACCESS_READ, 30 * GST_SECOND, &error));
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error->message).find(std::strerror(ETIMEDOUT)), std::string::npos) << error->message;
  g_clear_error(&error);
  gst_buffer_unref(out);
  gst_buffer_unref(buffer);
}

TEST_F(ExportMutations, TheCopyOfAFrameThatIsIncompleteSaysSo) {
  open("device-copy", true);
  GstBuffer *buffer = frame();
  GstBuffer *out = nullptr;
  {
    const Blocker blocker(context_, other_.get());
    GstZcDeviceEvent *event = need(events_->record(other_.get(), std::make_shared<std::atomic<int>>(EREMOTEIO)));
    gst_buffer_add_zc_event_meta(buffer, event, 1);
    gst_zc_device_event_unref(event);
    out = exported(buffer);
  }
  GError *error = nullptr;
  EXPECT_FALSE(gst_buffer_wait_zc_fences(out, GST_ZC_FENCE_ACCESS_READ, 30 * GST_SECOND, &error));
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error->message).find(std::strerror(EREMOTEIO)), std::string::npos) << error->message;
  g_clear_error(&error);
  gst_buffer_unref(out);
  gst_buffer_unref(buffer);
}

// What waits for a writer that waits for others does not keep them from being stopped.
TEST_F(ExportMutations, TheEndOfASessionOpensItsGate) {
  open("device-copy", true);
  GstBuffer *buffer = frame();
  const gstzc::test::EventSource writer;
  addFence(buffer, writer);
  GstBuffer *out = exported(buffer);
  session_.reset();
  EXPECT_FALSE(isReady(out, kPatience));
  EXPECT_TRUE(becomesIdle(context_, gst_cuda_stream_get_handle(producer_)));
  gst_buffer_unref(out);
  gst_buffer_unref(buffer);
}

} // namespace
