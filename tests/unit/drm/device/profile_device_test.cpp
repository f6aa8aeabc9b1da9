// SPDX-License-Identifier: LGPL-2.1-or-later
// ProfileDevice is as strict as the kernel, with the same errnos.
#include <cerrno>
#include <cmath>

#include "tests/unit/drm/device/profile_fixture.h"

using namespace gstzc;
using namespace gstzc::testdata;
using namespace std::chrono_literals;

namespace {

constexpr Rect kAll{0, 0, 640, 480};

class ProfileCommit : public ProfileTest {};

TEST_F(ProfileCommit, TestChangesNothing) {
  AtomicRequest request;
  output(request, listed(640, 480));
  show(request, plane(50), framebuffer(kXr24, 640, 480), kAll, kAll);
  EXPECT_EQ(test(request), 0) << device_->lastRefusal();
  const auto after = device_->snapshot();
  EXPECT_FALSE(after->crtcs[0].active);
  EXPECT_EQ(after->planes[0].crtc, 0u);
  EXPECT_EQ(valueOf(after->planes[0].properties, "FB_ID"), 0u);
  EXPECT_EQ(device_->counters().tests, 1u);
  EXPECT_EQ(device_->counters().commits, 0u);
}

TEST_F(ProfileCommit, CommitIsSeenInTheSnapshot) {
  switchOn();
  const auto after = device_->snapshot();
  EXPECT_TRUE(after->crtcs[0].active);
  ASSERT_TRUE(after->crtcs[0].mode);
  EXPECT_EQ(after->crtcs[0].mode->hdisplay, 640);
  EXPECT_EQ(after->planes[0].crtc, 40u);
  EXPECT_EQ(after->connectors[0].crtc, 40u);
}

TEST_F(ProfileCommit, ModesetHasToBeAllowed) {
  AtomicRequest request;
  output(request, listed(640, 480));
  EXPECT_EQ(test(request, 0), EINVAL);
  EXPECT_EQ(test(request), 0);
  switchOn();
  AtomicRequest same; // the same timings in another blob are no modeset
  output(same, listed(640, 480));
  EXPECT_EQ(test(same, 0), 0) << device_->lastRefusal();
  AtomicRequest other;
  output(other, listed(800, 600));
  EXPECT_EQ(test(other, 0), EINVAL);
}

struct PlaneCase {
  const char *name;
  Rect source, target;
  int error;
};
void PrintTo(const PlaneCase &c, std::ostream *out) { *out << c.name; }

class ProfilePlane : public ProfileTest, public testing::WithParamInterface<PlaneCase> {};

TEST_P(ProfilePlane, SourceAndTarget) {
  switchOn();
  AtomicRequest request;
  show(request, plane(50), framebuffer(kXr24, 640, 480), GetParam().source, GetParam().target);
  EXPECT_EQ(test(request), GetParam().error) << device_->lastRefusal();
}

INSTANTIATE_TEST_SUITE_P(
    Rectangles, ProfilePlane,
    testing::Values(PlaneCase{"whole", kAll, kAll, 0}, PlaneCase{"part", {16, 8, 320, 240}, {0, 0, 320, 240}, 0},
                    PlaneCase{"off screen", {0, 0, 64, 48}, {-32, -24, 64, 48}, 0},
                    PlaneCase{"source too wide", {0, 0, 641, 480}, {0, 0, 641, 480}, ENOSPC},
                    PlaneCase{"source too far right", {1, 0, 640, 480}, kAll, ENOSPC},
                    PlaneCase{"source too far down", {0, 1, 640, 480}, kAll, ENOSPC},
                    PlaneCase{"target out of range", kAll, {INT32_MAX - 10, 0, 640, 480}, ERANGE}));

TEST_F(ProfileCommit, FramebuffersFromTheSmallestSizeOn) {
  EXPECT_NE(framebuffer(kXr24, 16, 16), 0u);
  EXPECT_EQ(framebuffer(kXr24, 15, 16), 0u);
  EXPECT_EQ(error_, EINVAL);
  EXPECT_EQ(framebuffer(kXr24, 16, 15), 0u);
  EXPECT_EQ(error_, EINVAL);
  PlaneTest test;
  test.format = kXr24;
  test.source = test.target = {0, 0, 8, 8};
  EXPECT_EQ(testPlane(device_->profile(), test).error, EINVAL);
  test.buffer_width = test.buffer_height = 16;
  EXPECT_EQ(testPlane(device_->profile(), test).error, 0);
}

TEST_F(ProfileCommit, FramebufferAndCrtcGoTogether) {
  switchOn();
  const KmsPlane p = plane(50);
  AtomicRequest no_fb;
  no_fb.set(p.id, p.properties, "FB_ID", 0);
  EXPECT_EQ(test(no_fb), EINVAL);
  AtomicRequest no_crtc;
  no_crtc.set(p.id, p.properties, "CRTC_ID", 0);
  EXPECT_EQ(test(no_crtc), EINVAL);
  AtomicRequest off;
  show(off, p, 0, {}, {});
  EXPECT_EQ(test(off), 0) << device_->lastRefusal();
}

TEST_F(ProfileCommit, FormatsOfThisPlaneOnly) {
  switchOn();
  const uint32_t nv12 = framebuffer(kNv12, 640, 480, 2); // some plane has it: so it can be made
  ASSERT_NE(nv12, 0u);
  AtomicRequest primary;
  show(primary, plane(50), nv12, kAll, kAll);
  EXPECT_EQ(test(primary), EINVAL);
  AtomicRequest overlay;
  show(overlay, plane(51), nv12, kAll, kAll);
  EXPECT_EQ(test(overlay), 0) << device_->lastRefusal();
}

TEST_F(ProfileCommit, UnknownObjectsAndValues) {
  switchOn();
  const KmsPlane p = plane(50);
  AtomicRequest object;
  object.set(9999, 1, 0);
  EXPECT_EQ(test(object), ENOENT);
  AtomicRequest property;
  property.set(p.id, 9999, 0);
  EXPECT_EQ(test(property), ENOENT);
  AtomicRequest fb;
  show(fb, p, 9999, kAll, kAll);
  EXPECT_EQ(test(fb), EINVAL);
  AtomicRequest mode;
  mode.set(snapshot_.crtcs[0].id, snapshot_.crtcs[0].properties, "MODE_ID", 9999);
  EXPECT_EQ(test(mode), EINVAL);
}

TEST_F(ProfileCommit, Fences) {
  switchOn();
  const KmsPlane p = plane(50);
  const auto with = [&](int fence) {
    AtomicRequest request;
    request.set(p.id, p.properties, "IN_FENCE_FD", static_cast<uint64_t>(fence));
    return test(request);
  };
  EXPECT_EQ(with(-1), 0);
  EXPECT_EQ(with(device_->signalledFence()), 0);
  EXPECT_EQ(with(987654), EINVAL);
  auto profile = profileOf(desk());
  profile.quirks.in_fence_fd = EPERM;
  use(profile);
  switchOn();
  EXPECT_EQ(with(-1), 0);
  EXPECT_EQ(with(device_->signalledFence()), EPERM);
}

TEST_F(ProfileCommit, FlipsAtTheRefreshAndIsBusyBefore) {
  switchOn();
  AtomicRequest request;
  show(request, plane(50), framebuffer(kXr24, 640, 480), kAll, kAll);
  request.tellFlipOf(snapshot_.crtcs[0]);
  int64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    UniqueFd flipped;
    ASSERT_EQ(device_->commit(request, DRM_MODE_ATOMIC_NONBLOCK, &flipped), 0) << device_->lastRefusal();
    ASSERT_TRUE(flipped.isValid());
    UniqueFd second;
    if (!readable(flipped.get(), 0ms)) { // it is where this machine slept for a frame
      EXPECT_EQ(device_->commit(request, DRM_MODE_ATOMIC_NONBLOCK, &second), EBUSY);
    }
    EXPECT_EQ(test(request), 0) << "a test does not wait for flips";
    ASSERT_TRUE(readable(flipped.get(), 5s));
    const int64_t when = device_->flipTime(flipped.get());
    if (before != 0) {
      // a whole number of frames
      const double frames = double(when - before) * refreshOf(listed(640, 480)) / 1e9;
      EXPECT_GE(frames, 0.99);
      EXPECT_NEAR(frames, std::round(frames), 0.01);
    }
    before = when;
  }
}

