// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that a device reads for a model that runs on the device's own stream: who waits for what, and what becomes of
// results that nobody wants any more.
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/stream/frame_job.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/unit/infer/stream/device_frames.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace std::chrono_literals;

namespace {

// Says that the outputs are a classifier's of one class, whose score is the first of "double".
class FirstValue : public Decoder {
public:
  const char *name() const override { return "first-value"; }
  int classes() const override { return 1; }
  const FamilyDefaults &defaults() const override {
    static const FamilyDefaults defaults;
    return defaults;
  }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &) const override {
    EXPECT_EQ(outputs.tensors.at(0).space, MemorySpace::Host);
    Findings findings;
    findings.classifications.push_back({static_cast<const float *>(outputs.tensors[0].data)[0], 0});
    return findings;
  }
};

class OnStream : public test::DeviceFrames {
protected:
  OnStream() : DeviceFrames(test::fakeModel(1, false)) {
    fake_.engine->own_stream = this;
    device_->own_stream = this;
  }
  ~OnStream() override {
    shutDown();
    device_->releaseResults(Error{"the test is over", ECANCELED, ""});
  }
  void start(bool decoded, bool kept, bool device_tensors) {
    if (decoded) std::const_pointer_cast<Model>(fake_.model)->decoder = std::make_unique<FirstValue>();
    begin();
    if (HasFatalFailure()) return;
    ASSERT_EQ(task_.setup->on_device->when, Made::OnStream);
    task_.keep_tensors = kept;
    task_.device_tensors = device_tensors;
  }
  Result<FrameResult> pull(const std::shared_ptr<FrameJob> &job) {
    auto item = queue_->pop();
    EXPECT_TRUE(item && item->work == job);
    gst_mini_object_unref(item->object);
    queue_->finishedBuffer();
    return job->takeResult();
  }
  // The run is on the stream, and what it gives is on its way.
  bool enqueued(int runs) {
    for (int i = 0; i < 10'000 && (fake_.engine->enqueued < runs || device_->downloads < runs); ++i)
      std::this_thread::sleep_for(1ms);
    return device_->downloads == runs;
  }
};

TEST_F(OnStream, ResultsAreDecodedWhenTheyHaveComeToTheHost) {
  start(true, false, false);
  device_->hold_results = true;
  std::vector<std::shared_ptr<FrameJob>> jobs;
  for (guint8 i = 0; i < 4; ++i) jobs.push_back(push(frame(i)));
  EXPECT_TRUE(enqueued(4)) << "no frame waits for the one before it";
  device_->releaseResults();
  for (guint8 i = 0; i < 4; ++i) {
    auto result = pull(jobs[i]);
    ASSERT_TRUE(result.ok()) << result.error().message();
    ASSERT_EQ(result->pictures[0].findings.classes.size(), 1u);
    EXPECT_EQ(result->pictures[0].findings.classes[0].score, 2 * i);
    EXPECT_TRUE(result->pictures[0].tensors.tensors.empty());
  }
}

TEST_F(OnStream, TensorsForTheHostAreCopies) {
  start(false, true, false);
  auto result = pull(push(frame(7)));
  ASSERT_TRUE(result.ok()) << result.error().message();
  const PictureResult &picture = result->pictures.at(0);
  EXPECT_TRUE(picture.shared.empty());
  ASSERT_EQ(picture.tensors.tensors.size(), 2u);
  EXPECT_EQ(picture.tensors.tensors[1].space, MemorySpace::Host);
  EXPECT_EQ(static_cast<const float *>(picture.tensors.tensors[1].data)[0], 7);
  EXPECT_EQ(device_->tensors_to_host, 2);
}

TEST_F(OnStream, AFrameOfWhichOnlyDeviceTensorsAreWantedDoesNotWait) {
  start(false, true, true);
  device_->hold_results = true;
  auto result = pull(push(frame(7)));
  ASSERT_TRUE(result.ok()) << result.error().message();
  const PictureResult &picture = result->pictures.at(0);
  ASSERT_EQ(picture.shared.size(), 2u);
  EXPECT_EQ(gst_buffer_get_size(picture.shared[1].get()), 2 * sizeof(float));
  EXPECT_EQ(device_->tensors_to_host, 0);
  EXPECT_EQ(device_->downloads, 1) << "the device keeps what the run uses";
}

TEST_F(OnStream, ADeviceThatIsFarBehindHoldsFramesUp) {
  start(false, true, true);
  task_.early = 2;
  device_->hold_results = true;
  std::vector<std::shared_ptr<FrameJob>> jobs;
  for (guint8 i = 0; i < 3; ++i) jobs.push_back(push(frame(i)));
  EXPECT_TRUE(enqueued(3));
  ASSERT_TRUE(pull(jobs[0]).ok());
  ASSERT_TRUE(pull(jobs[1]).ok());
  auto third = std::async(std::launch::async, [&] { return pull(jobs[2]).ok(); });
  EXPECT_NE(third.wait_for(30ms), std::future_status::ready);
  device_->releaseResults();
  EXPECT_TRUE(third.get());
  device_->hold_results = false;
  ASSERT_TRUE(pull(push(frame(4))).ok()) << "they are counted off";
}

TEST_F(OnStream, BothAreSharedAndDecoded) {
  start(true, true, true);
  auto result = pull(push(frame(3)));
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->pictures[0].shared.size(), 2u);
  EXPECT_EQ(result->pictures[0].tensors.tensors.size(), 2u) << "their shapes";
  ASSERT_EQ(result->pictures[0].findings.classes.size(), 1u);
  EXPECT_EQ(result->pictures[0].findings.classes[0].score, 6);
}

