// SPDX-License-Identifier: LGPL-2.1-or-later
// Which frames a device reads instead of the CPU.
#pragma once

#include <gst/gst.h>

#include "gst/infer/device/tensor_device.h"
#include "gst/infer/element/settings.h"
#include "gst/infer/model/model.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

constexpr char kCudaDevice[] = "cuda"; // as it is registered

// Whether frames with these caps go to the CUDA device.
bool readByDevice(const FrameCaps &caps, const Settings &settings);

// Whether the model's outputs can stay in the memory of the device that reads the frames (tensor-memory=device); the
// error says what is in the way.
Status checkDeviceTensors(const Model &model, const TensorDevice &device);

// `caps` without those of memory that only a device reads.
GstCaps *withoutDeviceMemory(const GstCaps *caps);

} // namespace gstzc::infer
