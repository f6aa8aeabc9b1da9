// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/negotiate/engine.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/unit/drm/snapshots.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

constexpr uint64_t kY = I915_FORMAT_MOD_Y_TILED, kX = I915_FORMAT_MOD_X_TILED;
constexpr uint64_t kMcCcs = I915_FORMAT_MOD_Y_TILED_GEN12_MC_CCS, kRcCcs = I915_FORMAT_MOD_Y_TILED_GEN12_RC_CCS;
constexpr uint64_t kAfbc = DRM_FORMAT_MOD_ARM_AFBC(AFBC_FORMAT_MOD_BLOCK_SIZE_16x16);
constexpr uint64_t kSand128 = DRM_FORMAT_MOD_BROADCOM_SAND128;

FrameNeed frame(uint32_t fourcc, uint64_t modifier = 0, int width = 1920, int height = 1080) {
  FrameNeed need;
  need.format = {fourcc, modifier};
  need.width = width;
  need.height = height;
  return need;
}

std::vector<DrmFormat> pairs(const std::vector<uint32_t> &fourccs, const std::vector<uint64_t> &modifiers) {
  std::vector<DrmFormat> result;
  for (const uint32_t fourcc : fourccs)
    for (const uint64_t modifier : modifiers) result.push_back({fourcc, modifier});
  return result;
}

std::vector<DrmFormat> operator+(std::vector<DrmFormat> a, const std::vector<DrmFormat> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

KmsSnapshot device(std::vector<KmsPlane> planes) {
  KmsSnapshot s = desk();
  s.planes = std::move(planes);
  return s;
}

struct Answer {
  std::vector<uint32_t> planes; // ids, in order
  std::vector<Option> options;
  std::vector<Refusal> refusals;
  RefusalReason reason(const KmsSnapshot &s, uint32_t id) const {
    for (const Refusal &r : refusals)
      if (s.planes[r.plane].id == id) return r.reason;
    ADD_FAILURE() << "plane " << id << " is not refused";
    return RefusalReason::NoSuchFormat;
  }
};

Answer ask(const KmsSnapshot &s, const FrameNeed &need, const FailureMemory &failures = {}) {
  Answer a;
  a.options = propose(s, 0, need, failures, &a.refusals);
  for (const Option &o : a.options) a.planes.push_back(s.planes[o.plane].id);
  EXPECT_EQ(a.options.size() + a.refusals.size(), s.planes.size()); // each plane has its answer
  for (const Refusal &r : a.refusals) EXPECT_EQ(r.sentence.find(planeName(s.planes[r.plane]) + " "), 0u) << r.sentence;
  return a;
}

using Ids = std::vector<uint32_t>;

TEST(Propose, PrimaryBeforeOverlaysInTheDriversOrder) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_OVERLAY, {kNv12}), plane(2, DRM_PLANE_TYPE_PRIMARY, {kNv12}),
                                plane(3, DRM_PLANE_TYPE_OVERLAY, {kNv12})});
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12)).planes, (Ids{2, 1, 3}));
}

TEST(Propose, SaysWhyNot) {
  KmsSnapshot s =
      device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kXr24}), plane(2, DRM_PLANE_TYPE_OVERLAY, {kNv12}),
              plane(3, DRM_PLANE_TYPE_OVERLAY, {kNv12Tiled}, 2), plane(4, DRM_PLANE_TYPE_OVERLAY, {kNv12Tiled}),
              plane(5, DRM_PLANE_TYPE_OVERLAY, {kNv12Tiled})});
  s.planes[3].crtc = 99;
  FailureMemory failures;
  failures.add(5, kNv12Tiled, 1920, 1080);
  const Answer a = ask(s, frame(DRM_FORMAT_NV12, kY), failures);
  EXPECT_TRUE(a.options.empty());
  EXPECT_EQ(a.reason(s, 1), RefusalReason::NoSuchFormat);
  EXPECT_EQ(a.reason(s, 2), RefusalReason::NotWithThisModifier);
  EXPECT_EQ(a.reason(s, 3), RefusalReason::NotOnThisCrtc);
  EXPECT_EQ(a.reason(s, 4), RefusalReason::InUse);
  EXPECT_EQ(a.reason(s, 5), RefusalReason::FailedBefore);
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, kY, 1280, 720), failures).planes, (Ids{5})); // another size
}

