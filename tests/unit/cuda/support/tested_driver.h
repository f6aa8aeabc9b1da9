// SPDX-License-Identifier: LGPL-2.1-or-later
// The process's CUDA driver, every function of which is counted and can be made to fail. It belongs to the tests of a
// program together: reset() first.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>

#include <pthread.h>

#include <gtest/gtest.h>

#include "ext/cuda/driver/driver.h"

namespace gstzc::cuda::test {

#define GSTZC_TEST_NAME(name, symbol) name,
enum class Fn : size_t { GSTZC_CUDA_REQUIRED(GSTZC_TEST_NAME) GSTZC_CUDA_OPTIONAL(GSTZC_TEST_NAME) kCount };
#undef GSTZC_TEST_NAME

class TestedDriver {
public:
  static constexpr long kNever = std::numeric_limits<long>::max();

  // With all functions of Driver::get(), which has to work.
  static const Driver &driver() {
    static const Driver driver = wrapped();
    return driver;
  }

  static void reset() {
    for (auto &count : counts()) count = 0;
    fail_at() = kNever;
    lost() = false;
    from_poller() = 0;
    not_permitted() = 0;
    failFunction(Fn::kCount, CUDA_SUCCESS);
  }

  // Calls since reset().
  static long calls(Fn function) { return counts()[static_cast<size_t>(function)]; }
  static long calls() {
    long all = 0;
    for (const auto &count : counts()) all += count;
    return all;
  }
  // Calls that were made by a thread of a FencePoller, and calls inside host functions.
  static long callsFromPoller() { return from_poller(); }
  static long callsNotPermitted() { return not_permitted(); }

  // The nth call from now on (1: the next) fails, whatever it is. Functions that only destroy are not counted: nobody
  // can do anything about those.
  static void failCall(long nth) { fail_at() = nth; }
  static bool hasFailed() { return fail_at() <= 0; }
  static void failFunction(Fn function, CUresult result) {
    fail_with() = result;
    failing() = function;
  }
  // From now on every call fails, as after a fault of the device.
  static void loseDevice() { lost() = true; }

private:
  template <Fn F, typename Signature> struct Wrapper;
  template <Fn F, typename... A> struct Wrapper<F, CUresult (*)(A...)> {
    static inline CUresult (*real)(A...) = nullptr;
    static CUresult call(A... arguments) {
      if (const CUresult result = enter(F); result != CUDA_SUCCESS) return result;
      const CUresult result = real(arguments...);
      if (result == CUDA_ERROR_NOT_PERMITTED) ++not_permitted();
      return result;
    }
  };

  static CUresult enter(Fn function) {
    if (function == Fn::cuGetErrorName || function == Fn::cuGetErrorString) return CUDA_SUCCESS;
    ++counts()[static_cast<size_t>(function)];
    char thread[16] = "";
    pthread_getname_np(pthread_self(), thread, sizeof thread);
    if (std::strcmp(thread, "gstzc-fences") == 0) ++from_poller();
    // what only destroys is let through even when all is lost: the stand-in has to get rid of it
    switch (function) {
    case Fn::cuCtxPopCurrent:
    case Fn::cuCtxDestroy:
    case Fn::cuMemFree:
    case Fn::cuMemFreeHost:
    case Fn::cuStreamDestroy:
    case Fn::cuEventDestroy:
    case Fn::cuModuleUnload: return CUDA_SUCCESS;
    default: break;
    }
    if (lost()) return function == Fn::cuCtxPushCurrent ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
    if (failing() == function) return fail_with();
    if (fail_at() != kNever && --fail_at() == 0) return CUDA_ERROR_UNKNOWN;
    return CUDA_SUCCESS;
  }

  static Driver wrapped() {
    const auto got = Driver::get();
    EXPECT_TRUE(got.ok()) << (got.ok() ? "" : got.error().message());
    Driver driver = got.ok() ? **got : Driver{};
#define GSTZC_TEST_WRAP(name, symbol)                         \
  if (driver.name != nullptr) {                               \
    using Wrapped = Wrapper<Fn::name, decltype(driver.name)>; \
    Wrapped::real = driver.name;                              \
    driver.name = Wrapped::call;                              \
  }
    GSTZC_CUDA_REQUIRED(GSTZC_TEST_WRAP)
    GSTZC_CUDA_OPTIONAL(GSTZC_TEST_WRAP)
#undef GSTZC_TEST_WRAP
    return driver;
  }

  using Counts = std::array<std::atomic<long>, static_cast<size_t>(Fn::kCount)>;
  static Counts &counts() {
    static Counts counts{};
    return counts;
  }
  static std::atomic<long> &fail_at() {
    static std::atomic<long> at = kNever;
    return at;
  }
  static std::atomic<bool> &lost() {
    static std::atomic<bool> lost = false;
    return lost;
  }
  static std::atomic<long> &from_poller() {
    static std::atomic<long> calls = 0;
    return calls;
  }
  static std::atomic<long> &not_permitted() {
    static std::atomic<long> calls = 0;
    return calls;
  }
  static std::atomic<Fn> &failing() {
    static std::atomic<Fn> function = Fn::kCount;
    return function;
  }
  static std::atomic<CUresult> &fail_with() {
    static std::atomic<CUresult> result = CUDA_SUCCESS;
    return result;
  }
};

} // namespace gstzc::cuda::test
