// SPDX-License-Identifier: LGPL-2.1-or-later
// What one plugin of the process offers to another that does not link it: functions by name. Both sides include the
// header that has the function's type.
#pragma once

#include <string>

#include "gst/zerocopy/core/export.h"

namespace gstzc {

using AnyFunction = void (*)();

// Thread-safe; the last offer under a name counts. Plugins stay loaded, so what they offer does. A null takes it back:
// for tests.
GSTZC_API void offer(const std::string &name, AnyFunction function);
GSTZC_API AnyFunction offered(const std::string &name); // null: nobody does

} // namespace gstzc
