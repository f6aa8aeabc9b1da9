// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that a device reads, through queue, runner and an engine of the test's own.
#include "gst/infer/stream/frame_job.h"

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/unit/infer/stream/device_frames.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace std::chrono_literals;

namespace {

// The model's picture is two floats (runner_helpers.h); the device makes both the frame's first byte.
class OnDevice : public test::DeviceFrames {
protected:
  explicit OnDevice(int batch = 1, const ModelRunner::Options &options = {})
      : DeviceFrames(test::fakeModel(batch, batch > 1)) {
    begin(options);
    task_.keep_tensors = true;
  }
  ~OnDevice() override { shutDown(); }

  // The oldest frame, when it has left.
  Result<FrameResult> pull(const std::shared_ptr<FrameJob> &job) {
    auto item = queue_->pop();
    EXPECT_TRUE(item && item->work == job);
    EXPECT_TRUE(gst_mini_object_is_writable(item->object)) << "somebody holds the buffer still";
    gst_mini_object_unref(item->object);
    queue_->finishedBuffer();
    return job->takeResult();
  }
  static float copyOf(const FrameResult &result, size_t picture = 0) { // the model's second output
    return static_cast<const float *>(result.pictures.at(picture).tensors.tensors.at(1).data)[0];
  }
};

TEST_F(OnDevice, TheModelReadsTheDevicesTensor) {
  auto result = pull(push(frame(7)));
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(copyOf(*result), 7);
  EXPECT_EQ(device_->last_kind, MemoryKind::Cuda);
  EXPECT_EQ(result->copies, 0u) << "a run of one picture needs no copy";
  EXPECT_GT(result->pictures[0].times.fill.count(), 0) << "the device's time counts";
  EXPECT_FALSE(result->pictures[0].in_place);
}

TEST_F(OnDevice, TensorMemoryIsMadeOnceAndUsedAgain) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pull(push(frame(1))).ok());
  EXPECT_EQ(device_->memories, 1);
}

TEST_F(OnDevice, AFrameIsHeldUntilTheDeviceHasReadIt) {
  device_->hold = true;
  GstBuffer *buffer = frame(3);
  auto job = push(gst_buffer_ref(buffer));
  EXPECT_EQ(device_->fills, 1);
  queue_->setFlushing();
  EXPECT_EQ(queue_->clear().buffers, 1u);
  std::weak_ptr<FrameJob> gone = job;
  job.reset();
  EXPECT_TRUE(gone.expired()) << "the device holds the frame, not what becomes of it";
  EXPECT_FALSE(gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffer))) << "the device still reads it";
  EXPECT_EQ(task_.setup->on_device->tensors->unused(), 0u) << "the device still writes there";
  device_->release();
  EXPECT_TRUE(gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffer)));
  EXPECT_EQ(task_.setup->on_device->tensors->unused(), 1u);
  EXPECT_TRUE(fake_.engine->seen().empty()) << "nobody wants the results";
  gst_buffer_unref(buffer);
}

TEST_F(OnDevice, FramesLeaveInOrderWhateverTheDeviceEndsFirst) {
  device_->hold = true;
  std::vector<std::shared_ptr<FrameJob>> jobs;
  for (guint8 i = 0; i < 4; ++i) jobs.push_back(push(frame(i)));
  std::thread device([this] {
    for (int i = 0; i < 4; ++i) device_->releaseOne();
  });
  for (guint8 i = 0; i < 4; ++i) {
    auto result = pull(jobs[i]);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(copyOf(*result), i);
  }
  device.join();
}

TEST_F(OnDevice, WhatTheDeviceRefusesNamesIt) {
  device_->refuse_fill = true;
  auto refused = pull(push(frame(1)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message().find("fake device 0: the device takes nothing"), 0u) << refused.error().message();
  EXPECT_EQ(refused.error().remedy, "Try another one");
  device_->refuse_fill = false;

  device_->fail = true;
  auto failed = pull(push(frame(1)));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message().find("fake device 0: the device failed"), 0u) << failed.error().message();
}

