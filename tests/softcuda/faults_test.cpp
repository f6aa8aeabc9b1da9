// SPDX-License-Identifier: LGPL-2.1-or-later
// Failures on request, the context that they spoil, counters, and the leak check at the end of a process.
#include <cstdlib>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/softcuda/test_driver.h"

namespace gstzc::test {
namespace {

class Faults : public DriverTest {
protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (context_) {
      STAND_IN_ONLY("a device fails when it wants");
    }
  }
};

TEST_F(Faults, StrikeTheNthCall) {
  CUdeviceptr a = 0, b = 0;
  SOFT(fail)("cuMemAlloc_v2", 2, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(CU(cuMemAlloc_v2)(&a, 16), CUDA_SUCCESS);
  EXPECT_EQ(CU(cuMemAlloc_v2)(&b, 16), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(CU(cuMemAlloc_v2)(&b, 16), CUDA_SUCCESS);
  CU_OK(CU(cuMemFree_v2)(a));
  CU_OK(CU(cuMemFree_v2)(b));
}

TEST_F(Faults, StrikeEveryCall) {
  CUdeviceptr pointer = 0;
  SOFT(fail)("cuMemAlloc_v2", 0, CUDA_ERROR_OUT_OF_MEMORY);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(CU(cuMemAlloc_v2)(&pointer, 16), CUDA_ERROR_OUT_OF_MEMORY);
  SOFT(reset)();
  CU_OK(CU(cuMemAlloc_v2)(&pointer, 16));
  CU_OK(CU(cuMemFree_v2)(pointer));
}

TEST_F(Faults, DoNotKeepAnythingFromBeingFreed) {
  const CUdeviceptr pointer = newMemory(16);
  CUstream stream = newStream();
  CUevent event = newEvent();
  SOFT(fail)("cuMemFree_v2", 1, CUDA_ERROR_LAUNCH_FAILED);
  SOFT(fail)("cuStreamDestroy_v2", 1, CUDA_ERROR_LAUNCH_FAILED);
  SOFT(fail)("cuEventDestroy_v2", 1, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(CU(cuMemFree_v2)(pointer), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(CU(cuStreamDestroy_v2)(stream), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(CU(cuEventDestroy_v2)(event), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(SOFT(live)(nullptr), 0u) << SOFT(live_list)();
}

TEST_F(Faults, OnTheDeviceSpoilTheContext) {
  const CUdeviceptr pointer = newMemory(16);
  CUstream stream = newStream();
  CUevent event = newEvent();
  std::atomic<int> called{0};
  SOFT(fail_on_device)("cuMemsetD8Async", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuMemsetD8Async)(pointer, 0, 16, stream), CUDA_SUCCESS) << "nobody knows yet";
  EXPECT_EQ(CU(cuStreamSynchronize)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuEventRecord)(event, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuLaunchHostFunc)(
                stream, [](void *data) { ++*static_cast<std::atomic<int> *>(data); }, &called),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(CU(cuMemAlloc_v2)(&other, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuMemFree_v2)(pointer), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuStreamDestroy_v2)(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(CU(cuEventDestroy_v2)(event), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(called, 0);
  EXPECT_EQ(SOFT(live)(nullptr), 0u);
}

TEST_F(Faults, EndWhatIsWaiting) {
  void *word = nullptr;
  std::atomic<int> called{0};
  CU_OK(CU(cuMemHostAlloc)(&word, sizeof(uint32_t), 0));
  memset(word, 0, sizeof(uint32_t));
  CUstream waiting = newStream(), failing = newStream();
  CU_OK(CU(cuStreamWaitValue32_v2)(waiting, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_EQ));
  CU_OK(CU(cuMemsetD8Async)(reinterpret_cast<CUdeviceptr>(word), 0, 1, waiting));
  SOFT(fail_on_device)("cuLaunchHostFunc", 2, CUDA_ERROR_LAUNCH_FAILED);
  const CUhostFn count = [](void *data) { ++*static_cast<std::atomic<int> *>(data); };
  CU_OK(CU(cuLaunchHostFunc)(waiting, count, &called));
  CU_OK(CU(cuLaunchHostFunc)(failing, count, &called));
  EXPECT_EQ(CU(cuStreamSynchronize)(waiting), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(never([&] { return called != 0; })) << "host functions are not called in a spoilt context";
  EXPECT_EQ(CU(cuMemFreeHost)(word), CUDA_ERROR_LAUNCH_FAILED) << "not in use: nothing is executed any more";
  for (CUstream stream : {waiting, failing}) EXPECT_EQ(CU(cuStreamDestroy_v2)(stream), CUDA_ERROR_LAUNCH_FAILED);
}

TEST_F(Faults, LoseADevice) {
  CUcontext second = nullptr;
  SOFT(device_lost)(0, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(CU(cuCtxCreate_v2)(&second, 0, device_), CUDA_ERROR_UNKNOWN);
  SOFT(reset)();
  EXPECT_EQ(CU(cuCtxSynchronize)(), CUDA_ERROR_UNKNOWN) << "a context does not recover";
  CU_OK(CU(cuCtxCreate_v2)(&second, 0, device_));
  CU_OK(CU(cuCtxDestroy_v2)(second));
}

TEST_F(Faults, CountsCalls) {
  SOFT(reset)();
  CU_OK(CU(cuMemFree_v2)(newMemory(16)));
  CU_OK(CU(cuMemFree_v2)(newMemory(16)));
  EXPECT_EQ(SOFT(calls)("cuMemAlloc_v2"), 2u);
  EXPECT_EQ(SOFT(calls)("cuMemcpy2D_v2"), 0u);
  EXPECT_EQ(SOFT(calls)(nullptr), 4u);
  EXPECT_STREQ(SOFT(call_names)(), "cuMemAlloc_v2\ncuMemFree_v2\n");
}

TEST_F(Faults, CountsWhatLives) {
  CUstream stream = newStream();
  const CUdeviceptr pointer = newMemory(16);
  EXPECT_EQ(SOFT(live)("stream"), 1u);
  EXPECT_EQ(SOFT(live)("device memory"), 1u);
  EXPECT_EQ(SOFT(live)("event"), 0u);
  EXPECT_EQ(SOFT(live)("context"), 1u);
  EXPECT_EQ(SOFT(live)(nullptr), 2u);
  EXPECT_NE(std::string(SOFT(live_list)()).find("16 bytes, of cuMemAlloc_v2"), std::string::npos) << SOFT(live_list)();
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  CU_OK(CU(cuMemFree_v2)(pointer));
}

// Each function that this sequence calls fails once at each of its calls: nothing is left over, whatever fails.
TEST_F(Faults, SweepOverASequence) {
  const auto sequence = [] {
    CUdeviceptr pointer = 0;
    CUstream stream = nullptr;
    if (CU(cuMemAlloc_v2)(&pointer, 64) == CUDA_SUCCESS) {
      if (CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
        CU(cuMemsetD8Async)(pointer, 0, 64, stream);
        CU(cuStreamSynchronize)(stream);
        CU(cuCtxSynchronize)();
        CU(cuStreamDestroy_v2)(stream);
      }
      CU(cuMemFree_v2)(pointer);
    }
  };
  SOFT(reset)();
  sequence();
  std::istringstream names(SOFT(call_names)());
  std::vector<std::pair<std::string, uint64_t>> calls;
  for (std::string name; std::getline(names, name);) calls.emplace_back(name, SOFT(calls)(name.c_str()));
  EXPECT_EQ(calls.size(), 7u);
  for (const auto &[name, count] : calls) {
    for (unsigned nth = 1; nth <= count; ++nth) {
      SOFT(reset)();
      SOFT(fail)(name.c_str(), nth, CUDA_ERROR_UNKNOWN);
      sequence();
      EXPECT_EQ(SOFT(misuses)(), 0u) << name;
      EXPECT_EQ(SOFT(live)(nullptr), 0u) << name << " " << nth << "\n" << SOFT(live_list)();
    }
  }
  SOFT(reset)();
}

// In a process of its own: this program again, with one test that is not run otherwise.
int statusOfChild(const char *test, std::vector<std::pair<const char *, const char *>> variables) {
  const pid_t child = fork();
  if (child == 0) {
    for (const auto &[name, value] : variables) setenv(name, value, 1);
    unsetenv("GTEST_OUTPUT"); // the parent's report
    const std::string filter = std::string("--gtest_filter=") + test;
    execl("/proc/self/exe", "faults-child", filter.c_str(), "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class Child : public testing::Test {
protected:
  void SetUp() override {
    if (!libcuda()) GTEST_SKIP() << "no libcuda.so.1";
    STAND_IN_ONLY("its variables");
    CU_OK(CU(cuInit)(0));
    CU_OK(CU(cuCtxCreate_v2)(&context_, 0, 0));
  }
  CUcontext context_ = nullptr;
};

TEST_F(Child, DISABLED_LeaksMemory) {
  CUdeviceptr pointer;
  CU_OK(CU(cuMemAlloc_v2)(&pointer, 16));
}

TEST_F(Child, DISABLED_LeavesNothing) { CU_OK(CU(cuCtxDestroy_v2)(context_)); }

TEST_F(Child, DISABLED_FailsAsTheEnvironmentSays) {
  CUdeviceptr pointer;
  CU_OK(CU(cuMemAlloc_v2)(&pointer, 16));
  CU_OK(CU(cuMemFree_v2)(pointer));
  EXPECT_EQ(CU(cuMemAlloc_v2)(&pointer, 16), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(CU(cuMemsetD8Async)(0, 0, 16, nullptr), CUresult(719));
  CU_OK(CU(cuCtxDestroy_v2)(context_));
}

TEST_F(Child, DISABLED_EndsWithWorkThatWaits) {
  void *host;
  CUstream stream;
  CU_OK(CU(cuMemHostAlloc)(&host, 4, 0));
  memset(host, 0, 4);
  CU_OK(CU(cuStreamCreate)(&stream, 0));
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, reinterpret_cast<CUdeviceptr>(host), 1, CU_STREAM_WAIT_VALUE_GEQ));
}

TEST_F(Child, DISABLED_EndsWhileAStreamFrees) {
  CUstream stream;
  CU_OK(CU(cuStreamCreate)(&stream, 0));
  for (int i = 0; i < 20; ++i) {
    CUdeviceptr pointer;
    CU_OK(CU(cuMemAllocAsync)(&pointer, 100, stream));
    CU_OK(CU(cuMemsetD8Async)(pointer, 0, 100, stream));
    CU_OK(CU(cuMemFreeAsync)(pointer, stream));
  }
  CU_OK(CU(cuStreamDestroy_v2)(stream));
}

TEST_F(Child, DISABLED_MisusesTheDriver) {
  CUevent event;
  CU_OK(CU(cuEventCreate)(&event, 0));
  CU_OK(CU(cuEventDestroy_v2)(event));
  EXPECT_EQ(CU(cuEventDestroy_v2)(event), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Child, DISABLED_CountsItsDevices) {
  int count = 0, major = 0;
  char name[100];
  CU_OK(CU(cuDeviceGetCount)(&count));
  EXPECT_EQ(count, 3);
  CU_OK(CU(cuDeviceGetName)(name, sizeof name, 2));
  EXPECT_STREQ(name, "softcuda Thor");
  CU_OK(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2));
  EXPECT_EQ(major, 11);
  CU_OK(CU(cuCtxDestroy_v2)(context_));
}

constexpr int kLeakStatus = 99;

TEST_F(Faults, ALeakFailsTheProcess) {
  EXPECT_EQ(statusOfChild("Child.*LeaksMemory", {{"SOFTCUDA_LEAKCHECK", "1"}}), kLeakStatus);
  EXPECT_EQ(statusOfChild("Child.*LeaksMemory", {{"SOFTCUDA_LEAKCHECK", "0"}}), 0);
  EXPECT_EQ(statusOfChild("Child.*LeavesNothing", {{"SOFTCUDA_LEAKCHECK", "2"}}), 0);
}

TEST_F(Faults, MisuseFailsTheProcess) {
  EXPECT_EQ(statusOfChild("Child.*MisusesTheDriver", {{"SOFTCUDA_LEAKCHECK", "1"}}), kLeakStatus);
  EXPECT_EQ(statusOfChild("Child.*MisusesTheDriver", {{"SOFTCUDA_MISUSE", "abort"}}), -SIGABRT);
}

TEST_F(Faults, ComeFromTheEnvironment) {
  EXPECT_EQ(statusOfChild("Child.*FailsAsTheEnvironmentSays",
                          {{"SOFTCUDA_FAIL", "cuMemAlloc_v2:2=CUDA_ERROR_OUT_OF_MEMORY;cuMemsetD8Async=719"}}),
            0);
}

TEST_F(Faults, AProcessEndsThoughAStreamWaits) {
  EXPECT_EQ(statusOfChild("Child.*EndsWithWorkThatWaits", {{"SOFTCUDA_LEAKCHECK", "0"}}), 0);
}

TEST_F(Faults, AProcessEndsWhileAStreamFrees) {
  for (const char *delay : {"0", "1000", "20000"})
    EXPECT_EQ(
        statusOfChild("Child.*EndsWhileAStreamFrees", {{"SOFTCUDA_LEAKCHECK", "1"}, {"SOFTCUDA_DELAY_US", delay}}), 0);
}

TEST_F(Faults, DevicesComeFromTheEnvironment) {
  EXPECT_EQ(statusOfChild("Child.*CountsItsDevices", {{"SOFTCUDA_DEVICES", "3"}, {"SOFTCUDA_PROFILE", "thor"}}), 0);
}

} // namespace
} // namespace gstzc::test
