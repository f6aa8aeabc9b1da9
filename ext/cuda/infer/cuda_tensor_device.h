// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer on CUDA: frames in CUDA memory in their own context, frames in dma-bufs imported into the element's.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/routes/route.h"
#include "gst/infer/device/tensor_device.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

using MakeRoutes = std::function<std::vector<std::unique_ptr<ImportRoute>>(const ContextPtr &)>;

// In this context; `routes` for dma-bufs; `gst_context` is the same one, for others who get tensors that are in it,
// where it is one of GStreamer's. All that concerns CUDA is done by a thread of its own, since the first frames of a
// buffer may take a while to be imported. Its end waits a short time for what is under way; what is still under way
// then ends by itself.
Result<std::shared_ptr<infer::TensorDevice>>
makeCudaTensorDevice(ContextPtr context, const MakeRoutes &routes = allRoutes, GstCudaContext *gst_context = nullptr);

// In the context of the element: what it was given, what its neighbours have, else a new one, of which it tells others.
Result<std::shared_ptr<infer::TensorDevice>> cudaTensorDeviceFor(GstElement *element);

} // namespace gstzc::cuda
