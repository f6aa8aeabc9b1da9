// SPDX-License-Identifier: LGPL-2.1-or-later
// Display on devices that exist only as profiles: what it asks of planes and outputs, and what it does when they
// change.
#include <cstring>

#include "gst/drm/display.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "tests/unit/drm/device/profile_fixture.h"

using namespace gstzc;
using namespace gstzc::testdata;
using namespace std::chrono_literals;

namespace {

KmsProperty ranged(uint32_t id, uint64_t value, uint64_t min, uint64_t max) {
  KmsProperty p = property(id, value);
  p.flags = DRM_MODE_PROP_RANGE;
  p.values = {{"min", min}, {"max", max}};
  return p;
}

KmsProperty rotations(uint32_t id, std::initializer_list<std::pair<const char *, uint64_t>> bits) {
  KmsProperty p = property(id, DRM_MODE_ROTATE_0);
  p.flags = DRM_MODE_PROP_BITMASK;
  for (const auto &[name, bit] : bits) p.values.emplace_back(name, bit);
  return p;
}

class DisplayTest : public testing::Test {
protected:
  void open(KmsSnapshot snapshot) {
    DeviceProfile profile = profileOf(std::move(snapshot));
    profile.quirks = quirks_;
    profile.refusals = refusals_;
    device_ = ProfileDevice::create(std::move(profile));
    display_ = openAgain();
    ASSERT_TRUE(display_);
  }
  std::unique_ptr<Display> openAgain() {
    options_.open.device = device_;
    Display::Events events;
    events.commit.failed = [this](const Error &error) {
      const std::lock_guard lock(mutex_);
      failures_.push_back(error.what);
    };
    events.note = [this](const std::string &text) {
      const std::lock_guard lock(mutex_);
      notes_.push_back(text);
    };
    events.warning = [this](const std::string &text) { warnings_.push_back(text); };
    auto display = Display::open(options_, events);
    EXPECT_TRUE(display) << display.error().message();
    return display ? display.take() : nullptr;
  }

  void frames(const DrmFormat &format, const ColorChoice &color = {}) {
    FrameNeed need;
    need.format = format;
    need.width = 640;
    need.height = 480;
    const auto set = display_->setFrames(need, color);
    ASSERT_TRUE(set) << set.error().message();
  }
  Result<Committer::Submitted> show(const DrmFormat &format, std::optional<Rect> crop = std::nullopt) {
    return show(*display_, format, crop);
  }
  // A new frame, all its memory planes in one buffer.
  Result<Committer::Submitted> show(Display &display, const DrmFormat &format,
                                    std::optional<Rect> crop = std::nullopt) {
    memory_.push_back(memory(640 * 480 * 4 + 4096));
    DisplayFrameRequest request;
    ImportKey &key = request.source.key;
    key.n_planes = format.fourcc == DRM_FORMAT_NV12 ? 2 : 1;
    key.fourcc = format.fourcc;
    key.modifier = format.modifier;
    key.width = 640;
    key.height = 480;
    for (unsigned p = 0; p < key.n_planes; ++p) {
      key.buffers[p] = *bufferId(memory_.back().get());
      key.pitches[p] = key.n_planes == 2 ? 640 : 2560;
      key.offsets[p] = p * 640 * 480;
      request.source.fds[p] = memory_.back().get();
    }
    request.crop = crop;
    request.wait = true;
    auto fb = display.import(request.source);
    if (!fb) return fb.error();
    return display.show(*fb, std::move(request));
  }
  void drained() {
    auto end = display_->drain();
    ASSERT_TRUE(end) << end.error().message();
    ASSERT_EQ(*end, Committer::Submitted::Accepted);
  }
  uint64_t planeValue(uint32_t plane, const char *name) const {
    const auto snapshot = device_->snapshot();
    for (const KmsPlane &p : snapshot->planes)
      if (p.id == plane) return valueOf(p.properties, name);
    return 0;
  }

