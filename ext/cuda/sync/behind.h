// SPDX-License-Identifier: LGPL-2.1-or-later
// For what waits for the device when nobody else is to.
#pragma once

#include <functional>

namespace gstzc::cuda {

// Calls `work` on a thread of its own that nobody joins; in this one, where none can be started.
void callBehind(std::function<void()> work);

} // namespace gstzc::cuda
