// SPDX-License-Identifier: LGPL-2.1-or-later
// Which frames a device reads instead of the CPU.
#pragma once

#include <gst/gst.h>

#include "gst/infer/element/settings.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

constexpr char kCudaDevice[] = "cuda"; // as it is registered

// Whether frames with these caps go to the CUDA device.
bool readByDevice(const FrameCaps &caps, PreprocessDevice setting);

// `caps` without those of memory that only a device reads.
GstCaps *withoutDeviceMemory(const GstCaps *caps);

} // namespace gstzc::infer
