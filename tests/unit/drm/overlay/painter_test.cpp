// SPDX-License-Identifier: LGPL-2.1-or-later
// Pixels of drawn scenes, against expectations that are worked out here by other means.
#include "gst/drm/overlay/painter.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "gst/drm/overlay/damage.h"
#include "tests/unit/drm/overlay/pictures.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

constexpr uint32_t kGreen = 0xff00ff00;

Canvas drawn(const OverlayScene &scene, const OverlayStyle &style, int width, int height,
             LabelSource *labels = nullptr) {
  DrawListMaker maker;
  std::vector<DrawItem> items;
  maker.make(scene, style, oneToOne(width, height), labels, items);
  Canvas canvas(width, height);
  canvas.paint(items);
  return canvas;
}

OverlayStyle green(unsigned line = 2) {
  OverlayStyle style;
  style.color = kGreen;
  style.line_width = line;
  return style;
}

TEST(Paint, AnOutlineIsItsEdgesAndNothingElse) {
  OverlayScene scene;
  scene.boxes = {{{2, 3, 8, 6}, 0, 0, -1}};
  const Canvas canvas = drawn(scene, green(), 16, 12);
  int n = 0;
  for (int y = 0; y < 12; ++y)
    for (int x = 0; x < 16; ++x) {
      const bool inside = x >= 2 && x < 10 && y >= 3 && y < 9;
      const bool hole = x >= 4 && x < 8 && y >= 5 && y < 7;
      EXPECT_EQ(canvas.at(x, y), inside && !hole ? kGreen : 0u) << x << "," << y;
      n += canvas.at(x, y) == kGreen;
    }
  EXPECT_EQ(n, 8 * 6 - 4 * 2);
}

TEST(Paint, ATranslucentOutlineIsPremultipliedAndEvenAtItsCorners) {
  OverlayStyle style = green(3);
  style.color = 0x80ff4000;
  for (const Rect &box : {Rect{2, 3, 10, 8}, Rect{2, 3, 3, 9}, Rect{2, 3, 9, 5}, Rect{2, 3, 1, 1}, Rect{2, 3, 5, 2}}) {
    OverlayScene scene;
    scene.boxes = {{box, 0, 0, -1}};
    const Canvas canvas = drawn(scene, style, 16, 12);
    int n = 0;
    for (int y = 0; y < 12; ++y)
      for (int x = 0; x < 16; ++x) {
        if (canvas.at(x, y) == 0) continue;
        EXPECT_EQ(canvas.at(x, y), 0x80802000u) << x << "," << y;
        ++n;
      }
    EXPECT_EQ(n, box.width * box.height - std::max(box.width - 6, 0) * std::max(box.height - 6, 0))
        << box.width << "x" << box.height;
  }
}

TEST(Paint, WhatReachesOutOfThePictureIsCutOff) {
  OverlayScene scene;
  scene.boxes = {{{-4, -4, 10, 10}, 0, 0, -1}, {{7, 7, 100, 100}, 0, 0, -1}, {{-50, 3, 1000000000, 1}, 0, 0, -1}};
  const Canvas canvas = drawn(scene, green(1), 12, 12);
  for (int y = 0; y < 12; ++y)
    for (int x = 0; x < 12; ++x) {
      const bool first = (x == 5 && y <= 5) || (y == 5 && x <= 5); // its right and lower edge
      const bool second = (x == 7 && y >= 7) || (y == 7 && x >= 7);
      EXPECT_EQ(canvas.at(x, y), first || second || y == 3 ? kGreen : 0u) << x << "," << y;
    }
}

TEST(Paint, BoxesOnBoxesBlend) {
  OverlayScene scene;
  scene.boxes = {{{0, 0, 4, 4}, 0, 0, -1}, {{0, 0, 4, 4}, 0, 0, -1}};
  OverlayStyle style = green(2);
  style.color = 0x80ffffff;
  const Canvas canvas = drawn(scene, style, 4, 4);
  const int expected = static_cast<int>(std::lround(128 + 128 * (1 - 128 / 255.0)));
  EXPECT_NEAR(static_cast<int>(canvas.at(1, 1) >> 24), expected, 1);
  EXPECT_EQ(canvas.at(1, 1) & 255, canvas.at(1, 1) >> 24);
}

