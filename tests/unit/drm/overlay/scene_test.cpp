// SPDX-License-Identifier: LGPL-2.1-or-later
// When scenes and pictures count as the same, and what is painted anew when they do not.
#include "gst/drm/overlay/scene.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "gst/drm/overlay/damage.h"
#include "gst/drm/overlay/style.h"
#include "tests/unit/drm/overlay/pictures.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

OverlayScene sample() {
  OverlayScene scene;
  scene.boxes = {{{1, 2, 30, 40}, 0, 7, 93}, {{50, 2, 30, 40}, 0, 8, -1}};
  scene.points = {{1, 2, 7}};
  scene.texts = {{0, 9, 50}};
  scene.regions = {{1, 7}};
  OverlayMask mask;
  mask.area = {0, 0, 20, 10};
  mask.pixels = picture(GST_VIDEO_FORMAT_GRAY8, 4, 2, {0, 1, 2, 0, 3, 1, 0, 2});
  mask.regions = 1;
  scene.masks = {mask};
  scene.images = {{{5, 5, 10, 10}, picture(GST_VIDEO_FORMAT_BGRA, 1, 1, {1, 2, 3, 4}), 1, false}};
  return scene;
}

struct Change {
  const char *what;
  std::function<void(OverlayScene &)> make;
  bool same;
};

class Compare : public testing::TestWithParam<Change> {};

TEST_P(Compare, Scenes) {
  const OverlayScene before = sample();
  OverlayScene after = before;
  GetParam().make(after);
  EXPECT_EQ(before == after, GetParam().same);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Compare,
    testing::Values(Change{"nothing", [](OverlayScene &) {}, true},
                    Change{"the_same_mask_in_another_buffer",
                           [](OverlayScene &s) {
                             s.masks[0].pixels = picture(GST_VIDEO_FORMAT_GRAY8, 4, 2, {0, 1, 2, 0, 3, 1, 0, 2});
                           },
                           true},
                    Change{"a_pixel_of_the_mask",
                           [](OverlayScene &s) {
                             s.masks[0].pixels = picture(GST_VIDEO_FORMAT_GRAY8, 4, 2, {0, 1, 2, 0, 3, 1, 0, 1});
                           },
                           false},
                    Change{"the_form_of_the_mask",
                           [](OverlayScene &s) {
                             s.masks[0].pixels = picture(GST_VIDEO_FORMAT_GRAY8, 2, 4, {0, 1, 2, 0, 3, 1, 0, 2});
                           },
                           false},
                    Change{"no_mask_in_the_mask", [](OverlayScene &s) { s.masks[0].pixels = {}; }, false},
                    Change{"where_the_mask_is", [](OverlayScene &s) { s.masks[0].area.x = 1; }, false},
                    Change{"a_regions_name", [](OverlayScene &s) { s.regions[0].label = 8; }, false},
                    Change{"a_box_moved", [](OverlayScene &s) { s.boxes[1].area.y = 3; }, false},
                    Change{"a_box_turned", [](OverlayScene &s) { s.boxes[1].angle = 0.1f; }, false},
                    Change{"a_score", [](OverlayScene &s) { s.boxes[0].percent = 94; }, false},
                    Change{"a_name", [](OverlayScene &s) { s.boxes[0].label = 8; }, false},
                    Change{"a_box_less", [](OverlayScene &s) { s.boxes.pop_back(); }, false},
                    Change{"boxes_in_another_order", [](OverlayScene &s) { std::swap(s.boxes[0], s.boxes[1]); }, false},
                    Change{"a_point", [](OverlayScene &s) { s.points[0].x = 2; }, false},
                    Change{"a_text", [](OverlayScene &s) { s.texts[0].box = -1; }, false},
                    Change{"an_images_alpha", [](OverlayScene &s) { s.images[0].alpha = 0.5f; }, false},
                    Change{"another_image",
                           [](OverlayScene &s) {
                             s.images[0].pixels = picture(GST_VIDEO_FORMAT_BGRA, 1, 1, {1, 2, 3, 4});
                           },
                           false}),
    [](const auto &i) { return i.param.what; });

TEST(Scene, ClearKeepsTheMemory) {
  OverlayScene scene = sample();
  const OverlayBox *boxes = scene.boxes.data();
  scene.clear();
  EXPECT_TRUE(scene.empty());
  EXPECT_TRUE(scene.regions.empty());
  scene.boxes.push_back({});
  EXPECT_EQ(scene.boxes.data(), boxes);
}

// Shapes that are 10x10 at these places.
std::vector<DrawItem> items(std::initializer_list<std::pair<int, int>> places) {
  std::vector<DrawItem> result;
  for (const auto &[x, y] : places) {
    DrawItem item;
    item.bounds = item.area = {x, y, 10, 10};
    result.push_back(item);
  }
  return result;
}

