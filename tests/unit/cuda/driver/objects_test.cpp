// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/driver/objects.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <gtest/gtest.h>

#include "tests/unit/cuda/support/device_test.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

CUcontext currentContext() {
  CUcontext current = nullptr;
  EXPECT_EQ((*Driver::get())->cuCtxGetCurrent(&current), CUDA_SUCCESS);
  return current;
}

TEST(CudaContext, LivesUntilTheLastReferenceAndIsNotLeftCurrent) {
  auto made = CudaContext::create(0);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(currentContext(), nullptr);
  {
    ContextScope scope(**made);
    ASSERT_TRUE(scope.status());
    EXPECT_EQ(currentContext(), (*made)->handle);
    CUdevice device = -1;
    EXPECT_EQ((*made)->driver.cuCtxGetDevice(&device), CUDA_SUCCESS);
    EXPECT_EQ(device, (*made)->device);
  }
  EXPECT_EQ(currentContext(), nullptr);
  const CUcontext handle = (*made)->handle;
  const Driver &driver = (*made)->driver;
  ContextPtr second = *made;
  made->reset();
  EXPECT_EQ(driver.cuCtxPushCurrent(handle), CUDA_SUCCESS) << "a reference is left";
  CUcontext popped;
  driver.cuCtxPopCurrent(&popped);
}

TEST(CudaContext, ADeviceThatIsNotThereIsRefusedWithTheirNumber) {
  for (const int ordinal : {-1, 1000}) {
    const auto made = CudaContext::create(ordinal);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ENODEV);
    EXPECT_NE(made.error().what.find(std::to_string(ordinal)), std::string::npos) << made.error().message();
    EXPECT_FALSE(made.error().remedy.empty());
  }
}

class Objects : public DeviceTest {};

TEST_F(Objects, AreDestroyedOnceByTheirLastOwner) {
  const auto destroyed = [] { return TestedDriver::calls(Fn::cuEventDestroy); };
  {
    Event a = need(newEvent(context));
    ASSERT_TRUE(a);
    const CUevent handle = a.get();
    Event b = std::move(a);
    EXPECT_FALSE(a); // NOLINT: that is what is tested
    EXPECT_EQ(b.get(), handle);
    Event &itself = b;
    b = std::move(itself);
    EXPECT_EQ(b.get(), handle);
    EXPECT_EQ(destroyed(), 0);
    Event c = need(newEvent(context));
    c = std::move(b);
    EXPECT_EQ(destroyed(), 1);
    EXPECT_EQ(c.get(), handle);
    c.reset();
    EXPECT_EQ(destroyed(), 2);
    c.reset();
  }
  EXPECT_EQ(destroyed(), 2);
  EXPECT_EQ(TestedDriver::calls(Fn::cuCtxPushCurrent), TestedDriver::calls(Fn::cuCtxPopCurrent));
  EXPECT_EQ(currentContext(), nullptr);
}

TEST_F(Objects, KeepTheirContext) {
  std::weak_ptr<const CudaContext> seen;
  {
    Stream kept;
    {
      const ContextPtr second = testContext();
      seen = second;
      kept = need(newStream(second));
    }
    EXPECT_FALSE(seen.expired());
  }
  EXPECT_TRUE(seen.expired());
}

TEST_F(Objects, PinnedMemoryIsZeroedAndSeenByTheDevice) {
  auto memory = need(allocPinned(context, 4096));
  ASSERT_TRUE(memory);
  const auto *bytes = static_cast<const char *>(memory.get());
  EXPECT_EQ(std::count(bytes, bytes + 4096, 0), 4096);
  ContextScope scope(*context);
  CUdeviceptr device = 0;
  EXPECT_EQ(context->driver.cuMemHostGetDevicePointer(&device, memory.get(), 0), CUDA_SUCCESS);
  EXPECT_NE(device, 0u);
}

TEST_F(Objects, DeviceMemoryHoldsWhatIsCopiedThere) {
  Work work(context);
  work.setSource(77);
  work.enqueue(stream.get());
  ASSERT_TRUE(becomesIdle(context, stream.get()));
  EXPECT_EQ(work.result(), 77u);
}

TEST_F(Objects, RefusalsNameTheCallAndItsSize) {
  const auto huge = allocDevice(context, size_t{1} << 60);
  ASSERT_FALSE(huge);
  EXPECT_NE(huge.error().what.find("cuMemAlloc of 1152921504606846976 bytes"), std::string::npos)
      << huge.error().message();
  const auto refused = [&](Fn function, auto make) {
    TestedDriver::failFunction(function, CUDA_ERROR_OUT_OF_MEMORY);
    const auto made = make();
    TestedDriver::failFunction(Fn::kCount, CUDA_SUCCESS);
    EXPECT_FALSE(made);
    return made ? std::string() : made.error().what;
  };
  EXPECT_NE(refused(Fn::cuStreamCreate, [&] { return newStream(context); }).find("cuStreamCreate"), std::string::npos);
  EXPECT_NE(refused(Fn::cuEventCreate, [&] { return newEvent(context); }).find("cuEventCreate"), std::string::npos);
  EXPECT_NE(refused(Fn::cuMemHostAlloc, [&] { return allocPinned(context, 12); }).find("cuMemHostAlloc of 12 bytes"),
            std::string::npos);
  EXPECT_NE(refused(Fn::cuCtxPushCurrent, [&] { return newStream(context); }).find("cuCtxPushCurrent"),
            std::string::npos);
}

} // namespace
