// SPDX-License-Identifier: LGPL-2.1-or-later
// Overlays of drmmodifiersink on vkms: the frame and a plane above it, blended by the kernel and read back.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include <gst/analytics/analytics.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "gst/drm/overlay/mini_object_ref.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/writeback.h"

using namespace gstzc;
using namespace gstzc::lab;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t kWidth = 64, kHeight = 48, kGreen = 0x00ff00;
constexpr int kRounding = 2; // of YUV in the kernel
constexpr const char *kSource = "videotestsrc num-buffers=6 ! video/x-raw,width=64,height=48,framerate=30/1,format=";

class Overlay : public testing::Test {
protected:
  void SetUp() override {
    auto opened = openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    card_ = opened.take();
    sink_ = " ! drmmodifiersink name=sink message-flips=true max-lateness=-1 mode=64x48 overlay-color=0xff00ff00 "
            "overlay-labels=false fd=" +
            std::to_string(card_.get()) + " ";
  }

  // The run's last frame with `overlay` (premultiplied) above it.
  void expectScreen(Player &player, const std::function<uint32_t(uint32_t, uint32_t)> &overlay, int tolerance) {
    ASSERT_TRUE(player.ended()) << player.errors();
    EXPECT_TRUE(player.infos().empty()) << player.infos().front();
    EXPECT_EQ(player.stat("copies"), 0u);
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << shown.error().message();
    auto frame = player.lastFrame();
    ASSERT_TRUE(frame) << frame.error().message();
    int worst = 0;
    for (uint32_t y = 0; y < kHeight; ++y)
      for (uint32_t x = 0; x < kWidth; ++x) {
        const uint32_t above = overlay(x, y), below = frame->at(x, y);
        uint32_t expected = 0;
        for (int shift = 0; shift < 24; shift += 8)
          expected |= static_cast<uint32_t>(std::lround(((above >> shift) & 255) +
                                                        ((below >> shift) & 255) * (255 - (above >> 24)) / 255.0))
                      << shift;
        const int d = distance(shown->at(x, y), expected);
        if (d > tolerance && worst <= tolerance)
          ADD_FAILURE() << x << "," << y << std::hex << ": " << shown->at(x, y) << " instead of " << expected
                        << ", overlay " << above << " frame " << below;
        worst = std::max(worst, d);
      }
  }

  UniqueFd card_;
  std::string sink_;
};

void addBox(GstBuffer *buffer, int x, int y, int w, int h) {
  GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta(buffer);
  GstAnalyticsODMtd box;
  gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string("face"), x, y, w, h, 0.9f, &box);
}

uint32_t outline(uint32_t x, uint32_t y) { // of 20,10 30x20, 2 wide
  const bool inside = x >= 20 && x < 50 && y >= 10 && y < 30;
  const bool hole = x >= 22 && x < 48 && y >= 12 && y < 28;
  return inside && !hole ? 0xff000000 | kGreen : 0;
}

TEST_F(Overlay, BoxesAreOnAPlaneOfTheirOwn) {
  Player player(std::string(kSource) + "NV12" + sink_);
  int n = 0;
  player.at_sink = [&](GstBuffer *buffer) { // moves: the old place has to be clean again
    if (++n > 2)
      addBox(buffer, 20, 10, 30, 20);
    else
      addBox(buffer, 4, 4, 8, 8);
  };
  ASSERT_TRUE(player.play());
  expectScreen(player, outline, kRounding);
  EXPECT_NE(player.configuration().find("overlay on plane"), std::string::npos) << player.configuration();
  EXPECT_EQ(player.stat("boxes"), 6u);
  EXPECT_EQ(player.stat("overlay-redraws"), 2u) << "one for each place";
}

TEST_F(Overlay, WithoutBoxesThereIsNone) {
  Player player(std::string(kSource) + "BGRx" + sink_);
  int n = 0;
  player.at_sink = [&](GstBuffer *buffer) {
    if (n++ < 2) addBox(buffer, 20, 10, 30, 20); // later frames have none
  };
  ASSERT_TRUE(player.play());
  expectScreen(player, [](uint32_t, uint32_t) { return 0u; }, 0);
}

TEST_F(Overlay, CanBeSwitchedOff) {
  Player player(std::string(kSource) + "BGRx" + sink_ + "overlay=off");
  player.at_sink = [&](GstBuffer *buffer) { addBox(buffer, 20, 10, 30, 20); };
  ASSERT_TRUE(player.play());
  expectScreen(player, [](uint32_t, uint32_t) { return 0u; }, 0);
  EXPECT_EQ(player.stat("boxes"), 0u);
  EXPECT_EQ(player.stat("overlay-redraws"), 0u);
}

