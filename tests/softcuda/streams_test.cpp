// SPDX-License-Identifier: LGPL-2.1-or-later
// Streams and events: what is ordered, and that nothing else is.
#include "tests/softcuda/test_driver.h"

namespace gstzc::test {
namespace {

constexpr size_t kSize = 4096;

class Streams : public DriverTest {
protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (!context_) return;
    gate_ = std::make_unique<PinnedWord>();
    a_ = newStream();
    b_ = newStream();
    memory_ = newMemory(kSize);
    CU_OK(CU(cuMemsetD8Async)(memory_, 0, kSize, nullptr));
    CU_OK(CU(cuCtxSynchronize)());
  }
  void TearDown() override {
    if (context_) {
      gate_->set(1000); // whatever still waits
      EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
      EXPECT_EQ(CU(cuStreamDestroy_v2)(a_), CUDA_SUCCESS);
      EXPECT_EQ(CU(cuStreamDestroy_v2)(b_), CUDA_SUCCESS);
      EXPECT_EQ(CU(cuMemFree_v2)(memory_), CUDA_SUCCESS);
      gate_.reset();
    }
    DriverTest::TearDown();
  }
  // Holds a stream until open().
  void hold(CUstream stream, uint32_t until = 1) {
    CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate_->device(), until, CU_STREAM_WAIT_VALUE_GEQ));
  }
  void open(uint32_t value = 1) { gate_->set(value); }
  static CUresult call(CUstream stream, std::atomic<int> *counter) {
    return CU(cuLaunchHostFunc)(stream, [](void *data) { ++*static_cast<std::atomic<int> *>(data); }, counter);
  }

  std::unique_ptr<PinnedWord> gate_;
  CUstream a_ = nullptr, b_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(Streams, RunApartFromTheHostAndFromEachOther) {
  std::atomic<int> held{0}, free_running{0};
  hold(a_);
  CU_OK(call(a_, &held));
  CU_OK(call(b_, &free_running));
  CU_OK(CU(cuStreamSynchronize)(b_));
  EXPECT_EQ(free_running, 1);
  EXPECT_TRUE(isHeld(a_));
  EXPECT_EQ(CU(cuStreamQuery)(b_), CUDA_SUCCESS);
  EXPECT_EQ(held, 0);
  open();
  CU_OK(CU(cuStreamSynchronize)(a_));
  EXPECT_EQ(held, 1);
  EXPECT_EQ(CU(cuStreamQuery)(a_), CUDA_SUCCESS);
}

TEST_F(Streams, ExecuteInOrder) {
  std::vector<int> order;
  struct Step {
    std::vector<int> *order;
    int number;
  };
  std::vector<Step> steps;
  for (int i = 0; i < 50; ++i) steps.push_back({&order, i});
  for (Step &step : steps)
    CU_OK(CU(cuLaunchHostFunc)(
        a_, [](void *data) { static_cast<Step *>(data)->order->push_back(static_cast<Step *>(data)->number); }, &step));
  CU_OK(CU(cuStreamSynchronize)(a_));
  ASSERT_EQ(order.size(), steps.size());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[size_t(i)], i);
}

TEST_F(Streams, CopiesAreAsynchronous) {
  unsigned char *pinned = nullptr;
  CU_OK(CU(cuMemHostAlloc)(reinterpret_cast<void **>(&pinned), kSize, 0));
  memset(pinned, 0, kSize);
  hold(a_);
  CU_OK(CU(cuMemsetD8Async)(memory_, 0x5a, kSize, a_));
  CU_OK(CU(cuMemcpyDtoHAsync_v2)(pinned, memory_, kSize, a_));
  EXPECT_TRUE(isHeld(a_));
  EXPECT_EQ(pinned[0], 0);
  open();
  CU_OK(CU(cuStreamSynchronize)(a_));
  EXPECT_EQ(pinned[0], 0x5a);
  EXPECT_EQ(pinned[kSize - 1], 0x5a);
  CU_OK(CU(cuMemFreeHost)(pinned));
}

TEST_F(Streams, AnEventOrdersTwo) {
  std::atomic<int> after{0};
  CUevent event = newEvent();
  EXPECT_EQ(CU(cuEventQuery)(event), CUDA_SUCCESS) << "never recorded";
  hold(a_);
  CU_OK(CU(cuEventRecord)(event, a_));
  CU_OK(CU(cuStreamWaitEvent)(b_, event, 0));
  CU_OK(call(b_, &after));
  EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
  EXPECT_TRUE(isHeld(b_));
  EXPECT_EQ(after, 0);
  open();
  CU_OK(CU(cuEventSynchronize)(event));
  CU_OK(CU(cuStreamSynchronize)(b_));
  EXPECT_EQ(after, 1);
  CU_OK(CU(cuEventDestroy_v2)(event));
}

