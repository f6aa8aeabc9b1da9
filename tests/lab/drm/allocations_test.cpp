// SPDX-License-Identifier: LGPL-2.1-or-later
// The whole sink on a real device: after the first frames none is allocated for. Counted is operator new of the
// process, which is what our code allocates with; GStreamer itself uses malloc.
#include <string>

#include <gst/gst.h>
#include <gtest/gtest.h>

#include "tests/lab/support/card.h"
#include "tests/unit/drm/overlay/count_allocations.h"

using namespace gstzc;

namespace {

guint64 statOf(GstElement *sink, const char *name) {
  GstStructure *stats = nullptr;
  g_object_get(sink, "stats", &stats, nullptr);
  guint64 value = 0;
  gst_structure_get_uint64(stats, name, &value);
  gst_structure_free(stats);
  return value;
}

bool shows(GstElement *sink, guint64 frames) {
  for (int i = 0; i < 2000 && statOf(sink, "shown") < frames; ++i) g_usleep(10000);
  return statOf(sink, "shown") >= frames;
}

class Allocations : public testing::TestWithParam<const char *> {};

TEST_P(Allocations, NoneForAFrameAfterTheFirstOnes) {
  if (!testdata::allocationsSoFar()) GTEST_SKIP() << "the sanitizer allocates";
  const auto path = lab::cardPath("vkms");
  ASSERT_TRUE(path) << path.error().message();
  const std::string text = "videotestsrc is-live=true ! video/x-raw,format=BGRx,width=64,height=48,framerate=60/1 ! " +
                           std::string(GetParam()) + " name=sink mode=64x48 max-lateness=-1 device=" + *path;
  GstElement *pipeline = gst_parse_launch(text.c_str(), nullptr);
  GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  EXPECT_TRUE(shows(sink, 60));
  // on a machine under load the pool gets another buffer late, which is imported: then the warm-up was not over
  uint64_t imports = 0, allocations = 0;
  int windows = 0;
  do {
    imports = statOf(sink, "imports");
    const uint64_t before = *testdata::allocationsSoFar(), shown = statOf(sink, "shown");
    ASSERT_TRUE(shows(sink, shown + 100));
    allocations = *testdata::allocationsSoFar() - before;
  } while (statOf(sink, "imports") > imports && ++windows < 10);
  EXPECT_EQ(statOf(sink, "imports"), imports) << "framebuffers are made for ever";
  EXPECT_EQ(allocations, 0u);
  EXPECT_LE(statOf(sink, "commits"), statOf(sink, "frames")) << "one for a frame";
  gst_element_set_state(pipeline, GST_STATE_NULL);
  EXPECT_EQ(statOf(sink, "copies"), 0u);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
}

INSTANTIATE_TEST_SUITE_P(Ways, Allocations, testing::Values("drmmodifiersink", "drmmodifiersink sync=false"));

} // namespace