// Video on one plane, compression on another: no plane is right before the pair is known.
TEST(Propose, Rk3588HasNv12AndAfbcOnDifferentPlanes) {
  const KmsSnapshot s =
      device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_XRGB8888, DRM_FORMAT_YUV420_8BIT}, {kAfbc})),
              plane(2, DRM_PLANE_TYPE_OVERLAY, pairs({DRM_FORMAT_XRGB8888, DRM_FORMAT_NV12}, {0}))});
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12)).planes, (Ids{2}));
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_YUV420_8BIT, kAfbc)).planes, (Ids{1}));
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_XRGB8888)).planes, (Ids{2})); // the cluster takes no linear layout
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_XRGB8888, kAfbc)).planes, (Ids{1}));
  const Answer nv12 = ask(s, frame(DRM_FORMAT_NV12, kAfbc));
  EXPECT_EQ(nv12.reason(s, 1), RefusalReason::NoSuchFormat);
  EXPECT_EQ(nv12.reason(s, 2), RefusalReason::NotWithThisModifier);
}

TEST(Propose, RaspberryPiSandOfAnyColumnHeight) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {{DRM_FORMAT_NV12, kSand128}, kNv12})});
  const uint64_t column = DRM_FORMAT_MOD_BROADCOM_SAND128_COL_HEIGHT(1632);
  const Answer a = ask(s, frame(DRM_FORMAT_NV12, column));
  ASSERT_EQ(a.planes, (Ids{1}));
  EXPECT_EQ(a.options[0].format.modifier, column); // the framebuffer is made with the height
  EXPECT_TRUE(ask(s, frame(DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND64_COL_HEIGHT(1632))).options.empty());
}

TEST(Propose, Gen12CcsHasAuxiliaryPlanes) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_NV12}, {kMcCcs, kY, 0})),
                                plane(2, DRM_PLANE_TYPE_OVERLAY, pairs({DRM_FORMAT_XRGB8888}, {kRcCcs, kY, 0}))});
  FrameNeed need = frame(DRM_FORMAT_NV12, kMcCcs);
  EXPECT_EQ(ask(s, need).options.at(0).memory_planes, 4u);
  need.memory_planes = 4;
  EXPECT_EQ(ask(s, need).planes, (Ids{1}));
  need.memory_planes = 2; // without the compression state
  EXPECT_EQ(ask(s, need).reason(s, 1), RefusalReason::MemoryPlanes);
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_XRGB8888, kRcCcs)).options.at(0).memory_planes, 2u);
}

TEST(Propose, UnknownLayoutsMayHaveAnyPlanes) {
  const uint64_t unknown = 0x4200000000000001;
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {{DRM_FORMAT_NV12, unknown}})});
  FrameNeed need = frame(DRM_FORMAT_NV12, unknown);
  need.memory_planes = 3;
  EXPECT_EQ(ask(s, need).planes, (Ids{1}));
}

KmsSnapshot withoutModifiers() {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kXr24, kNv12})});
  s.planes[0].has_in_formats = false;
  s.addfb2_modifiers = false;
  return s;
}

TEST(Propose, NoInFormats) {
  const KmsSnapshot s = withoutModifiers();
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12)).planes, (Ids{1}));
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, DRM_FORMAT_MOD_INVALID)).planes, (Ids{1}));
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, kY)).reason(s, 1), RefusalReason::NotWithThisModifier);
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_P010)).reason(s, 1), RefusalReason::NoSuchFormat);
}

TEST(Propose, ImplicitLayoutWhereALinearOneGoes) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_XRGB8888}, {kAfbc})),
                                plane(2, DRM_PLANE_TYPE_OVERLAY, pairs({DRM_FORMAT_XRGB8888}, {kY, 0}))});
  const Answer a = ask(s, frame(DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_INVALID));
  EXPECT_EQ(a.planes, (Ids{2}));
  EXPECT_EQ(a.reason(s, 1), RefusalReason::NeedsModifier);
}

TEST(Propose, AdvertisedPairsThatCannotBe) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_NV12}, {kAfbc}))});
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, kAfbc)).reason(s, 1), RefusalReason::ImpossiblePair);
  EXPECT_TRUE(offers(s, 0, {}).groups.empty());
}

TEST(Propose, CursorsOnlyWhereNothingElseIs) {
  KmsSnapshot s = desk(); // its cursor has AR24 and NV12
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12)).reason(s, 53), RefusalReason::Cursor);
  s.planes[3].formats.push_back({DRM_FORMAT_P010, 0});
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_P010)).planes, (Ids{53})); // with video formats it is one in name only
  s.planes[3].formats = {{DRM_FORMAT_ABGR8888, 0}};
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_ABGR8888)).reason(s, 53), RefusalReason::Cursor);
}

PlaneFormatLimits limits() {
  PlaneFormatLimits l;
  l.min_width = l.min_height = 16;
  l.max_width = 4096;
  l.max_height = 2304;
  l.min_scale = 0.5;
  l.max_scale = 2;
  l.even = true;
  return l;
}

