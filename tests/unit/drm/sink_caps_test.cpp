// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/sink_caps.h"

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "tests/unit/drm/snapshots.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

struct Unref {
  void operator()(GstCaps *caps) const { gst_caps_unref(caps); }
};
using Caps = std::unique_ptr<GstCaps, Unref>;

Caps caps(const std::string &text) {
  GstCaps *made = gst_caps_from_string(text.c_str());
  EXPECT_NE(made, nullptr) << text;
  return Caps(made);
}

std::string toText(const GstCaps *c) {
  gchar *text = gst_caps_to_string(c);
  std::string result = text;
  g_free(text);
  return result;
}

constexpr uint64_t kMcCcs = I915_FORMAT_MOD_Y_TILED_GEN12_MC_CCS, kY = I915_FORMAT_MOD_Y_TILED;
constexpr uint64_t kSand128 = DRM_FORMAT_MOD_BROADCOM_SAND128;

KmsSnapshot device(std::vector<DrmFormat> primary, std::vector<DrmFormat> overlay = {}) {
  KmsSnapshot s = desk();
  s.planes = {plane(1, DRM_PLANE_TYPE_PRIMARY, std::move(primary))};
  if (!overlay.empty()) s.planes.push_back(plane(2, DRM_PLANE_TYPE_OVERLAY, std::move(overlay)));
  return s;
}

Caps offered(const KmsSnapshot &s, const SinkCapsOptions &options = {}) {
  return Caps(capsOfOffers(offers(s, 0, {}), options));
}

// what an element that can do all of `theirs` would settle on, in our order of preference
std::string firstChoice(const KmsSnapshot &s, const std::string &theirs) {
  const Caps ours = offered(s);
  GstCaps *both = gst_caps_intersect_full(ours.get(), caps(theirs).get(), GST_CAPS_INTERSECT_FIRST);
  if (gst_caps_is_empty(both)) {
    gst_caps_unref(both);
    return "";
  }
  both = gst_caps_fixate(both);
  const GstStructure *st = gst_caps_get_structure(both, 0);
  const char *drm = gst_structure_get_string(st, "drm-format");
  std::string result = drm != nullptr ? drm : gst_structure_get_string(st, "format");
  gst_caps_unref(both);
  return result;
}

TEST(CapsOfOffers, OneStructureAGroupAndKindOfMemory) {
  const Caps c = offered(device({{DRM_FORMAT_XRGB8888, 0}}, {{DRM_FORMAT_NV12, kY}, {DRM_FORMAT_NV12, 0}}));
  EXPECT_EQ(
      toText(c.get()),
      toText(caps("video/x-raw(memory:DMABuf), framerate=[0/1, 2147483647/1], width=[16, 8192], height=[16, 8192], "
                  "format=DMA_DRM, "
                  "drm-format={NV12:0x0100000000000002, NV12};"
                  "video/x-raw(memory:DMABuf), framerate=[0/1, 2147483647/1], width=[16, 8192], height=[16, 8192], "
                  "format=DMA_DRM, "
                  "drm-format=XR24;"
                  "video/x-raw(memory:DMABuf), framerate=[0/1, 2147483647/1], width=[16, 8192], height=[16, 8192], "
                  "format=NV12;"
                  "video/x-raw(memory:DMABuf), framerate=[0/1, 2147483647/1], width=[16, 8192], height=[16, 8192], "
                  "format=BGRx;"
                  "video/x-raw, framerate=[0/1, 2147483647/1], width=[16, 8192], height=[16, 8192], format=NV12;"
                  "video/x-raw, framerate=[0/1, 2147483647/1], width=[16, 8192], height=[16, 8192], format=BGRx")
                 .get()));
}

