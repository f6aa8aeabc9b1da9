// SPDX-License-Identifier: LGPL-2.1-or-later
// An ONNX Runtime whose provider for CUDA runs on libcuda: the real library, with the calls that concern a device
// replaced. A session "on CUDA" reads its inputs from the device's memory in the order of a stream, runs on the CPU in
// a host function of that stream, and writes its outputs back there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda.h>
#include <onnxruntime_c_api.h>

struct OrtCUDAProviderOptionsV2 {
  int device = 0;
  void *stream = nullptr;
};

namespace softort {

// The driver's functions that are used, of the libcuda that the process has.
struct Cuda {
  decltype(&::cuInit) init;
  decltype(&::cuDevicePrimaryCtxRetain) retain;
  decltype(&::cuDevicePrimaryCtxRelease_v2) release;
  decltype(&::cuCtxPushCurrent_v2) push;
  decltype(&::cuCtxPopCurrent_v2) pop;
  decltype(&::cuStreamCreate) createStream;
  decltype(&::cuStreamDestroy_v2) destroyStream;
  decltype(&::cuStreamSynchronize) synchronize;
  decltype(&::cuMemAlloc_v2) alloc;
  decltype(&::cuMemFree_v2) free;
  decltype(&::cuMemHostAlloc) allocHost;
  decltype(&::cuMemFreeHost) freeHost;
  decltype(&::cuMemcpyDtoHAsync_v2) toHost;
  decltype(&::cuMemcpyHtoDAsync_v2) toDevice;
  decltype(&::cuLaunchHostFunc) call;
  static const Cuda *get(); // null: there is no driver
};

// What a session on CUDA has; shared by its runs and outputs.
class Device {
public:
  // Null: the driver refuses.
  static std::shared_ptr<Device> open(int ordinal, void *stream);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  class Current { // context
  public:
    explicit Current(const Device &device) : cuda_(device.cuda) { cuda_.push(device.context); }
    ~Current() {
      CUcontext popped;
      cuda_.pop(&popped);
    }
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;

  private:
    const Cuda &cuda_;
  };

  // An arena in the order of the stream: what was given back is given out again at once.
  CUdeviceptr take(size_t bytes);
  void giveBack(CUdeviceptr pointer, size_t bytes);
  // Of the host, pinned; used again.
  void *takeHost(size_t bytes);
  void giveBackHost(void *pointer, size_t bytes);

  const Cuda &cuda;
  const int ordinal;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  bool owns_stream = false;
  std::atomic<int> pending = 0; // runs on the stream

private:
  Device(const Cuda &the_cuda, int the_ordinal) : cuda(the_cuda), ordinal(the_ordinal) {}
  std::mutex mutex_;
  std::multimap<size_t, CUdeviceptr> unused_;
  std::multimap<size_t, void *> unused_host_;
};

// All that this library knows beyond the real one; its mutex is for the rest.
struct State {
  const OrtApi *real = nullptr;
  std::mutex mutex;
  std::map<const void *, OrtCUDAProviderOptionsV2> options; // of session options with CUDA
  std::map<const void *, std::shared_ptr<Device>> sessions; // on CUDA
  std::map<const void *, bool> dont_wait;                   // of run options
  struct Output {
    std::shared_ptr<Device> device;
    CUdeviceptr pointer;
    size_t bytes;
  };
  std::map<const void *, Output> outputs; // values in the device's memory
  std::atomic<uint64_t> enqueued = 0, waited = 0, on_stream = 0, misuses = 0;
  std::atomic<int64_t> fail_run = 0; // counts down
};
State &state();
void misuse(const char *what);

inline OrtStatus *failed(const std::string &what) {
  return state().real->CreateStatus(ORT_FAIL, ("stand-in for CUDA: " + what).c_str());
}

void replaceBindings(OrtApi &api); // bindings.cpp

} // namespace softort