struct LimitCase {
  const char *what;
  int width, height, target_width, target_height;
  std::optional<RefusalReason> refused;
  Scaling scaling;
};
class Limits : public testing::TestWithParam<LimitCase> {};
TEST_P(Limits, OfAPlane) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kNv12})});
  s.planes[0].limits = PlaneLimits{limits()};
  const LimitCase &c = GetParam();
  FrameNeed need = frame(DRM_FORMAT_NV12, 0, c.width, c.height);
  need.target_width = c.target_width;
  need.target_height = c.target_height;
  const Answer a = ask(s, need);
  if (c.refused) {
    ASSERT_TRUE(a.options.empty());
    EXPECT_STREQ(reasonName(a.refusals[0].reason), reasonName(*c.refused)) << a.refusals[0].sentence;
  } else {
    ASSERT_EQ(a.options.size(), 1u) << a.refusals[0].sentence;
    EXPECT_STREQ(scalingName(a.options[0].scaling), scalingName(c.scaling));
    EXPECT_FALSE(a.options[0].open.any()); // all is known
  }
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Limits,
    testing::Values(LimitCase{"fits", 1920, 1080, 0, 0, {}, Scaling::None},
                    LimitCase{"same_size", 1920, 1080, 1920, 1080, {}, Scaling::None},
                    LimitCase{"largest", 4096, 2304, 0, 0, {}, Scaling::None},
                    LimitCase{"too_wide", 4098, 100, 0, 0, RefusalReason::TooLarge, Scaling::None},
                    LimitCase{"too_high", 100, 2306, 0, 0, RefusalReason::TooLarge, Scaling::None},
                    LimitCase{"past_the_device", 8194, 100, 0, 0, RefusalReason::TooLarge, Scaling::None},
                    LimitCase{"too_small", 14, 100, 0, 0, RefusalReason::TooSmall, Scaling::None},
                    LimitCase{"twice", 640, 480, 1280, 960, {}, Scaling::Up},
                    LimitCase{"half", 640, 480, 320, 240, {}, Scaling::Down},
                    LimitCase{"both_ways", 640, 480, 1280, 240, {}, Scaling::Both},
                    LimitCase{"too_much", 640, 480, 1281, 960, RefusalReason::ScalingRefused, Scaling::Up},
                    LimitCase{"too_little", 640, 480, 640, 239, RefusalReason::ScalingRefused, Scaling::Down},
                    LimitCase{"odd_width", 641, 480, 0, 0, RefusalReason::NotEven, Scaling::None},
                    LimitCase{"odd_height", 640, 479, 0, 0, RefusalReason::NotEven, Scaling::None}),
    [](const auto &i) { return std::string(i.param.what); });

TEST(Propose, NoSmallerThanTheDevicesFramebuffers) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kXr24})});
  s.min_width = 32;
  s.min_height = 10;
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_XRGB8888, 0, 32, 10)).planes, (Ids{1}));
  const Answer narrow = ask(s, frame(DRM_FORMAT_XRGB8888, 0, 31, 10));
  EXPECT_EQ(narrow.reason(s, 1), RefusalReason::TooSmall);
  EXPECT_EQ(narrow.refusals[0].sentence,
            "plane 1 (primary) belongs to a device whose framebuffers have 32x10 at least");
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_XRGB8888, 0, 32, 9)).reason(s, 1), RefusalReason::TooSmall);
  FrameNeed part = frame(DRM_FORMAT_XRGB8888, 0, 64, 64); // it is the framebuffer that has to be as large
  part.crop = Rect{0, 0, 4, 4};
  EXPECT_EQ(ask(s, part).planes, (Ids{1}));
  EXPECT_EQ(nearestMiss(s, 0, frame(DRM_FORMAT_XRGB8888, 0, 1, 1), {}).at(0).sentence,
            "XR24 32x10 would be shown in that size, on plane 1 (primary)");
}