TEST_F(OnStream, WhatTheDeviceRefusesNamesIt) {
  start(true, true, true);
  device_->refuse_share = true;
  auto refused = pull(push(frame(1)));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message().find("fake device 0: the device shares nothing"), 0u)
      << refused.error().message();
  EXPECT_EQ(device_->downloads, 1) << "the run is on the stream all the same";
  device_->refuse_share = false;

  device_->hold_results = true;
  auto job = push(frame(1));
  EXPECT_TRUE(enqueued(2));
  device_->releaseResults(Error{"the device is lost", EIO, ""});
  auto lost = pull(job);
  ASSERT_FALSE(lost.ok());
  EXPECT_EQ(lost.error().message().find("fake device 0: the device is lost"), 0u) << lost.error().message();
  EXPECT_EQ(lost.error().code, EIO);
}

TEST_F(OnStream, ResultsOfFramesThatAreGoneAreForgotten) {
  start(true, false, false);
  device_->hold_results = true;
  auto job = push(frame(1));
  EXPECT_TRUE(enqueued(1));
  queue_->setFlushing();
  EXPECT_EQ(queue_->clear().buffers, 1u);
  runner_->dropUnwanted();
  std::weak_ptr<FrameJob> gone = job;
  job.reset();
  for (int i = 0; i < 10'000 && !gone.expired(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(gone.expired()) << "the device holds the run's memory, not the frame";
  device_->releaseResults();
}

TEST_F(OnStream, TheModelAndItsTensorStayUntilTheDeviceIsPastTheRun) {
  start(false, true, true);
  device_->hold_results = true;
  ASSERT_TRUE(pull(push(frame(1))).ok());
  const std::weak_ptr<const Model> model = fake_.model;
  const auto tensors = task_.setup->on_device->tensors;
  EXPECT_EQ(tensors->unused(), 0u) << "the model may not have read it";
  runner_.reset();
  task_ = {};
  fake_.model.reset();
  EXPECT_FALSE(model.expired());
  device_->releaseResults();
  EXPECT_TRUE(model.expired());
  EXPECT_EQ(tensors->unused(), 1u);
}

GstZcDeviceEvent *failedEvent() {
  static const GstZcDeviceEventFuncs funcs = [] {
    GstZcDeviceEventFuncs f = {};
    f.kind = "fake-event";
    f.status = [](gpointer) -> gint { return -EIO; };
    f.make_fd = [](gpointer) -> gint { return -ENOSYS; };
    return f;
  }();
  return gst_zc_device_event_new(&funcs, nullptr);
}

// It is known only when the device is past it: such a frame does not leave before.
TEST_F(OnStream, AFenceThatFailedOnTheDeviceIsJudged) {
  start(false, true, true);
  device_->waits_for = "fake-event";
  task_.on_fence_error = GST_ZC_ON_FENCE_ERROR_DROP;
  GstBuffer *buffer = frame(1);
  GstZcDeviceEvent *event = failedEvent();
  gst_buffer_add_zc_event_meta(buffer, event, 1);
  gst_zc_device_event_unref(event);
  auto job = push(buffer);
  (void)pull(job);
  EXPECT_EQ(job->verdict().fate, FrameFate::Drop);
  ASSERT_TRUE(job->failedOnDevice().has_value());
}

} // namespace
