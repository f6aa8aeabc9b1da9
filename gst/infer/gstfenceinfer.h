// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gst/gst.h>

G_BEGIN_DECLS

#define GST_TYPE_FENCE_INFER (gst_fence_infer_get_type())
G_DECLARE_FINAL_TYPE(GstFenceInfer, gst_fence_infer, GST, FENCE_INFER, GstElement)

GST_ELEMENT_REGISTER_DECLARE(fenceinfer)

G_END_DECLS
