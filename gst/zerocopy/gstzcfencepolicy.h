/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an element does with a frame whose fence went wrong. Plain C. */
#pragma once

#include <glib-object.h>

#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

/**
 * GstZcOnFenceError:
 * @GST_ZC_ON_FENCE_ERROR_DROP: the frame is dropped
 * @GST_ZC_ON_FENCE_ERROR_PASS: the frame goes on as if it had come in time; an element that reads frames does not read
 * it
 * @GST_ZC_ON_FENCE_ERROR_ERROR: the element posts an error and the stream ends
 *
 * What happens to a frame whose fence ended in an error, or had not signalled when the time for it was over.
 *
 * Since: 0.1
 */
typedef enum {
  GST_ZC_ON_FENCE_ERROR_DROP,
  GST_ZC_ON_FENCE_ERROR_PASS,
  GST_ZC_ON_FENCE_ERROR_ERROR,
} GstZcOnFenceError;

#define GST_TYPE_ZC_ON_FENCE_ERROR (gst_zc_on_fence_error_get_type())

GSTZC_API GType gst_zc_on_fence_error_get_type(void);

G_END_DECLS
