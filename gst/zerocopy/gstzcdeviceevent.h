/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fences inside a process that are no sync_file: an eventfd, a CUDA event. Plain C. */
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

#define GST_TYPE_ZC_DEVICE_EVENT (gst_zc_device_event_get_type())

typedef struct _GstZcDeviceEvent GstZcDeviceEvent;
typedef struct _GstZcDeviceEventFuncs GstZcDeviceEventFuncs;

/**
 * GstZcDeviceEvent: (copy-func gst_zc_device_event_ref) (free-func gst_zc_device_event_unref)
 *
 * Something that ends once and for all, and says so through the functions of whoever made it: what a GPU or another
 * device of this process still has to do, where the kernel has no fence for it. Reference-counted and immutable.
 *
 * Since: 0.1
 */

/**
 * GstZcDeviceEventFuncs: (skip)
 * @kind: what the event is, e.g. "eventfd" or "cuda-event": consumers that know the kind use @native. A static string
 * @status: 1: it is done; 0: pending; a negative errno: it ended, but what it stood for did not come about. Once over
 *   it stays as it is
 * @make_fd: (transfer full): a new descriptor that becomes readable when the event is over, done or failed, and stays
 *   so: an eventfd that nobody reads. @status has to say that the event is over before the descriptor does. A negative
 *   errno if there is none
 * @native: (nullable): the event itself, e.g. a CUevent, valid as long as the #GstZcDeviceEvent
 * @free: (nullable): called when the last reference is gone
 *
 * How a #GstZcDeviceEvent works. All functions may be called in any thread, at the same time, and have to return
 * quickly. The structure has to stay where it is: it is static data of the event's maker. Zero what you do not set.
 *
 * Since: 0.1
 */
struct _GstZcDeviceEventFuncs {
  const gchar *kind;
  gint (*status)(gpointer data);
  gint (*make_fd)(gpointer data);
  gpointer (*native)(gpointer data);
  void (*free)(gpointer data);

  /*< private >*/
  gpointer _gst_reserved[GST_PADDING];
};

GSTZC_API GType gst_zc_device_event_get_type(void);

GSTZC_API GstZcDeviceEvent *gst_zc_device_event_new(const GstZcDeviceEventFuncs *funcs, gpointer data);
GSTZC_API GstZcDeviceEvent *gst_zc_device_event_new_eventfd(gint fd, GError **error);
GSTZC_API GstZcDeviceEvent *gst_zc_device_event_ref(GstZcDeviceEvent *self);
GSTZC_API void gst_zc_device_event_unref(GstZcDeviceEvent *self);

GSTZC_API const gchar *gst_zc_device_event_get_kind(GstZcDeviceEvent *self);
GSTZC_API gint gst_zc_device_event_get_status(GstZcDeviceEvent *self);
GSTZC_API gpointer gst_zc_device_event_get_native(GstZcDeviceEvent *self);
GSTZC_API gint gst_zc_device_event_make_fd(GstZcDeviceEvent *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstZcDeviceEvent, gst_zc_device_event_unref)

G_END_DECLS
