// SPDX-License-Identifier: LGPL-2.1-or-later
// What drmmodifiersink asks of a plane besides a picture, read back from vkms: orientation, parts of frames,
// rectangles; and two outputs at once.
#include <functional>
#include <memory>

#include <fcntl.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <xf86drm.h>

#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/screen.h"
#include "tests/lab/support/vkms_instance.h"
#include "tests/lab/support/writeback.h"

using namespace gstzc;
using namespace gstzc::lab;
using namespace std::chrono_literals;

namespace {

class Atomic : public testing::Test {
protected:
  void SetUp() override {
    auto opened = openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    card_ = opened.take();
    sink_ = " ! drmmodifiersink name=sink message-flips=true max-lateness=-1 fd=" + std::to_string(card_.get()) + " ";
  }

  using Where = std::function<std::pair<uint32_t, uint32_t>(uint32_t x, uint32_t y)>;
  // Each pixel of the frame's w x h is on the screen where `where` says.
  void expectPixels(Player &player, uint32_t w, uint32_t h, const Where &where) {
    ASSERT_TRUE(player.ended()) << player.errors();
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << shown.error().message();
    auto frame = player.lastFrame();
    ASSERT_TRUE(frame) << frame.error().message();
    unsigned wrong = 0;
    for (uint32_t y = 0; y < h; ++y)
      for (uint32_t x = 0; x < w; ++x) {
        const auto [sx, sy] = where(x, y);
        wrong += sx >= shown->width || sy >= shown->height || shown->at(sx, sy) != frame->at(x, y);
      }
    EXPECT_EQ(wrong, 0u) << player.configuration();
  }

  UniqueFd card_;
  std::string sink_;
};

constexpr uint32_t W = 64, H = 48;
const std::string kSource = "videotestsrc num-buffers=3 ! video/x-raw,format=BGRx,width=64,height=48";

struct Turn {
  const char *method;
  bool quarter;
  std::pair<uint32_t, uint32_t> (*where)(uint32_t x, uint32_t y);
};
void PrintTo(const Turn &t, std::ostream *out) { *out << t.method; }

class AtomicOrientation : public Atomic, public testing::WithParamInterface<Turn> {};

TEST_P(AtomicOrientation, IsGStreamers) {
  const Turn &turn = GetParam();
  Player player(kSource + sink_ + "rotate-method=" + turn.method + " mode=" + (turn.quarter ? "48x64" : "64x48"));
  ASSERT_TRUE(player.play());
  expectPixels(player, W, H, turn.where);
  EXPECT_EQ(player.stat("copies"), 0u);
}

using P = std::pair<uint32_t, uint32_t>;
INSTANTIATE_TEST_SUITE_P(
    Methods, AtomicOrientation,
    testing::Values(Turn{"identity", false, [](uint32_t x, uint32_t y) { return P{x, y}; }},
                    Turn{"90r", true, [](uint32_t x, uint32_t y) { return P{H - 1 - y, x}; }},
                    Turn{"180", false, [](uint32_t x, uint32_t y) { return P{W - 1 - x, H - 1 - y}; }},
                    Turn{"90l", true, [](uint32_t x, uint32_t y) { return P{y, W - 1 - x}; }},
                    Turn{"horiz", false, [](uint32_t x, uint32_t y) { return P{W - 1 - x, y}; }},
                    Turn{"vert", false, [](uint32_t x, uint32_t y) { return P{x, H - 1 - y}; }},
                    Turn{"ul-lr", true, [](uint32_t x, uint32_t y) { return P{y, x}; }},
                    Turn{"ur-ll", true, [](uint32_t x, uint32_t y) { return P{H - 1 - y, W - 1 - x}; }}));

TEST_F(Atomic, OrientationMayChangeWhilePlaying) {
  Player player("videotestsrc is-live=true ! video/x-raw,format=BGRx,width=64,height=48" + sink_ + "mode=64x48");
  player.start();
  for (int i = 0; i < 500 && player.flips().size() < 3; ++i) g_usleep(20000);
  g_object_set(player.sink(), "rotate-method", GST_VIDEO_ORIENTATION_180, nullptr);
  const size_t before = player.flips().size();
  for (int i = 0; i < 500 && player.flips().size() < before + 5; ++i) g_usleep(20000);
  EXPECT_GE(player.flips().size(), before + 5) << player.errors();
  EXPECT_EQ(player.errorCount(), 0u) << player.errors();
  EXPECT_TRUE(player.stop());
}

TEST_F(Atomic, CropMetadataIsThePartThatIsShown) {
  Player player(kSource + sink_ + "mode=32x24");
  player.at_sink = [](GstBuffer *buffer) {
    GstVideoCropMeta *crop = gst_buffer_add_video_crop_meta(buffer);
    crop->x = 16;
    crop->y = 8;
    crop->width = 32;
    crop->height = 24;
  };
  ASSERT_TRUE(player.play());
  ASSERT_TRUE(player.ended()) << player.errors();
  auto shown = captureWriteback(card_.get());
  ASSERT_TRUE(shown) << shown.error().message();
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame);
  for (uint32_t y = 0; y < 24; ++y)
    for (uint32_t x = 0; x < 32; ++x) ASSERT_EQ(shown->at(x, y), frame->at(x + 16, y + 8)) << x << "," << y;
}