TEST(Paint, ATurnedBoxIsFourLines) {
  OverlayScene scene;
  scene.boxes = {{{20, 30, 60, 40}, static_cast<float>(G_PI / 2), 0, -1}}; // on its side about (50, 50)
  const Canvas canvas = drawn(scene, green(4), 100, 100);
  for (int y = 0; y < 100; ++y)
    for (int x = 0; x < 100; ++x) {
      const double dx = std::abs(x + 0.5 - 50), dy = std::abs(y + 0.5 - 50);
      const double outside = std::max(dx - 20, dy - 30); // from the outline of 40x60
      if (outside > -1.4 && outside < 1.4) {
        EXPECT_EQ(canvas.at(x, y), kGreen) << x << "," << y;
      } else if (outside < -2.6 || outside > 2.6) {
        EXPECT_EQ(canvas.at(x, y), 0u) << x << "," << y;
      }
    }
}

TEST(Paint, APointIsADiscWithADarkRim) {
  OverlayScene scene;
  scene.points = {{20.0f, 15.0f, 0}, {-500.0f, 4.0f, 0}, {1e30f, 1e30f, 0}};
  const Canvas canvas = drawn(scene, green(3), 40, 30);
  for (int y = 0; y < 30; ++y)
    for (int x = 0; x < 40; ++x) {
      const double from = std::hypot(x + 0.5 - 20, y + 0.5 - 15);
      if (from < 3.0 - 0.1) {
        EXPECT_EQ(canvas.at(x, y), kGreen) << x << "," << y;
      } else if (from > 5.1) {
        EXPECT_EQ(canvas.at(x, y), 0u) << x << "," << y;
      }
    }
}

TEST(Paint, MasksGivePixelsOfTheirValuesColors) {
  OverlayScene scene;
  OverlayMask mask;
  mask.area = {4, 2, 8, 8}; // each value is 2x4 pixels
  mask.pixels = picture(GST_VIDEO_FORMAT_GRAY8, 4, 2, {0, 1, 2, 0, 3, 1, 0, 2}, 3);
  mask.regions = 2;
  scene.regions = {{1, g_quark_from_static_string("cat")}, {2, g_quark_from_static_string("dog")}};
  scene.masks = {mask};
  OverlayStyle style;
  style.mask_opacity = 0.4;
  const Canvas canvas = drawn(scene, style, 16, 12);
  ClassColors colors;
  const auto seen = [](uint32_t color) { // 40 %
    const auto part = [](uint32_t c) { return static_cast<uint32_t>(std::lround(c * 102 / 255.0)); };
    return part(255) << 24 | part((color >> 16) & 255) << 16 | part((color >> 8) & 255) << 8 | part(color & 255);
  };
  const uint32_t cat = seen(colors.of(scene.regions[0].label)), dog = seen(colors.of(scene.regions[1].label));
  const uint32_t expected[2][4] = {{0, cat, dog, 0}, {seen(ClassColors::ofNumber(3)), cat, 0, dog}};
  for (int y = 0; y < 12; ++y)
    for (int x = 0; x < 16; ++x) {
      const bool inside = x >= 4 && x < 12 && y >= 2 && y < 10;
      EXPECT_EQ(canvas.at(x, y), inside ? expected[(y - 2) / 4][(x - 4) / 2] : 0u) << x << "," << y;
    }
}

TEST(Paint, AnInstanceHasItsObjectsColorAndSixteenBitsAreRead) {
  OverlayScene scene;
  OverlayMask mask;
  mask.area = {0, 0, 2, 1};
  mask.pixels = picture(GST_VIDEO_FORMAT_GRAY16_LE, 2, 1, {0, 1, 0, 0}); // 256, 0
  mask.label = g_quark_from_static_string("cat");
  scene.masks = {mask};
  OverlayStyle style;
  style.mask_opacity = 1;
  const Canvas canvas = drawn(scene, style, 2, 1);
  EXPECT_EQ(canvas.at(0, 0), ClassColors().of(mask.label));
  EXPECT_EQ(canvas.at(1, 0), 0u);
}

