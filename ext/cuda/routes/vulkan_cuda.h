// SPDX-License-Identifier: LGPL-2.1-or-later
// What CUDA and Vulkan share on one device.
#pragma once

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/routes/vulkan_api.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

Result<DeviceUuid> uuidOf(const CudaContext &context); // ENOSYS: the driver is too old to tell

// Nothing: semaphores of Vulkan can order work of this context. Else why not.
Status semaphoresShared(const CudaContext &context, const VulkanDevice &device);

// A timeline semaphore of the device, as one of CUDA's.
Result<ExternalSemaphore> importTimeline(const ContextPtr &context, const VulkanDevicePtr &device,
                                         VkSemaphore semaphore);

// The context is current. `stream` waits for, or sets, the value.
Status waitOnStream(const CudaContext &context, CUexternalSemaphore semaphore, uint64_t value, CUstream stream);
Status signalOnStream(const CudaContext &context, CUexternalSemaphore semaphore, uint64_t value, CUstream stream);

} // namespace gstzc::cuda