struct RangeCase {
  const char *what;
  SideRange widths, heights;
  std::optional<RefusalReason> refused;
  std::string near; // what is nearest
};
class Ranges : public testing::TestWithParam<RangeCase> {};
TEST_P(Ranges, OneOfTheirSizesWillDo) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kNv12})});
  PlaneFormatLimits l = limits();
  l.min_width = 64;
  l.min_height = 32;
  s.planes[0].limits = PlaneLimits{l};
  FrameNeed need = frame(DRM_FORMAT_NV12, 0, 0, 0);
  need.widths = GetParam().widths;
  need.heights = GetParam().heights;
  const Answer a = ask(s, need);
  if (!GetParam().refused) {
    EXPECT_EQ(a.planes, (Ids{1}));
    return;
  }
  EXPECT_STREQ(reasonName(a.reason(s, 1)), reasonName(*GetParam().refused)) << a.refusals[0].sentence;
  const auto near = nearestMiss(s, 0, need, {});
  if (GetParam().near.empty())
    EXPECT_TRUE(near.empty());
  else
    EXPECT_EQ(near.at(0).sentence, "NV12 " + GetParam().near + " would be shown in that size, on plane 1 (primary)");
}
INSTANTIATE_TEST_SUITE_P(
    Cases, Ranges,
    testing::Values(RangeCase{"any", {}, {}, {}, ""}, RangeCase{"width_alone", {640, 640}, {}, {}, ""},
                    RangeCase{"too_wide_alone", {4097, 4097}, {}, RefusalReason::TooLarge, "4096 x any"},
                    RangeCase{"past_the_device_alone", {}, {30000, 30000}, RefusalReason::TooLarge, "any x 2304"},
                    RangeCase{"below_the_device", {1, 15}, {}, RefusalReason::TooSmall, "64 x any"},
                    RangeCase{"below_the_device_high", {}, {1, 15}, RefusalReason::TooSmall, "any x 32"},
                    RangeCase{"below_the_plane", {1, 63}, {}, RefusalReason::TooSmall, "64 x any"},
                    RangeCase{"below_the_plane_high", {}, {1, 31}, RefusalReason::TooSmall, "any x 32"},
                    RangeCase{"just", {1, 64}, {1, 32}, {}, ""},
                    RangeCase{"from_the_largest_on", {4096, INT_MAX}, {2304, INT_MAX}, {}, ""},
                    RangeCase{"past_the_largest", {4097, INT_MAX}, {}, RefusalReason::TooLarge, "4096 x any"},
                    RangeCase{"odd_alone", {641, 641}, {}, RefusalReason::NotEven, "640 x any"},
                    RangeCase{"odd_or_even", {641, 642}, {}, {}, ""}),
    [](const auto &i) { return std::string(i.param.what); });

// each limit for itself, apart from the device's
TEST(Propose, LeastOfAPlaneInBothDirections) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kNv12})});
  PlaneFormatLimits l = limits();
  l.min_width = 64;
  l.min_height = 32;
  s.planes[0].limits = PlaneLimits{l};
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, 0, 64, 32)).planes, (Ids{1}));
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, 0, 62, 32)).reason(s, 1), RefusalReason::TooSmall);
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, 0, 64, 30)).reason(s, 1), RefusalReason::TooSmall);
}

TEST(Propose, LimitsOfSomeFormatsAndModifiers) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_NV12, DRM_FORMAT_XRGB8888}, {kY, 0}))});
  PlaneFormatLimits tiled, nv12;
  tiled.modifiers = {kY};
  tiled.scaling = false;
  nv12.fourccs = {DRM_FORMAT_NV12};
  nv12.max_width = 2048;
  nv12.max_height = 2048;
  s.planes[0].limits = PlaneLimits{tiled, nv12};
  FrameNeed need = frame(DRM_FORMAT_XRGB8888, kY);
  need.target_width = need.target_height = 100;
  EXPECT_EQ(ask(s, need).reason(s, 1), RefusalReason::ScalingRefused);
  need.format.modifier = 0;
  EXPECT_TRUE(ask(s, need).options.at(0).open.scaling);
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_NV12, 0, 4096, 100)).reason(s, 1), RefusalReason::TooLarge);
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_XRGB8888, 0, 4096, 100)).planes, (Ids{1}));
}

TEST(Propose, WhatNobodyKnowsIsOpen) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kNv12})});
  FrameNeed need = frame(DRM_FORMAT_NV12, 0, 1921, 1079);
  need.target_width = 640;
  need.target_height = 480;
  const Option o = ask(s, need).options.at(0);
  EXPECT_TRUE(o.open.size && o.open.scaling && o.open.odd);
  need = frame(DRM_FORMAT_NV12);
  EXPECT_TRUE(ask(s, need).options.at(0).open.size);
  EXPECT_FALSE(ask(s, need).options.at(0).open.scaling);
  need.width = need.height = 0; // a frame of any size asks nothing
  EXPECT_FALSE(ask(s, need).options.at(0).open.any());
}

TEST(Propose, OnlyAPartOfTheFrame) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kNv12})});
  s.planes[0].limits = PlaneLimits{limits()};
  FrameNeed need = frame(DRM_FORMAT_NV12, 0, 8000, 4000); // larger than the plane takes
  need.crop = Rect{100, 100, 1920, 1080};
  EXPECT_EQ(ask(s, need).planes, (Ids{1}));
  need.crop->x = 101;
  EXPECT_EQ(ask(s, need).reason(s, 1), RefusalReason::NotEven);
  need.crop = Rect{7000, 0, 1920, 1080};
  EXPECT_EQ(ask(s, need).reason(s, 1), RefusalReason::SourceOutside);
  need.crop = Rect{INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX};
  EXPECT_EQ(ask(s, need).reason(s, 1), RefusalReason::SourceOutside);
}

