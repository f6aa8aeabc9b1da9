// SPDX-License-Identifier: LGPL-2.1-or-later
// The gate that has no CPU in it: a Vulkan queue of the same device waits for the kernel's fences and sets a timeline
// semaphore that CUDA's stream waits for.
#pragma once

#include <memory>

#include "ext/cuda/sync/stream_gate.h"

namespace gstzc::cuda {

// Errors say what is missing: the built part, libvulkan, the device in it, import of sync_files, semaphores both know.
// `otherwise` takes what this gate cannot: fences that are no sync_files, more frames than it has semaphores for,
// frames behind a fence that was given up, and whatever a driver refuses. Without it hold() fails for those
// (EOPNOTSUPP, EBUSY, the driver's error). Unlike with the other gates the device may go on before `ended` is called:
// nobody tells it but the fence.
Result<std::unique_ptr<StreamGate>> makeSemaphoreGate(ContextPtr context, FencePoller &poller = FencePoller::process(),
                                                      std::unique_ptr<StreamGate> otherwise = nullptr);

} // namespace gstzc::cuda