TEST_F(OnDevice, MemoryThatCannotBeHadNamesTheDevice) {
  device_->refuse_memory = true;
  auto refused = pull(push(frame(1)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message().find("fake device 0: pinning memory"), 0u) << refused.error().message();
}

TEST_F(OnDevice, CapsThatItDoesNotReadAreRefusedAtOnce) {
  device_->refuse_caps = true;
  auto setup = FrameSetup::create(fake_.model, test::frameCaps(kCaps), device_);
  ASSERT_FALSE(setup.ok());
  EXPECT_EQ(setup.error().message().find("fake device 0: "), 0u) << setup.error().message();
}

TEST_F(OnDevice, AFrameTheDeviceHasCanBeGivenUp) {
  device_->hold = true;
  queue_->setCapacity(1);
  queue_->setWhenFull(FrameQueue::WhenFull::DropOldest);
  push(frame(1));
  auto second = push(frame(2));
  EXPECT_EQ(queue_->counts().dropped, 1u);
  device_->release();
  auto result = pull(second);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(copyOf(*result), 2);
  ASSERT_EQ(fake_.engine->seen().size(), 1u) << "the first one's tensor was run through the model";
}

TEST_F(OnDevice, EachObjectIsAPictureOfItsRegion) {
  task_.objects = true;
  GstBuffer *buffer = frame(5);
  auto *meta = gst_buffer_add_analytics_relation_meta(buffer);
  GstAnalyticsODMtd od;
  gst_analytics_relation_meta_add_od_mtd(meta, 0, 0, 0, 4, 4, 0.9f, &od);
  gst_analytics_relation_meta_add_od_mtd(meta, 0, 4, 2, 2, 2, 0.9f, &od);
  auto result = pull(push(buffer));
  ASSERT_TRUE(result.ok()) << result.error().message();
  ASSERT_EQ(result->pictures.size(), 2u);
  EXPECT_EQ(copyOf(*result, 1), 5);
  const auto plans = device_->plans();
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_DOUBLE_EQ(plans[0].mapping.origin_x, 0);
  EXPECT_DOUBLE_EQ(plans[1].mapping.origin_x, 4);
  EXPECT_DOUBLE_EQ(plans[1].mapping.step_x, 1);
}

TEST_F(OnDevice, OneObjectThatFailsIsTheFramesError) {
  task_.objects = true;
  device_->hold = true;
  GstBuffer *buffer = frame(5);
  auto *meta = gst_buffer_add_analytics_relation_meta(buffer);
  GstAnalyticsODMtd od;
  for (int i = 0; i < 3; ++i) gst_analytics_relation_meta_add_od_mtd(meta, 0, i, 0, 4, 4, 0.9f, &od);
  auto job = push(buffer);
  EXPECT_TRUE(device_->releaseOne());
  EXPECT_TRUE(device_->releaseOne(Error{"the device failed", EIO, ""}));
  EXPECT_TRUE(device_->releaseOne());
  auto result = pull(job);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, EIO);
}

// --- time

GstZcDeviceEvent *newEvent(const char *kind, int status) {
  struct Held {
    GstZcDeviceEventFuncs funcs;
    int status;
  };
  // the functions have to stay where they are: there are few
  static std::vector<std::unique_ptr<Held>> all;
  auto held = std::make_unique<Held>();
  held->status = status;
  held->funcs.kind = kind;
  held->funcs.status = [](gpointer data) { return static_cast<Held *>(data)->status; };
  held->funcs.make_fd = [](gpointer) { return -ENOSYS; };
  all.push_back(std::move(held));
  return gst_zc_device_event_new(&all.back()->funcs, all.back().get());
}