TEST_F(Overlay, AStyleMayChangeWhilePlaying) {
  Player player(std::string(kSource) + "BGRx" + sink_);
  int n = 0;
  player.at_sink = [&](GstBuffer *buffer) {
    addBox(buffer, 20, 10, 30, 20);
    if (++n == 3) g_object_set(player.sink(), "overlay-color", 0x80ff0000u, nullptr);
  };
  ASSERT_TRUE(player.play());
  expectScreen(player, [](uint32_t x, uint32_t y) { return outline(x, y) != 0 ? 0x80800000u : 0u; }, 1);
  EXPECT_EQ(player.stat("overlay-redraws"), 2u);
}

struct Alpha {
  const char *name;
  bool premultiplied;
  float global;
};
void PrintTo(const Alpha &a, std::ostream *out) { *out << a.name; }

class PixelAlpha : public Overlay, public testing::WithParamInterface<Alpha> {};

// A picture of all alphas, pixel for pixel above the frame.
TEST_P(PixelAlpha, OfACompositionIsTheKernelsBlending) {
  const auto [name, premultiplied, global] = GetParam();
  constexpr uint32_t kSide = 32;
  const auto alpha = [](uint32_t x, uint32_t y) { return (y * kSide + x) / 4; };
  const auto color = [](uint32_t x, uint32_t y) { return std::array<uint32_t, 3>{x * 8, y * 8, (x ^ y) * 8}; };
  GstBuffer *pixels = gst_buffer_new_allocate(nullptr, kSide * kSide * 4, nullptr);
  for (uint32_t y = 0; y < kSide; ++y)
    for (uint32_t x = 0; x < kSide; ++x) {
      const auto c = color(x, y);
      const uint32_t a = alpha(x, y);
      guint8 bgra[4] = {0, 0, 0, static_cast<guint8>(a)};
      for (size_t i = 0; i < 3; ++i) bgra[2 - i] = static_cast<guint8>(premultiplied ? c[i] * a / 255 : c[i]);
      gst_buffer_fill(pixels, (y * kSide + x) * 4, bgra, 4);
    }
  gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, kSide, kSide);
  GstVideoOverlayRectangle *rectangle = gst_video_overlay_rectangle_new_raw(
      pixels, 8, 4, kSide, kSide,
      premultiplied ? GST_VIDEO_OVERLAY_FORMAT_FLAG_PREMULTIPLIED_ALPHA : GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
  if (global != 1) gst_video_overlay_rectangle_set_global_alpha(rectangle, global);
  GstVideoOverlayComposition *composition = gst_video_overlay_composition_new(rectangle);
  {
    Player player(std::string(kSource) + "BGRx" + sink_);
    player.at_sink = [&](GstBuffer *buffer) { gst_buffer_add_video_overlay_composition_meta(buffer, composition); };
    ASSERT_TRUE(player.play());
    expectScreen(
        player,
        [&](uint32_t x, uint32_t y) {
          if (x < 8 || y < 4 || x >= 8 + kSide || y >= 4 + kSide) return 0u;
          const auto c = color(x - 8, y - 4);
          const double a = alpha(x - 8, y - 4);
          uint32_t result = static_cast<uint32_t>(std::lround(a * static_cast<double>(global)));
          for (const uint32_t given : c) {
            const double light = premultiplied ? std::floor(given * a / 255) : given * a / 255;
            result = result << 8 | static_cast<uint32_t>(std::lround(light * static_cast<double>(global)));
          }
          return result;
        },
        1);
    EXPECT_EQ(player.stat("overlay-redraws"), 1u) << "the same for each frame";
  }
  gst_video_overlay_composition_unref(composition);
  gst_video_overlay_rectangle_unref(rectangle);
  gst_buffer_unref(pixels);
}

INSTANTIATE_TEST_SUITE_P(Kinds, PixelAlpha,
                         testing::Values(Alpha{"straight", false, 1}, Alpha{"premultiplied", true, 1},
                                         Alpha{"straight_global", false, 0.5f},
                                         Alpha{"premultiplied_global", true, 0.25f}),
                         [](const auto &i) { return i.param.name; });

