// SPDX-License-Identifier: LGPL-2.1-or-later
// Fixture of tests on a CUDA device through GStreamer's own convention: a context, and a stream that belongs to
// somebody else.
#pragma once

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include "ext/cuda/memory/import_memory.h"
#include "tests/unit/cuda/support/device_test.h"

namespace gstzc::cuda::test {

// A fixture that has more in that context lets it go in its own TearDown(), before this one's.
class GstDeviceTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    ASSERT_TRUE(gst_cuda_load_library());
    gst_context_ = gst_cuda_context_new(0);
    ASSERT_NE(gst_context_, nullptr);
    producer_ = gst_cuda_stream_new(gst_context_);
    context_ = contextOf(gst_context_);
  }
  void TearDown() override {
    context_.reset();
    gst_clear_cuda_stream(&producer_);
    gst_clear_object(&gst_context_);
    DeviceTest::TearDown();
  }

  GstCudaContext *gst_context_ = nullptr;
  GstCudaStream *producer_ = nullptr;
  ContextPtr context_; // the same
};

} // namespace gstzc::cuda::test
