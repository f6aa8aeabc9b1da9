// SPDX-License-Identifier: LGPL-2.1-or-later
// The way of route host-register for dma-bufs that the device writes, not reads.
#pragma once

#include <memory>

#include "ext/cuda/routes/route.h"

namespace gstzc::cuda {

// As makeHostRegisterRoute(), with pages that are registered for writing: the process has to be allowed to write them.
std::unique_ptr<ImportRoute> makeHostRegisterTarget(ContextPtr context);

} // namespace gstzc::cuda
