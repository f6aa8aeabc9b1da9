// SPDX-License-Identifier: LGPL-2.1-or-later
// Negotiation as such, with sinks that are no displays.
#include "negotiation.h"

#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/support/criticals.h"

namespace {

using namespace gstzc;
using namespace gstzc::inspect;
using gstzc::test::Criticals;
using namespace std::chrono_literals;
using Verdict = Negotiation::Verdict;

MakeSink sinkThatTakes(const std::string &caps, const std::string &settings = "") {
  return [=]() -> Result<GstElement *> {
    GError *error = nullptr;
    GstElement *bin = gst_parse_bin_from_description(
        ("capsfilter caps=\"" + caps + "\" name=taker ! fakesink name=end async=true " + settings).c_str(), TRUE,
        &error);
    if (bin == nullptr) return Error{error->message, 0, ""};
    gst_object_set_name(GST_OBJECT(bin), "display");
    return bin;
  };
}

Negotiation done(const std::string &fragment, const MakeSink &sink, std::chrono::milliseconds timeout = 30s) {
  auto parsed = parseFragment(fragment);
  EXPECT_TRUE(parsed) << parsed.error().message();
  if (!parsed) return {};
  auto result = negotiate(parsed.take(), sink, timeout);
  EXPECT_TRUE(result) << result.error().message();
  return result ? result.take() : Negotiation{};
}

struct Case {
  const char *name, *fragment, *takes;
  Verdict verdict;
  const char *gap; // "source sink" of the link where it fails
};

class Negotiations : public testing::TestWithParam<Case> {};

TEST_P(Negotiations, Ends) {
  const Case &c = GetParam();
  const Negotiation n = done(c.fragment, sinkThatTakes(c.takes));
  EXPECT_EQ(n.verdict, c.verdict) << n.why;
  std::string gap;
  if (n.failed) gap = n.links[*n.failed].source + " " + n.links[*n.failed].sink;
  EXPECT_EQ(gap, c.gap);
  EXPECT_EQ(n.why.empty(), c.verdict == Verdict::Possible) << n.why;
  ASSERT_FALSE(n.links.empty());
  EXPECT_EQ(n.links.back().sink, "taker.sink");
  for (const LinkReport &link : n.links) EXPECT_EQ(static_cast<bool>(link.agreed), link.agreed.text() != "");
  if (c.verdict != Verdict::Possible) return;
  for (const LinkReport &link : n.links) {
    EXPECT_TRUE(link.agreed) << link.source;
    EXPECT_FALSE(link.common.empty());
  }
  EXPECT_TRUE(n.caps);
  EXPECT_TRUE(n.errors.empty());
}

const char *const kTiled = "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000009,width=64,"
                           "height=48,framerate=30/1";

INSTANTIATE_TEST_SUITE_P(
    All, Negotiations,
    testing::Values(
        Case{"Preroll", "videotestsrc name=a", "video/x-raw,format=NV12", Verdict::Possible, ""},
        Case{"Live", "videotestsrc is-live=true name=a", "video/x-raw,format=NV12", Verdict::Possible, ""},
        Case{"Short", "videotestsrc num-buffers=1 name=a", "video/x-raw,format=NV12", Verdict::Possible, ""},
        Case{"NoFrames", "videotestsrc num-buffers=0 name=a", "video/x-raw,format=NV12", Verdict::Untried, ""},
        Case{"Converted", "videotestsrc ! video/x-raw,format=RGB ! videoconvert", "video/x-raw,format=NV12",
             Verdict::Possible, ""},
        Case{"Tee", "videotestsrc ! tee name=t t. ! queue ! fakesink t. ! queue", "video/x-raw,format=NV12",
             Verdict::Possible, ""},
        Case{"RequestPad", "videotestsrc ! tee", "video/x-raw,format=NV12", Verdict::Possible, ""},
        Case{"WrongFormat", "videotestsrc ! capsfilter name=f caps=video/x-raw,format=RGB", "video/x-raw,format=NV12",
             Verdict::Impossible, "f.src taker.sink"},
        Case{"WrongFormatLive", "videotestsrc is-live=true ! capsfilter name=f caps=video/x-raw,format=RGB",
             "video/x-raw,format=NV12", Verdict::Impossible, "f.src taker.sink"},
        Case{"WrongMemory", "videotestsrc name=a", "video/x-raw(memory:DMABuf),format=DMA_DRM", Verdict::Impossible,
             "a.src taker.sink"},
        Case{"BehindWhatPassesOn",
             "videotestsrc ! capsfilter name=f caps=video/x-raw,format=RGB ! identity ! queue name=q",
             "video/x-raw,format=NV12", Verdict::Impossible, "q.src taker.sink"},
        Case{"NoCommonCombination",
             "videotestsrc ! capsfilter name=f "
             "caps=\"video/x-raw,format=RGB,width=64;video/x-raw,format=NV12,width=32\"",
             "video/x-raw,format=NV12,width=64", Verdict::Impossible, "f.src taker.sink"}),
    [](const auto &p) { return std::string(p.param.name); });

TEST(Negotiations, TiledCapsOfASourceOfNothing) {
  const std::string fragment = std::string("fakesrc ! capsfilter name=f caps=\"") + kTiled + "\"";
  Negotiation n = done(fragment, sinkThatTakes("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={XR24,"
                                               "NV12:0x0100000000000009}"));
  EXPECT_EQ(n.verdict, Verdict::Possible) << n.why;
  EXPECT_TRUE(n.placeholders);
  n = done(fragment, sinkThatTakes("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={XR24,NV12}"));
  EXPECT_EQ(n.verdict, Verdict::Impossible);
  ASSERT_TRUE(n.failed);
  EXPECT_EQ(n.links[*n.failed].source, "f.src");
}

TEST(Negotiations, ReportsWhatEachSideSays) {
  const Negotiation n =
      done("videotestsrc name=a ! capsfilter name=f caps=video/x-raw,format={RGB,NV12},width=64,height=48",
           sinkThatTakes("video/x-raw,format={NV12,I420}"));
  ASSERT_EQ(n.links.size(), 2u);
  const LinkReport &last = n.links[1];
  EXPECT_EQ(last.source + " " + last.sink, "f.src taker.sink");
  EXPECT_NE(last.upstream.text().find("RGB"), std::string::npos) << last.upstream.text();
  EXPECT_NE(last.downstream.text().find("I420"), std::string::npos) << last.downstream.text();
  EXPECT_EQ(last.common.text().find("RGB"), std::string::npos) << last.common.text();
  EXPECT_EQ(last.common.text().find("I420"), std::string::npos) << last.common.text();
  EXPECT_NE(last.agreed.text().find("NV12"), std::string::npos) << last.agreed.text();
}

TEST(Negotiations, LateLinksAreReportedToo) {
  const Negotiation n = done("videotestsrc num-buffers=3 ! video/x-raw,format=RGB,width=64,height=48 ! pngenc ! "
                             "decodebin ! videoconvert",
                             sinkThatTakes("video/x-raw,format=NV12"));
  EXPECT_EQ(n.verdict, Verdict::Possible) << n.why;
  EXPECT_GE(n.links.size(), 5u);
  for (const LinkReport &link : n.links) EXPECT_TRUE(link.agreed) << link.source << " " << link.sink;
}

TEST(Negotiations, WhatFailsForAnotherReasonIsUntried) {
  const Negotiation n = done("filesrc location=/nowhere/at/all ! decodebin", sinkThatTakes("ANY"));
  EXPECT_EQ(n.verdict, Verdict::Untried);
  ASSERT_FALSE(n.errors.empty());
  EXPECT_NE(n.errors.front().debug.find("/nowhere/at/all"), std::string::npos) << n.errors.front().debug;
}

TEST(Negotiations, AnErrorIsToldOnce) {
  const Negotiation n = done("filesrc location=/nowhere/at/all ! decodebin", sinkThatTakes("ANY"));
  EXPECT_EQ(n.verdict, Verdict::Untried);
  std::string all;
  for (const ElementMessage &m : n.errors) all += m.element + ": " + m.text + "\n";
  EXPECT_EQ(n.errors.size(), 1u) << all;
  EXPECT_EQ(all.find("state change failed"), std::string::npos) << all;
}

TEST(Negotiations, AnElementMayBeCalledLikeTheDisplay) {
  const Criticals criticals;
  for (const char *fragment : {"videotestsrc name=display", "videotestsrc name=display ! identity name=display-2"})
    EXPECT_EQ(done(fragment, sinkThatTakes("video/x-raw,format=NV12")).verdict, Verdict::Possible);
  EXPECT_EQ(criticals.count(), 0) << criticals.last();
}

TEST(Negotiations, CapsThatNobodyChoosesAreUntried) {
  const Negotiation n = done("fakesrc ! video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=64",
                             sinkThatTakes("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={XR24,NV12},"
                                           "height=[1,1080],framerate=[0/1,60/1]"));
  EXPECT_EQ(n.verdict, Verdict::Untried) << n.why;
  for (const char *part : {"height", "framerate", "does not choose"})
    EXPECT_NE(n.why.find(part), std::string::npos) << n.why;
}

TEST(Negotiations, WaitsNoLongerThanToldTo) {
  const auto before = std::chrono::steady_clock::now();
  const Negotiation n =
      done("videotestsrc is-live=true num-buffers=100000 ! valve drop=true", sinkThatTakes("ANY"), 300ms);
  EXPECT_EQ(n.verdict, Verdict::Untried) << n.why;
  EXPECT_LT(std::chrono::steady_clock::now() - before, 60s);
}

// Where elements hang until they are let go.
class Gate {
public:
  void pass() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 120s, [this] { return open_; })) expired_ = true;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool expired() {
    const std::lock_guard lock(mutex_);
    return expired_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, expired_ = false;
};