// GStreamer's own element finds out that it need not draw into the frame.
TEST_F(Overlay, CompositionsAreAttachedAndNotBlended) {
  Player player("videotestsrc num-buffers=6 pattern=black ! video/x-raw,width=64,height=48,format=BGRx ! "
                "overlaycomposition name=text" +
                sink_);
  GstBuffer *pixels = gst_buffer_new_allocate(nullptr, 20 * 10 * 4, nullptr);
  gst_buffer_memset(pixels, 0, 0xff, 20 * 10 * 4);
  gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, 20, 10);
  GstVideoOverlayRectangle *rectangle =
      gst_video_overlay_rectangle_new_raw(pixels, 30, 20, 20, 10, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
  GstVideoOverlayComposition *composition = gst_video_overlay_composition_new(rectangle);
  GstElement *text = gst_bin_get_by_name(GST_BIN(player.pipeline()), "text");
  g_signal_connect(text, "draw", G_CALLBACK(+[](GstElement *, GstSample *, gpointer data) {
                     return gst_video_overlay_composition_ref(static_cast<GstVideoOverlayComposition *>(data));
                   }),
                   composition);
  gst_object_unref(text);
  int attached = 0;
  player.at_sink = [&](GstBuffer *buffer) {
    attached += gst_buffer_get_video_overlay_composition_meta(buffer) != nullptr;
  };
  ASSERT_TRUE(player.play());
  EXPECT_EQ(attached, 6);
  EXPECT_EQ(player.stat("overlay-redraws"), 1u);
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame);
  EXPECT_EQ(*std::max_element(frame->pixels.begin(), frame->pixels.end()), 0u) << "the frame is as it was";
  expectScreen(
      player, [](uint32_t x, uint32_t y) { return x >= 30 && x < 50 && y >= 20 && y < 30 ? 0xffffffffu : 0u; }, 0);
  gst_video_overlay_composition_unref(composition);
  gst_video_overlay_rectangle_unref(rectangle);
  gst_buffer_unref(pixels);
}

TEST_F(Overlay, LabelsHaveInkOnAGroundOfTheBoxesColor) {
  Player player(std::string("videotestsrc is-live=true pattern=blue ! video/x-raw,width=64,height=48,format=BGRx") +
                sink_ + "overlay-labels=true overlay-font=\"Sans 8\"");
  player.at_sink = [&](GstBuffer *buffer) { addBox(buffer, 4, 24, 56, 20); };
  player.start();
  int dark = 0, green = 0;
  for (const auto deadline = std::chrono::steady_clock::now() + 60s; // fonts take their time; frames come meanwhile
       (dark <= 15 || green <= 100) && std::chrono::steady_clock::now() < deadline;) {
    std::this_thread::sleep_for(100ms);
    auto shown = captureWriteback(card_.get());
    if (!shown) continue; // nothing is on screen yet
    dark = green = 0;
    for (uint32_t y = 0; y < 24; ++y)
      for (uint32_t x = 0; x < kWidth; ++x) {
        dark += (shown->at(x, y) & 0xff00) < 0x6000 && (shown->at(x, y) & 0xff) < 0x80;
        green += shown->at(x, y) == kGreen;
      }
  }
  EXPECT_GT(dark, 15) << "letters";
  EXPECT_GT(green, 100) << "and what they stand on";
  EXPECT_LE(player.stat("overlay-redraws"), 2u) << "without labels and with them";
  EXPECT_TRUE(player.infos().empty()) << player.infos().front();
  EXPECT_EQ(player.errorCount(), 0u) << player.errors();
  EXPECT_TRUE(player.stop());
}

// What is attached counts in the frame's pixels, and goes where they go.
struct Turned {
  const char *method;
  bool quarter;
  bool cropped;
};
void PrintTo(const Turned &t, std::ostream *out) { *out << t.method << (t.cropped ? "_cropped" : ""); }

class TurnedOverlay : public Overlay, public testing::WithParamInterface<Turned> {};