TEST_F(ProfileCommit, BlockingCommitsWaitForTheFlipBefore) {
  switchOn();
  AtomicRequest request;
  show(request, plane(50), framebuffer(kXr24, 640, 480), kAll, kAll);
  request.tellFlipOf(snapshot_.crtcs[0]);
  UniqueFd flipped;
  ASSERT_EQ(device_->commit(request, DRM_MODE_ATOMIC_NONBLOCK, &flipped), 0);
  EXPECT_EQ(device_->commit(request, 0, nullptr), 0);
  EXPECT_TRUE(readable(flipped.get(), 0ms));
}

TEST_F(ProfileCommit, NoFlipOfAnOutputThatIsOff) {
  AtomicRequest request;
  show(request, plane(50), 0, {}, {});
  request.tellFlipOf(snapshot_.crtcs[0]);
  UniqueFd flipped;
  EXPECT_EQ(device_->commit(request, DRM_MODE_ATOMIC_NONBLOCK, &flipped), EINVAL);
  EXPECT_FALSE(flipped.isValid());
}

TEST_F(ProfileCommit, WithoutMasterNothing) {
  switchOn();
  AtomicRequest request;
  show(request, plane(50), 0, {}, {});
  device_->setMaster(false);
  EXPECT_EQ(test(request), EACCES);
  EXPECT_EQ(device_->commit(request, 0, nullptr), EACCES);
  device_->setMaster(true);
  EXPECT_EQ(device_->commit(request, 0, nullptr), 0);
  EXPECT_EQ(device_->counters().refused.at(EACCES), 2u);
}