KmsPlane turning(KmsPlane p, std::vector<std::pair<std::string, uint64_t>> bits) {
  KmsProperty rotation = property(77, DRM_MODE_ROTATE_0);
  rotation.flags = DRM_MODE_PROP_BITMASK;
  rotation.values = std::move(bits);
  p.properties.emplace("rotation", rotation);
  return p;
}

TEST(Propose, Rotation) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kXr24}),
                                turning(plane(2, DRM_PLANE_TYPE_OVERLAY, {kXr24}),
                                        {{"rotate-0", 0}, {"rotate-90", 1}, {"reflect-x", 4}, {"reflect-y", 5}})});
  FrameNeed need = frame(DRM_FORMAT_XRGB8888);
  need.rotation = DRM_MODE_ROTATE_0;
  EXPECT_EQ(ask(s, need).planes, (Ids{1, 2}));
  need.rotation = DRM_MODE_ROTATE_90;
  EXPECT_EQ(ask(s, need).planes, (Ids{2}));
  EXPECT_EQ(ask(s, need).reason(s, 1), RefusalReason::RotationRefused);
  need.rotation = DRM_MODE_ROTATE_180; // by both reflections
  EXPECT_EQ(ask(s, need).options.at(0).rotation, uint32_t(DRM_MODE_ROTATE_0 | DRM_MODE_REFLECT_X | DRM_MODE_REFLECT_Y));
  need.rotation = DRM_MODE_ROTATE_270;
  EXPECT_EQ(ask(s, need).options.at(0).rotation,
            uint32_t(DRM_MODE_ROTATE_90 | DRM_MODE_REFLECT_X | DRM_MODE_REFLECT_Y));
  // the sides change places
  need.rotation = DRM_MODE_ROTATE_90;
  need.target_width = 1080;
  need.target_height = 1920;
  EXPECT_EQ(ask(s, need).options.at(0).scaling, Scaling::None);
}

KmsPlane with(KmsPlane p, const char *name, uint64_t value, uint64_t min, uint64_t max, bool immutable = false) {
  KmsProperty property = testdata::property(78, value);
  property.flags = DRM_MODE_PROP_RANGE | (immutable ? DRM_MODE_PROP_IMMUTABLE : 0u);
  property.values = {{"min", min}, {"max", max}};
  p.properties.emplace(name, property);
  return p;
}

TEST(Propose, Alpha) {
  const KmsPlane bare = plane(1, DRM_PLANE_TYPE_PRIMARY, {kXr24});
  const KmsSnapshot s = device({bare, with(plane(2, DRM_PLANE_TYPE_OVERLAY, {kXr24}), "alpha", 0, 0, 0xffff),
                                with(plane(3, DRM_PLANE_TYPE_OVERLAY, {kXr24}), "alpha", 0, 0, 0xffff, true)});
  FrameNeed need = frame(DRM_FORMAT_XRGB8888);
  EXPECT_EQ(ask(s, need).planes, (Ids{1, 2, 3}));
  need.alpha = true;
  const Answer a = ask(s, need);
  EXPECT_EQ(a.planes, (Ids{2}));
  EXPECT_EQ(a.reason(s, 1), RefusalReason::NoAlpha);
  EXPECT_EQ(a.refusals[0].sentence, "plane 1 (primary) has no alpha property");
  EXPECT_EQ(a.refusals[1].sentence, "plane 3 (overlay) has an alpha property that cannot be set");
  const KmsSnapshot none = device({bare});
  const auto near = nearestMiss(none, 0, need, {});
  EXPECT_EQ(near.at(0).sentence, "XR24 1920x1080 would be shown with alpha=1, on plane 1 (primary)");
  EXPECT_EQ(near.at(0).remedy, "Leave alpha at 1");
}

struct ZposCase {
  const char *what;
  uint64_t wanted;
  Ids planes;
  std::string sentence; // of plane 2
};
class Zpos : public testing::TestWithParam<ZposCase> {};
TEST_P(Zpos, IsOneOfThePlanesOwn) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kXr24}),
                                with(plane(2, DRM_PLANE_TYPE_OVERLAY, {kXr24}), "zpos", 1, 1, 5),
                                with(plane(3, DRM_PLANE_TYPE_OVERLAY, {kXr24}), "zpos", 7, 7, 7, true)});
  FrameNeed need = frame(DRM_FORMAT_XRGB8888);
  need.zpos = GetParam().wanted;
  const Answer a = ask(s, need);
  EXPECT_EQ(a.planes, GetParam().planes);
  EXPECT_EQ(a.refusals.at(0).sentence, "plane 1 (primary) has no zpos property");
  for (const Refusal &r : a.refusals) {
    EXPECT_EQ(r.reason, RefusalReason::ZposRefused);
    EXPECT_TRUE(s.planes[r.plane].id != 2 || r.sentence == GetParam().sentence) << r.sentence;
  }
}
INSTANTIATE_TEST_SUITE_P(Values, Zpos,
                         testing::Values(ZposCase{"below", 0, {}, "plane 2 (overlay) has zpos 1 to 5, wanted 0"},
                                         ZposCase{"least", 1, {2}, ""}, ZposCase{"most", 5, {2}, ""},
                                         ZposCase{"above", 6, {}, "plane 2 (overlay) has zpos 1 to 5, wanted 6"},
                                         ZposCase{"immutable", 7, {3}, "plane 2 (overlay) has zpos 1 to 5, wanted 7"}),
                         [](const auto &i) { return std::string(i.param.what); });

