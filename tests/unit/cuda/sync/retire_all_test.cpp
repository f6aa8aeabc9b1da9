// SPDX-License-Identifier: LGPL-2.1-or-later
// RetireQueue::retireBehindAll(): what may be read on streams that nobody has told.
#include "ext/cuda/sync/retire_queue.h"

#include <atomic>

#include <gtest/gtest.h>

#include "tests/support/softcuda_control.h"
#include "tests/unit/cuda/support/gst_device_test.h"
#include "tests/unit/cuda/support/mutations.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using gstzc::test::SoftCuda;
using namespace std::chrono_literals;

namespace {

class RetireAll : public GstDeviceTest {
protected:
  void SetUp() override {
    GstDeviceTest::SetUp();
    if (HasFatalFailure()) return;
    readers_ = gst_cuda_stream_new(gst_context_);
    own_ = need(newStream(context_));
    queue = need(RetireQueue::create(context_));
    ASSERT_TRUE(queue);
  }
  void TearDown() override {
    queue.reset();
    own_.reset();
    gst_clear_cuda_stream(&readers_);
    GstDeviceTest::TearDown();
  }
  CUstream memorys() const { return gst_cuda_stream_get_handle(producer_); }
  CUstream readers() const { return gst_cuda_stream_get_handle(readers_); }

  // Whether a release comes only after what `busy` has to do, as far as it shows within `patience`.
  bool waitsFor(CUstream busy, std::chrono::milliseconds patience) {
    std::atomic<int> released = 0;
    bool early = false;
    {
      const Blocker blocker(context_, busy);
      queue->retireBehindAll(memorys(), [&] { ++released; });
      early = eventually([&] { return released > 0; }, patience);
    }
    EXPECT_TRUE(queue->drain(kPatience));
    EXPECT_EQ(released, 1);
    return !early;
  }

  GstCudaStream *readers_ = nullptr;
  Stream own_;
  std::unique_ptr<RetireQueue> queue;
};

TEST_F(RetireAll, WaitsForAStreamThatItWasNotTold) {
  expectNoticed("retire-all", [this](std::chrono::milliseconds patience) { return waitsFor(readers(), patience); });
}

TEST_F(RetireAll, WaitsForTheMemorysStreamToo) { EXPECT_TRUE(waitsFor(memorys(), kGlance)); }

// What makes it so: all of libgstcuda's streams order themselves with the default one
TEST_F(RetireAll, StreamsOfLibgstcudaOrderThemselves) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto flags_of = reinterpret_cast<CUresult (*)(CUstream, unsigned *)>(dlsym(library, "cuStreamGetFlags"));
  ASSERT_NE(flags_of, nullptr);
  gst_cuda_context_push(gst_context_);
  unsigned flags = CU_STREAM_NON_BLOCKING;
  EXPECT_EQ(flags_of(readers(), &flags), CUDA_SUCCESS);
  gst_cuda_context_pop(nullptr);
  EXPECT_EQ(flags, static_cast<unsigned>(CU_STREAM_DEFAULT));
}

TEST_F(RetireAll, DoesNotWaitForStreamsThatKeepApart) {
  const Blocker blocker(context_, own_.get());
  std::atomic<int> released = 0;
  queue->retireBehindAll(memorys(), [&] { ++released; });
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(released, 1);
}

TEST_F(RetireAll, NoOtherReleaseWaitsForAll) {
  const Blocker blocker(context_, readers());
  std::atomic<int> released = 0;
  queue->retire(memorys(), [&] { ++released; });
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(released, 1);
}

TEST_F(RetireAll, WhicheverCallFailsOnceItIsNotEarly) {
  if (!SoftCuda::get().there()) GTEST_SKIP() << "a driver cannot be told to fail";
  for (const char *call : {"cuEventRecord", "cuStreamWaitEvent", "cuLaunchHostFunc", "cuEventQuery", "cuStreamQuery"})
    for (const unsigned nth : {1u, 2u, 3u}) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(nth));
      SoftCuda::get().fail(call, nth, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_TRUE(waitsFor(readers(), kGlance));
      SoftCuda::get().reset();
    }
}

} // namespace
