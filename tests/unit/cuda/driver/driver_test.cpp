// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/driver/driver.h"

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ext/cuda/driver/objects.h"

using namespace gstzc;
using namespace gstzc::cuda;

namespace {

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

TEST(DriverLibrary, WhereThereIsNoneTheErrorSaysHowToGetOne) {
  const auto driver = Driver::load("libcuda-of-nobody.so.1");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ENOENT);
  EXPECT_TRUE(has(driver.error().what, "libcuda-of-nobody.so.1")) << driver.error().message();
  EXPECT_TRUE(has(driver.error().remedy, "Install NVIDIA's driver")) << driver.error().message();
}

TEST(DriverLibrary, AFileThatIsNoLibraryIsNamedWithTheReason) {
  const auto driver = Driver::load("/proc/self/status");
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ELIBACC);
  EXPECT_TRUE(has(driver.error().what, "/proc/self/status: ")) << driver.error().message();
}

TEST(DriverLibrary, AMissingFunctionIsNamed) {
  const auto driver = Driver::load(GSTZC_STUB_LACKING);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ENOSYS);
  EXPECT_TRUE(has(driver.error().what, "cuEventDestroy_v2")) << driver.error().message();
  EXPECT_TRUE(has(driver.error().what, GSTZC_STUB_LACKING)) << driver.error().message();
  EXPECT_FALSE(driver.error().remedy.empty());
}

TEST(DriverLibrary, WhatCuInitAnswersIsToldWithARemedy) {
  const auto driver = Driver::load(GSTZC_STUB_REFUSING);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().code, ENODEV);
  EXPECT_TRUE(has(driver.error().what, "cuInit")) << driver.error().message();
  EXPECT_TRUE(has(driver.error().what, "100"))
      << "a library that has no names for its errors: " << driver.error().message();
  EXPECT_TRUE(has(driver.error().remedy, "nvidia-smi")) << driver.error().message();
}

TEST(DriverLibrary, OptionalFunctionsMayBeMissing) {
  const auto driver = Driver::load(GSTZC_STUB_OLD);
  ASSERT_TRUE(driver) << driver.error().message();
  EXPECT_NE(driver->cuLaunchKernel, nullptr);
  EXPECT_EQ(driver->cuStreamWaitValue32, nullptr);
  EXPECT_EQ(driver->cuImportExternalMemory, nullptr);
  EXPECT_EQ(driver->cuGraphicsEGLRegisterImage, nullptr);
}

TEST(DriverLibrary, TheProcessHasOne) {
  std::vector<std::thread> threads;
  std::vector<const Driver *> seen(4);
  for (auto &driver : seen)
    threads.emplace_back([&driver] {
      auto got = Driver::get();
      if (got) driver = *got;
    });
  for (auto &thread : threads) thread.join();
  ASSERT_NE(seen[0], nullptr) << Driver::get().error().message();
  for (const auto *driver : seen) EXPECT_EQ(driver, seen[0]);
  int version = 0;
  EXPECT_EQ(seen[0]->cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_GE(version, 11000);
}

class DriverErrors : public testing::Test {
protected:
  void SetUp() override { ASSERT_TRUE(Driver::get()) << Driver::get().error().message(); }
  const Driver &driver() { return **Driver::get(); }
};

TEST_F(DriverErrors, SuccessIsNone) { EXPECT_TRUE(driver().check(CUDA_SUCCESS, "cuInit")); }

TEST_F(DriverErrors, SayWhatWasTriedAndTheDriversWordsForIt) {
  const auto status = driver().check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc of 3110400 bytes");
  ASSERT_FALSE(status);
  EXPECT_TRUE(has(status.error().what, "cuMemAlloc of 3110400 bytes: ")) << status.error().what;
  EXPECT_TRUE(has(status.error().what, "out of memory")) << status.error().what;
  EXPECT_TRUE(has(status.error().what, "(CUDA_ERROR_OUT_OF_MEMORY)")) << status.error().what;
  EXPECT_EQ(status.error().code, ENOMEM);
}

TEST_F(DriverErrors, OfANumberThatTheDriverDoesNotKnowSayTheNumber) {
  const Error error = driver().error(static_cast<CUresult>(4242), "cuLaunchKernel");
  EXPECT_TRUE(has(error.what, "cuLaunchKernel: ")) << error.what;
  EXPECT_TRUE(has(error.what, "4242")) << error.what;
  EXPECT_EQ(error.code, EIO);
}

TEST_F(DriverErrors, HaveTheNearestErrno) {
  const std::pair<CUresult, int> table[] = {
      {CUDA_ERROR_OUT_OF_MEMORY, ENOMEM}, {CUDA_ERROR_INVALID_VALUE, EINVAL},  {CUDA_ERROR_INVALID_HANDLE, EINVAL},
      {CUDA_ERROR_NO_DEVICE, ENODEV},     {CUDA_ERROR_INVALID_DEVICE, ENODEV}, {CUDA_ERROR_NOT_SUPPORTED, ENOSYS},
      {CUDA_ERROR_LAUNCH_FAILED, EIO},    {CUDA_ERROR_UNKNOWN, EIO},
  };
  for (const auto &[result, code] : table) EXPECT_EQ(driver().error(result, "x").code, code) << result;
}

TEST_F(DriverErrors, OfALostDeviceSaySo) {
  EXPECT_TRUE(Driver::isFatal(CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_TRUE(Driver::isFatal(CUDA_ERROR_LAUNCH_FAILED));
  EXPECT_FALSE(Driver::isFatal(CUDA_ERROR_NOT_READY));
  EXPECT_FALSE(Driver::isFatal(CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_TRUE(has(driver().error(CUDA_ERROR_ILLEGAL_ADDRESS, "x").remedy, "started again"));
  EXPECT_EQ(driver().error(CUDA_ERROR_OUT_OF_MEMORY, "x").remedy, "");
}

TEST_F(DriverErrors, UnknownAttributesAreZero) {
  EXPECT_EQ(driver().attribute(0, static_cast<CUdevice_attribute>(99999)), 0);
  EXPECT_GT(driver().attribute(0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 0);
}

} // namespace