struct HangingFragment {
  explicit HangingFragment(const char *text) : fragment(parseFragment(text).take()) {}
  void hangInStreaming() {
    GstElement *element = gst_bin_get_by_name(GST_BIN(fragment.pipeline.get()), "i");
    g_signal_connect(element, "handoff",
                     G_CALLBACK(+[](GstElement *, GstBuffer *, gpointer g) { static_cast<Gate *>(g)->pass(); }), &gate);
    gst_object_unref(element);
  }
  // In the change between these two states: the message is sent by the thread that changes them.
  void hangFrom(GstState from, GstState to) {
    from_ = from;
    to_ = to;
    GstBus *bus = gst_element_get_bus(fragment.pipeline.get());
    gst_bus_set_sync_handler(bus, &HangingFragment::onMessage, this, nullptr);
    gst_object_unref(bus);
  }
  static GstBusSyncReply onMessage(GstBus *, GstMessage *message, gpointer data) {
    auto *self = static_cast<HangingFragment *>(data);
    if (GST_MESSAGE_TYPE(message) != GST_MESSAGE_STATE_CHANGED || std::string(GST_MESSAGE_SRC_NAME(message)) != "i")
      return GST_BUS_PASS;
    GstState old = GST_STATE_NULL, now = GST_STATE_NULL;
    gst_message_parse_state_changed(message, &old, &now, nullptr);
    if (old == self->from_ && now == self->to_) self->gate.pass();
    return GST_BUS_PASS;
  }
  // Ends while the element still hangs, which stays behind until it is let go.
  Negotiation negotiated(std::chrono::milliseconds timeout) {
    auto result = negotiate(std::move(fragment), sinkThatTakes("video/x-raw,format=NV12"), timeout);
    EXPECT_TRUE(elementsHang());
    EXPECT_FALSE(gate.expired()) << "it was waited for";
    gate.open();
    EXPECT_FALSE(elementsHang(120s));
    EXPECT_TRUE(result) << result.error().message();
    return result ? result.take() : Negotiation{};
  }