TEST(Damages, AreWhatDiffers) {
  Damage damage;
  const auto found = [&](const std::vector<DrawItem> &before, const std::vector<DrawItem> &after) {
    findDamage(before, after, damage);
    return std::multiset<Rect>(damage.rects().begin(), damage.rects().end());
  };
  const auto three = items({{0, 0}, {100, 0}, {200, 0}});
  EXPECT_TRUE(found(three, three).empty());
  EXPECT_EQ(found({}, three).size(), 3u);
  EXPECT_EQ(found(three, items({{0, 0}, {100, 50}, {200, 0}})),
            (std::multiset<Rect>{{100, 0, 10, 10}, {100, 50, 10, 10}}));
  EXPECT_EQ(found(three, items({{0, 0}, {105, 5}, {200, 0}})), (std::multiset<Rect>{{100, 0, 15, 15}}))
      << "parts that overlap are one";
  EXPECT_EQ(found(three, items({{0, 0}, {200, 0}})), (std::multiset<Rect>{{100, 0, 10, 10}})) << "one went";
  EXPECT_EQ(found(items({{0, 0}, {200, 0}}), three), (std::multiset<Rect>{{100, 0, 10, 10}})) << "one came";
  EXPECT_EQ(found(items({{0, 0}, {100, 0}, {200, 0}}), items({{0, 0}, {100, 0}, {200, 0}})).size(), 0u);
}

TEST(Damages, NeverOverlapAndAreNeverMany) {
  Damage damage;
  for (int i = 0; i < 200; ++i) {
    damage.add({i * 37 % 500, i * 53 % 400, 5 + i % 20, 5 + i % 13});
    ASSERT_LE(damage.rects().size(), Damage::kMost);
    for (size_t a = 0; a < damage.rects().size(); ++a)
      for (size_t b = a + 1; b < damage.rects().size(); ++b)
        ASSERT_EQ(intersection(damage.rects()[a], damage.rects()[b]), Rect{});
  }
  damage.clear();
  damage.add({3, 3, 0, 5});
  EXPECT_TRUE(damage.rects().empty());
}

TEST(DrawLists, SameSceneSameShapesAndNoPixmapTwice) {
  DrawListMaker maker;
  FakeLabels labels;
  std::vector<DrawItem> first, second;
  maker.make(sample(), {}, oneToOne(100, 80), &labels, first);
  OverlayScene again = sample();
  maker.make(again, {}, oneToOne(100, 80), &labels, second);
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i + 1 < first.size(); ++i) EXPECT_EQ(first[i], second[i]) << i; // the image is another buffer
  EXPECT_NE(first.back(), second.back());
  maker.make(again, {}, oneToOne(100, 80), &labels, first);
  EXPECT_EQ(first, second);
  again.boxes[0].area.x += 1;
  again.images[0].area.x += 1;
  maker.make(again, {}, oneToOne(100, 80), &labels, first);
  EXPECT_EQ(first[0].pixmap, second[0].pixmap) << "a mask that did not change";
  EXPECT_EQ(first.back().pixmap, second.back().pixmap) << "an image that only moved";
  OverlayStyle style;
  style.mask_opacity = 0.9;
  maker.make(again, style, oneToOne(100, 80), &labels, second);
  EXPECT_NE(first[0].pixmap, second[0].pixmap);
}

int apart(uint32_t a, uint32_t b) {
  int sum = 0;
  for (int shift = 0; shift < 24; shift += 8)
    sum += std::abs(static_cast<int>((a >> shift) & 255) - static_cast<int>((b >> shift) & 255));
  return sum;
}

TEST(Colors, OfClassesCanBeToldApart) {
  ClassColors colors;
  std::vector<uint32_t> given = {colors.of(0)};
  for (int i = 0; i < 16; ++i) given.push_back(colors.of(g_quark_from_string(("class " + std::to_string(i)).c_str())));
  for (size_t a = 0; a < given.size(); ++a) {
    EXPECT_EQ(given[a] >> 24, 255u);
    for (size_t b = a + 1; b < given.size(); ++b)
      EXPECT_GE(apart(given[a], given[b]), 90) << std::hex << given[a] << " " << given[b];
  }
  const uint32_t more = colors.of(g_quark_from_static_string("one too many"));
  EXPECT_EQ(colors.of(g_quark_from_static_string("one too many")), more);
  EXPECT_EQ(ClassColors().of(g_quark_from_static_string("cat")), ClassColors().of(g_quark_from_static_string("cat")));
}

TEST(Colors, TextIsReadable) {
  EXPECT_EQ(readableOn(0xff00ff00), 0xff000000u);
  EXPECT_EQ(readableOn(0xff000080), 0xffffffffu);
}

// A mask without memory has no pixels that GStreamer could compare. Its complaint would end the program.
TEST(Masks, WithoutMemoryAreCompared) {
  const auto empty = [](guint width) {
    OverlayScene scene;
    OverlayMask mask;
    mask.pixels = BufferRef::adopt(gst_buffer_new());
    gst_buffer_add_video_meta(mask.pixels.get(), GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, width, 8);
    scene.masks = {mask};
    return scene;
  };
  EXPECT_TRUE(empty(8) == empty(8));
  EXPECT_FALSE(empty(8) == empty(4));
}

} // namespace