  ProfileQuirks quirks_;
  std::vector<ProfileRefusal> refusals_;
  Display::Options options_;
  std::vector<UniqueFd> memory_;
  std::shared_ptr<ProfileDevice> device_;
  std::unique_ptr<Display> display_;
  std::mutex mutex_;
  std::vector<std::string> failures_, notes_;
  std::vector<std::string> warnings_;
};

TEST_F(DisplayTest, FramesAreShownAndTheScreenIsPutBack) {
  open(desk());
  frames(kXr24);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(display_->counters().commit.shown, 3u);
  EXPECT_TRUE(device_->snapshot()->crtcs[0].active);
  ASSERT_TRUE(display_->close());
  EXPECT_FALSE(device_->snapshot()->crtcs[0].active);
  const auto after = device_->snapshot();
  for (const KmsPlane &p : after->planes) EXPECT_EQ(p.crtc, 0u);
  display_.reset();
  const auto counters = device_->counters();
  EXPECT_EQ(counters.live_framebuffers, 0u);
  EXPECT_EQ(counters.live_blobs, 0u);
  EXPECT_EQ(counters.live_handles, 0u);
  EXPECT_EQ(counters.bad_closes, 0u);
  EXPECT_EQ(counters.shown_removed, 0u);
}

TEST_F(DisplayTest, ARefusedPlaneIsFollowedByTheNext) {
  ProfileRefusal primary;
  primary.type = DRM_PLANE_TYPE_PRIMARY;
  primary.error = EINVAL;
  refusals_ = {primary};
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 40u) << display_->configuration();
}

TEST_F(DisplayTest, RefusalsAreRememberedAndNotOffered) {
  ProfileRefusal tiled;
  tiled.modifiers = {kNv12Tiled.modifier};
  tiled.error = ENOSPC;
  refusals_ = {tiled};
  open(desk());
  EXPECT_TRUE(display_->offers(640, 480).contains(kNv12Tiled));
  frames(kNv12Tiled);
  const auto shown = show(kNv12Tiled);
  ASSERT_FALSE(shown);
  EXPECT_TRUE(display_->pairRefused());
  EXPECT_NE(shown.error().what.find("ENOSPC"), std::string::npos) << shown.error().what;
  EXPECT_FALSE(display_->offers(640, 480).contains(kNv12Tiled));
  EXPECT_TRUE(display_->offers(640, 480).contains(kNv12));
  EXPECT_TRUE(display_->offers(320, 240).contains(kNv12Tiled)) << "another size is another question";
  const uint64_t tests = display_->counters().tests;
  FrameNeed again;
  again.format = kNv12Tiled;
  again.width = 640;
  again.height = 480;
  EXPECT_FALSE(display_->setFrames(again, {}));
  EXPECT_EQ(display_->counters().tests, tests) << "the kernel is not asked again";
}

TEST_F(DisplayTest, WhatIsAskedOfThePlaneIsSet) {
  KmsSnapshot s = desk();
  s.planes[1].properties.emplace("alpha", ranged(200, 0xffff, 0, 0xffff));
  s.planes[1].properties.emplace("zpos", ranged(201, 1, 0, 7));
  s.planes[1].properties.emplace("rotation", rotations(202, {{"rotate-0", 0}, {"rotate-180", 2}}));
  open(s);
  DisplayLook look;
  look.alpha = 0x8000;
  look.zpos = 5;
  look.rotation = DRM_MODE_ROTATE_180;
  display_->setLook(look);
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(planeValue(50, "CRTC_ID"), 0u) << "the primary plane cannot";
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 40u);
  EXPECT_EQ(planeValue(51, "alpha"), 0x8000u);
  EXPECT_EQ(planeValue(51, "zpos"), 5u);
  EXPECT_EQ(planeValue(51, "rotation"), uint64_t{DRM_MODE_ROTATE_180});
  look = {};
  display_->setLook(look);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(planeValue(50, "CRTC_ID"), 40u) << "the best plane again";
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 0u);
}