TEST(CapsOfOffers, FirstChoiceIsTheBestPlanesBestLayout) {
  const KmsSnapshot s = device({{DRM_FORMAT_XRGB8888, kY}, {DRM_FORMAT_XRGB8888, 0}, {DRM_FORMAT_NV12, 0}},
                               {{DRM_FORMAT_NV12, kMcCcs}, {DRM_FORMAT_NV12, kY}, {DRM_FORMAT_NV12, 0}});
  const std::string any = "video/x-raw(memory:DMABuf), format=DMA_DRM; video/x-raw";
  EXPECT_EQ(firstChoice(s, any), "NV12:0x0100000000000007");
  // the list's order at upstream does not matter
  EXPECT_EQ(firstChoice(s, "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={NV12, NV12:0x0100000000000002}"),
            "NV12:0x0100000000000002");
  EXPECT_EQ(firstChoice(s, "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=NV12"), "NV12");
  EXPECT_EQ(firstChoice(s, "video/x-raw, format={NV12, BGRx}"), "NV12"); // each plane has its own
  EXPECT_EQ(firstChoice(s, "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=NV12:0x0100000000000001"), "");
  EXPECT_EQ(firstChoice(s, "video/x-raw(memory:DMABuf), format=NV12"), "NV12"); // implicit
}

TEST(CapsOfOffers, SizesAreThePlanes) {
  KmsSnapshot s = device({{DRM_FORMAT_NV12, 0}});
  PlaneFormatLimits l;
  l.max_width = 2048;
  l.max_height = 1088;
  l.min_width = 64;
  s.planes[0].limits = PlaneLimits{l};
  const std::string f = "video/x-raw, format=NV12, height=1080, width=";
  EXPECT_EQ(firstChoice(s, f + "1920"), "NV12");
  EXPECT_EQ(firstChoice(s, f + "2049"), "");
  EXPECT_EQ(firstChoice(s, f + "63"), "");
}

TEST(CapsOfOffers, OneSizeOnly) { // small panels
  KmsSnapshot s = device({{DRM_FORMAT_XRGB8888, 0}});
  s.min_width = s.min_height = s.max_width = s.max_height = 1;
  EXPECT_EQ(firstChoice(s, "video/x-raw, format=BGRx, width=1, height=1"), "BGRx");
}

TEST(CapsOfOffers, BeginAtTheSmallestFramebuffer) {
  KmsSnapshot s = device({{DRM_FORMAT_XRGB8888, 0}});
  s.min_width = 32;
  s.min_height = 10;
  const std::string f = "video/x-raw, format=BGRx, ";
  EXPECT_EQ(firstChoice(s, f + "width=32, height=10"), "BGRx");
  EXPECT_EQ(firstChoice(s, f + "width=31, height=10"), "");
  EXPECT_EQ(firstChoice(s, f + "width=32, height=9"), "");
  PlaneFormatLimits smaller, larger; // the plane's own limit counts where it is the larger one
  smaller.min_width = smaller.min_height = 4;
  larger.min_width = larger.min_height = 64;
  s.planes[0].limits = PlaneLimits{smaller};
  EXPECT_EQ(firstChoice(s, f + "width=31, height=10"), "");
  EXPECT_EQ(firstChoice(s, f + "width=32, height=10"), "BGRx");
  s.planes[0].limits = PlaneLimits{larger};
  EXPECT_EQ(firstChoice(s, f + "width=64, height=63"), "");
  EXPECT_EQ(firstChoice(s, f + "width=63, height=64"), "");
  EXPECT_EQ(firstChoice(s, f + "width=64, height=64"), "BGRx");
}

TEST(CapsOfOffers, FormatsWithoutAGStreamerName) {
  const KmsSnapshot s = device({{DRM_FORMAT_XRGB4444, 0}});
  const Caps c = offered(s);
  ASSERT_EQ(gst_caps_get_size(c.get()), 1u); // only by their fourcc
  EXPECT_EQ(firstChoice(s, "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=XR12"), "XR12");
}

TEST(CapsOfOffers, MoreThan64FormatsWithModifiersPastBit63) {
  std::vector<DrmFormat> formats;
  for (uint32_t i = 0; i < 66; ++i) formats.push_back({fourcc_code('Z', '0' + i / 10, '0' + i % 10, 'Z'), 0});
  formats.push_back({DRM_FORMAT_NV12, kY});
  formats.push_back({DRM_FORMAT_NV12, 0});
  EXPECT_EQ(firstChoice(device(formats),
                        "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={NV12, NV12:0x0100000000000002}"),
            "NV12:0x0100000000000002");
}