struct Format {
  const char *name;
  GstVideoFormat format;
  std::vector<guint8> bytes; // a pixel: alpha 0x80, red 0x40, green 0x20, blue 0x10
};

class Images : public testing::TestWithParam<Format> {};

TEST_P(Images, OfEachOrderOfBytes) {
  OverlayScene scene;
  OverlayImage image;
  image.area = {1, 0, 1, 1};
  image.pixels = picture(GetParam().format, 1, 1, GetParam().bytes, 8);
  image.premultiplied = true;
  scene.images = {image};
  EXPECT_EQ(drawn(scene, {}, 3, 1).at(1, 0), 0x80402010u);
  EXPECT_EQ(drawn(scene, {}, 3, 1).at(2, 0), 0u);
  scene.images[0].premultiplied = false;
  EXPECT_EQ(drawn(scene, {}, 3, 1).at(1, 0), 0x80201008u) << "straight alpha is multiplied in";
  scene.images[0].alpha = 0.5f; // 128 / 255
  EXPECT_EQ(drawn(scene, {}, 3, 1).at(1, 0), 0x40100804u);
}

INSTANTIATE_TEST_SUITE_P(Formats, Images,
                         testing::Values(Format{"BGRA", GST_VIDEO_FORMAT_BGRA, {0x10, 0x20, 0x40, 0x80}},
                                         Format{"ARGB", GST_VIDEO_FORMAT_ARGB, {0x80, 0x40, 0x20, 0x10}},
                                         Format{"RGBA", GST_VIDEO_FORMAT_RGBA, {0x40, 0x20, 0x10, 0x80}},
                                         Format{"ABGR", GST_VIDEO_FORMAT_ABGR, {0x80, 0x10, 0x20, 0x40}}),
                         [](const auto &i) { return i.param.name; });

TEST(Paint, AyuvIsConverted) {
  struct {
    std::vector<guint8> ayuv;
    uint32_t argb;
  } const cases[] = {{{255, 16, 128, 128}, 0xff000000},
                     {{255, 235, 128, 128}, 0xffffffff},
                     {{255, 63, 102, 240}, 0xffff0000},
                     {{255, 32, 240, 118}, 0xff0000ff},
                     {{0, 235, 128, 128}, 0}};
  for (const auto &c : cases) {
    OverlayScene scene;
    OverlayImage image;
    image.area = {0, 0, 1, 1};
    image.pixels = picture(GST_VIDEO_FORMAT_AYUV, 1, 1, c.ayuv);
    scene.images = {image};
    const uint32_t pixel = drawn(scene, {}, 1, 1).at(0, 0);
    for (int shift = 0; shift < 32; shift += 8)
      EXPECT_NEAR(static_cast<int>((pixel >> shift) & 255), static_cast<int>((c.argb >> shift) & 255), 2)
          << std::hex << pixel << " for " << c.argb;
  }
}

TEST(Paint, PremultipliedPixelsThatSayMoreThanTheirAlphaAreHeldToIt) {
  OverlayScene scene;
  OverlayImage image;
  image.area = {0, 0, 1, 1};
  image.pixels = picture(GST_VIDEO_FORMAT_ARGB, 1, 1, {0x40, 0xff, 0x40, 0x10});
  image.premultiplied = true;
  scene.images = {image, image, image};
  const uint32_t pixel = drawn(scene, {}, 1, 1).at(0, 0);
  for (int shift = 0; shift < 24; shift += 8) EXPECT_LE((pixel >> shift) & 255, pixel >> 24) << std::hex << pixel;
}

// Of one colour: whatever the size, nothing shines through and no colour changes.
TEST(Paint, ScalingKeepsAnEvenPicture) {
  std::vector<guint8> bytes;
  for (int i = 0; i < 7 * 5; ++i) bytes.insert(bytes.end(), {0x11, 0x77, 0xcc, 0xff});
  for (const auto &[width, height] : {std::pair{1, 1}, {3, 2}, {7, 9}, {20, 5}, {64, 48}}) {
    OverlayScene scene;
    OverlayImage image;
    image.area = {0, 0, width, height};
    image.pixels = picture(GST_VIDEO_FORMAT_BGRA, 7, 5, bytes);
    scene.images = {image};
    const Canvas canvas = drawn(scene, {}, width, height);
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) ASSERT_EQ(canvas.at(x, y), 0xffcc7711u) << width << "x" << height;
  }
}