TEST_F(Atomic, RenderRectangle) {
  Player player(kSource + sink_ + "mode=100x80 render-rectangle=<10,6,64,48>");
  ASSERT_TRUE(player.play());
  expectPixels(player, W, H, [](uint32_t x, uint32_t y) { return P{x + 10, y + 6}; });
}

TEST_F(Atomic, ARectangleThatNeedsScalingIsFilledPixelForPixel) {
  Player player(kSource + sink_ + "mode=100x80 render-rectangle=<0,0,100,80>"); // vkms does not scale
  ASSERT_TRUE(player.play());
  expectPixels(player, W, H, [](uint32_t x, uint32_t y) { return P{x + 18, y + 16}; });
}

std::unique_ptr<Player> on(const VkmsInstance &card, const std::string &connector, const char *more = "") {
  return std::make_unique<Player>("videotestsrc is-live=true ! video/x-raw,format=BGRx,width=64,height=48 ! "
                                  "drmmodifiersink name=sink message-flips=true mode=64x48 device=" +
                                  card.cardPath() + (connector.empty() ? "" : " connector=" + connector) + more);
}

bool flips(Player &player, size_t more) {
  const size_t before = player.flips().size();
  for (int i = 0; i < 500 && player.flips().size() < before + more; ++i) g_usleep(20000);
  return player.flips().size() >= before + more;
}

// The numbers of virtual outputs count over all cards.
std::string outputOf(const Player &player) {
  const std::string text = player.configuration();
  const size_t begin = text.find("Virtual-");
  return begin == std::string::npos ? "" : text.substr(begin, text.find(' ', begin) - begin);
}