  Gate gate;
  Fragment fragment;
  GstState from_ = GST_STATE_NULL, to_ = GST_STATE_NULL;
};

TEST(ElementsThatHang, InStreaming) {
  HangingFragment hanging("videotestsrc ! identity name=i");
  hanging.hangInStreaming();
  const Negotiation n = hanging.negotiated(1s);
  EXPECT_EQ(n.verdict, Verdict::Untried);
  EXPECT_EQ(n.why, "no frame came within 1 s, though caps were agreed on");
  EXPECT_EQ(n.links.size(), 2u);
}

TEST(ElementsThatHang, InStarting) {
  for (const auto &[from, to] : {std::pair{GST_STATE_NULL, GST_STATE_READY}, {GST_STATE_READY, GST_STATE_PAUSED}}) {
    HangingFragment hanging("videotestsrc ! identity name=i");
    hanging.hangFrom(from, to);
    const Negotiation n = hanging.negotiated(1s);
    EXPECT_EQ(n.verdict, Verdict::Untried);
    EXPECT_NE(n.why.find("no frame came within 1 s: an element of the fragment hangs"), std::string::npos) << n.why;
  }
}

TEST(ElementsThatHang, InStoppingTakeNothingFromTheAnswer) {
  HangingFragment hanging("videotestsrc ! identity name=i");
  hanging.hangFrom(GST_STATE_PAUSED, GST_STATE_READY);
  EXPECT_EQ(hanging.negotiated(3s).verdict, Verdict::Possible);
}

