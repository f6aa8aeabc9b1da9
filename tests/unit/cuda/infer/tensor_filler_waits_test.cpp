// SPDX-License-Identifier: LGPL-2.1-or-later
// The waits before a tensor is made are needed: left out, it is made of a frame that is not there yet, or of the one
// before.
#include "ext/cuda/infer/cuda_tensor_device.h"

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <vector>

#include <gst/gst.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ext/cuda/sync/cuda_event.h"
#include "gst/infer/preprocess/pixel_plan.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/dmabuf_memory.h"
#include "tests/support/frame_caps.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/mutations.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::infer;
using std::chrono::milliseconds;

namespace {

constexpr const char *kCaps = "video/x-raw(memory:DMABuf),format=NV12,width=64,height=48";
constexpr gsize kBytes = 64 * 48 * 3 / 2;
constexpr const char *kLargeCaps = "video/x-raw(memory:DMABuf),format=NV12,width=1920,height=1080"; // which can tell
constexpr gsize kLargeBytes = 1920 * 1080 * 3 / 2;
constexpr InputPlan kInput = {.width = 20, .height = 12};

std::vector<std::unique_ptr<ImportRoute>> bridgeOnly(const ContextPtr &context) {
  std::vector<std::unique_ptr<ImportRoute>> routes;
  routes.push_back(makeVulkanBridgeRoute(context));
  return routes;
}
std::vector<std::unique_ptr<ImportRoute>> registeredOnly(const ContextPtr &context) {
  std::vector<std::unique_ptr<ImportRoute>> routes;
  routes.push_back(makeHostRegisterRoute(context));
  return routes;
}

class TensorFillerMutations : public DeviceTest {
protected:
  void TearDown() override {
    device_.reset();
    DeviceTest::TearDown();
  }
  void makeDevice(const MakeRoutes &routes) { device_ = need(makeCudaTensorDevice(context, routes)); }

  struct Frame {
    explicit Frame(const gstzc::test::Wrapper &wrapper, gsize size = kBytes)
        : fd(gstzc::test::memfd(size)), buffer(gst_buffer_new()) {
      gst_buffer_append_memory(buffer, wrapper.wrap(fd.get(), size));
    }
    ~Frame() { gst_buffer_unref(buffer); }
    Frame(const Frame &) = delete;
    Frame &operator=(const Frame &) = delete;
    void write(guint8 grey) const {
      std::vector<guint8> bytes(kBytes, 128);
      std::fill_n(bytes.begin(), 64 * 48, grey);
      ASSERT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    UniqueFd fd;
    GstBuffer *buffer;
  };
  struct Tensor {
    std::shared_ptr<void> memory;
    std::future<Status> done;
    float first() const { return *static_cast<const float *>(memory.get()); }
  };
  Tensor fill(const Frame &frame, const char *caps_text = kCaps) {
    const FrameCaps caps = gstzc::test::frameCaps(caps_text);
    const auto plan = need(makePixelPlan(caps.info, kInput, {}));
    Tensor tensor;
    tensor.memory = need(device_->newHostMemory(kInput.bytes()));
    auto promise = std::make_shared<std::promise<Status>>();
    tensor.done = promise->get_future();
    EXPECT_TRUE(device_
                    ->fill(frame.buffer, caps, plan, {MemorySpace::Host, tensor.memory, kInput.bytes()}, Made::Done,
                           [promise](Status status) { promise->set_value(std::move(status)); })
                    .ok());
    return tensor;
  }
  float tensorOf(const Frame &frame) {
    Tensor tensor = fill(frame);
    EXPECT_EQ(tensor.done.wait_for(kPatience), std::future_status::ready);
    const Status status = tensor.done.get();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message());
    return tensor.first();
  }

  gstzc::test::Wrapper wrapper_;
  std::shared_ptr<TensorDevice> device_;
};

// Where the device reads a copy, that is made again for each frame.
TEST_F(TensorFillerMutations, EachFrameIsBroughtToTheDevice) {
  makeDevice(bridgeOnly);
  const Frame frame(wrapper_);
  frame.write(50);
  const float before = tensorOf(frame);
  EXPECT_EQ(device_->copies(), 1u);
  EXPECT_GE(device_->bytesCopied(), kBytes);
  expectNoticed("frame-refresh", [&](milliseconds) {
    frame.write(200);
    const float after = tensorOf(frame);
    frame.write(50);
    EXPECT_EQ(tensorOf(frame), before);
    return after != before;
  });
}

TEST_F(TensorFillerMutations, TheFramesWritersAreWaitedFor) {
  makeDevice(registeredOnly);
  auto events = need(cuda::EventSource::create(context));
  expectNoticed("frame-writers", [&](milliseconds patience) {
    const Frame frame(wrapper_);
    frame.write(50);
    const float before = tensorOf(frame);
    Tensor tensor;
    bool early = false;
    {
      const Blocker producer(context, other.get());
      GstZcDeviceEvent *event = need(events->record(other.get(), nullptr));
      gst_buffer_add_zc_event_meta(frame.buffer, event, 0);
      gst_zc_device_event_unref(event);
      tensor = fill(frame);
      early = tensor.done.wait_for(patience) == std::future_status::ready;
      frame.write(200);
    }
    EXPECT_EQ(tensor.done.wait_for(kPatience), std::future_status::ready);
    EXPECT_TRUE(tensor.done.get().ok());
    return !early && tensor.first() != before;
  });
}

TEST_F(TensorFillerMutations, AFrameThatIsStillWrittenIsNotCompared) {
  auto events = need(cuda::EventSource::create(context));
  expectNoticed("frame-check", [&](milliseconds patience) {
    makeDevice(registeredOnly); // one that has not compared any
    TestedDriver::reset();
    const Frame frame(wrapper_, kLargeBytes);
    Tensor tensor;
    bool compared = false;
    {
      const Blocker producer(context, other.get());
      GstZcDeviceEvent *event = need(events->record(other.get(), nullptr));
      gst_buffer_add_zc_event_meta(frame.buffer, event, 0);
      gst_zc_device_event_unref(event);
      tensor = fill(frame, kLargeCaps);
      compared = eventually([] { return TestedDriver::calls(Fn::cuMemcpy2DAsync) > 0; }, patience);
    }
    EXPECT_EQ(tensor.done.wait_for(kPatience), std::future_status::ready);
    EXPECT_TRUE(tensor.done.get().ok());
    return !compared;
  });
}

} // namespace
