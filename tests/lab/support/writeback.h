// SPDX-License-Identifier: LGPL-2.1-or-later
// What a display without a screen shows, read back through its writeback connector (vkms).
#pragma once

#include <chrono>

#include "tests/lab/support/image.h"

namespace gstzc::lab {

// The picture that the first active CRTC of the card shows. `card` is a borrowed descriptor of the open file that is
// the card's master and has the atomic capability, e.g. the one a display sink works on; another thread may commit on
// it meanwhile. Planes and mode stay as they are: the writeback connector is attached for one commit and detached
// again. Every wait ends at the deadline. A large picture takes seconds in an emulated machine (1024x768: 2 s).
Result<Image> captureWriteback(int card, std::chrono::milliseconds limit = std::chrono::seconds(20));

} // namespace gstzc::lab
