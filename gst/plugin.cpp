// SPDX-License-Identifier: LGPL-2.1-or-later
// Plugin `zerocopy`: registers its elements, nothing else. It loads everywhere; what a machine lacks is said when it is
// needed.
#include <gst/gst.h>

#define PACKAGE "gst-zerocopy"
#include "gstzc-config.h"

static gboolean plugin_init(GstPlugin *plugin) {
  (void)plugin;
  return TRUE;
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, zerocopy,
                  "Frames from dma-buf to inference and display without copies", plugin_init, GSTZC_VERSION, "LGPL",
                  "gst-zerocopy", "https://gstreamer.freedesktop.org/")
