// SPDX-License-Identifier: LGPL-2.1-or-later
// Our kernels on one device.
#pragma once

#include <memory>
#include <string>

#include "ext/cuda/driver/objects.h"
#include "gst/infer/preprocess/pixel_layout.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// Immutable, shared, thread-safe. Keeps its context.
class KernelModule {
public:
  enum class Origin {
    Any,      // prebuilt, and compiled at run time where there is nothing prebuilt that the device takes
    Prebuilt, // with the plugin
    Compiled, // at run time, once per process and kind of device
  };

  // The same object for the same context and origin, while somebody has it. Compiling takes a good part of a second.
  // Error: what the driver and the compiler said.
  static Result<std::shared_ptr<const KernelModule>> load(const ContextPtr &context, Origin origin = Origin::Any);

  // "prebuilt", or "NVRTC 13.0 for sm_87".
  const std::string &description() const { return description_; }

  // Enqueues one picture: the plan's planes of the frame at device addresses into tensorBytes(plan) at `tensor`,
  // aligned as its numbers. Everything stays as it is until the stream has passed this. Error: an address or a stride
  // that cannot be, or the driver refuses; then nothing was enqueued.
  Status launchPreprocess(CUstream stream, const infer::PixelPlan &plan, const infer::PixelPlanes &planes,
                          CUdeviceptr tensor) const;

private:
  KernelModule() = default;
  static Result<std::shared_ptr<const KernelModule>> make(const ContextPtr &context, const void *image,
                                                          std::string description);

  ContextPtr context_;
  Module module_;
  CUfunction preprocess_ = nullptr;
  std::string description_;
};

} // namespace gstzc::cuda