TEST_F(ProfileCommit, PrimaryPlaneIsNeeded) {
  auto profile = profileOf(desk());
  profile.quirks.needs_primary = true;
  use(profile);
  AtomicRequest request;
  output(request, listed(640, 480));
  show(request, plane(51), framebuffer(kXr24, 640, 480), kAll, kAll);
  EXPECT_EQ(test(request), EINVAL);
  show(request, plane(50), framebuffer(kXr24, 640, 480), kAll, kAll);
  EXPECT_EQ(test(request), 0) << device_->lastRefusal();
}

TEST_F(ProfileCommit, AnOutputNeedsAModeAndTheOtherWay) {
  const KmsConnector &c = snapshot_.connectors[0];
  AtomicRequest no_mode;
  no_mode.set(c.id, c.properties, "CRTC_ID", 40);
  EXPECT_EQ(test(no_mode), EINVAL);
  AtomicRequest no_output;
  output(no_output, listed(640, 480));
  no_output.set(c.id, c.properties, "CRTC_ID", 0);
  EXPECT_EQ(test(no_output), EINVAL);
}

TEST_F(ProfileCommit, RemovingWhatIsShownSwitchesThePlaneOff) {
  switchOn();
  const auto fb = static_cast<uint32_t>(valueOf(device_->snapshot()->planes[0].properties, "FB_ID"));
  device_->removeFramebuffer(fb);
  EXPECT_EQ(device_->snapshot()->planes[0].crtc, 0u);
  EXPECT_EQ(device_->counters().shown_removed, 1u);
}

struct BufferCase {
  const char *name;
  DrmFormat format;
  uint32_t width, height;
  unsigned planes;
  uint32_t pitch, offset1; // bytes
  int error;
};
void PrintTo(const BufferCase &c, std::ostream *out) { *out << c.name; }

class ProfileFramebuffer : public ProfileTest, public testing::WithParamInterface<BufferCase> {};

