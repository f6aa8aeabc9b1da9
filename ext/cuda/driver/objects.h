// SPDX-License-Identifier: LGPL-2.1-or-later
// Owners of the driver's objects. All of them belong to a context, which is made current for the call and for nothing
// else; the context lives longer than they do (CudaContext holds it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ext/cuda/driver/driver.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// A context somebody keeps alive: an owner of ours (tests), or a GstCudaContext of which `keep` holds a reference.
// Immutable, shared, thread-safe.
class CudaContext {
public:
  CudaContext(const Driver &the_driver, CUcontext the_handle, CUdevice the_device, std::shared_ptr<void> keep)
      : driver(the_driver), handle(the_handle), device(the_device), keep_(std::move(keep)) {}
  CudaContext(const CudaContext &) = delete;
  CudaContext &operator=(const CudaContext &) = delete;

  // A context of our own on device `ordinal`; destroyed with the last reference.
  static Result<std::shared_ptr<const CudaContext>> create(int ordinal);

  const Driver &driver;
  const CUcontext handle;
  const CUdevice device;

private:
  const std::shared_ptr<void> keep_;
};
using ContextPtr = std::shared_ptr<const CudaContext>;

// Makes a context current for a block.
class ContextScope {
public:
  explicit ContextScope(const CudaContext &context)
      : driver_(context.driver), result_(driver_.cuCtxPushCurrent(context.handle)) {}
  ~ContextScope() {
    CUcontext popped;
    if (result_ == CUDA_SUCCESS) driver_.cuCtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;
  Status status() const { return driver_.check(result_, "cuCtxPushCurrent"); } // not ok: nothing is current

private:
  const Driver &driver_;
  const CUresult result_;
};

// Move-only owner of a handle H that needs its context to be destroyed; `Free` is a member of Driver. What the driver
// says when it is freed is ignored: after a device fault every call fails, and nothing can be done about it.
template <typename H, auto Free> class Owned {
public:
  Owned() = default;
  Owned(ContextPtr context, H handle) : context_(std::move(context)), handle_(handle) {}
  Owned(Owned &&other) noexcept : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, H{})) {}
  Owned &operator=(Owned &&other) noexcept {
    if (this != &other) {
      reset();
      context_ = std::move(other.context_);
      handle_ = std::exchange(other.handle_, H{});
    }
    return *this;
  }
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() { reset(); }

  H get() const { return handle_; }
  explicit operator bool() const { return handle_ != H{}; }
  void reset() {
    if (handle_ != H{} && !freed(false)) freed(true); // who was refused the context once tries again
    handle_ = H{};
    context_.reset();
  }

private:
  bool freed(bool anyhow) {
    ContextScope scope(*context_);
    if (!anyhow && !scope.status()) return false;
    (context_->driver.*Free)(handle_);
    return true;
  }

  ContextPtr context_;
  H handle_{};
};

using Stream = Owned<CUstream, &Driver::cuStreamDestroy>;
using Event = Owned<CUevent, &Driver::cuEventDestroy>;
using DeviceMemory = Owned<CUdeviceptr, &Driver::cuMemFree>;
using PinnedMemory = Owned<void *, &Driver::cuMemFreeHost>; // of the host, that the device sees
using Module = Owned<CUmodule, &Driver::cuModuleUnload>;
using ExternalMemory = Owned<CUexternalMemory, &Driver::cuDestroyExternalMemory>;
using ExternalSemaphore = Owned<CUexternalSemaphore, &Driver::cuDestroyExternalSemaphore>;
using GraphicsResource = Owned<CUgraphicsResource, &Driver::cuGraphicsUnregisterResource>;

Result<Stream> newStream(const ContextPtr &context); // one that does not order itself with the default stream
Result<Event> newEvent(const ContextPtr &context);   // without timing
Result<DeviceMemory> allocDevice(const ContextPtr &context, size_t bytes);
Result<PinnedMemory> allocPinned(const ContextPtr &context, size_t bytes); // zeroed, seen by all contexts

} // namespace gstzc::cuda
