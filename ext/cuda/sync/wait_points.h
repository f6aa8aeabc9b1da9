// SPDX-License-Identifier: LGPL-2.1-or-later
// Each place where device work is made to wait has a name. The tests are also built with GSTZC_MUTATIONS, where one of
// them can be left out, to show that some test notices. In the product this is nothing.
#pragma once

#ifdef GSTZC_MUTATIONS
#include <cstddef>
#endif

namespace gstzc::cuda {

#ifdef GSTZC_MUTATIONS
bool waitPoint(const char *name);      // false: skipWait() or the environment's GSTZC_SKIP_WAIT names it
void skipWait(const char *name);       // from now on; null: none but the environment's
size_t timesReached(const char *name); // how often waitPoint() was asked for it
#else
constexpr bool waitPoint(const char *) { return true; }
#endif

} // namespace gstzc::cuda
