// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model_log.h"

namespace gstzc::infer {

GstDebugCategory *modelLog() {
  static GstDebugCategory *const category = [] {
    GstDebugCategory *made = nullptr;
    GST_DEBUG_CATEGORY_INIT(made, "fenceinfer-model", 0, "what fenceinfer reads of a model");
    return made;
  }();
  return category;
}

} // namespace gstzc::infer