TEST_P(ProfileFramebuffer, IsChecked) {
  const BufferCase &c = GetParam();
  const UniqueFd fd = memory(64 * 48 * 4);
  FramebufferRequest r;
  r.width = c.width;
  r.height = c.height;
  r.fourcc = c.format.fourcc;
  r.modifier = c.format.modifier;
  r.n_planes = c.planes;
  ASSERT_EQ(device_->importHandle(fd.get(), &r.handles[0]), 0);
  for (unsigned p = 0; p < c.planes; ++p) {
    r.handles[p] = r.handles[0];
    r.pitches[p] = c.pitch;
    r.offsets[p] = p == 0 ? 0 : c.offset1;
  }
  uint32_t id = 0;
  EXPECT_EQ(device_->addFramebuffer(r, &id), c.error) << device_->lastRefusal();
  EXPECT_EQ(device_->counters().refused.size(), c.error != 0 ? 1u : 0u);
}

constexpr DrmFormat kImplicit{DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_INVALID};
INSTANTIATE_TEST_SUITE_P(
    Buffers, ProfileFramebuffer,
    testing::Values(
        BufferCase{"fits", kXr24, 64, 48, 1, 256, 0, 0}, BufferCase{"implicit", kImplicit, 64, 48, 1, 256, 0, 0},
        BufferCase{"short pitch", kXr24, 64, 48, 1, 255, 0, EINVAL},
        BufferCase{"ends past its memory", kXr24, 64, 49, 1, 256, 0, EINVAL},
        BufferCase{"too wide for the device", kXr24, 8193, 1, 1, 8193 * 4, 0, EINVAL},
        BufferCase{"no plane has it", {DRM_FORMAT_RGB565, 0}, 64, 48, 1, 256, 0, EINVAL},
        BufferCase{"not with this modifier", {DRM_FORMAT_XRGB8888, I915_FORMAT_MOD_Y_TILED}, 64, 48, 1, 256, 0, EINVAL},
        BufferCase{"two planes", kNv12, 64, 48, 2, 64, 64 * 48, 0},
        BufferCase{"a plane is missing", kNv12, 64, 48, 1, 64, 0, EINVAL},
        BufferCase{"second plane past its memory", kNv12, 64, 48, 2, 64, 64 * 48 * 4, EINVAL},
        BufferCase{"tiled", kNv12Tiled, 64, 48, 2, 128, 64 * 48, 0}));

TEST_F(ProfileCommit, FramebuffersWithoutModifiers) {
  auto profile = profileOf(desk());
  profile.snapshot.addfb2_modifiers = false;
  use(profile);
  EXPECT_EQ(framebuffer(kXr24, 64, 48), 0u);
  EXPECT_EQ(error_, EINVAL);
  EXPECT_NE(framebuffer({DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_INVALID}, 64, 48), 0u);
}

TEST_F(ProfileCommit, MemoryOfOthers) {
  auto profile = profileOf(desk());
  profile.quirks.no_foreign_memory = true;
  use(profile);
  EXPECT_EQ(device_->foreignMemory(), ForeignMemory::None);
  const UniqueFd foreign = memory(4096);
  uint32_t handle = 0;
  EXPECT_EQ(device_->importHandle(foreign.get(), &handle), ENODEV);
  DumbMemory dumb;
  ASSERT_EQ(device_->createDumb(64, 48, 32, &dumb), 0);
  UniqueFd own;
  ASSERT_EQ(device_->exportDumb(dumb.handle, &own), 0);
  device_->destroyDumb(dumb.handle);
  EXPECT_EQ(device_->importHandle(own.get(), &handle), 0);
  EXPECT_NE(handle, dumb.handle);
}

TEST_F(ProfileCommit, OneHandlePerBufferAndClosedOnce) {
  const UniqueFd fd = memory(4096), again = UniqueFd::duplicate(fd.get());
  uint32_t first = 0, second = 0;
  ASSERT_EQ(device_->importHandle(fd.get(), &first), 0);
  ASSERT_EQ(device_->importHandle(again.get(), &second), 0);
  EXPECT_EQ(first, second);
  device_->closeHandle(first);
  EXPECT_EQ(device_->counters().bad_closes, 0u);
  device_->closeHandle(second);
  EXPECT_EQ(device_->counters().bad_closes, 1u);
  EXPECT_EQ(device_->counters().live_handles, 0u);
}