TEST_F(OnDevice, FencesThatTheDeviceWaitsForAreNotWaitedForHere) {
  device_->waits_for = "fake-event";
  GstBuffer *buffer = frame(1);
  GstZcDeviceEvent *event = newEvent("fake-event", 0);
  gst_buffer_add_zc_event_meta(buffer, event, 1);
  gst_zc_device_event_unref(event);
  const auto elsewhere = [this](GstZcDeviceEvent *e) { return device_->waitsFor(e); };
  EXPECT_FALSE(frameFences(buffer, Access::Read).ok()) << "it has no descriptor";
  auto fences = frameFences(buffer, Access::Read, elsewhere);
  ASSERT_TRUE(fences.ok()) << fences.error().message();
  EXPECT_TRUE(fences->none());
  auto result = pull(push(buffer));
  EXPECT_TRUE(result.ok());

  GstBuffer *other = frame(1);
  event = newEvent("eventfd", 0);
  gst_buffer_add_zc_event_meta(other, event, 1);
  gst_zc_device_event_unref(event);
  EXPECT_FALSE(frameFences(other, Access::Read, elsewhere).ok()) << "not the device's kind";
  gst_buffer_unref(other);
}

TEST_F(OnDevice, AFenceThatFailedOnTheDeviceIsJudgedAsAnyOther) {
  device_->waits_for = "fake-event";
  for (const auto &[policy, fate] : {std::pair{GST_ZC_ON_FENCE_ERROR_DROP, FrameFate::Drop},
                                     {GST_ZC_ON_FENCE_ERROR_PASS, FrameFate::Pass},
                                     {GST_ZC_ON_FENCE_ERROR_ERROR, FrameFate::Fail}}) {
    task_.on_fence_error = policy;
    GstBuffer *buffer = frame(1);
    GstZcDeviceEvent *event = newEvent("fake-event", -EIO);
    gst_buffer_add_zc_event_meta(buffer, event, 1);
    gst_zc_device_event_unref(event);
    auto job = push(buffer);
    (void)pull(job);
    EXPECT_EQ(job->verdict().fate, fate);
    ASSERT_TRUE(job->failedOnDevice().has_value());
    EXPECT_EQ(job->failedOnDevice()->error, EIO);
  }
  EXPECT_TRUE(fake_.engine->seen().empty()) << "what is not complete must not be looked at";
}

// --- ends

TEST_F(OnDevice, ADeviceThatNeverEndsIsNotWaitedForByThoseWhoStop) {
  device_->hold = true;
  for (guint8 i = 0; i < 4; ++i) push(frame(i));
  queue_->setFlushing();
  EXPECT_EQ(queue_->clear().buffers, 4u);
  runner_->dropUnwanted();
  const int before = test::FakeTensorDevice::destroyed();
  task_.setup.reset();
  device_.reset(); // with the frames on it, which nobody asks for any more
  EXPECT_EQ(test::FakeTensorDevice::destroyed(), before + 1) << "a frame on the device keeps it";
}

TEST_F(OnDevice, WithoutItsRunnerAFrameComesOutCancelled) {
  device_->hold = true;
  auto job = push(frame(1));
  runner_.reset();
  device_->release();
  auto result = pull(job);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ECANCELED);
  runner_ = std::make_shared<ModelRunner>(fake_.model, ModelRunner::Options{});
}

class OnDeviceInBatches : public OnDevice {
protected:
  OnDeviceInBatches() : OnDevice(4, {.workers = 1, .batch = 4, .batch_timeout = test::kLong}) {}
};

TEST_F(OnDeviceInBatches, TensorsAreGatheredWhichIsACopyThatIsCounted) {
  std::vector<std::shared_ptr<FrameJob>> jobs;
  for (guint8 i = 0; i < 4; ++i) jobs.push_back(push(frame(i)));
  for (guint8 i = 0; i < 4; ++i) {
    auto result = pull(jobs[i]);
    ASSERT_TRUE(result.ok()) << result.error().message();
    EXPECT_EQ(copyOf(*result), i);
    EXPECT_EQ(result->copies, 1u);
    EXPECT_EQ(result->bytes_copied, fake_.model->plan.bytes());
  }
  EXPECT_EQ(fake_.engine->seen().size(), 1u);
}

TEST_F(OnDeviceInBatches, TheEndOfTheStreamEndsTheWaitForFramesThatTheDeviceStillHad) {
  device_->hold = true;
  auto job = push(frame(1));
  queue_->pushEvent(gst_event_new_eos());
  runner_->hurry();
  device_->release();
  EXPECT_TRUE(pull(job).ok()) << "it waits for a batch that will not fill";
}

} // namespace
