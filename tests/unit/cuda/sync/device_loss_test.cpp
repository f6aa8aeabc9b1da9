// SPDX-License-Identifier: LGPL-2.1-or-later
// The device fails while everything waits for it: its work is dropped, nobody is called, each call says so. Only the
// stand-in for libcuda loses a device on demand.
#include <cerrno>
#include <mutex>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/kept_for_good.h"
#include "ext/cuda/sync/retire_queue.h"
#include "ext/cuda/sync/stream_gate.h"
#include "tests/support/fence_events.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/signal.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::test;

namespace {

class DeviceLoss : public testing::Test {
protected:
  void SetUp() override {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    device_lost = reinterpret_cast<decltype(device_lost)>(dlsym(library, "softcuda_device_lost"));
    reset = reinterpret_cast<decltype(reset)>(dlsym(library, "softcuda_reset"));
    if (device_lost == nullptr || reset == nullptr) GTEST_SKIP() << "this libcuda does not lose devices on demand";
    context = need(CudaContext::create(0));
    ASSERT_TRUE(context);
    stream = need(newStream(context));
    gate = need(makeWordGate(context, poller));
    queue = need(RetireQueue::create(context));
    events = need(cuda::EventSource::create(context));
    ASSERT_TRUE(gate && queue && events);
  }
  void TearDown() override {
    if (reset != nullptr) reset();
  }
  void lose() { device_lost(context->device, CUDA_ERROR_LAUNCH_FAILED); }
  Status hold() {
    std::vector<Fence> fences;
    fences.push_back(fence.fence());
    return gate->hold(stream.get(), std::move(fences), notSoon(), record.as(1));
  }
  std::function<void()> release() {
    return [this] { ++released; };
  }

  void (*device_lost)(int device, int error) = nullptr;
  void (*reset)() = nullptr;
  FencePoller poller;
  Record record;
  Signal fence;
  std::atomic<int> released = 0;
  ContextPtr context;
  Stream stream;
  std::unique_ptr<StreamGate> gate;
  std::unique_ptr<RetireQueue> queue;
  std::shared_ptr<cuda::EventSource> events;
};

bool readable(int fd) {
  pollfd request = {fd, POLLIN, 0};
  return poll(&request, 1, 0) == 1;
}

TEST_F(DeviceLoss, BuffersComeBackAndEventsFail) {
  ASSERT_TRUE(hold());
  GstZcDeviceEvent *event = need(events->record(stream.get(), nullptr));
  const UniqueFd fd(gst_zc_device_event_make_fd(event));
  for (int i = 0; i < 3; ++i) queue->retire(stream.get(), release());
  EXPECT_FALSE(queue->drain(kGlance));
  EXPECT_FALSE(readable(fd.get()));
  lose();
  ASSERT_TRUE(eventually([&] { return released == 3; })) << "nobody asked";
  EXPECT_EQ(gst_zc_device_event_get_status(event), -EIO);
  EXPECT_TRUE(readable(fd.get()));
  gst_zc_device_event_unref(event);

  fence.signal();
  ASSERT_TRUE(record.reaches(1)) << "the kernel's fences go on";
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Signalled);
  const auto refused = hold();
  ASSERT_TRUE(refused) << "it is over by now";
  queue->retire(stream.get(), release());
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(released, 4);
  EXPECT_FALSE(events->record(stream.get(), nullptr));
  gate.reset();
  queue.reset();
  events.reset();
  EXPECT_EQ(released, 4);
  KeptForGood::clear();
}

TEST_F(DeviceLoss, TheEndOfAllThatWaits) {
  ASSERT_TRUE(hold());
  queue->retire(stream.get(), release());
  GstZcDeviceEvent *event = need(events->record(stream.get(), nullptr));
  const UniqueFd fd(gst_zc_device_event_make_fd(event));
  lose();
  Signal second;
  std::vector<Fence> fences;
  fences.push_back(second.fence());
  const auto refused = gate->hold(stream.get(), std::move(fences), notSoon(), record.as(2));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().remedy, "") << refused.error().message();
  gate.reset();
  ASSERT_EQ(record.size(), 1u);
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Cancelled);
  queue.reset();
  EXPECT_EQ(released, 1);
  events.reset();
  EXPECT_EQ(gst_zc_device_event_get_status(event), -EIO);
  gst_zc_device_event_unref(event);
  KeptForGood::clear();
}

} // namespace