// A stream that plays is worth more than a property.
TEST_F(DisplayTest, WhatCannotBeWhilePlayingIsAWarningAndGoesOnAsBefore) {
  KmsSnapshot s = desk();
  s.planes[0].properties.emplace("alpha", ranged(200, 0xffff, 0, 0xffff));
  s.planes[0].properties.emplace("zpos", ranged(201, 1, 0, 7));
  open(s);
  frames(kXr24);
  DisplayLook look;
  look.zpos = 3;
  display_->setLook(look);
  ASSERT_TRUE(show(kXr24));
  look.zpos = 8;
  display_->setLook(look);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(display_->counters().commit.shown, 4u);
  EXPECT_EQ(planeValue(50, "zpos"), 3u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("has zpos 0 to 7, wanted 8"), std::string::npos) << warnings_[0];
  look.rectangle = Rect{10, 20, 320, 240}; // which can be
  display_->setLook(look);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(planeValue(50, "CRTC_X"), 10u);
  EXPECT_EQ(planeValue(50, "zpos"), 3u);
  const auto other = display_->setFrames({.format = kAr24, .width = 640, .height = 480}, {});
  EXPECT_TRUE(other) << other.error().message();
  look.zpos = 4;
  display_->setLook(look);
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(planeValue(50, "zpos"), 4u);
  EXPECT_TRUE(failures_.empty());
}

// What TEST_ONLY refuses of a look says nothing of the frames as they were.
TEST_F(DisplayTest, ALookThatTheKernelRefusesWhilePlayingIsNotRememberedOfTheFrames) {
  KmsSnapshot s = desk();
  s.planes.resize(1);
  s.planes[0].properties.emplace("rotation", rotations(202, {{"rotate-0", 0}, {"rotate-180", 2}}));
  ProfileRefusal turned;
  turned.rotations = DRM_MODE_ROTATE_180;
  turned.error = ERANGE;
  refusals_ = {turned};
  open(s);
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  display_->setLook({.rotation = DRM_MODE_ROTATE_180});
  ASSERT_TRUE(show(kXr24));
  drained();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("ERANGE"), std::string::npos) << warnings_[0];
  EXPECT_FALSE(display_->pairRefused());
  EXPECT_TRUE(display_->offers(640, 480).contains(kXr24));
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(display_->counters().commit.shown, 3u);
}

// Moved off the display a picture is gone, which is no error: it may come back.
TEST_F(DisplayTest, ARectangleOutsideShowsNothingUntilItIsBack) {
  open(desk());
  frames(kXr24);
  DisplayLook look;
  for (const Rect &outside : {Rect{5000, 5000, 64, 48}, Rect{-64, 0, 64, 48}, Rect{0, 768, 64, 48},
                              Rect{INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX}}) {
    look.rectangle = outside;
    display_->setLook(look);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(show(kXr24));
    drained();
    EXPECT_EQ(planeValue(50, "FB_ID"), 0u);
    EXPECT_FALSE(display_->pairRefused());
    look.rectangle = Rect{10, 20, 320, 240};
    display_->setLook(look);
    ASSERT_TRUE(show(kXr24));
    drained();
    EXPECT_NE(planeValue(50, "FB_ID"), 0u);
    EXPECT_EQ(planeValue(50, "CRTC_X"), 10u);
    EXPECT_NE(display_->configuration().find("320x240 at 10,20"), std::string::npos) << display_->configuration();
  }
  EXPECT_EQ(display_->counters().unseen, 12u);
  EXPECT_EQ(display_->counters().commit.shown, 4u);
  ASSERT_EQ(notes_.size(), 4u) << "one each time";
  EXPECT_EQ(notes_[0],
            "nothing is shown: render-rectangle=<5000,5000,64,48> puts the frames outside of the display's 640x480. "
            "They are dropped until it changes");
  EXPECT_TRUE(failures_.empty());
  ASSERT_TRUE(display_->close());
  display_.reset();
  EXPECT_EQ(device_->counters().live_framebuffers, 0u);
  EXPECT_EQ(device_->counters().shown_removed, 0u);
}

