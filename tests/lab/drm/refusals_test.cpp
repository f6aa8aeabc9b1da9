// SPDX-License-Identifier: LGPL-2.1-or-later
// What a real kernel refuses, and with which errno: what ProfileDevice imitates (tests/unit/drm/device) is true.
#include <cerrno>
#include <cstdint>
#include <ostream>
#include <vector>

#include <drm_fourcc.h>
#include <gtest/gtest.h>

#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/screen.h"

using namespace gstzc;
using namespace gstzc::lab;

namespace {

constexpr uint32_t kWidth = 64, kHeight = 48;

struct Rectangle {
  int64_t x, y, width, height;
};
struct Refusal {
  const char *name;
  Rectangle source, target;
  int error;
};
void PrintTo(const Refusal &r, std::ostream *out) { *out << r.name; }

class Refusals : public testing::TestWithParam<Refusal> {};

constexpr Rectangle kAll = {0, 0, kWidth, kHeight};

TEST_P(Refusals, OfTheKernel) {
  auto card = openCard("vkms");
  ASSERT_TRUE(card) << card.error().message();
  auto screen = Screen::find(card->get());
  ASSERT_TRUE(screen) << screen.error().message();
  auto framebuffer = DumbFramebuffer::create(card->get(), kWidth, kHeight, DRM_FORMAT_XRGB8888);
  ASSERT_TRUE(framebuffer) << framebuffer.error().message();
  auto shown = screen->show(framebuffer->id(), makeMode(kWidth, kHeight));
  ASSERT_TRUE(shown) << shown.error().message();

  const auto &[name, source, target, error] = GetParam();
  const DrmPtr<drmModeAtomicReq> request(drmModeAtomicAlloc());
  const auto set = [&](const char *property_name, int64_t value) {
    const auto found = property(card->get(), screen->plane(), DRM_MODE_OBJECT_PLANE, property_name);
    ASSERT_NE(found.id, 0u) << property_name;
    drmModeAtomicAddProperty(request.get(), screen->plane(), found.id, static_cast<uint64_t>(value));
  };
  set("SRC_X", source.x << 16);
  set("SRC_Y", source.y << 16);
  set("SRC_W", source.width << 16);
  set("SRC_H", source.height << 16);
  set("CRTC_X", target.x);
  set("CRTC_Y", target.y);
  set("CRTC_W", target.width);
  set("CRTC_H", target.height);
  EXPECT_EQ(drmModeAtomicCommit(card->get(), request.get(), DRM_MODE_ATOMIC_TEST_ONLY, nullptr), -error);
  EXPECT_TRUE(screen->off());
}

INSTANTIATE_TEST_SUITE_P(Rectangles, Refusals,
                         testing::Values(Refusal{"whole", kAll, kAll, 0},
                                         Refusal{"source too wide", {0, 0, 65, 48}, {0, 0, 65, 48}, ENOSPC},
                                         Refusal{"source too far right", {1, 0, 64, 48}, kAll, ENOSPC},
                                         Refusal{"source too far down", {0, 1, 64, 48}, kAll, ENOSPC},
                                         Refusal{"target out of range", kAll, {INT32_MAX - 10, 0, 64, 48}, ERANGE},
                                         Refusal{"scaled", kAll, {0, 0, 32, 24}, ERANGE}));

// ERANGE from TEST_ONLY is not the stream's end: the frame is shown as it is.
TEST(Erange, LeadsToTheNextWay) {
  auto path = cardPath("vkms");
  ASSERT_TRUE(path) << path.error().message();
  Player player("videotestsrc num-buffers=3 ! video/x-raw,format=BGRx,width=64,height=48 ! drmmodifiersink name=sink "
                "max-lateness=-1 mode=100x80 render-rectangle=<0,0,100,80> device=" +
                *path);
  ASSERT_TRUE(player.play());
  EXPECT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("shown"), 3u);
  EXPECT_NE(player.configuration().find("64x48 at"), std::string::npos) << player.configuration();
}

} // namespace