TEST(TwoOutputs, AtOnceInOneProcess) {
  auto card = VkmsInstance::create("sink-two", VkmsInstance::Output::Connected, 2);
  ASSERT_TRUE(card) << card.error().message();
  {
    auto first = on(*card, ""), second = on(*card, "");
    first->start();
    EXPECT_TRUE(flips(*first, 3)) << first->errors();
    second->start();
    EXPECT_TRUE(flips(*second, 3)) << second->errors();
    EXPECT_TRUE(flips(*first, 3)) << first->errors();
    const std::string mine = outputOf(*first);
    EXPECT_NE(mine, "");
    EXPECT_NE(outputOf(*second), mine) << second->configuration();
    auto third = on(*card, mine);
    third->start();
    EXPECT_FALSE(third->wait(1s) && third->ended());
    EXPECT_NE(third->errors().find("another sink of this process"), std::string::npos) << third->errors();
    EXPECT_TRUE(first->stop());
    EXPECT_TRUE(flips(*second, 3)) << "the other one goes on: " << second->errors();
    first = on(*card, "");
    first->start();
    EXPECT_TRUE(flips(*first, 3)) << first->errors();
    EXPECT_EQ(outputOf(*first), mine);
    EXPECT_EQ(second->errorCount(), 0u) << second->errors();
    EXPECT_TRUE(second->stop());
    EXPECT_TRUE(first->stop());
  }
  // the last one has given the device back: it can be had by another file
  const UniqueFd other(open(card->cardPath().c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(drmIsMaster(other.get()), 1);
}

// Two sinks of a process on planes of one CRTC: both pictures are there, and stay while the other one comes and goes.
TEST_F(Atomic, TwoSinksOnOneOutput) {
  const auto source = [](const char *pattern, int width, int height) {
    return "videotestsrc is-live=true pattern=" + std::string(pattern) +
           " ! video/x-raw,format=BGRx,width=" + std::to_string(width) + ",height=" + std::to_string(height) +
           ",framerate=30/1";
  };
  const auto expect = [&](uint32_t outside, uint32_t inside, const char *what) {
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << what << ": " << shown.error().message();
    EXPECT_EQ(shown->at(2, 2), outside) << what;
    EXPECT_EQ(shown->at(20, 20), inside) << what;
  };
  auto below = std::make_unique<Player>(source("red", 64, 48) + sink_ + "mode=64x48");
  below->start();
  ASSERT_TRUE(flips(*below, 3)) << below->errors();
  auto above = std::make_unique<Player>(source("blue", 32, 24) + sink_ + "render-rectangle=<8,8,32,24>");
  above->start();
  ASSERT_TRUE(flips(*above, 3)) << above->errors();
  ASSERT_TRUE(flips(*below, 3)) << below->errors();
  EXPECT_NE(above->configuration().find("64x48"), std::string::npos) << "the first one's mode";
  expect(0xff0000, 0x0000ff, "both");
  EXPECT_TRUE(above->stop());
  ASSERT_TRUE(flips(*below, 3)) << below->errors();
  expect(0xff0000, 0xff0000, "the upper one has gone");

  above = std::make_unique<Player>(source("green", 32, 24) + sink_ + "render-rectangle=<8,8,32,24>");
  above->start();
  ASSERT_TRUE(flips(*above, 3)) << above->errors();
  EXPECT_TRUE(below->stop());
  ASSERT_TRUE(flips(*above, 3)) << above->errors();
  expect(0x000000, 0x00ff00, "the lower one has gone, who set the mode");
  EXPECT_EQ(below->errorCount() + above->errorCount(), 0u) << below->errors() << above->errors();
  EXPECT_TRUE(above->stop());
}

// What happens to the output while frames are shown.
TEST(Hotplug, UnpluggedPausesAndPluggedInGoesOn) {
  auto card = VkmsInstance::create("sink-plug", VkmsInstance::Output::Connected);
  ASSERT_TRUE(card) << card.error().message();
  {
    auto player = on(*card, "");
    player->start();
    ASSERT_TRUE(flips(*player, 3)) << player->errors();
    ASSERT_TRUE(card->setOutput(VkmsInstance::Output::Disconnected));
    for (int i = 0; i < 200 && player->stat("suspensions") == 0; ++i) g_usleep(20000);
    ASSERT_EQ(player->stat("suspensions"), 1u) << "nothing told of it";
    const uint64_t shown = player->stat("shown"), frames = player->stat("frames");
    for (int i = 0; i < 500 && player->stat("frames") < frames + 5; ++i) g_usleep(20000);
    EXPECT_GE(player->stat("frames"), frames + 5) << "upstream does not wait";
    EXPECT_LE(player->stat("shown"), shown + 1) << "one may have been under way";
    ASSERT_TRUE(card->setOutput(VkmsInstance::Output::Connected));
    EXPECT_TRUE(flips(*player, 3)) << player->errors();
    EXPECT_EQ(player->errorCount(), 0u) << player->errors();
    EXPECT_TRUE(player->stop());
  }
}

TEST(Hotplug, UnpluggedIsAnErrorWhereThatIsWanted) {
  auto card = VkmsInstance::create("sink-plug2", VkmsInstance::Output::Connected);
  ASSERT_TRUE(card) << card.error().message();
  {
    auto player = on(*card, "", " on-unplug=error");
    player->start();
    ASSERT_TRUE(flips(*player, 3)) << player->errors();
    ASSERT_TRUE(card->setOutput(VkmsInstance::Output::Disconnected));
    EXPECT_TRUE(player->wait(20s));
    EXPECT_NE(player->errors().find("was unplugged"), std::string::npos) << player->errors();
    EXPECT_TRUE(player->stop());
  }
}

// A switch of virtual terminals takes master from the file and gives it back later: here the test does, on the file
// that it lends to the sink.
TEST_F(Atomic, MasterLostAndRegained) {
  Player player("videotestsrc is-live=true ! video/x-raw,format=BGRx,width=64,height=48" + sink_ + "mode=64x48");
  player.start();
  ASSERT_TRUE(flips(player, 3)) << player.errors();
  {
    auto opened = openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    const UniqueFd other = opened.take();
    int taken = -1; // the sink asks for it again as soon as it is free
    for (int i = 0; i < 100 && taken != 0; ++i) {
      drmDropMaster(card_.get());
      taken = drmSetMaster(other.get());
    }
    ASSERT_EQ(taken, 0);
    for (int i = 0; i < 200 && player.stat("suspensions") == 0; ++i) g_usleep(20000);
    EXPECT_GE(player.stat("suspensions"), 1u);
    auto screen = Screen::find(other.get());
    ASSERT_TRUE(screen) << screen.error().message();
    ASSERT_TRUE(screen->off()); // does what it likes with the display
  }
  EXPECT_TRUE(flips(player, 3)) << player.errors();
  EXPECT_EQ(player.errorCount(), 0u) << player.errors();
  auto shown = captureWriteback(card_.get());
  EXPECT_TRUE(shown) << "the output is on again: " << shown.error().message();
  EXPECT_TRUE(player.stop());
}

} // namespace
