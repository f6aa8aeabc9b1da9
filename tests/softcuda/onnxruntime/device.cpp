// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cstdio>

#include <dlfcn.h>

#include "tests/softcuda/onnxruntime/internal.h"

namespace softort {

const Cuda *Cuda::get() {
  static const Cuda *const cuda = []() -> const Cuda * {
    void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return nullptr;
    auto *found = new Cuda();
    bool all = true;
    const auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      all = all && function != nullptr;
    };
    find(found->init, "cuInit");
    find(found->retain, "cuDevicePrimaryCtxRetain");
    find(found->release, "cuDevicePrimaryCtxRelease_v2");
    find(found->push, "cuCtxPushCurrent_v2");
    find(found->pop, "cuCtxPopCurrent_v2");
    find(found->createStream, "cuStreamCreate");
    find(found->destroyStream, "cuStreamDestroy_v2");
    find(found->synchronize, "cuStreamSynchronize");
    find(found->alloc, "cuMemAlloc_v2");
    find(found->free, "cuMemFree_v2");
    find(found->allocHost, "cuMemHostAlloc");
    find(found->freeHost, "cuMemFreeHost");
    find(found->toHost, "cuMemcpyDtoHAsync_v2");
    find(found->toDevice, "cuMemcpyHtoDAsync_v2");
    find(found->call, "cuLaunchHostFunc");
    return all && found->init(0) == CUDA_SUCCESS ? found : nullptr;
  }();
  return cuda;
}

std::shared_ptr<Device> Device::open(int ordinal, void *stream) {
  const Cuda *cuda = Cuda::get();
  if (cuda == nullptr) return nullptr;
  auto device = std::shared_ptr<Device>(new Device(*cuda, ordinal));
  if (cuda->retain(&device->context, ordinal) != CUDA_SUCCESS) {
    device->context = nullptr;
    return nullptr;
  }
  device->stream = static_cast<CUstream>(stream);
  if (stream != nullptr) return device;
  const Current here(*device);
  if (cuda->createStream(&device->stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return nullptr;
  device->owns_stream = true;
  return device;
}

Device::~Device() {
  if (context == nullptr) return;
  {
    const Current here(*this);
    for (const auto &[bytes, pointer] : unused_) cuda.free(pointer);
    for (const auto &[bytes, pointer] : unused_host_) cuda.freeHost(pointer);
    if (owns_stream) cuda.destroyStream(stream);
  }
  cuda.release(ordinal);
}

CUdeviceptr Device::take(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = unused_.find(bytes); found != unused_.end()) {
      const CUdeviceptr pointer = found->second;
      unused_.erase(found);
      return pointer;
    }
  }
  CUdeviceptr pointer = 0;
  return cuda.alloc(&pointer, bytes) == CUDA_SUCCESS ? pointer : 0;
}

void Device::giveBack(CUdeviceptr pointer, size_t bytes) {
  const std::lock_guard lock(mutex_);
  unused_.emplace(bytes, pointer);
}

void *Device::takeHost(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = unused_host_.find(bytes); found != unused_host_.end()) {
      void *const pointer = found->second;
      unused_host_.erase(found);
      return pointer;
    }
  }
  void *pointer = nullptr;
  return cuda.allocHost(&pointer, bytes, 0) == CUDA_SUCCESS ? pointer : nullptr;
}

void Device::giveBackHost(void *pointer, size_t bytes) {
  const std::lock_guard lock(mutex_);
  unused_host_.emplace(bytes, pointer);
}

State &state() {
  static auto *const state = new State; // sessions may go at exit
  return *state;
}

void misuse(const char *what) {
  ++state().misuses;
  std::fprintf(stderr, "softonnxruntime: misuse: %s\n", what);
}

} // namespace softort
