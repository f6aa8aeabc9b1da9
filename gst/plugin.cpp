// SPDX-License-Identifier: LGPL-2.1-or-later
// Plugin `zerocopy`: registers its elements, nothing else. It loads everywhere; what a machine lacks is said when it is
// needed.
#include <gst/gst.h>

#define PACKAGE "gst-zerocopy"
#include "gstzc-config.h"

GST_ELEMENT_REGISTER_DECLARE(dmabufupload)
GST_ELEMENT_REGISTER_DECLARE(fenceinfer)
GST_ELEMENT_REGISTER_DECLARE(drmmodifiersink)

static gboolean plugin_init(GstPlugin *plugin) {
  gboolean ok = GST_ELEMENT_REGISTER(dmabufupload, plugin);
  ok &= GST_ELEMENT_REGISTER(fenceinfer, plugin);
  ok &= GST_ELEMENT_REGISTER(drmmodifiersink, plugin);
  return ok;
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, zerocopy,
                  "Frames from dma-buf to inference and display without copies", plugin_init, GSTZC_VERSION, "LGPL",
                  "gst-zerocopy", "https://gstreamer.freedesktop.org/")