// Against linear interpolation, and against the weighted mean, in floating point.
TEST(Paint, ScalingIsLinearUpAndAMeanDown) {
  std::vector<guint8> bytes;
  std::mt19937 random(7);
  constexpr int kSide = 8;
  for (int i = 0; i < kSide; ++i) {
    const auto a = static_cast<guint8>(random() % 256);
    bytes.insert(bytes.end(), {static_cast<guint8>(a / 2), static_cast<guint8>(a / 3), a, a});
  }
  for (const int width : {1, 3, 5, 8, 13, 32}) {
    OverlayScene scene;
    OverlayImage image;
    image.area = {0, 0, width, 1};
    image.pixels = picture(GST_VIDEO_FORMAT_BGRA, kSide, 1, bytes);
    image.premultiplied = true;
    scene.images = {image};
    const Canvas canvas = drawn(scene, {}, width, 1);
    for (int x = 0; x < width; ++x) {
      const double scale = double(kSide) / width, reach = std::max(scale, 1.0), at = (x + 0.5) * scale - 0.5;
      double sum = 0, weights = 0;
      for (int k = 0; k < kSide; ++k) {
        const double w = std::max(0.0, 1 - std::abs(k - at) / reach);
        sum += w * bytes[static_cast<size_t>(k) * 4 + 3];
        weights += w;
      }
      EXPECT_NEAR(static_cast<int>(canvas.at(x, 0) >> 24), sum / weights, 1) << x << " of " << width;
    }
  }
}

TEST(Paint, ALabelIsTextOnAGroundOfItsBoxesColor) {
  FakeLabels labels;
  OverlayScene scene;
  scene.boxes = {{{10, 20, 20, 10}, 0, g_quark_from_static_string("abcd"), 50}};
  const Canvas canvas = drawn(scene, green(1), 64, 48, &labels);
  for (int y = 14; y < 20; ++y) // above the box; a pixel of ground at each end
    for (int x = 10; x < 16; ++x) {
      const uint32_t expected = x == 10 || x == 15 ? kGreen : x == 11 ? 0xff007f00u : 0xff000000u;
      EXPECT_EQ(canvas.at(x, y), expected) << x << "," << y;
    }
  EXPECT_EQ(canvas.at(16, 16), 0u);
  EXPECT_EQ(canvas.at(12, 13), 0u);
}

TEST(Paint, LabelsStayInThePicture) {
  FakeLabels labels;
  const uint32_t name = g_quark_from_static_string("0123456789");
  for (const Rect &box :
       {Rect{-20, -20, 30, 30}, Rect{60, 40, 30, 30}, Rect{0, 0, 64, 48}, Rect{63, 47, 1, 1}, Rect{0, 3, 9, 9}}) {
    OverlayScene scene;
    scene.boxes = {{box, 0, name, -1}};
    OverlayStyle style = green(1);
    style.color = 0xffffffff; // text: black, and nothing else is
    const Canvas canvas = drawn(scene, style, 64, 48, &labels);
    int ink = 0;
    for (int y = 0; y < 48; ++y)
      for (int x = 0; x < 64; ++x) ink += canvas.at(x, y) == 0xff000000;
    EXPECT_EQ(ink, 9 * 6) << box.x << "," << box.y << ": all of the text";
  }
}

TEST(Paint, TextsOfTheFrameAndOfBoxes) {
  FakeLabels labels;
  OverlayScene scene;
  scene.boxes = {{{30, 20, 20, 20}, 0, 0, -1}}; // without a name of its own
  scene.texts = {
      {-1, g_quark_from_static_string("indoor"), 90}, {0, g_quark_from_static_string("red"), 80}, {77, 5, 1}};
  DrawListMaker maker;
  std::vector<DrawItem> items;
  maker.make(scene, {}, oneToOne(64, 48), &labels, items);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[1].bounds, (Rect{0, 0, 8, 6})) << "the upper left corner is the frame's";
  EXPECT_EQ(items[2].bounds, (Rect{30, 34, 5, 6})) << "the lower left one the box's";
}

