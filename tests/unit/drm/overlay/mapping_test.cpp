// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/mapping.h"

#include <climits>

#include <gtest/gtest.h>

using namespace gstzc;

namespace {

struct Case {
  const char *what;
  Placement place;
  Rect box, expected; // whole, as if the picture had no edges
};

const Placement kPlain{{0, 0, 640, 480}, {192, 144, 640, 480}, false};
const Placement kHalf{{0, 0, 640, 480}, {0, 0, 320, 240}, true};
const Placement kCropped{{100, 50, 200, 100}, {0, 0, 200, 100}, false};
const Placement kLarge{{100, 50, 200, 100}, {0, 0, 1600, 800}, true};

class Mapping : public testing::TestWithParam<Case> {};

TEST_P(Mapping, FromFrameToPicture) {
  const Case &c = GetParam();
  EXPECT_EQ(OverlayMapping(c.place).rect(c.box), c.expected);
}

INSTANTIATE_TEST_SUITE_P(Table, Mapping,
                         testing::Values(Case{"relative to the target", kPlain, {10, 20, 30, 40}, {10, 20, 30, 40}},
                                         Case{"scaled", kHalf, {10, 20, 30, 40}, {5, 10, 15, 20}},
                                         Case{"edges at the nearest pixel", kHalf, {3, 3, 3, 3}, {2, 2, 1, 1}},
                                         Case{"cropped", kCropped, {90, 60, 30, 20}, {-10, 10, 30, 20}},
                                         Case{"scaled and cropped", kLarge, {110, 60, 10, 5}, {80, 80, 80, 40}},
                                         Case{"without a size", kPlain, {10, 10, 0, 5}, {}},
                                         Case{"of a negative size", kPlain, {10, 10, 5, -5}, {}},
                                         Case{"narrower than half a pixel",
                                              {{0, 0, 6400, 4800}, {0, 0, 64, 48}, true},
                                              {10, 10, 20, 20},
                                              {}}),
                         [](const auto &i) {
                           std::string name = i.param.what;
                           for (char &c : name)
                             if (c == ' ') c = '_';
                           return name;
                         });

TEST(Mappings, AnyNumbers) {
  constexpr int kMax = INT_MAX, kMin = INT_MIN;
  const Rect whole{0, 0, 640, 480};
  const OverlayMapping plain(kPlain), large(kLarge);
  const auto seen = [](const OverlayMapping &m, const Rect &box) { return intersection(m.rect(box), m.whole()); };
  EXPECT_EQ(seen(plain, {600, 10, kMax, 10}), (Rect{600, 10, 40, 10}));
  EXPECT_EQ(seen(plain, {10, 400, 10, kMax}), (Rect{10, 400, 10, 80}));
  EXPECT_EQ(seen(plain, {kMax - 5, 10, 10, 10}), (Rect{}));
  EXPECT_EQ(seen(plain, {kMin, kMin, kMax, kMax}), (Rect{}));
  EXPECT_EQ(seen(plain, {-1000000, -1000000, 2000000, 2000000}), whole);
  EXPECT_EQ(seen(large, {kMin, 60, 20, 20}), (Rect{}));
  EXPECT_EQ(seen(large, {300000000, 60, 20, 20}), (Rect{})) << "times eight is more than 31 bits";
  EXPECT_EQ(seen(large, {100, 50, 300000000, 20}), (Rect{0, 0, 1600, 160}));
}

// A box at the left of the frame's upper edge, and where it goes. Turns are counter-clockwise, mirrors come first.
struct TurnCase {
  uint32_t rotation;
  Rect expected; // in a picture of 200x100, or of 100x200 where it lies on its side
};

class Turn : public testing::TestWithParam<TurnCase> {};

TEST_P(Turn, AsThePlaneTurnsTheFrame) {
  const auto [rotation, expected] = GetParam();
  const bool side = (rotation & (DRM_MODE_ROTATE_90 | DRM_MODE_ROTATE_270)) != 0;
  const Placement place{{0, 0, 400, 200}, side ? Rect{7, 9, 100, 200} : Rect{7, 9, 200, 100}, true};
  EXPECT_EQ(OverlayMapping(place, rotation).rect({20, 0, 60, 40}), expected);
}

INSTANTIATE_TEST_SUITE_P(Rotations, Turn,
                         testing::Values(TurnCase{DRM_MODE_ROTATE_0, {10, 0, 30, 20}},
                                         TurnCase{DRM_MODE_ROTATE_90, {0, 160, 20, 30}},
                                         TurnCase{DRM_MODE_ROTATE_180, {160, 80, 30, 20}},
                                         TurnCase{DRM_MODE_ROTATE_270, {80, 10, 20, 30}},
                                         TurnCase{DRM_MODE_ROTATE_0 | DRM_MODE_REFLECT_X, {160, 0, 30, 20}},
                                         TurnCase{DRM_MODE_ROTATE_0 | DRM_MODE_REFLECT_Y, {10, 80, 30, 20}},
                                         TurnCase{DRM_MODE_ROTATE_90 | DRM_MODE_REFLECT_X, {0, 10, 20, 30}}));

TEST(Rects, IntersectionAndBounds) {
  EXPECT_EQ(intersection({0, 0, 10, 10}, {5, 5, 10, 10}), (Rect{5, 5, 5, 5}));
  EXPECT_EQ(intersection({0, 0, 10, 10}, {10, 0, 10, 10}), (Rect{})) << "they only touch";
  EXPECT_EQ(bounding({0, 0, 10, 10}, {20, 5, 10, 10}), (Rect{0, 0, 30, 15}));
  EXPECT_EQ(bounding({}, {20, 5, 10, 10}), (Rect{20, 5, 10, 10}));
}

} // namespace
