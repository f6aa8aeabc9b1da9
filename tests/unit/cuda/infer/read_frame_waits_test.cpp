// SPDX-License-Identifier: LGPL-2.1-or-later
// The wait of a frame's reader is needed: left out, it reads what is not written yet.
#include "ext/cuda/infer/read_frame.h"

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "ext/cuda/memory/import_memory.h"
#include "tests/unit/cuda/support/gst_device_test.h"
#include "tests/unit/cuda/support/mutations.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using std::chrono::milliseconds;

namespace {

// A frame of GStreamer's own elements: it carries no event, but its memory's stream is not done with it.
class ReadFrameMutations : public GstDeviceTest {
protected:
  void SetUp() override {
    GstDeviceTest::SetUp();
    if (HasFatalFailure()) return;
    reader_ = need(newStream(context_));
    order_ = need(newEvent(context_));
    GstVideoInfo info;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 64, 48);
    frame_ = gst_buffer_new();
    GstMemory *memory = need(newCudaMemory(gst_context_, producer_, info));
    gst_buffer_append_memory(frame_, memory);
    GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
  }
  void TearDown() override {
    gst_clear_buffer(&frame_);
    order_ = {};
    reader_ = {};
    GstDeviceTest::TearDown();
  }

  GstBuffer *frame_ = nullptr;
  Stream reader_;
  Event order_;
};

TEST_F(ReadFrameMutations, TheWaitForTheProducersStream) {
  expectNoticed("frame-stream", [this](milliseconds patience) {
    Work work(context_);
    work.setSource(1);
    {
      const Blocker producer(context_, gst_cuda_stream_get_handle(producer_));
      const Status waits = waitForWriters(*context_, reader_.get(), order_.get(), frame_);
      EXPECT_TRUE(waits.ok());
      work.enqueue(reader_.get());
      becomesIdle(context_, reader_.get(), patience);
      work.setSource(2);
    }
    EXPECT_TRUE(becomesIdle(context_, reader_.get()));
    return work.result() == 2;
  });
}

} // namespace