TEST(Propose, UnturnedIsAlwaysPossible) { // also of a profile whose list of rotations forgets it
  const KmsSnapshot s = device({turning(plane(1, DRM_PLANE_TYPE_PRIMARY, {kXr24}), {{"rotate-90", 1}})});
  EXPECT_EQ(ask(s, frame(DRM_FORMAT_XRGB8888)).planes, (Ids{1}));
  EXPECT_TRUE(offers(s, 0, {}).contains(kXr24));
}

TEST(Propose, NoSuchCrtc) {
  std::vector<Refusal> refusals;
  EXPECT_TRUE(propose(desk(), 7, frame(DRM_FORMAT_NV12), {}, &refusals).empty());
  EXPECT_TRUE(offers(desk(), 7, {}).groups.empty());
  EXPECT_TRUE(nearestMiss(desk(), 7, frame(DRM_FORMAT_NV12), {}).empty());
}

TEST(FailureMemory, PerPlanePairAndSize) {
  FailureMemory f;
  EXPECT_TRUE(f.add(1, kNv12, 100, 100));
  EXPECT_FALSE(f.add(1, kNv12, 100, 100));
  EXPECT_TRUE(f.contains(1, kNv12, 100, 100));
  EXPECT_FALSE(f.contains(2, kNv12, 100, 100));
  EXPECT_FALSE(f.contains(1, kNv12, 100, 101));
  EXPECT_FALSE(f.contains(1, kNv12Tiled, 100, 100));
  EXPECT_FALSE(f.contains(1, kNv12, 0, 0));
  f.add(0, kNv12Tiled, 50, 50); // AddFB: on no plane
  EXPECT_TRUE(f.contains(9, kNv12Tiled, 50, 50));
  f.add(3, {DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND128_COL_HEIGHT(100)}, 0, 0); // in any size
  EXPECT_TRUE(f.contains(3, {DRM_FORMAT_NV12, DRM_FORMAT_MOD_BROADCOM_SAND128_COL_HEIGHT(200)}, 7, 7));
  f.clear();
  EXPECT_TRUE(f.empty());
}

TEST(Offers, CompressedThenTiledThenLinear) {
  const KmsSnapshot s =
      device({plane(1, DRM_PLANE_TYPE_PRIMARY,
                    pairs({DRM_FORMAT_C8, DRM_FORMAT_RGB565}, {kY, kX, 0}) +
                        pairs({DRM_FORMAT_ARGB8888, DRM_FORMAT_XRGB8888},
                              {kMcCcs, I915_FORMAT_MOD_Y_TILED_GEN12_RC_CCS_CC, kRcCcs, kY, kX, 0}))});
  const auto offered = offers(s, 0, {});
  ASSERT_EQ(offered.groups.size(), 1u);
  const auto &p = offered.groups[0].pairs;
  ASSERT_EQ(p.size(), 18u);
  EXPECT_EQ(p[0], (DrmFormat{DRM_FORMAT_XRGB8888, kMcCcs})); // opaque before alpha
  EXPECT_EQ(p[1], (DrmFormat{DRM_FORMAT_ARGB8888, kMcCcs}));
  EXPECT_EQ(p[2], (DrmFormat{DRM_FORMAT_XRGB8888, kRcCcs}));
  EXPECT_EQ(p[4].modifier, I915_FORMAT_MOD_Y_TILED_GEN12_RC_CCS_CC); // needs a clear colour
  EXPECT_EQ(p[6].modifier, kY);
  EXPECT_EQ(p[10].modifier, kX);
  EXPECT_EQ(p[14], (DrmFormat{DRM_FORMAT_XRGB8888, 0}));
  EXPECT_EQ(p[17], (DrmFormat{DRM_FORMAT_RGB565, 0})); // palettes and few bits last
}

// The driver's order of modifiers is seen in the formats with most of them, not in the first.
TEST(Offers, DriversOrderAmongEquals) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY,
                                      pairs({DRM_FORMAT_XRGB16161616F}, {kY, kX, 0}) +
                                          pairs({DRM_FORMAT_NV12}, {I915_FORMAT_MOD_Yf_TILED, kY, kX, 0}))});
  EXPECT_EQ(offers(s, 0, {}).groups.at(0).pairs.at(0), (DrmFormat{DRM_FORMAT_NV12, I915_FORMAT_MOD_Yf_TILED}));
}

