// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/cuda_event.h"

#include <cerrno>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "ext/cuda/sync/kept_for_good.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "tests/support/fence_events.h"
#include "tests/support/open_fds.h"
#include "tests/unit/cuda/support/device_test.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace std::chrono_literals;
using gstzc::test::openFds;

namespace {

bool readable(int fd, std::chrono::milliseconds patience = 0ms) {
  pollfd request = {fd, POLLIN, 0};
  return poll(&request, 1, static_cast<int>(patience.count())) == 1;
}

using EventPtr = std::unique_ptr<GstZcDeviceEvent, decltype(&gst_zc_device_event_unref)>;

class CudaEvents : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (HasFatalFailure()) return;
    source = need(cuda::EventSource::create(context));
    ASSERT_TRUE(source);
  }
  EventPtr record(std::shared_ptr<std::atomic<int>> failure = nullptr) {
    auto event = source->record(stream.get(), std::move(failure));
    EXPECT_TRUE(event) << (event ? "" : event.error().message());
    return {event ? *event : nullptr, gst_zc_device_event_unref};
  }

  std::shared_ptr<cuda::EventSource> source;
};

TEST_F(CudaEvents, AreDoneWhenTheStreamIs) {
  Blocker blocker(context, stream.get());
  const auto event = record();
  EXPECT_STREQ(gst_zc_device_event_get_kind(event.get()), "cuda-event");
  EXPECT_NE(gst_zc_device_event_get_native(event.get()), nullptr);
  EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 0);
  blocker.release();
  EXPECT_TRUE(eventually([&] { return gst_zc_device_event_get_status(event.get()) == 1; }));
  const Blocker again(context, stream.get());
  EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 1) << "what comes later is not its business";
}

TEST_F(CudaEvents, DescriptorsBecomeReadableAndStaySo) {
  const size_t before = openFds();
  {
    Blocker blocker(context, stream.get());
    const auto event = record();
    const UniqueFd first(gst_zc_device_event_make_fd(event.get())), second(gst_zc_device_event_make_fd(event.get()));
    ASSERT_TRUE(first.isValid() && second.isValid());
    EXPECT_FALSE(readable(first.get(), kGlance) || readable(second.get()));
    blocker.release();
    EXPECT_TRUE(readable(first.get(), kPatience) && readable(second.get(), kPatience));
    const UniqueFd third(gst_zc_device_event_make_fd(event.get()));
    EXPECT_TRUE(readable(third.get())) << "at once: the event is over";
    EXPECT_TRUE(readable(first.get()) && readable(second.get()));
  }
  EXPECT_TRUE(eventually([&] { return openFds() == before; }));
}

TEST_F(CudaEvents, SayThatTheyAreOverBeforeTheDescriptorDoes) {
  for (int i = 0; i < 50; ++i) {
    Blocker blocker(context, stream.get());
    const auto event = record();
    const UniqueFd fd(gst_zc_device_event_make_fd(event.get()));
    blocker.release();
    ASSERT_TRUE(readable(fd.get(), kPatience));
    const long calls = TestedDriver::calls();
    EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 1);
    EXPECT_EQ(TestedDriver::calls(), calls) << "who waits on the poller's thread must not wait for the driver";
  }
}

TEST_F(CudaEvents, AreFencesForThePoller) {
  FencePoller poller;
  gstzc::test::Record ended;
  {
    Blocker blocker(context, stream.get());
    auto event = record(std::make_shared<std::atomic<int>>(ENODATA));
    std::vector<Fence> fences;
    const auto shared = std::shared_ptr<GstZcDeviceEvent>(event.release(), gst_zc_device_event_unref);
    fences.push_back({Fence::Kind::Event, UniqueFd(gst_zc_device_event_make_fd(shared.get())), [shared] {
                        const int status = gst_zc_device_event_get_status(shared.get());
                        return status < 0 ? -status : 0;
                      }});
    ASSERT_TRUE(poller.watch(std::move(fences[0]), gstzc::test::notSoon(), ended.as(1)));
    std::this_thread::sleep_for(kGlance);
    EXPECT_EQ(ended.size(), 0u);
  }
  ASSERT_TRUE(ended.reaches(1));
  EXPECT_EQ(ended.ended()[0].second.outcome, FenceOutcome::Failed);
  EXPECT_EQ(ended.ended()[0].second.error, ENODATA);
}

TEST_F(CudaEvents, TellOfTheFenceThatTheWorkWaitedFor) {
  const auto failure = std::make_shared<std::atomic<int>>(0);
  Blocker blocker(context, stream.get());
  const auto event = record(failure), good = record(std::make_shared<std::atomic<int>>(0));
  *failure = ETIMEDOUT;
  EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 0) << "it is still being waited for";
  blocker.release();
  EXPECT_TRUE(eventually([&] { return gst_zc_device_event_get_status(event.get()) == -ETIMEDOUT; }));
  EXPECT_TRUE(eventually([&] { return gst_zc_device_event_get_status(good.get()) == 1; }));
  *failure = 0;
  EXPECT_EQ(gst_zc_device_event_get_status(event.get()), -ETIMEDOUT) << "once over it stays so";
}

TEST_F(CudaEvents, OutliveTheirSource) {
  EventPtr event(nullptr, gst_zc_device_event_unref);
  UniqueFd fd;
  {
    Blocker blocker(context, stream.get());
    event = record();
    source.reset();
    EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 0);
    fd = UniqueFd(gst_zc_device_event_make_fd(event.get()));
    EXPECT_FALSE(readable(fd.get()));
  }
  EXPECT_TRUE(readable(fd.get(), kPatience));
  EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 1);
}