TEST_F(ProfileCommit, ABlobInUseOutlivesItsOwner) {
  AtomicRequest request;
  output(request, listed(640, 480));
  ASSERT_EQ(device_->commit(request, DRM_MODE_ATOMIC_ALLOW_MODESET, nullptr), 0) << device_->lastRefusal();
  const auto blob = static_cast<uint32_t>(valueOf(device_->snapshot()->crtcs[0].properties, "MODE_ID"));
  device_->destroyBlob(blob);
  EXPECT_EQ(device_->counters().live_blobs, 1u);
  AtomicRequest other;
  output(other, listed(800, 600));
  ASSERT_EQ(device_->commit(other, DRM_MODE_ATOMIC_ALLOW_MODESET, nullptr), 0) << device_->lastRefusal();
  EXPECT_EQ(device_->counters().live_blobs, 1u);
}

TEST_F(ProfileCommit, PropertiesHaveTheirRanges) {
  auto profile = profileOf(desk());
  KmsPlane &p = profile.snapshot.planes[0];
  KmsProperty alpha = property(200, 0xffff);
  alpha.flags = DRM_MODE_PROP_RANGE;
  alpha.values = {{"min", 0}, {"max", 0xffff}};
  p.properties.emplace("alpha", alpha);
  KmsProperty rotation = property(201, DRM_MODE_ROTATE_0);
  rotation.flags = DRM_MODE_PROP_BITMASK;
  rotation.values = {{"rotate-0", 0}, {"rotate-180", 2}};
  p.properties.emplace("rotation", rotation);
  KmsProperty type = property(202, 1);
  type.flags = DRM_MODE_PROP_ENUM | DRM_MODE_PROP_IMMUTABLE;
  p.properties.emplace("type", type);
  use(profile);
  switchOn();
  const auto with = [&](uint32_t id, uint64_t value) {
    AtomicRequest request;
    request.set(50, id, value);
    return test(request);
  };
  EXPECT_EQ(with(200, 0x8000), 0);
  EXPECT_EQ(with(200, 0x10000), EINVAL);
  EXPECT_EQ(with(201, DRM_MODE_ROTATE_180), 0) << device_->lastRefusal();
  EXPECT_EQ(with(201, DRM_MODE_ROTATE_90), EINVAL);
  EXPECT_EQ(with(201, DRM_MODE_ROTATE_0 | DRM_MODE_ROTATE_180), EINVAL);
  EXPECT_EQ(with(202, 1), EINVAL);
}

TEST_F(ProfileCommit, AsynchronousFlipsChangeTheFramebufferOnly) {
  switchOn();
  const KmsPlane p = plane(50);
  AtomicRequest request;
  request.set(p.id, p.properties, "FB_ID", framebuffer(kXr24, 640, 480));
  const uint32_t async = DRM_MODE_ATOMIC_NONBLOCK | DRM_MODE_PAGE_FLIP_ASYNC;
  EXPECT_EQ(device_->commit(request, async, nullptr), EINVAL) << "this device has none";
  auto profile = profileOf(desk());
  profile.snapshot.async_flips = true;
  use(profile);
  switchOn();
  AtomicRequest second;
  second.set(p.id, p.properties, "FB_ID", framebuffer(kXr24, 640, 480));
  second.tellFlipOf(snapshot_.crtcs[0]);
  UniqueFd flipped;
  EXPECT_EQ(device_->commit(second, async, &flipped), 0) << device_->lastRefusal();
  EXPECT_TRUE(readable(flipped.get(), 1s));
  second.set(p.id, p.properties, "CRTC_X", 10);
  EXPECT_EQ(device_->commit(second, async, nullptr), EINVAL);
}

} // namespace
