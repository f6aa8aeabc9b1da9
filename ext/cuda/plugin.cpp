// SPDX-License-Identifier: LGPL-2.1-or-later
// Plugin `zerocopycuda`: registers its elements and what fenceinfer loads it for, nothing else. It loads where there is
// no CUDA driver; its elements say so when they are used.
#include <gst/gst.h>

#include "ext/cuda/infer/cuda_tensor_device.h"

#define PACKAGE "gst-zerocopy"
#include "gstzc-config.h"

GST_ELEMENT_REGISTER_DECLARE(cudadmabufexport)
GST_ELEMENT_REGISTER_DECLARE(dmabufcudaimport)

static gboolean plugin_init(GstPlugin *plugin) {
  gboolean ok = GST_ELEMENT_REGISTER(dmabufcudaimport, plugin);
  ok &= GST_ELEMENT_REGISTER(cudadmabufexport, plugin);
  // fenceinfer loads this plugin for it
  gstzc::infer::registerTensorDevice("cuda", gstzc::cuda::cudaTensorDeviceFor);
  return ok;
}

GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, zerocopycuda, "dma-bufs as CUDA memory without copies",
                  plugin_init, GSTZC_VERSION, "LGPL", "gst-zerocopy", "https://gstreamer.freedesktop.org/")