TEST_F(DisplayTest, ARectangleThatMovesAboutOutsideIsToldOfOnce) {
  open(desk());
  frames(kXr24);
  DisplayLook look;
  for (const auto &[rectangle, text] :
       {std::pair{Rect{5000, 5000, 64, 48}, "<5000,5000,64,48>"}, {Rect{-640, 0, 64, 48}, "<-640,0,64,48>"}}) {
    look.rectangle = rectangle;
    display_->setLook(look);
    ASSERT_TRUE(show(kXr24));
    EXPECT_NE(display_->configuration().find(text), std::string::npos) << display_->configuration();
  }
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(DisplayTest, APrimaryPlaneThatHasToBeOnIsBlackThen) {
  quirks_.needs_primary = true;
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  const uint64_t picture = planeValue(50, "FB_ID");
  display_->setLook({.rectangle = Rect{5000, 0, 64, 48}});
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_NE(planeValue(50, "FB_ID"), 0u);
  EXPECT_NE(planeValue(50, "FB_ID"), picture);
  EXPECT_EQ(planeValue(50, "CRTC_W"), 640u);
  display_->setLook({});
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(display_->counters().commit.shown, 2u);
  ASSERT_TRUE(display_->close());
  display_.reset();
  EXPECT_EQ(device_->counters().live_framebuffers, 0u);
  EXPECT_EQ(device_->counters().shown_removed, 0u);
}

TEST_F(DisplayTest, CropIsTheSourceRectangle) {
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24, Rect{16, 8, 320, 240}));
  drained();
  EXPECT_EQ(planeValue(50, "SRC_X") >> 16, 16u);
  EXPECT_EQ(planeValue(50, "SRC_Y") >> 16, 8u);
  EXPECT_EQ(planeValue(50, "SRC_W") >> 16, 320u);
  EXPECT_EQ(planeValue(50, "SRC_H") >> 16, 240u);
}

TEST_F(DisplayTest, NothingIsMadeOrTestedPerFrame) {
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  const uint64_t tests = device_->counters().tests, blobs = device_->counters().live_blobs;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(device_->counters().tests, tests);
  EXPECT_EQ(device_->counters().live_blobs, blobs);
  EXPECT_EQ(device_->counters().commits, 6u) << "one commit a frame";
}

TEST_F(DisplayTest, UnpluggedFramesAreDroppedAndThenItGoesOn) {
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  device_->setConnection("HDMI-A-1", DRM_MODE_DISCONNECTED);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(show(kXr24));
  EXPECT_EQ(display_->counters().commit.shown, 1u);
  EXPECT_EQ(display_->counters().commit.suspensions, 1u);
  device_->setConnection("HDMI-A-1", DRM_MODE_CONNECTED);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_GE(display_->counters().commit.shown, 2u);
  EXPECT_EQ(notes_.size(), 2u);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(DisplayTest, UnpluggedIsAnErrorIfWanted) {
  options_.on_unplug = OnUnplug::Error;
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  device_->setConnection("HDMI-A-1", DRM_MODE_DISCONNECTED);
  ASSERT_EQ(failures_.size(), 1u);
  EXPECT_NE(failures_[0].find("HDMI-A-1"), std::string::npos) << failures_[0];
}

TEST_F(DisplayTest, UnpluggedIsNothingIfItIsIgnored) {
  options_.on_unplug = OnUnplug::Ignore;
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  device_->setConnection("HDMI-A-1", DRM_MODE_DISCONNECTED);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(display_->counters().commit.shown, 4u);
  EXPECT_EQ(display_->counters().commit.suspensions, 0u);
  EXPECT_TRUE(notes_.empty());
  EXPECT_TRUE(failures_.empty());
}

TEST_F(DisplayTest, AnotherProcessTakesTheDisplayAndGivesItBack) {
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  device_->setMaster(false);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(show(kXr24));
  display_->setLook({.keep_aspect = false}); // a new plan meanwhile
  ASSERT_TRUE(show(kXr24)) << "a frame that is not seen is no error";
  device_->setMaster(true);
  for (int i = 0; i < 100 && display_->counters().commit.shown < 2; ++i) {
    ASSERT_TRUE(show(kXr24));
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_GE(display_->counters().commit.shown, 2u);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(DisplayTest, TwoOnOneDevice) {
  KmsSnapshot s = desk();
  s.connectors.push_back(connector(31, "HDMI-A-2", DRM_MODE_CONNECTED));
  KmsCrtc second;
  second.id = 41;
  s.crtcs.push_back(second);
  for (KmsConnector &c : s.connectors) c.possible_crtcs = 3;
  s.planes.push_back(plane(54, DRM_PLANE_TYPE_PRIMARY, {kXr24}, 2));
  s.planes[1].possible_crtcs = 3; // the overlay: whoever is first
  open(s);
  auto other = openAgain();
  ASSERT_TRUE(other);
  frames(kNv12);
  ASSERT_TRUE(show(kNv12));
  drained();
  FrameNeed need;
  need.format = kNv12;
  need.width = 640;
  need.height = 480;
  const auto taken = other->setFrames(need, {});
  EXPECT_TRUE(taken || taken.error().what.find("in use") != std::string::npos);
  need.format = kXr24;
  ASSERT_TRUE(other->setFrames(need, {}));
  ASSERT_TRUE(show(*other, kXr24));
  ASSERT_TRUE(other->drain());
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 40u) << "the other's modeset left it alone";
  EXPECT_EQ(planeValue(54, "CRTC_ID"), 41u) << other->configuration();
  ASSERT_TRUE(other->close());
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 40u) << "and so did its end";
  ASSERT_TRUE(show(kNv12));
  drained();
  EXPECT_TRUE(failures_.empty());
}

TEST_F(DisplayTest, AsynchronousFlips) {
  KmsSnapshot s = desk();
  s.async_flips = true;
  options_.async_flips = true;
  open(s);
  frames(kXr24);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(show(kXr24));
    drained();
  }
  EXPECT_EQ(device_->counters().async_flips, 3u) << "all but the one that sets the mode";
  DisplayLook look;
  look.rectangle = Rect{10, 10, 320, 240};
  display_->setLook(look);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(device_->counters().async_flips, 3u) << "nor one that moves the picture";
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(device_->counters().async_flips, 4u);
  EXPECT_TRUE(notes_.empty()) << notes_[0];
  EXPECT_TRUE(failures_.empty());
}

