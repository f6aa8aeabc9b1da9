// SPDX-License-Identifier: LGPL-2.1-or-later
// main() of the test programs: GoogleTest with GStreamer initialised, and a process that fails on any GLib critical.
#include <gst/gst.h>
#include <gtest/gtest.h>

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  gst_init(&argc, &argv);
  g_log_set_always_fatal(static_cast<GLogLevelFlags>(G_LOG_LEVEL_CRITICAL | G_LOG_FATAL_MASK));
  const int rc = RUN_ALL_TESTS();
  gst_deinit();
  return rc;
}
