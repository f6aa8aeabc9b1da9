// SPDX-License-Identifier: LGPL-2.1-or-later
// External semaphores of the stand-in: truly in the order of a stream, and only those made for it.
#include <sys/eventfd.h>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop_test.h"

namespace gstzc::test {
namespace {

using softcuda::SharedSemaphore;
constexpr auto kNow = std::chrono::nanoseconds(0);

class ExternalSemaphoreTest : public InteropTest {
protected:
  static CUresult import(CUexternalSemaphore *semaphore, CUexternalSemaphoreHandleType type, int fd) {
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC description{};
    description.type = type;
    description.handle.fd = fd;
    return CU(cuImportExternalSemaphore)(semaphore, &description);
  }
  static CUexternalSemaphore timeline(const SharedSemaphore &of) {
    CUexternalSemaphore semaphore = nullptr;
    EXPECT_EQ(import(&semaphore, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, of.duplicate()),
              CUDA_SUCCESS);
    return semaphore;
  }
  static CUresult wait(CUexternalSemaphore semaphore, uint64_t value, CUstream stream) {
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS parameters{};
    parameters.params.fence.value = value;
    return CU(cuWaitExternalSemaphoresAsync)(&semaphore, &parameters, 1, stream);
  }
  static CUresult signal(CUexternalSemaphore semaphore, uint64_t value, CUstream stream) {
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS parameters{};
    parameters.params.fence.value = value;
    return CU(cuSignalExternalSemaphoresAsync)(&semaphore, &parameters, 1, stream);
  }
};

TEST_F(ExternalSemaphoreTest, AStreamWaitsForATimelineAndTheCallerDoesNot) {
  const auto shared = SharedSemaphore::create(true, 3);
  const CUexternalSemaphore semaphore = timeline(*shared);
  const CUstream stream = newStream();
  CU_OK(wait(semaphore, 3, stream)); // reached already
  CU_OK(CU(cuStreamSynchronize)(stream));
  CU_OK(wait(semaphore, 5, stream));
  EXPECT_TRUE(isHeld(stream));
  shared->signal(4);
  EXPECT_TRUE(isHeld(stream));
  shared->signal(5);
  CU_OK(CU(cuStreamSynchronize)(stream));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuDestroyExternalSemaphore)(semaphore));
}

TEST_F(ExternalSemaphoreTest, AStreamSignalsWhenItGetsThere) {
  const auto shared = SharedSemaphore::create(true, 0);
  const CUexternalSemaphore semaphore = timeline(*shared);
  const CUstream stream = newStream();
  PinnedWord gate;
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate.device(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  CU_OK(signal(semaphore, 7, stream));
  EXPECT_FALSE(shared->wait(7, std::chrono::milliseconds(20)));
  gate.set(1);
  EXPECT_TRUE(shared->wait(7, kPatience));
  CU_OK(CU(cuStreamSynchronize)(stream));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuDestroyExternalSemaphore)(semaphore));
}

TEST_F(ExternalSemaphoreTest, ABinaryOneIsConsumedByItsWait) {
  const auto shared = SharedSemaphore::create(false, 0);
  CUexternalSemaphore semaphore;
  CU_OK(import(&semaphore, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, shared->duplicate()));
  const CUstream stream = newStream();
  CU_OK(signal(semaphore, 0, stream));
  CU_OK(wait(semaphore, 0, stream));
  CU_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_FALSE(shared->wait(0, kNow));
  CU_OK(wait(semaphore, 0, stream));
  EXPECT_TRUE(isHeld(stream));
  shared->signal(0);
  CU_OK(CU(cuStreamSynchronize)(stream));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuDestroyExternalSemaphore)(semaphore));
}

TEST_F(ExternalSemaphoreTest, RefusesWhatIsNoSemaphoreOfItsKind) {
  const auto steps = SharedSemaphore::create(true, 0), once = SharedSemaphore::create(false, 0);
  CUexternalSemaphore semaphore;
  const UniqueFd fence(eventfd(0, EFD_CLOEXEC)), a(steps->duplicate()), b(once->duplicate());
  const UniqueFd memory(softcuda::createOpaque(softcuda::Opaque::Memory, 4096));
  constexpr auto kTimeline = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
  constexpr auto kOpaque = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
  EXPECT_EQ(import(&semaphore, kOpaque, fence.get()), CUDA_ERROR_INVALID_HANDLE); // a fence is no type of its own
  EXPECT_EQ(import(&semaphore, kTimeline, fence.get()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(import(&semaphore, kTimeline, memory.get()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(import(&semaphore, kOpaque, a.get()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(import(&semaphore, kTimeline, b.get()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(import(&semaphore, static_cast<CUexternalSemaphoreHandleType>(6), a.get()), CUDA_ERROR_NOT_SUPPORTED);
  SOFT(set_profile)("orin");
  EXPECT_EQ(import(&semaphore, kTimeline, a.get()), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(softcuda::isOpen(a.get()) && softcuda::isOpen(b.get())); // nothing was taken
}

TEST_F(ExternalSemaphoreTest, TakesTheDescriptor) {
  const auto shared = SharedSemaphore::create(true, 0);
  CUexternalSemaphore semaphore;
  const int fd = shared->duplicate();
  CU_OK(import(&semaphore, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, fd));
  close(fd);
  CU_OK(CU(cuDestroyExternalSemaphore)(semaphore));
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(ExternalSemaphoreTest, CatchesDestructionUnderAWaitAndBackwardSignals) {
  const auto shared = SharedSemaphore::create(true, 0);
  const CUexternalSemaphore semaphore = timeline(*shared), other = timeline(*shared);
  const CUstream stream = newStream();
  CU_OK(wait(semaphore, 1, stream));
  CU_OK(CU(cuDestroyExternalSemaphore)(semaphore));
  EXPECT_EQ(takeMisuses(), 1u);
  shared->signal(1);
  CU_OK(signal(other, 1, stream)); // it is there already
  CU_OK(CU(cuStreamSynchronize)(stream));
  EXPECT_EQ(takeMisuses(), 1u);
  EXPECT_EQ(wait(semaphore, 1, stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(takeMisuses(), 1u);
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuDestroyExternalSemaphore)(other));
}

} // namespace
} // namespace gstzc::test