TEST_P(TurnedOverlay, GoesWhereTheFrameGoes) {
  const auto [method, quarter, cropped] = GetParam();
  // of the frame's 64x48: all, or 40x24 at 16,8
  const uint32_t left = cropped ? 16 : 0, top = cropped ? 8 : 0;
  const uint32_t width = cropped ? 40 : kWidth, height = cropped ? 24 : kHeight;
  const uint32_t across = quarter ? height : width, down = quarter ? width : height;
  std::string sink = sink_;
  sink.replace(sink.find("mode=64x48"), 10, "mode=" + std::to_string(across) + "x" + std::to_string(down));
  GstBuffer *pixels = gst_buffer_new_allocate(nullptr, 12 * 6 * 4, nullptr);
  for (guint32 i = 0; i < 12 * 6; ++i) { // no two alike
    const guint8 bgra[4] = {static_cast<guint8>(i * 3), static_cast<guint8>(255 - i), 7, 255};
    gst_buffer_fill(pixels, i * 4, bgra, 4);
  }
  gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, 12, 6);
  GstVideoOverlayRectangle *rectangle =
      gst_video_overlay_rectangle_new_raw(pixels, 30, 18, 12, 6, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
  GstVideoOverlayComposition *composition = gst_video_overlay_composition_new(rectangle);
  {
    Player player(std::string(kSource) + "BGRx" + sink + "rotate-method=" + method);
    player.at_sink = [&](GstBuffer *buffer) {
      addBox(buffer, 20, 10, 30, 20);
      gst_buffer_add_video_overlay_composition_meta(buffer, composition);
      if (!cropped) return;
      GstVideoCropMeta *crop = gst_buffer_add_video_crop_meta(buffer);
      crop->x = left;
      crop->y = top;
      crop->width = width;
      crop->height = height;
    };
    ASSERT_TRUE(player.play());
    ASSERT_TRUE(player.ended()) << player.errors();
    EXPECT_TRUE(player.infos().empty()) << player.infos().front();
    EXPECT_EQ(player.stat("overlay-redraws"), 1u);
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << shown.error().message();
    auto frame = player.lastFrame();
    ASSERT_TRUE(frame) << frame.error().message();
    ASSERT_EQ(shown->width, across);
    ASSERT_EQ(shown->height, down);
    unsigned wrong = 0;
    for (uint32_t y = 0; y < height; ++y)
      for (uint32_t x = 0; x < width; ++x) {
        const uint32_t fx = left + x, fy = top + y;
        uint32_t expected = frame->at(fx, fy);
        if (outline(fx, fy) != 0) expected = kGreen;
        if (fx >= 30 && fx < 42 && fy >= 18 && fy < 24) {
          const uint32_t i = (fy - 18) * 12 + fx - 30;
          expected = 7u << 16 | (255 - i) << 8 | (i * 3 & 255);
        }
        uint32_t sx = x, sy = y; // as GStreamer's orientations are defined
        const std::string m = method;
        if (m == "90r") sx = height - 1 - y, sy = x;
        if (m == "180") sx = width - 1 - x, sy = height - 1 - y;
        if (m == "90l") sx = y, sy = width - 1 - x;
        if (m == "horiz") sx = width - 1 - x;
        if (m == "vert") sy = height - 1 - y;
        if (m == "ul-lr") sx = y, sy = x;
        if (m == "ur-ll") sx = height - 1 - y, sy = width - 1 - x;
        if (shown->at(sx, sy) == expected) continue;
        if (wrong++ == 0)
          ADD_FAILURE() << fx << "," << fy << " of the frame" << std::hex << ": " << shown->at(sx, sy) << " instead of "
                        << expected;
      }
    EXPECT_EQ(wrong, 0u) << player.configuration();
  }
  gst_video_overlay_composition_unref(composition);
  gst_video_overlay_rectangle_unref(rectangle);
  gst_buffer_unref(pixels);
}

INSTANTIATE_TEST_SUITE_P(Orientations, TurnedOverlay,
                         testing::Values(Turned{"90r", true, false}, Turned{"180", false, false},
                                         Turned{"90l", true, false}, Turned{"horiz", false, false},
                                         Turned{"vert", false, false}, Turned{"ul-lr", true, false},
                                         Turned{"ur-ll", true, false}, Turned{"identity", false, true},
                                         Turned{"90r", true, true}, Turned{"horiz", false, true},
                                         Turned{"ur-ll", true, true}));

// videocrop leaves the frame where it is: caps of the part, metadata counts from the part's corner.
TEST_F(Overlay, OfWhatVideocropLeaves) {
  std::string sink = sink_;
  sink.replace(sink.find("mode=64x48"), 10, "mode=36x30");
  BufferRef whole; // its memory is the sink's, and keeps the card open: it goes whatever fails
  Player player(std::string(kSource) + "BGRx ! videocrop left=20 right=8 top=12 bottom=6" + sink);
  bool in_place = false;
  player.at_sink = [&](GstBuffer *buffer) {
    const GstVideoCropMeta *crop = gst_buffer_get_video_crop_meta(buffer);
    in_place = crop != nullptr && crop->x == 20 && crop->y == 12;
    addBox(buffer, 4, 5, 20, 10);
    whole = BufferRef(buffer);
  };
  ASSERT_TRUE(player.play());
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_TRUE(in_place) << "the frame was copied upstream";
  EXPECT_EQ(player.stat("copies"), 0u);
  auto shown = captureWriteback(card_.get());
  ASSERT_TRUE(shown) << shown.error().message();
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_BGRx, kWidth, kHeight);
  GstVideoFrame frame;
  ASSERT_TRUE(gst_video_frame_map(&frame, &info, whole.get(), GST_MAP_READ));
  unsigned wrong = 0;
  for (uint32_t y = 0; y < 30; ++y)
    for (uint32_t x = 0; x < 36; ++x) {
      uint32_t expected = 0;
      memcpy(&expected,
             static_cast<const guint8 *>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0)) +
                 (y + 12) * static_cast<size_t>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0)) + (x + 20) * 4,
             4);
      const bool inside = x >= 4 && x < 24 && y >= 5 && y < 15, hole = x >= 6 && x < 22 && y >= 7 && y < 13;
      wrong += shown->at(x, y) != (inside && !hole ? kGreen : expected & 0xffffff);
    }
  EXPECT_EQ(wrong, 0u) << player.configuration();
  gst_video_frame_unmap(&frame);
}

} // namespace
