// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink on a part of a display that its owner lends out: fd= of a lease.
#include <iterator>
#include <string>

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
    crtc_ = screen->crtc();
    connector_ = screen->connector();
    primary_ = screen->plane();
  }
  // The output with one plane.
  UniqueFd lend(uint32_t plane) {
    const uint32_t objects[] = {crtc_, connector_, plane};
    const int fd = drmModeCreateLease(owner_.get(), objects, std::size(objects), O_CLOEXEC, &lessee_);
    EXPECT_GE(fd, 0) << "no lease: " << fd;
    return UniqueFd(fd);
  }
  static std::string sinkOn(const UniqueFd &lease) {
    return " ! drmmodifiersink name=sink mode=64x48 max-lateness=-1 fd=" + std::to_string(lease.get());
  }
  static void expectAllShown(Player &player, uint32_t plane) {
    ASSERT_TRUE(player.play());
    ASSERT_TRUE(player.ended()) << player.errors();
    EXPECT_EQ(player.stat("shown"), 3u);
    EXPECT_NE(player.configuration().find("plane " + std::to_string(plane)), std::string::npos)
        << player.configuration();
  }

  UniqueFd owner_;
  uint32_t crtc_ = 0, connector_ = 0, primary_ = 0;
  uint32_t lessee_ = 0; // of the last lease
};

const std::string kSource = "videotestsrc num-buffers=3 ! video/x-raw,format=BGRx,width=64,height=48";

TEST_F(Lease, ShowsOnWhatIsLent) {
  const UniqueFd lease = lend(primary_);
  Player player(kSource + sinkOn(lease));
  expectAllShown(player, primary_);
  EXPECT_EQ(player.stat("copies"), 0u);
  auto shown = captureWriteback(owner_.get());
  ASSERT_TRUE(shown) << shown.error().message();
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame) << frame.error().message();
  ASSERT_EQ(shown->width, frame->width);
  EXPECT_EQ(largestDistance(*shown, 0, 0, *frame), 0);
}

// An owner that takes its part back ends the stream as one that takes a display away does: nothing hangs.
TEST_F(Lease, TakenBackWhilePlaying) {
  const UniqueFd lease = lend(primary_);
  ASSERT_TRUE(lease.isValid());
  Player player(
      "videotestsrc is-live=true num-buffers=120 ! video/x-raw,format=BGRx,width=64,height=48,framerate=60/1" +
      sinkOn(lease));
  player.start();
  for (int i = 0; i < 1000 && player.stat("shown") < 10; ++i) g_usleep(10'000);
  EXPECT_GE(player.stat("shown"), 10u);
  EXPECT_EQ(drmModeRevokeLease(owner_.get(), lessee_), 0);
  EXPECT_TRUE(player.wait(std::chrono::seconds(60))) << "neither an end nor an error";
  EXPECT_TRUE(player.stop());
}

// The kernel lends no output without a plane, but it need not be the primary one.
TEST_F(Lease, AnOverlayPlaneIsEnough) {
  uint32_t overlay = 0;
  for (const PlaneInfo &plane : planes(owner_.get()))
    if (overlay == 0 && plane.type == DRM_PLANE_TYPE_OVERLAY && (plane.possibleCrtcs & 1) != 0) overlay = plane.id;
  ASSERT_NE(overlay, 0u);
  const UniqueFd lease = lend(overlay);
  Player player(kSource + sinkOn(lease));
  expectAllShown(player, overlay);
}

} // namespace
