// SPDX-License-Identifier: LGPL-2.1-or-later
// A model's outputs as they are, on the frame: for decoders outside of this plugin.
#pragma once

#include <span>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/device/tensor_device.h"
#include "gst/infer/engine/engine.h"
#include "gst/infer/model/model_config.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// Adds a GstTensorMeta with one GstTensor for each output to `buffer`, which is writable. No byte is copied: the
// tensors are the outputs' memory, read-only, and hold their owner. A tensor's id is its tag's, or without one the
// output's own name; `infos` are Engine::outputs(), `tags` of the same order may be fewer. Copies of the buffer have
// the tensors too, on every GStreamer.
//
// `on_device`: the outputs as the device shares them (TensorDevice::share()), of which references are taken; empty:
// they are in host memory.
//
// Errors, with nothing added: an output that is in neither memory, of another type than GStreamer has, whose bytes do
// not fit its shape; other outputs than `infos`.
Status attachTensors(GstBuffer *buffer, const Outputs &outputs, const std::vector<TensorInfo> &infos,
                     const std::vector<TensorTag> &tags, std::span<const BufferRef> on_device = {});

} // namespace gstzc::infer