TEST(Paint, ThousandsOfBoxes) {
  FakeLabels labels;
  OverlayScene scene;
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i)
    scene.boxes.push_back({{static_cast<int>(random() % 700) - 30, static_cast<int>(random() % 500) - 30,
                            static_cast<int>(random() % 200), static_cast<int>(random() % 200)},
                           i % 7 == 0 ? 0.5f : 0.0f,
                           g_quark_from_string(std::to_string(i % 90).c_str()),
                           i % 101});
  DrawListMaker maker;
  std::vector<DrawItem> items;
  maker.make(scene, {}, oneToOne(640, 480), &labels, items);
  size_t n = 0;
  for (const DrawItem &item : items) n += item.shape == DrawItem::Shape::Label;
  EXPECT_EQ(n, kMostLabels);
  Canvas canvas(640, 480);
  canvas.paint(items);
}

OverlayScene randomScene(std::mt19937 &random, const OverlayScene &before, const std::vector<BufferRef> &pictures,
                         const BufferRef &mask) {
  static const uint32_t names[] = {g_quark_from_static_string("one"), g_quark_from_static_string("three")};
  const auto place = [&](int most) {
    return Rect{static_cast<int>(random() % 90) - 20, static_cast<int>(random() % 70) - 20,
                static_cast<int>(random() % static_cast<unsigned>(most)),
                static_cast<int>(random() % static_cast<unsigned>(most))};
  };
  OverlayScene scene = before;
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
    switch (random() % 9) {
    case 0:
      if (!scene.boxes.empty())
        scene.boxes.erase(scene.boxes.begin() + static_cast<long>(random() % scene.boxes.size()));
      break;
    case 1:
      scene.points.push_back({static_cast<float>(random() % 640) / 10, static_cast<float>(random() % 480) / 10, 0});
      break;
    case 2: scene.points.clear(); break;
    case 3: scene.images.push_back({place(60), pictures[random() % pictures.size()], 0.7f, random() % 2 == 0}); break;
    case 4: scene.images.clear(); break;
    case 5: {
      OverlayMask m;
      m.area = place(70);
      m.pixels = mask;
      scene.masks = {m};
      break;
    }
    case 6: scene.masks.clear(); break;
    default:
      scene.boxes.push_back(
          {place(50), random() % 3 == 0 ? 0.4f : 0.0f, names[random() % 2], static_cast<int>(random() % 5)});
    }
  }
  return scene;
}

// A picture that is painted in part, where something changed, is the same as one that is painted at once.
TEST(Paint, InPartsIsTheSameAsAtOnce) {
  std::mt19937 random(11);
  std::vector<guint8> bytes(13 * 9 * 4), values(6 * 6);
  for (guint8 &b : bytes) b = static_cast<guint8>(random());
  for (guint8 &v : values) v = static_cast<guint8>(random() % 4);
  const std::vector<BufferRef> pictures = {picture(GST_VIDEO_FORMAT_BGRA, 13, 9, bytes),
                                           picture(GST_VIDEO_FORMAT_ARGB, 9, 13, bytes)};
  const BufferRef mask = picture(GST_VIDEO_FORMAT_GRAY8, 6, 6, values);
  FakeLabels labels;
  DrawListMaker maker;
  OverlayStyle style;
  style.line_width = 3;
  Canvas kept(64, 48);
  std::vector<DrawItem> before, items;
  OverlayScene scene;
  Painter painter;
  Damage damage;
  size_t painted = 0;
  for (int round = 0; round < 400; ++round) {
    if (scene.boxes.size() > 12) scene.clear();
    scene = randomScene(random, scene, pictures, mask);
    maker.make(scene, style, oneToOne(64, 48), &labels, items);
    findDamage(before, items, damage);
    for (const Rect &part : damage.rects()) {
      painter.paint(items, part, kept.data.data(), kept.pitch);
      painted += static_cast<size_t>(part.width * part.height);
    }
    Canvas fresh(64, 48);
    fresh.paint(items);
    ASSERT_EQ(kept.data, fresh.data) << "round " << round;
    before = items;
  }
  EXPECT_LT(painted, 400u * 64 * 48) << "it was never less than all";
}

} // namespace
