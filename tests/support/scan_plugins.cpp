// SPDX-License-Identifier: LGPL-2.1-or-later
// Fills the registry named in the environment. In sanitizer builds GStreamer's own scanner cannot load our plugin, and
// a test that scanned all plugins would be blamed for what their libraries leak.
#include <gst/gst.h>

int main(int argc, char **argv) {
  gst_init(&argc, &argv);
  gst_deinit();
  return 0;
}
