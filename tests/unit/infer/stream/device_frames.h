// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that a device reads, through a queue, a runner and an engine of the test's own.
#pragma once

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "gst/infer/stream/frame_job.h"
#include "tests/support/fake_tensor_device.h"
#include "tests/support/frame_caps.h"
#include "tests/unit/infer/stream/queue_helpers.h"
#include "tests/unit/infer/stream/runner_helpers.h"

namespace gstzc::test {

class DeviceFrames : public ::testing::Test {
protected:
  static constexpr const char *kCaps = "video/x-raw(memory:CUDAMemory),format=RGB,width=8,height=8";

  explicit DeviceFrames(FakeModel fake) : fake_(std::move(fake)) {}

  void begin(const infer::ModelRunner::Options &options = {}) {
    runner_ = std::make_shared<infer::ModelRunner>(fake_.model, options);
    auto setup = infer::FrameSetup::create(fake_.model, frameCaps(kCaps), device_);
    ASSERT_TRUE(setup.ok()) << setup.error().message();
    task_.setup = setup.take();
    task_.fence_timeout = kLong;
    queue_->setCapacity(8);
    queue_->start();
  }
  // What is here and with the runner is given up.
  void shutDown() {
    if (queue_) {
      queue_->setFlushing();
      for (GstEvent *event : queue_->clear().events) gst_event_unref(event);
    }
    if (runner_) runner_->dropUnwanted();
  }

  static GstBuffer *frame(guint8 value) {
    GstBuffer *buffer = gst_buffer_new_allocate(nullptr, 8 * 8 * 3, nullptr);
    gst_buffer_memset(buffer, 0, value, 8 * 8 * 3);
    return buffer;
  }
  // Takes the buffer.
  std::shared_ptr<infer::FrameJob> push(GstBuffer *buffer) {
    auto job = std::make_shared<infer::FrameJob>(buffer, task_, queue_, runner_);
    EXPECT_EQ(queue_->pushBuffer(buffer, job, FrameFences{}, kLong), GST_FLOW_OK);
    return job;
  }

  FakeModel fake_;
  std::shared_ptr<FakeTensorDevice> device_ = std::make_shared<FakeTensorDevice>();
  std::shared_ptr<infer::ModelRunner> runner_;
  std::shared_ptr<infer::FrameQueue> queue_ = std::make_shared<infer::FrameQueue>();
  infer::FrameTask task_;
};

} // namespace gstzc::test