TEST_F(CudaEvents, TheirDescriptorsOutliveThem) {
  UniqueFd fd;
  {
    const Blocker blocker(context, stream.get());
    fd = UniqueFd(gst_zc_device_event_make_fd(record().get()));
    source.reset();
    EXPECT_FALSE(readable(fd.get(), kGlance));
  }
  EXPECT_TRUE(readable(fd.get(), kPatience));
}

TEST_F(CudaEvents, LeaveNothing) {
  const size_t before = openFds();
  for (int i = 0; i < 20; ++i) {
    const auto event = record();
    const UniqueFd fd(gst_zc_device_event_make_fd(event.get()));
    EXPECT_TRUE(readable(fd.get(), kPatience));
  }
  EXPECT_EQ(TestedDriver::calls(Fn::cuEventCreate), 1) << "used again";
  source.reset();
  EXPECT_EQ(TestedDriver::calls(Fn::cuEventDestroy), 1);
  EXPECT_TRUE(eventually([&] { return openFds() == before; }));
}

TEST_F(CudaEvents, OnALostDeviceTheyFailAndSoDoTheirDescriptors) {
  const auto lost = [] { TestedDriver::loseDevice(); };
  UniqueFd fd, second_fd;
  {
    const Blocker blocker(context, stream.get());
    const auto event = record(), second = record();
    fd = UniqueFd(gst_zc_device_event_make_fd(event.get()));
    second_fd = UniqueFd(gst_zc_device_event_make_fd(second.get()));
    lost();
    EXPECT_EQ(gst_zc_device_event_get_status(event.get()), -EIO);
    EXPECT_TRUE(readable(fd.get()) && readable(second_fd.get())) << "nobody else would tell";
    EXPECT_EQ(gst_zc_device_event_get_status(second.get()), -EIO);
    EXPECT_TRUE(readable(UniqueFd(gst_zc_device_event_make_fd(second.get())).get()));
    EXPECT_FALSE(source->record(stream.get(), nullptr));
    source.reset();
  }
  ASSERT_TRUE(becomesIdle(context, stream.get())); // late calls of the device
  std::this_thread::sleep_for(kGlance);
}

TEST_F(CudaEvents, WhicheverCallFailsOnceNothingIsToldEarly) {
  const size_t kept = KeptForGood::count();
  long nth = 1;
  for (; nth < 100; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth) + " fails");
    TestedDriver::reset();
    TestedDriver::failCall(nth);
    auto made = cuda::EventSource::create(context);
    if (!made) continue;
    Blocker blocker(context, stream.get());
    auto recorded = (*made)->record(stream.get(), nullptr);
    if (!recorded) continue;
    const EventPtr event(*recorded, gst_zc_device_event_unref);
    EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 0);
    const UniqueFd fd(gst_zc_device_event_make_fd(event.get()));
    ASSERT_TRUE(fd.isValid()) << "it is tried twice";
    EXPECT_FALSE(readable(fd.get(), kGlance));
    blocker.release();
    EXPECT_TRUE(readable(fd.get(), kPatience));
    EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 1);
    if (!TestedDriver::hasFailed()) break;
  }
  EXPECT_LT(nth, 100);
  EXPECT_GE(nth, 10) << "the calls of a source, an event and a descriptor";
  EXPECT_EQ(KeptForGood::count(), kept);
}

TEST_F(CudaEvents, AConsumerOnAnotherStreamWaitsOnTheDevice) {
  const ContextPtr second = testContext(); // of another element
  Work work(second);
  Status status = Error{"nothing was tried", 0, ""};
  {
    Blocker blocker(context, stream.get());
    const auto event = record();
    const Stream theirs = need(newStream(second));
    ASSERT_TRUE(waitForCudaEvent(*second, theirs.get(), event.get(), &status));
    EXPECT_TRUE(status) << status.error().message();
    work.enqueue(theirs.get());
    std::this_thread::sleep_for(kGlance);
    EXPECT_FALSE(idle(second, theirs.get()));
    work.setSource(6);
    blocker.release();
    ASSERT_TRUE(becomesIdle(second, theirs.get()));
    EXPECT_EQ(work.result(), 6u);
  }
}

TEST_F(CudaEvents, WaitingOnTheDeviceIsForThisKindOnly) {
  GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(eventfd(0, EFD_CLOEXEC), nullptr);
  Status status = Nothing{};
  EXPECT_FALSE(waitForCudaEvent(*context, other.get(), event, &status));
  EXPECT_EQ(TestedDriver::calls(Fn::cuStreamWaitEvent), 0);
  gst_zc_device_event_unref(event);
  const auto ours = record();
  TestedDriver::failFunction(Fn::cuStreamWaitEvent, CUDA_ERROR_INVALID_HANDLE);
  EXPECT_TRUE(waitForCudaEvent(*context, other.get(), ours.get(), &status));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EINVAL);
}

TEST_F(CudaEvents, MayBeAskedInAllThreads) {
  for (int i = 0; i < 20; ++i) {
    Blocker blocker(context, stream.get());
    const auto event = record();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        if (t % 2 == 0) {
          const UniqueFd fd(gst_zc_device_event_make_fd(event.get()));
          EXPECT_TRUE(readable(fd.get(), kPatience));
          EXPECT_EQ(gst_zc_device_event_get_status(event.get()), 1);
        } else {
          EXPECT_TRUE(eventually([&] { return gst_zc_device_event_get_status(event.get()) == 1; }));
        }
      });
    blocker.release();
    for (auto &thread : threads) thread.join();
  }
}

} // namespace
