// SPDX-License-Identifier: LGPL-2.1-or-later
// Fixture of tests on a CUDA device: a context on a TestedDriver, streams that wait, and work whose result shows when
// it ran.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/sync/pinned_words.h"
#include "tests/unit/cuda/support/tested_driver.h"

namespace gstzc::cuda::test {

constexpr std::chrono::seconds kPatience{30};    // for what has to happen
constexpr std::chrono::milliseconds kGlance{30}; // for what must not

// Waits for a condition.
template <typename P> bool eventually(P condition, std::chrono::milliseconds patience = kPatience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The first device's, destroyed with the last reference.
inline ContextPtr testContext(const Driver &driver = TestedDriver::driver()) {
  auto real = CudaContext::create(0);
  EXPECT_TRUE(real.ok()) << (real.ok() ? "" : real.error().message());
  if (!real) return nullptr;
  const ContextPtr context = real.take();
  return std::make_shared<const CudaContext>(driver, context->handle, context->device,
                                             std::const_pointer_cast<CudaContext>(context));
}

template <typename T> T need(Result<T> result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message());
  return result.ok() ? result.take() : T{};
}

// These ask the driver itself, so that they also work when the tested one fails.
inline bool idle(const ContextPtr &context, CUstream stream) {
  const Driver &driver = **Driver::get();
  CUcontext popped;
  EXPECT_EQ(driver.cuCtxPushCurrent(context->handle), CUDA_SUCCESS);
  const bool idle = driver.cuStreamQuery(stream) == CUDA_SUCCESS;
  driver.cuCtxPopCurrent(&popped);
  return idle;
}
inline bool becomesIdle(const ContextPtr &context, CUstream stream,
                        std::chrono::milliseconds patience = std::chrono::milliseconds(kPatience)) {
  return eventually([&] { return idle(context, stream); }, patience);
}

// A number that goes from the host to the device and back in the order of a stream.
class Work {
public:
  explicit Work(const ContextPtr &context)
      : context_(context), host_(need(allocPinned(context, 128))), device_(need(allocDevice(context, 64))) {}

  void setSource(uint32_t value) { std::atomic_ref(*source()).store(value); }
  uint32_t result() const { return std::atomic_ref(*(source() + 16)).load(); }
  void enqueue(CUstream stream) const {
    const Driver &driver = **Driver::get();
    CUcontext popped;
    EXPECT_EQ(driver.cuCtxPushCurrent(context_->handle), CUDA_SUCCESS);
    EXPECT_EQ(driver.cuMemcpyHtoDAsync(device_.get(), source(), 4, stream), CUDA_SUCCESS);
    EXPECT_EQ(driver.cuMemcpyDtoHAsync(source() + 16, device_.get(), 4, stream), CUDA_SUCCESS);
    driver.cuCtxPopCurrent(&popped);
  }

private:
  uint32_t *source() const { return static_cast<uint32_t *>(host_.get()); }
  ContextPtr context_;
  PinnedMemory host_;
  DeviceMemory device_;
};

// What is enqueued on a stream after it waits for release(), or for the end of this.
class Blocker {
public:
  Blocker(const ContextPtr &context, CUstream stream)
      : context_(std::make_shared<const CudaContext>(**Driver::get(), context->handle, context->device,
                                                     std::const_pointer_cast<CudaContext>(context))),
        stream_(stream), word_(need(PinnedWord::take(context_, 0))) {
    const Driver &driver = **Driver::get();
    CUcontext popped;
    EXPECT_EQ(driver.cuCtxPushCurrent(context->handle), CUDA_SUCCESS);
    EXPECT_EQ(driver.cuStreamWaitValue32(stream, word_.address(), 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
    driver.cuCtxPopCurrent(&popped);
  }
  ~Blocker() {
    release();
    EXPECT_TRUE(becomesIdle(context_, stream_));
  }
  Blocker(const Blocker &) = delete;
  Blocker &operator=(const Blocker &) = delete;
  void release() const { word_.store(1); }

private:
  ContextPtr context_;
  CUstream stream_;
  PinnedWord word_;
};

class DeviceTest : public testing::Test {
protected:
  void SetUp() override {
    TestedDriver::reset();
    context = testContext();
    ASSERT_TRUE(context);
    stream = need(newStream(context));
    other = need(newStream(context));
    TestedDriver::reset();
  }
  void TearDown() override {
    EXPECT_EQ(TestedDriver::callsFromPoller(), 0) << "the poller's thread must never wait for the driver";
    EXPECT_EQ(TestedDriver::callsNotPermitted(), 0) << "a host function must not use CUDA";
    TestedDriver::reset();
  }

  ContextPtr context;
  Stream stream, other;
};

} // namespace gstzc::cuda::test