TEST(Offers, BestPlaneFirstAndEachPairOnce) {
  const KmsSnapshot s =
      device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_NV12, DRM_FORMAT_XRGB8888}, {0})),
              plane(2, DRM_PLANE_TYPE_OVERLAY, pairs({DRM_FORMAT_XRGB8888}, {kAfbc})),
              plane(3, DRM_PLANE_TYPE_OVERLAY, pairs({DRM_FORMAT_XRGB8888, DRM_FORMAT_P010}, {kAfbc, 0})),
              plane(4, DRM_PLANE_TYPE_OVERLAY, pairs({DRM_FORMAT_NV12}, {0})),
              plane(5, DRM_PLANE_TYPE_OVERLAY, pairs({DRM_FORMAT_P010}, {kAfbc}), 2)});
  const auto offered = offers(s, 0, {});
  ASSERT_EQ(offered.groups.size(), 3u); // 4 has nothing new, 5 is another CRTC's
  EXPECT_EQ(offered.groups[0].plane, 1u);
  EXPECT_EQ(offered.groups[1].plane, 2u);
  EXPECT_EQ(offered.groups[1].pairs, (std::vector<DrmFormat>{{DRM_FORMAT_XRGB8888, 0}, {DRM_FORMAT_P010, 0}}));
  EXPECT_EQ(offered.groups[2].plane, 0u);
  EXPECT_EQ(offered.groups[2].pairs, (std::vector<DrmFormat>{{DRM_FORMAT_NV12, 0}}));
}

TEST(Offers, GroupsBySizes) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kNv12, kXr24}), plane(2, DRM_PLANE_TYPE_OVERLAY, {kNv12})});
  PlaneFormatLimits l;
  l.fourccs = {DRM_FORMAT_NV12};
  l.max_width = l.max_height = 2048;
  s.planes[0].limits = PlaneLimits{l};
  const auto offered = offers(s, 0, {});
  ASSERT_EQ(offered.groups.size(), 3u);
  EXPECT_EQ(offered.groups[0].max_width, 2048u);
  EXPECT_EQ(offered.groups[1].pairs, (std::vector<DrmFormat>{kXr24}));
  EXPECT_EQ(offered.groups[2].plane, 1u); // larger ones on the other plane
  EXPECT_EQ(offered.groups[2].max_width, 8192u);
}

TEST(Offers, WithoutWhatFailedInThatSize) {
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_NV12}, {kMcCcs, kY, 0}))});
  FailureMemory failures;
  failures.add(1, {DRM_FORMAT_NV12, kMcCcs}, 1920, 1080);
  EXPECT_EQ(offers(s, 0, failures, 1920, 1080).groups.at(0).pairs.front().modifier, kY);
  EXPECT_EQ(offers(s, 0, failures, 640, 480).groups.at(0).pairs.front().modifier, kMcCcs);
  EXPECT_EQ(offers(s, 0, failures).groups.at(0).pairs.front().modifier, kMcCcs);
}

TEST(Offers, ImplicitLayouts) {
  EXPECT_EQ(offers(withoutModifiers(), 0, {}).groups.at(0).implicit,
            (std::vector<uint32_t>{DRM_FORMAT_XRGB8888, DRM_FORMAT_NV12}));
  const KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_XRGB8888}, {kAfbc}))});
  EXPECT_TRUE(offers(s, 0, {}).groups.at(0).implicit.empty());
}

TEST(Offers, MoreThan64FormatsWithModifiersPastBit63) {
  std::vector<DrmFormat> formats;
  for (uint32_t i = 0; i < 80; ++i) {
    formats.push_back({fourcc_code('Z', '0' + i / 10, '0' + i % 10, 'Z'), 0});
    if (i >= 64) formats.push_back({formats.back().fourcc, kY});
  }
  const auto offered = offers(device({plane(1, DRM_PLANE_TYPE_PRIMARY, formats)}), 0, {});
  ASSERT_EQ(offered.groups.at(0).pairs.size(), 96u);
  EXPECT_EQ(offered.groups[0].pairs[0], (DrmFormat{fourcc_code('Z', '6', '4', 'Z'), kY}));
}