TEST_F(Streams, AWaitMeansTheRecordBeforeIt) {
  std::atomic<int> after{0};
  CUevent event = newEvent();
  CU_OK(CU(cuEventRecord)(event, a_));
  CU_OK(CU(cuStreamWaitEvent)(b_, event, 0));
  hold(a_);
  CU_OK(CU(cuEventRecord)(event, a_)); // moves the event, but not the wait
  CU_OK(call(b_, &after));
  CU_OK(CU(cuStreamSynchronize)(b_));
  EXPECT_EQ(after, 1);
  EXPECT_EQ(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
  open();
  CU_OK(CU(cuEventSynchronize)(event));
  CU_OK(CU(cuEventDestroy_v2)(event));
}

TEST_F(Streams, AnEventMayGoBeforeItIsOver) {
  std::atomic<int> after{0};
  CUevent event = newEvent();
  hold(a_);
  CU_OK(CU(cuEventRecord)(event, a_));
  CU_OK(CU(cuStreamWaitEvent)(b_, event, 0));
  CU_OK(CU(cuEventDestroy_v2)(event));
  CU_OK(call(b_, &after));
  EXPECT_TRUE(isHeld(b_));
  open();
  CU_OK(CU(cuStreamSynchronize)(b_));
  EXPECT_EQ(after, 1);
}

TEST_F(Streams, ADestroyedStreamStillDoesItsWork) {
  std::atomic<int> done{0};
  CUstream passing = newStream();
  hold(passing);
  CU_OK(call(passing, &done));
  CU_OK(CU(cuStreamDestroy_v2)(passing));
  EXPECT_TRUE(never([&] { return done == 1; }));
  open();
  EXPECT_TRUE(eventually([&] { return done == 1; }));
}

TEST_F(Streams, WaitForValuesInEachWay) {
  struct Case {
    unsigned flags;
    uint32_t wanted, no, yes;
  };
  const Case cases[] = {
      {CU_STREAM_WAIT_VALUE_GEQ, 5, 4, 6},
      {CU_STREAM_WAIT_VALUE_GEQ, 2, 0xfffffff0, 3}, // cyclic
      {CU_STREAM_WAIT_VALUE_EQ, 5, 6, 5},
      {CU_STREAM_WAIT_VALUE_AND, 0x10, 0x0f, 0x18},
      {CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0, 0x0f, 0x0e},
  };
  for (const Case &c : cases) {
    PinnedWord word;
    word.set(c.no);
    CU_OK(CU(cuStreamWaitValue32_v2)(a_, word.device(), c.wanted, c.flags));
    CU_OK(CU(cuStreamSynchronize)(b_));
    EXPECT_TRUE(isHeld(a_)) << c.flags << " " << c.wanted;
    word.set(c.yes);
    CU_OK(CU(cuStreamSynchronize)(a_));
  }
}

TEST_F(Streams, WriteValues) {
  PinnedWord word;
  hold(a_);
  CU_OK(CU(cuStreamWriteValue32_v2)(a_, word.device(), 99, 0));
  EXPECT_TRUE(never([&] { return word.get() != 0; }));
  open();
  EXPECT_TRUE(eventually([&] { return word.get() == 99; }));
  CU_OK(CU(cuStreamSynchronize)(a_));
  EXPECT_EQ(CU(cuStreamWriteValue32_v2)(a_, word.device() + 2, 1, 0), CUDA_ERROR_INVALID_VALUE) << "not aligned";
}

TEST_F(Streams, TheDefaultStreamWaitsForThoseThatOrderThemselves) {
  std::atomic<int> in_default{0}, behind{0};
  CUstream ordered = newStream(CU_STREAM_DEFAULT);
  hold(ordered);
  CU_OK(call(nullptr, &in_default));
  CU_OK(call(b_, &behind)); // non-blocking: on its own
  CU_OK(CU(cuStreamSynchronize)(b_));
  EXPECT_EQ(behind, 1);
  EXPECT_EQ(in_default, 0);
  EXPECT_TRUE(isHeld(nullptr));
  open();
  CU_OK(CU(cuStreamSynchronize)(nullptr));
  EXPECT_EQ(in_default, 1);

  std::atomic<int> later{0};
  hold(nullptr, 2);
  CU_OK(call(ordered, &later));
  CU_OK(CU(cuStreamSynchronize)(b_));
  EXPECT_TRUE(isHeld(ordered));
  EXPECT_EQ(later, 0);
  open(2);
  CU_OK(CU(cuStreamSynchronize)(ordered));
  EXPECT_EQ(later, 1);
  CU_OK(CU(cuStreamDestroy_v2)(ordered));
}

TEST_F(Streams, HostFunctionsMayNotCallTheDriver) {
  STAND_IN_ONLY("undefined on a device");
  std::atomic<int> result{-1};
  struct Inner {
    std::atomic<int> *result;
    CUstream stream;
  } inner{&result, b_};
  CU_OK(CU(cuLaunchHostFunc)(
      a_,
      [](void *data) {
        auto *of = static_cast<Inner *>(data);
        *of->result = CU(cuStreamQuery)(of->stream);
      },
      &inner));
  CU_OK(CU(cuStreamSynchronize)(a_));
  EXPECT_EQ(result, int(CUDA_ERROR_NOT_PERMITTED));
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(Streams, EventsMeasureTime) {
  CUevent from = newEvent(CU_EVENT_DEFAULT), to = newEvent(CU_EVENT_DEFAULT), without = newEvent();
  float milliseconds = -1;
  CU_OK(CU(cuEventRecord)(from, a_));
  CU_OK(CU(cuEventRecord)(without, a_));
  hold(a_);
  CU_OK(CU(cuEventRecord)(to, a_));
  EXPECT_EQ(CU(cuEventElapsedTime)(&milliseconds, from, to), CUDA_ERROR_NOT_READY);
  open();
  CU_OK(CU(cuStreamSynchronize)(a_));
  CU_OK(CU(cuEventElapsedTime)(&milliseconds, from, to));
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(CU(cuEventElapsedTime)(&milliseconds, without, to), CUDA_ERROR_INVALID_HANDLE);
  for (CUevent event : {from, to, without}) CU_OK(CU(cuEventDestroy_v2)(event));
}

TEST_F(Streams, OfAnotherContextOrderThroughEvents) {
  CUcontext second = nullptr, popped;
  std::atomic<int> after{0};
  CUevent event = newEvent();
  hold(a_);
  CU_OK(CU(cuEventRecord)(event, a_));
  CU_OK(CU(cuCtxCreate_v2)(&second, 0, device_));
  CUstream other = newStream();
  EXPECT_NE(CU(cuEventRecord)(event, other), CUDA_SUCCESS) << "an event records its own context";
  CU_OK(CU(cuStreamWaitEvent)(other, event, 0));
  CU_OK(call(other, &after));
  EXPECT_TRUE(isHeld(other));
  open();
  CU_OK(CU(cuStreamSynchronize)(other));
  EXPECT_EQ(after, 1);
  CU_OK(CU(cuStreamDestroy_v2)(other));
  CU_OK(CU(cuCtxPopCurrent_v2)(&popped));
  CU_OK(CU(cuCtxDestroy_v2)(second));
  CU_OK(CU(cuEventDestroy_v2)(event));
}

TEST_F(Streams, EachThreadHasItsOwn) {
  std::atomic<int> done{0};
  hold(CU_STREAM_PER_THREAD);
  CU_OK(call(CU_STREAM_PER_THREAD, &done));
  std::thread([&] {
    ASSERT_EQ(CU(cuCtxPushCurrent_v2)(context_), CUDA_SUCCESS);
    std::atomic<int> other{0};
    EXPECT_EQ(call(CU_STREAM_PER_THREAD, &other), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuStreamSynchronize)(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    EXPECT_EQ(other, 1);
  }).join();
  EXPECT_TRUE(never([&] { return done == 1; }));
  open();
  CU_OK(CU(cuStreamSynchronize)(CU_STREAM_PER_THREAD));
  EXPECT_EQ(done, 1);
}

TEST_F(Streams, DelaysLetAMissingWaitShow) {
  STAND_IN_ONLY("a device is as fast as it is");
  unsigned char byte = 0;
  SOFT(set_delay_us)(unsigned(std::chrono::microseconds(kPatience).count()));
  CU_OK(CU(cuMemsetD8Async)(memory_, 7, 1, a_));
  CU_OK(CU(cuMemcpyDtoHAsync_v2)(&byte, memory_, 1, a_));
  EXPECT_TRUE(isHeld(a_));
  SOFT(set_delay_us)(0);
  CU_OK(CU(cuStreamSynchronize)(a_));
  EXPECT_EQ(byte, 7);
}

} // namespace
} // namespace gstzc::test
