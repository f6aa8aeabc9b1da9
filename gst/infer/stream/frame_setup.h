// SPDX-License-Identifier: LGPL-2.1-or-later
// What frames of certain caps need on their way into a certain model.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "gst/infer/device/tensor_device.h"
#include "gst/infer/device/tensor_pool.h"
#include "gst/infer/model/model.h"
#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/core/mapping.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

// Formats and layouts that the CPU reads; the error says what is in the way.
Status checkReadable(const FrameCaps &caps);

// Where the model wants the tensors that the device makes.
MemorySpace tensorSpace(const Model &model, const TensorDevice &device);
// The error with the device's name in front.
Error named(const Error &error, const TensorDevice &device);

// The device's stream for an engine; none where its context is not the one that inference libraries use.
DeviceStream streamOf(const std::shared_ptr<TensorDevice> &device);
// Whether the model runs on the device's own stream: then nobody has to wait between the device and the model.
bool runsOnStreamOf(const Model &model, const TensorDevice &device);

// Where frames are read by a device.
struct DeviceSetup {
  std::shared_ptr<TensorDevice> device;
  PixelPlan whole;                     // for the whole frame
  std::shared_ptr<TensorPool> tensors; // of one picture each
  Made when = Made::Done;              // OnStream: the model runs on the device's stream
  // Runs that are on the stream, of frames with this setup.
  std::shared_ptr<std::atomic<unsigned>> runs = std::make_shared<std::atomic<unsigned>>(0);
};

// Immutable; shared by the frames it is for.
struct FrameSetup {
  std::shared_ptr<const Model> model;
  FrameCaps caps;
  Preprocessor whole;     // for the whole frame
  bool is_tensor = false; // a frame without gaps between its rows is the tensor
  std::shared_ptr<MappingCache> mappings = MappingCache::process(); // it goes with its last user
  std::optional<DeviceSetup> on_device = {};                        // none: the CPU reads them

  // `device` null: the CPU. Nothing throws: memory that runs out is an error with code ENOMEM.
  static Result<std::shared_ptr<const FrameSetup>> create(std::shared_ptr<const Model> model, const FrameCaps &caps,
                                                          std::shared_ptr<TensorDevice> device = nullptr);
};

} // namespace gstzc::infer
