// SPDX-License-Identifier: LGPL-2.1-or-later
// The helpers of laboratory tests: screendumps of what QEMU shows, vkms cards made on demand, pictures in files.
#include <cerrno>
#include <filesystem>
#include <fstream>

#include <drm_fourcc.h>
#include <png.h>

#include <gtest/gtest.h>

#include "tests/lab/support/card.h"
#include "tests/lab/support/image.h"
#include "tests/lab/support/screen.h"
#include "tests/lab/support/vkms_instance.h"

using namespace gstzc;

namespace {

uint32_t pattern(uint32_t x, uint32_t y) { return (x & 0xff) << 16 | (y & 0xff) << 8 | ((x + y) & 0xff); }

class Screendump : public testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(Screendump, IsWhatTheDisplayShows) {
  const auto [driver, device] = GetParam();
  auto card = lab::openCard(driver);
  ASSERT_TRUE(card) << card.error().message();
  auto screen = lab::Screen::find(card->get());
  ASSERT_TRUE(screen) << screen.error().message();
  constexpr uint32_t kWidth = 640, kHeight = 480;
  auto framebuffer = lab::DumbFramebuffer::create(card->get(), kWidth, kHeight, DRM_FORMAT_XRGB8888);
  ASSERT_TRUE(framebuffer) << framebuffer.error().message();
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x) framebuffer->pixels()[y * framebuffer->stride() / 4 + x] = pattern(x, y);
  auto shown = screen->show(framebuffer->id(), lab::makeMode(kWidth, kHeight));
  ASSERT_TRUE(shown) << shown.error().message();
  auto image = lab::screendump(device);
  ASSERT_TRUE(image) << image.error().message();
  ASSERT_EQ(image->width, kWidth);
  ASSERT_EQ(image->height, kHeight);
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x) ASSERT_EQ(image->at(x, y), pattern(x, y)) << x << "," << y;
}
INSTANTIATE_TEST_SUITE_P(Displays, Screendump,
                         testing::Values(std::pair{"bochs-drm", "bochs0"}, std::pair{"virtio_gpu", "virtio0"}));

TEST(Screendump, OfAnUnknownDeviceIsAnError) { EXPECT_FALSE(lab::screendump("nonesuch").ok()); }

TEST(VkmsInstance, HasAnOutputThatIsPluggedInAndOut) {
  const size_t before = lab::listCards().size();
  {
    auto instance = lab::VkmsInstance::create("unplugged", lab::VkmsInstance::Output::Disconnected);
    ASSERT_TRUE(instance) << instance.error().message();
    EXPECT_EQ(lab::listCards().size(), before + 1);
    const UniqueFd card(::open(instance->cardPath().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(card.isValid());
    ASSERT_EQ(drmSetClientCap(card.get(), DRM_CLIENT_CAP_ATOMIC, 1), 0);
    EXPECT_FALSE(lab::Screen::find(card.get()).ok());
    ASSERT_TRUE(instance->setOutput(lab::VkmsInstance::Output::Connected));
    EXPECT_TRUE(lab::Screen::find(card.get()).ok());
  }
  EXPECT_EQ(lab::listCards().size(), before);
}

TEST(Image, SurvivesAPngFile) {
  lab::Image image = {3, 2, {0xff0000, 0x00ff00, 0x0000ff, 0x123456, 0xffffff, 0}};
  const std::string path = testing::TempDir() + "lab-image.png";
  auto written = lab::writePng(image, path);
  ASSERT_TRUE(written) << written.error().message();
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  ASSERT_TRUE(png_image_begin_read_from_file(&png, path.c_str()));
  EXPECT_EQ(png.width, 3u);
  EXPECT_EQ(png.height, 2u);
  png.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(png));
  ASSERT_TRUE(png_image_finish_read(&png, nullptr, bytes.data(), 0, nullptr));
  for (size_t i = 0; i < image.pixels.size(); ++i)
    EXPECT_EQ(image.pixels[i], uint32_t{bytes[i * 3]} << 16 | bytes[i * 3 + 1] << 8 | bytes[i * 3 + 2]) << i;
  EXPECT_FALSE(lab::writePng(image, "/nonexistent/picture.png").ok());
  std::filesystem::remove(path);
}

TEST(Image, TruncatedPpmIsAnError) {
  const std::string path = testing::TempDir() + "lab-short.ppm";
  std::ofstream(path) << "P6\n4 4\n255\nabc";
  EXPECT_FALSE(lab::readPpm(path).ok());
  std::ofstream(path) << "P5\n1 1\n255\nabc";
  EXPECT_FALSE(lab::readPpm(path).ok());
  std::filesystem::remove(path);
}

} // namespace
