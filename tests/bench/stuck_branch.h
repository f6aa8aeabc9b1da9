// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace gstzc::bench {

// Frames a second through fenceinfer, with and without another branch in the process whose producer never signals.
// False: a pipeline could not be set up (said on standard error).
bool measureStuckBranch();

} // namespace gstzc::bench