TEST(CapsOfOffers, NoInFormats) {
  KmsSnapshot s = device({{DRM_FORMAT_NV12, 0}});
  s.planes[0].has_in_formats = s.addfb2_modifiers = false;
  EXPECT_EQ(firstChoice(s, "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=NV12"), "NV12");
  EXPECT_EQ(firstChoice(s, "video/x-raw(memory:DMABuf), format=NV12"), "NV12");
  EXPECT_EQ(firstChoice(s, "video/x-raw, format=NV12"), "NV12");
}

TEST(CapsOfOffers, OverlayComposition) {
  SinkCapsOptions options;
  options.overlay_composition = true;
  const Caps c = offered(device({{DRM_FORMAT_NV12, 0}}), options);
  ASSERT_EQ(gst_caps_get_size(c.get()), 6u);
  for (guint i = 0; i < 6; ++i)
    EXPECT_EQ(gst_caps_features_contains(gst_caps_get_features(c.get(), i),
                                         GST_CAPS_FEATURE_META_GST_VIDEO_OVERLAY_COMPOSITION) != FALSE,
              i % 2 == 0);
  EXPECT_TRUE(gst_caps_can_intersect(
      c.get(),
      caps("video/x-raw(memory:DMABuf, meta:GstVideoOverlayComposition), format=DMA_DRM, drm-format=NV12").get()));
}

TEST(CapsOfOffers, OnlyWhatIsWanted) {
  SinkCapsOptions options;
  options.dmabuf = options.implicit_dmabuf = false;
  const Caps c = offered(device({{DRM_FORMAT_NV12, 0}}), options);
  ASSERT_EQ(gst_caps_get_size(c.get()), 1u);
  EXPECT_FALSE(gst_caps_features_contains(gst_caps_get_features(c.get(), 0), GST_CAPS_FEATURE_MEMORY_DMABUF));
  EXPECT_TRUE(gst_caps_is_empty(offered(device({})).get()));
}

TEST(SinkCaps, ByReferenceAndFiltered) {
  SinkCaps sink;
  EXPECT_EQ(sink.caps(), nullptr);
  EXPECT_FALSE(sink.accepts(caps("video/x-raw, format=NV12").get()));
  sink.update(offers(device({{DRM_FORMAT_NV12, kY}, {DRM_FORMAT_NV12, 0}}), 0, {}), {});
  const Caps a(sink.caps()), b(sink.caps());
  EXPECT_EQ(a.get(), b.get()); // nothing is made for a query
  const Caps filter = caps("video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=NV12");
  const Caps filtered(sink.caps(filter.get()));
  ASSERT_EQ(gst_caps_get_size(filtered.get()), 1u);
  EXPECT_STREQ(gst_structure_get_string(gst_caps_get_structure(filtered.get(), 0), "drm-format"), "NV12");
  sink.update(offers(device({{DRM_FORMAT_XRGB8888, 0}}), 0, {}), {});
  const Caps other(sink.caps(filter.get()));
  EXPECT_TRUE(gst_caps_is_empty(other.get()));
  sink.clear();
  EXPECT_FALSE(sink.ready());
}

TEST(SinkCaps, FramesAndNoSeparateFields) {
  SinkCaps sink;
  sink.update(offers(device({{DRM_FORMAT_NV12, 0}}), 0, {}), {});
  const auto with = [](const std::string &mode) {
    return caps("video/x-raw, format=NV12, width=64, height=48, framerate=25/1, interlace-mode=" + mode);
  };
  for (const char *mode : {"progressive", "interleaved", "mixed"}) EXPECT_TRUE(sink.accepts(with(mode).get())) << mode;
  for (const char *mode : {"fields", "alternate", "{progressive, fields}"})
    EXPECT_FALSE(sink.accepts(with(mode).get())) << mode;
  const Caps none(sink.caps(with("fields").get()));
  EXPECT_TRUE(gst_caps_is_empty(none.get()));
  const Caps some(sink.caps(with("{fields, interleaved}").get()));
  EXPECT_TRUE(gst_caps_is_equal(some.get(), with("interleaved").get()));
}