TEST_F(DisplayTest, AsynchronousFlipsOfADeviceWithoutThemAreOrdinaryOnes) {
  options_.async_flips = true;
  open(desk());
  frames(kXr24);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(display_->counters().commit.shown, 3u);
  EXPECT_EQ(device_->counters().async_flips, 0u);
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("no asynchronous flips"), std::string::npos) << notes_[0];
}

// as a kernel whose driver refuses them for this plane
TEST_F(DisplayTest, AsynchronousFlipsThatAreRefusedAreOrdinaryOnes) {
  KmsSnapshot s = desk();
  s.async_flips = true;
  options_.async_flips = true;
  open(s);
  device_->refuseAsyncFlips(EINVAL);
  frames(kXr24);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(display_->counters().commit.shown, 4u);
  EXPECT_EQ(device_->counters().async_flips, 0u);
  EXPECT_LE(device_->counters().refused[EINVAL], 2u) << "with a fence and without, then it is known";
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("refuses asynchronous flips (EINVAL)"), std::string::npos) << notes_[0];
}

// The first one sets the mode; who goes takes its own plane off the screen; the last one puts the screen back.
TEST_F(DisplayTest, TwoOnOneOutput) {
  options_.mode = ModeRequest{800, 600, 60};
  open(desk());
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  options_.mode.reset();
  options_.open.connector = "HDMI-A-1";
  auto other = openAgain();
  ASSERT_TRUE(other);
  FrameNeed need;
  need.format = kNv12;
  need.width = 640;
  need.height = 480;
  ASSERT_TRUE(other->setFrames(need, {}));
  ASSERT_TRUE(show(*other, kNv12));
  ASSERT_TRUE(other->drain());
  EXPECT_EQ(planeValue(50, "CRTC_ID"), 40u);
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 40u) << other->configuration();
  EXPECT_NE(other->configuration().find("800x600"), std::string::npos)
      << "of the mode that was set: " << other->configuration();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(show(kXr24));
    ASSERT_TRUE(show(*other, kNv12));
  }
  drained();
  ASSERT_TRUE(other->drain());
  EXPECT_EQ(display_->counters().commit.shown, 4u);
  EXPECT_EQ(other->counters().commit.shown, 4u);
  EXPECT_EQ(device_->snapshot()->crtcs[0].mode->hdisplay, 800);

  // another size, another plan: not another mode
  need.width = 1024;
  need.height = 768;
  ASSERT_TRUE(display_->setFrames({.format = kXr24, .width = 640, .height = 480}, {}));
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(device_->snapshot()->crtcs[0].mode->hdisplay, 800);
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 40u) << "the new plan leaves the other's plane alone";

  ASSERT_TRUE(display_->close()); // who was first
  EXPECT_EQ(planeValue(50, "CRTC_ID"), 0u) << "its plane is off";
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 40u) << "the other's is not";
  EXPECT_TRUE(device_->snapshot()->crtcs[0].active);
  EXPECT_EQ(device_->counters().shown_removed, 0u);
  ASSERT_TRUE(show(*other, kNv12));
  ASSERT_TRUE(other->drain());

  auto third = openAgain(); // in the place of the first
  ASSERT_TRUE(third);
  ASSERT_TRUE(third->setFrames({.format = kXr24, .width = 640, .height = 480}, {}));
  ASSERT_TRUE(show(*third, kXr24));
  ASSERT_TRUE(third->drain());
  EXPECT_EQ(planeValue(50, "CRTC_ID"), 40u) << third->configuration();
  ASSERT_TRUE(third->close());

  ASSERT_TRUE(other->close());
  EXPECT_FALSE(device_->snapshot()->crtcs[0].active) << "as it was before the first";
  EXPECT_EQ(planeValue(51, "CRTC_ID"), 0u);
  other.reset();
  third.reset();
  display_.reset();
  const auto counters = device_->counters();
  EXPECT_EQ(counters.live_framebuffers, 0u);
  EXPECT_EQ(counters.live_blobs, 0u);
  EXPECT_EQ(counters.shown_removed, 0u);
  EXPECT_TRUE(failures_.empty());
}