// Nothing is offered that no plane takes, and nothing that one takes is kept back.
TEST(Offers, AreWhatProposeTakes) {
  KmsSnapshot s = desk();
  s.planes[2].formats = s.planes[2].formats + pairs({DRM_FORMAT_NV12, DRM_FORMAT_YUV420_8BIT}, {kAfbc, kSand128});
  s.planes[3].formats.push_back({DRM_FORMAT_P010, 0});
  s.planes[1].crtc = 99;
  FailureMemory failures;
  failures.add(52, {DRM_FORMAT_NV12, kSand128}, 0, 0);
  const auto offered = offers(s, 0, failures);
  for (const uint32_t fourcc : std::vector<uint32_t>{DRM_FORMAT_XRGB8888, DRM_FORMAT_ARGB8888, DRM_FORMAT_NV12,
                                                     DRM_FORMAT_YUV420_8BIT, DRM_FORMAT_P010, DRM_FORMAT_RGB565})
    for (const uint64_t modifier : std::vector<uint64_t>{0, kY, kAfbc, kSand128, DRM_FORMAT_MOD_INVALID}) {
      const FrameNeed need = frame(fourcc, modifier, 0, 0);
      EXPECT_EQ(offered.contains(need.format), !propose(s, 0, need, failures, nullptr).empty())
          << toString(need.format);
    }
}

TEST(NearestMiss, SameFormatInAnotherLayout) {
  const KmsSnapshot s =
      device({plane(1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_NV12, DRM_FORMAT_XRGB8888}, {kX, 0}))});
  const auto near = nearestMiss(s, 0, frame(DRM_FORMAT_NV12, kMcCcs), {});
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0].format, (DrmFormat{DRM_FORMAT_NV12, kX})); // the vendor's own before the linear one
  EXPECT_EQ(near[1].format, (DrmFormat{DRM_FORMAT_NV12, 0}));
  EXPECT_EQ(near[0].sentence, "NV12 would be shown with INTEL_X_TILED, on plane 1 (primary)");
}

TEST(NearestMiss, AnotherFormatThatIsMuchAlike) {
  const KmsSnapshot s = device({plane(
      1, DRM_PLANE_TYPE_PRIMARY, pairs({DRM_FORMAT_C8, DRM_FORMAT_XRGB8888, DRM_FORMAT_NV21, DRM_FORMAT_YUYV}, {0}))});
  EXPECT_EQ(nearestMiss(s, 0, frame(DRM_FORMAT_NV12), {}).at(0).format.fourcc, uint32_t(DRM_FORMAT_NV21));
  EXPECT_EQ(nearestMiss(s, 0, frame(DRM_FORMAT_BGR888), {}).at(0).format.fourcc, uint32_t(DRM_FORMAT_XRGB8888));
  EXPECT_TRUE(nearestMiss(device({}), 0, frame(DRM_FORMAT_NV12), {}).empty());
}

TEST(NearestMiss, TheSameFrameAskedForLess) {
  KmsSnapshot s = device({plane(1, DRM_PLANE_TYPE_PRIMARY, {kNv12})});
  s.planes[0].limits = PlaneLimits{limits()};
  FrameNeed need = frame(DRM_FORMAT_NV12);
  need.target_width = need.target_height = 100;
  EXPECT_NE(nearestMiss(s, 0, need, {}).at(0).sentence.find("pixel for pixel"), std::string::npos);
  need = frame(DRM_FORMAT_NV12);
  need.rotation = DRM_MODE_ROTATE_90;
  EXPECT_NE(nearestMiss(s, 0, need, {}).at(0).sentence.find("the way it is"), std::string::npos);
  EXPECT_NE(nearestMiss(s, 0, frame(DRM_FORMAT_NV12, 0, 5000, 1080), {}).at(0).sentence.find("4096x1080"),
            std::string::npos);
  EXPECT_NE(nearestMiss(s, 0, frame(DRM_FORMAT_NV12, 0, 1921, 1081), {}).at(0).sentence.find("1920x1080"),
            std::string::npos);
}

TEST(NoPlaneError, SaysEverything) {
  const KmsSnapshot s = desk();
  const FrameNeed need = frame(DRM_FORMAT_NV12, kMcCcs);
  std::vector<Refusal> refusals;
  ASSERT_TRUE(propose(s, 0, need, {}, &refusals).empty());
  EXPECT_EQ(
      noPlane(s, 0, need, {}, refusals).error().message(),
      "no plane of /dev/dri/card0 (invented) shows NV12:0x0100000000000007 (INTEL_Y_TILED_GEN12_MC_CCS) 1920x1080: "
      "plane 50 (primary) has no NV12; plane 51 (overlay) has NV12, but not with INTEL_Y_TILED_GEN12_MC_CCS; plane 52 "
      "(overlay) has no NV12; plane 53 (cursor) has NV12, but not with INTEL_Y_TILED_GEN12_MC_CCS. Offered are "
      "NV12:0x0100000000000002, NV12, XR24, AR24. Nearest: NV12 would be shown with INTEL_Y_TILED, on plane 51 "
      "(overlay). Ask upstream for drm-format=NV12:0x0100000000000002, or let it convert");
}

} // namespace
