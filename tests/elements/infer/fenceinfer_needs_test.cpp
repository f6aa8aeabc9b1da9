// SPDX-License-Identifier: LGPL-2.1-or-later
// What downstream needs of memory reaches the producer through fenceinfer.
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "tests/elements/infer/fixture.h"

using namespace gstzc::test;

namespace {

using FenceInferNeeds = FenceInferTest;

TEST_F(FenceInferNeeds, PassThrough) {
  constexpr const char *kCaps = "video/x-raw,format=RGB,width=128,height=128,framerate=25/1";
  const std::string model = save(constantFaces(128, {kMiddleFace}, 3.0f));
  for (const bool stated : {true, false}) {
    GstHarness *harness = start(model, kCaps);
    GstCaps *caps = gst_caps_from_string(kCaps);
    if (stated) {
      GstQuery *answer = gst_query_new_allocation(caps, FALSE);
      gst_query_add_zc_memory_need(answer, GST_ZC_MEMORY_NEED_CONTIGUOUS, "the display");
      const GstStructure *params = nullptr;
      const GType api = gst_query_parse_nth_allocation_meta(answer, 0, &params);
      gst_harness_add_propose_allocation_meta(harness, api, params);
      gst_query_unref(answer);
    }
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    EXPECT_TRUE(gst_pad_peer_query(harness->srcpad, query));
    const gchar *who = nullptr;
    EXPECT_EQ(gst_query_parse_zc_memory_need(query, &who),
              stated ? GST_ZC_MEMORY_NEED_CONTIGUOUS : GST_ZC_MEMORY_NEED_ANY);
    EXPECT_STREQ(who, stated ? "the display" : nullptr);
    EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_ZC_MEMORY_NEED_API_TYPE, nullptr))
        << "a tee needs to hear it";
    gst_query_unref(query);
    gst_caps_unref(caps);
    stop();
  }
}

} // namespace