std::string nv12(uint64_t modifier) {
  return "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=" + toString({DRM_FORMAT_NV12, modifier}) +
         ", width=1920, height=1080, framerate=30/1";
}

TEST(SinkCaps, SandColumnHeights) {
  SinkCaps sink;
  sink.update(offers(device({{DRM_FORMAT_NV12, kSand128}, {DRM_FORMAT_NV12, 0}, {DRM_FORMAT_P030, kSand128}}), 0, {}),
              {});
  const uint64_t column = DRM_FORMAT_MOD_BROADCOM_SAND128_COL_HEIGHT(1632);
  EXPECT_TRUE(sink.accepts(caps(nv12(kSand128)).get()));
  EXPECT_TRUE(sink.accepts(caps(nv12(column)).get()));
  EXPECT_FALSE(sink.accepts(caps(nv12(DRM_FORMAT_MOD_BROADCOM_SAND64_COL_HEIGHT(1632))).get()));
  EXPECT_FALSE(sink.accepts(caps(nv12(DRM_FORMAT_MOD_BROADCOM_VC4_T_TILED)).get()));
  // in a query, too: a decoder asks with the height that its buffers have
  const Caps filter = caps(nv12(column));
  const Caps answer(sink.caps(filter.get()));
  ASSERT_FALSE(gst_caps_is_empty(answer.get()));
  EXPECT_EQ(gst_structure_get_string(gst_caps_get_structure(answer.get(), 0), "drm-format"),
            toString({DRM_FORMAT_NV12, column}));
  // other formats of the list stay apart
  std::string p030 = nv12(column);
  p030.replace(p030.find("NV12:"), 4, "NV21");
  EXPECT_FALSE(sink.accepts(caps(p030).get()));
}

TEST(SinkCaps, ColumnHeightsOnlyOfBroadcom) {
  SinkCaps sink;
  sink.update(offers(device({{DRM_FORMAT_NV12, kY}}), 0, {}), {});
  EXPECT_FALSE(sink.accepts(caps(nv12(kY | 0x10000)).get()));
}

struct NeedCase {
  const char *text;
  std::vector<std::string> needs; // or the error's
};

TEST(NeedsOfCaps, AllCombinationsInOrder) {
  const NeedCase cases[] = {
      {"video/x-raw, format=NV12, width=1920, height=1080", {"video/x-raw NV12 1920x1080"}},
      {"video/x-raw, format={NV12, BGRx}, width=64, height=48", {"video/x-raw NV12 64x48", "video/x-raw BGRx 64x48"}},
      {"video/x-raw(memory:DMABuf), format=NV12", {"video/x-raw(memory:DMABuf) NV12"}},
      {"video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={NV12:0x0100000000000002, P010}, width=[1,100], "
       "height=7",
       {"video/x-raw(memory:DMABuf) NV12:0x0100000000000002 1..100 x 7", "video/x-raw(memory:DMABuf) P010 1..100 x 7"}},
      {"video/x-raw, format=NV12, width={64, 128, [200, 300]}, height={48, 96}",
       {"video/x-raw NV12 64x48", "video/x-raw NV12 64x96", "video/x-raw NV12 128x48", "video/x-raw NV12 128x96",
        "video/x-raw NV12 200..300 x 48", "video/x-raw NV12 200..300 x 96"}},
      {"video/x-raw, format=NV12, width=30000", {"video/x-raw NV12 30000 x any"}},
      {"video/x-raw, format=NV12, width=[1, 2147483647], height=[1, 2147483647]", {"video/x-raw NV12"}},
      {"video/x-raw, format=NV12, height=[64, 2147483647]", {"video/x-raw NV12 any x 64..any"}},
      {"video/x-raw, format=NV12, width=8, height=8; video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=XR24, "
       "width=8, height=8",
       {"video/x-raw NV12 8x8", "video/x-raw(memory:DMABuf) XR24 8x8"}},
  };
  for (const NeedCase &c : cases) {
    const auto needs = needsOfCaps(caps(c.text).get());
    ASSERT_TRUE(needs) << c.text << ": " << needs.error().message();
    std::vector<std::string> texts;
    for (const CapsNeed &n : *needs) texts.push_back(n.text);
    EXPECT_EQ(texts, c.needs);
  }
  const auto implicit = needsOfCaps(caps("video/x-raw(memory:DMABuf), format=NV12, width=8, height=8").get());
  EXPECT_EQ(implicit->at(0).need.format.modifier, DRM_FORMAT_MOD_INVALID);
  EXPECT_FALSE(implicit->at(0).system_memory);
  const auto par = needsOfCaps(caps("video/x-raw, format=NV12, width=8, height=8, pixel-aspect-ratio=4/3").get());
  EXPECT_EQ(par->at(0).need.par_n, 4);
}