TEST(Negotiations, LeaveNothingBehind) {
  EXPECT_EQ(done("videotestsrc", sinkThatTakes("video/x-raw,format=NV12")).verdict, Verdict::Possible);
  EXPECT_FALSE(elementsHang(60s));
}

// Before what is missing because of it: caps that nobody chose.
TEST(Negotiations, TheErrorOfAnElementIsTheCause) {
  const Negotiation n = done("fakesrc ! video/x-raw,format=NV12,width=64 ! tee name=t t. ! queue ! filesink name=file "
                             "location=/nowhere/at/all t. ! queue",
                             sinkThatTakes("video/x-raw,format=NV12"));
  EXPECT_EQ(n.verdict, Verdict::Untried);
  EXPECT_TRUE(n.why.starts_with("file fails: ")) << n.why;
  EXPECT_NE(n.why.find("/nowhere/at/all"), std::string::npos) << n.why;
  EXPECT_EQ(n.failed, std::nullopt);
}

TEST(Negotiations, ASinkThatDoesNotOpenIsAnError) {
  const auto result =
      negotiate(parseFragment("videotestsrc").take(), sinkThatTakes("ANY", "state-error=ready-to-paused"), 10s);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message(), "");
}

TEST(Negotiations, FramesTheSinkRefusesAreImpossible) {
  // a display can refuse what its caps allow
  const MakeSink refuses = []() -> Result<GstElement *> {
    GError *error = nullptr;
    GstElement *bin = gst_parse_bin_from_description("identity name=taker error-after=1 ! fakesink", TRUE, &error);
    return bin;
  };
  const Negotiation n = done("videotestsrc name=a", refuses);
  EXPECT_EQ(n.verdict, Verdict::Impossible) << n.why;
  ASSERT_TRUE(n.failed);
  EXPECT_EQ(*n.failed, n.links.size() - 1);
  ASSERT_FALSE(n.errors.empty());
  EXPECT_EQ(n.errors.front().element, "taker"); // the cause before what the source says of it
}

TEST(FirstGap, PrefersWhereBothSidesHaveSomething) {
  const auto link = [](const char *up, const char *down) {
    LinkReport l;
    l.upstream = Caps(gst_caps_from_string(up));
    l.downstream = Caps(gst_caps_from_string(down));
    l.common = Caps(gst_caps_intersect(l.upstream.get(), l.downstream.get()));
    return l;
  };
  EXPECT_EQ(firstGap({link("a/a", "a/a"), link("a/a", "ANY")}), std::nullopt);
  EXPECT_EQ(firstGap({link("a/a", "EMPTY"), link("a/a", "b/b")}), 1u);
  EXPECT_EQ(firstGap({link("a/a", "a/a"), link("a/a", "EMPTY"), link("EMPTY", "a/a")}), 1u);
  EXPECT_EQ(firstGap({}), std::nullopt);
}

} // namespace