TEST_F(DisplayTest, TwoOnOneOutputWithoutAPlaneForTheSecond) {
  KmsSnapshot s = desk();
  s.planes.resize(1);
  open(s);
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  const auto other = Display::open(options_, {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, EBUSY);
  EXPECT_NE(other.error().what.find("another sink of this process shows on output HDMI-A-1"), std::string::npos)
      << other.error().message();
  EXPECT_EQ(planeValue(50, "CRTC_ID"), 40u);
  ASSERT_TRUE(show(kXr24));
  drained();
}

// A connector that can be told of HDR, with or without a screen that knows PQ.
KmsSnapshot hdrDesk(bool pq) {
  KmsSnapshot s = desk();
  KmsConnector &c = s.connectors[0];
  KmsProperty metadata = property(300, 0);
  metadata.flags = DRM_MODE_PROP_BLOB;
  c.properties.emplace("HDR_OUTPUT_METADATA", metadata);
  KmsProperty space = property(301, 0);
  space.flags = DRM_MODE_PROP_ENUM;
  space.values = {{"Default", 0}, {"BT2020_RGB", 9}};
  c.properties.emplace("Colorspace", space);
  c.properties.emplace("vrr_capable", property(302, 1));
  s.crtcs[0].properties.emplace("VRR_ENABLED", ranged(303, 0, 0, 1));
  c.edid.assign(256, 0);
  const uint8_t cta[] = {0x02, 0x03, 0x08, 0x00, 0xe3, 0x06, static_cast<uint8_t>(pq ? 0x05 : 0x01), 0x01};
  std::memcpy(c.edid.data() + 128, cta, sizeof cta);
  return s;
}

ColorChoice pq() {
  ColorChoice color;
  color.bt2020 = true;
  color.hdr.emplace();
  color.hdr->hdmi_metadata_type1.eotf = kEotfPq;
  return color;
}

class DisplayHdr : public DisplayTest, public testing::WithParamInterface<std::tuple<bool, HdrMode, bool>> {};

TEST_P(DisplayHdr, TheScreenIsToldWhereItUnderstands) {
  const auto [capable, mode, told] = GetParam();
  options_.hdr = mode;
  open(hdrDesk(capable));
  frames(kXr24, pq());
  ASSERT_TRUE(show(kXr24));
  drained();
  const KmsConnector connector = device_->snapshot()->connectors[0];
  EXPECT_EQ(valueOf(connector.properties, "HDR_OUTPUT_METADATA") != 0, told);
  EXPECT_EQ(valueOf(connector.properties, "Colorspace"), told ? 9u : 0u);
  ASSERT_TRUE(display_->close());
  EXPECT_EQ(valueOf(device_->snapshot()->connectors[0].properties, "HDR_OUTPUT_METADATA"), 0u);
  EXPECT_EQ(valueOf(device_->snapshot()->connectors[0].properties, "Colorspace"), 0u);
}

INSTANTIATE_TEST_SUITE_P(Screens, DisplayHdr,
                         testing::Values(std::tuple{true, HdrMode::Auto, true}, std::tuple{false, HdrMode::Auto, false},
                                         std::tuple{false, HdrMode::Always, true},
                                         std::tuple{true, HdrMode::Never, false}));

TEST_F(DisplayTest, TheScreensColorspaceIsThatOfThePrimaries) {
  open(hdrDesk(true));
  ColorChoice color = pq();
  color.bt2020 = false; // PQ with the primaries of HD
  frames(kXr24, color);
  ASSERT_TRUE(show(kXr24));
  drained();
  const KmsConnector connector = device_->snapshot()->connectors[0];
  EXPECT_NE(valueOf(connector.properties, "HDR_OUTPUT_METADATA"), 0u);
  EXPECT_EQ(valueOf(connector.properties, "Colorspace"), 0u);
}

// What it was set to before, this one did not ask for.
TEST_F(DisplayTest, VariableRefreshIsOffUnlessItIsWanted) {
  KmsSnapshot s = hdrDesk(false);
  s.crtcs[0].properties.at("VRR_ENABLED").value = 1;
  open(s);
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(valueOf(device_->snapshot()->crtcs[0].properties, "VRR_ENABLED"), 0u);
}

TEST_F(DisplayTest, VariableRefreshNotWhereTheScreenCannot) {
  options_.vrr = true;
  KmsSnapshot s = hdrDesk(false);
  s.connectors[0].properties.at("vrr_capable").value = 0;
  open(s);
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(valueOf(device_->snapshot()->crtcs[0].properties, "VRR_ENABLED"), 0u);
}

TEST_F(DisplayTest, VariableRefreshWhereTheScreenCan) {
  options_.vrr = true;
  open(hdrDesk(false));
  frames(kXr24);
  ASSERT_TRUE(show(kXr24));
  drained();
  EXPECT_EQ(valueOf(device_->snapshot()->crtcs[0].properties, "VRR_ENABLED"), 1u);
  ASSERT_TRUE(display_->close());
  EXPECT_EQ(valueOf(device_->snapshot()->crtcs[0].properties, "VRR_ENABLED"), 0u);
}

TEST(Edid, TransferFunctions) {
  EXPECT_EQ(edidTransferFunctions({}), 0);
  std::vector<uint8_t> edid(256, 0);
  EXPECT_EQ(edidTransferFunctions(edid), 0);
  const uint8_t cta[] = {0x02, 0x03, 0x0c, 0x00, 0x23, 0x09, 0x07, 0x07, 0xe3, 0x06, 0x0d, 0x01};
  std::memcpy(edid.data() + 128, cta, sizeof cta);
  EXPECT_EQ(edidTransferFunctions(edid), 0x0d) << "SDR, PQ, HLG";
  edid[128 + 8] = 0xff; // a block that ends past the collection
  EXPECT_EQ(edidTransferFunctions(edid), 0);
  edid.resize(200);
  EXPECT_EQ(edidTransferFunctions(edid), 0) << "cut off";
}

TEST(Hdr, MetadataFromCaps) {
  gst_init(nullptr, nullptr);
  GstCaps *caps =
      gst_caps_from_string("video/x-raw,format=P010_10LE,width=64,height=48,framerate=30/1,colorimetry=bt2100-pq,"
                           "mastering-display-info=(string)34000:16000:13250:34500:7500:3000:15635:16450:10000000:50,"
                           "content-light-level=(string)1000:400");
  GstVideoInfo info;
  ASSERT_TRUE(gst_video_info_from_caps(&info, caps));
  const auto hdr = hdrMetadataOf(info, caps);
  gst_caps_unref(caps);
  ASSERT_TRUE(hdr);
  const auto &frame = hdr->hdmi_metadata_type1;
  EXPECT_EQ(frame.eotf, kEotfPq);
  EXPECT_EQ(frame.display_primaries[0].x, 34000);
  EXPECT_EQ(frame.white_point.y, 16450);
  EXPECT_EQ(frame.max_display_mastering_luminance, 1000) << "cd/m²";
  EXPECT_EQ(frame.min_display_mastering_luminance, 50) << "0.0001 cd/m²";
  EXPECT_EQ(frame.max_cll, 1000);
  EXPECT_EQ(frame.max_fall, 400);
}

} // namespace