TEST(NeedsOfCaps, SaysWhatIsWrong) {
  for (const auto &[text, error] : std::initializer_list<std::pair<const char *, const char *>>{
           {"ANY", "say nothing"},
           {"EMPTY", "say nothing"},
           {"video/x-h264", "video/x-h264 is no raw video"},
           {"video/x-raw(memory:GLMemory), format=RGBA", "memory:GLMemory"},
           {"video/x-raw, width=8", "video/x-raw without a format"},
           {"video/x-raw, format=NV12, interlace-mode=fields", "interlace-mode=fields: a display shows frames"},
           {"video/x-raw(format:Interlaced), format=NV12, interlace-mode=alternate", "interlace-mode=alternate: a dis"},
           {"video/x-raw(memory:DMABuf), format=DMA_DRM", "the field drm-format is missing"},
           {"video/x-raw, format=XR24", "format=XR24: this is a fourcc"},
           {"video/x-raw, format=AYUV", "format=AYUV: \"AYUV\" is no format"},
           {"video/x-raw, format=NV12, width=[40000, 50000]", "frames have 1 to 32767 pixels a side"},
           {"video/x-raw, format=NV12, height={48, 0}", "frames have 1 to 32767 pixels a side"},
           {"video/x-raw, format=NV12, height=(string)many", "an integer, a range or a list"},
           {"video/x-raw, format=7", "format=7: a string"},
           {"video/x-raw, format=ENCODED", "is no format that displays have"},
           {"video/x-raw, format=A420_10LE", "is no format that displays have"},
           {"video/x-raw, format=DMA_DRM, drm-format=NV12", "DMA_DRM is for dma-bufs"},
           {"video/x-raw(memory:DMABuf), format=DMA_DRM", "the field drm-format is missing"},
           {"video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=nv12", "drm-format \"nv12\""},
           {"video/x-raw, format=NV12, width=0, height=8", "width=0: frames have 1 to"},
           {"video/x-raw, format=NV12, width=wide, height=8", "width=wide: an integer"}}) {
    const auto needs = needsOfCaps(caps(text).get());
    ASSERT_FALSE(needs) << text;
    EXPECT_NE(needs.error().what.find(error), std::string::npos) << needs.error().message();
  }
}

TEST(NeedsOfCaps, Bounds) {
  std::string list = "NV12";
  for (size_t i = 0; i < kMaxCapsNeeds; ++i) list += ", NV12";
  EXPECT_FALSE(needsOfCaps(caps("video/x-raw, format={" + list + "}").get()));
  std::string half = "NV12";
  for (size_t i = 1; i < 3000; ++i) half += ", NV12";
  EXPECT_FALSE(needsOfCaps(caps("video/x-raw, format={" + half + "}; video/x-raw, format={" + half + "}").get()));
}

TEST(NeedsOfCaps, MayLeaveOutWhatNoDisplayHas) {
  const Caps some = caps("video/x-raw, format={A420_10LE, NV12, AYUV}"), none = caps("video/x-raw, format={A420_10LE}");
  EXPECT_FALSE(needsOfCaps(some.get()));
  const auto needs = needsOfCaps(some.get(), true);
  ASSERT_TRUE(needs) << needs.error().message();
  ASSERT_EQ(needs->size(), 1u);
  EXPECT_EQ(needs->front().text, "video/x-raw NV12");
  EXPECT_FALSE(needsOfCaps(none.get(), true));
}

} // namespace
