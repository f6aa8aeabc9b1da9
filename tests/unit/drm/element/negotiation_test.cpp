// SPDX-License-Identifier: LGPL-2.1-or-later
// When upstream is asked for something else, and when that would be in vain.
#include <string>

#include <drm_fourcc.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include "gst/drm/element/negotiation.h"

using namespace gstzc;

namespace {

constexpr char kNow[] = "video/x-raw,format=NV12,width=320,height=240,framerate=30/1,pixel-aspect-ratio=1/1";

class Negotiation : public testing::Test {
protected:
  void SetUp() override {
    gst_init(nullptr, nullptr);
    src_ = gst_pad_new("src", GST_PAD_SRC);
    sink_ = gst_pad_new("sink", GST_PAD_SINK);
    gst_pad_set_element_private(src_, this);
    gst_pad_set_query_function(src_, &Negotiation::query);
    ASSERT_EQ(gst_pad_link(src_, sink_), GST_PAD_LINK_OK);
    gst_pad_set_active(src_, TRUE);
    gst_pad_set_active(sink_, TRUE);
    OfferedGroup group;
    group.pairs = {{DRM_FORMAT_NV12, DRM_FORMAT_MOD_LINEAR}, {DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_LINEAR}};
    offers_.groups = {group};
    negotiation_.offer(offers_, false);
  }
  void TearDown() override {
    gst_object_unref(src_);
    gst_object_unref(sink_);
  }
  static gboolean query(GstPad *pad, GstObject *, GstQuery *query) {
    if (GST_QUERY_TYPE(query) != GST_QUERY_CAPS) return FALSE;
    const auto *self = static_cast<Negotiation *>(gst_pad_get_element_private(pad));
    GstCaps *filter = nullptr, *all = gst_caps_from_string(self->upstream_.c_str());
    gst_query_parse_caps(query, &filter);
    GstCaps *answer =
        filter != nullptr ? gst_caps_intersect_full(filter, all, GST_CAPS_INTERSECT_FIRST) : gst_caps_ref(all);
    gst_query_set_caps_result(query, answer);
    gst_caps_unref(answer);
    gst_caps_unref(all);
    return TRUE;
  }
  bool asks(const std::string &upstream) {
    upstream_ = upstream;
    GstCaps *now = gst_caps_from_string(kNow);
    const bool asked = negotiation_.renegotiate(sink_, now, offers_, Error{"why", 0, ""});
    gst_caps_unref(now);
    negotiation_.capsCame();
    return asked;
  }

  SinkNegotiation negotiation_;
  OfferedFormats offers_;
  std::string upstream_ = kNow;
  GstPad *src_ = nullptr, *sink_ = nullptr;
};

TEST_F(Negotiation, UpstreamWithOneKindOfFramesIsNotAsked) {
  for (const char *same : {kNow, "video/x-raw,format=NV12,width=320,height=240",
                           "video/x-raw,format=NV12,width=320,height=240,framerate=[0/1,60/1]",
                           "video/x-raw,format=NV12,width=320,height=240,chroma-site={mpeg2,jpeg}"})
    EXPECT_FALSE(asks(same)) << same;
  for (const char *other : {"video/x-raw,format={NV12,BGRx},width=320,height=240,framerate=30/1",
                            "video/x-raw,format=BGRx,width=320,height=240,framerate=[0/1,60/1]",
                            "video/x-raw,format=NV12,width=[16,320],height=240,framerate=30/1",
                            "video/x-raw,format=NV12,width=320,height=240;video/x-raw,format=BGRx,width=8,height=8"})
    EXPECT_TRUE(asks(other)) << other;
  EXPECT_FALSE(asks("video/x-raw,format=Y444,width=320,height=240")) << "which nobody here shows";
}

TEST_F(Negotiation, TheWaitHasAnEndThatFramesPutOff) {
  upstream_ = "video/x-raw,format={NV12,BGRx},width=320,height=240";
  GstCaps *now = gst_caps_from_string(kNow);
  EXPECT_FALSE(negotiation_.isWaiting());
  ASSERT_TRUE(negotiation_.renegotiate(sink_, now, offers_, Error{"why", 0, ""}));
  EXPECT_FALSE(negotiation_.renegotiate(sink_, now, offers_, Error{"why", 0, ""})) << "asked once";
  gst_caps_unref(now);
  for (unsigned i = 0; i < kMaxRenegotiationFrames; ++i) EXPECT_TRUE(negotiation_.isWaiting()) << i;
  EXPECT_FALSE(negotiation_.isWaiting());
  EXPECT_TRUE(negotiation_.endedUnshown());
  negotiation_.taken();
  EXPECT_FALSE(negotiation_.endedUnshown());
  for (unsigned i = 0; i < kMaxRenegotiationFrames; ++i) EXPECT_TRUE(negotiation_.isWaiting()) << i;
  EXPECT_TRUE(negotiation_.waitedTooLong());
  negotiation_.capsCame();
  EXPECT_FALSE(negotiation_.isWaiting());
  EXPECT_FALSE(negotiation_.waitedTooLong());
}

} // namespace
