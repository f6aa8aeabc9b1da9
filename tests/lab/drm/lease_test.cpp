// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink on a part of a display that its owner lends out: fd= of a lease.
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <xf86drmMode.h>

#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/screen.h"
#include "tests/lab/support/writeback.h"

using namespace gstzc;
using namespace gstzc::lab;

namespace {

class Lease : public testing::Test {
protected:
  void SetUp() override {
    auto opened = openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    owner_ = opened.take();
    auto screen = Screen::find(owner_.get());
    ASSERT_TRUE(screen) << screen.error().message();
    output_ = {screen->crtc(), screen->connector()};
    primary_ = screen->plane();
  }
  UniqueFd lend(const std::vector<uint32_t> &objects) {
    uint32_t id = 0;
    const int fd = drmModeCreateLease(owner_.get(), objects.data(), static_cast<int>(objects.size()), O_CLOEXEC, &id);
    EXPECT_GE(fd, 0) << "no lease: " << fd;
    return UniqueFd(fd);
  }
  static std::string sinkOn(const UniqueFd &lease) {
    return "videotestsrc num-buffers=3 ! video/x-raw,format=BGRx,width=64,height=48 ! "
           "drmmodifiersink name=sink mode=64x48 max-lateness=-1 fd=" +
           std::to_string(lease.get());
  }

  UniqueFd owner_;
  std::vector<uint32_t> output_; // CRTC and connector
  uint32_t primary_ = 0;
};

TEST_F(Lease, ShowsOnWhatIsLent) {
  auto objects = output_;
  objects.push_back(primary_);
  const UniqueFd lease = lend(objects);
  Player player(sinkOn(lease));
  ASSERT_TRUE(player.play());
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("shown"), 3u);
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_NE(player.configuration().find("plane " + std::to_string(primary_)), std::string::npos)
      << player.configuration();
  auto shown = captureWriteback(owner_.get());
  ASSERT_TRUE(shown) << shown.error().message();
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame) << frame.error().message();
  ASSERT_EQ(shown->width, frame->width);
  EXPECT_EQ(largestDistance(*shown, 0, 0, *frame), 0);
}

// An owner that takes its part back ends the stream as one that takes a display away does: nothing hangs.
TEST_F(Lease, TakenBackWhilePlaying) {
  auto objects = output_;
  objects.push_back(primary_);
  uint32_t id = 0;
  const UniqueFd lease(
      drmModeCreateLease(owner_.get(), objects.data(), static_cast<int>(objects.size()), O_CLOEXEC, &id));
  ASSERT_TRUE(lease.isValid());
  Player player("videotestsrc is-live=true num-buffers=120 ! video/x-raw,format=BGRx,width=64,height=48,framerate=60/1 "
                "! drmmodifiersink name=sink mode=64x48 max-lateness=-1 fd=" +
                std::to_string(lease.get()));
  player.start();
  for (int i = 0; i < 1000 && player.stat("shown") < 10; ++i) g_usleep(10'000);
  EXPECT_GE(player.stat("shown"), 10u);
  EXPECT_EQ(drmModeRevokeLease(owner_.get(), id), 0);
  EXPECT_TRUE(player.wait(std::chrono::seconds(60))) << "neither an end nor an error";
  EXPECT_TRUE(player.stop());
}

// The kernel lends no output without a plane, but it need not be the primary one.
TEST_F(Lease, AnOverlayPlaneIsEnough) {
  uint32_t overlay = 0;
  for (const PlaneInfo &plane : planes(owner_.get()))
    if (overlay == 0 && plane.type == DRM_PLANE_TYPE_OVERLAY && (plane.possibleCrtcs & 1) != 0) overlay = plane.id;
  ASSERT_NE(overlay, 0u);
  auto objects = output_;
  objects.push_back(overlay);
  const UniqueFd lease = lend(objects);
  Player player(sinkOn(lease));
  ASSERT_TRUE(player.play());
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("shown"), 3u);
  EXPECT_NE(player.configuration().find("plane " + std::to_string(overlay)), std::string::npos)
      << player.configuration();
}

} // namespace
