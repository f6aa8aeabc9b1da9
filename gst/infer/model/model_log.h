// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gst/gst.h>

namespace gstzc::infer {

// "fenceinfer-model": what is read of a model and what of it is left out.
GstDebugCategory *modelLog();

} // namespace gstzc::infer
