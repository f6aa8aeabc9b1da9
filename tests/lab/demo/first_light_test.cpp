// SPDX-License-Identifier: LGPL-2.1-or-later
// The demo's promises, held to: what is found, what is copied (nothing), and whose memory arrives at the display.
#include "tests/lab/demo/first_light.h"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/lab/demo/native.h"
#include "tests/lab/support/only_card.h"
#include "tests/support/temp_dir.h"

using namespace firstlight;

namespace {

Options optionsFromEnvironment() {
  Options options;
  if (const char *model = std::getenv("GSTZC_BLAZEFACE_MODEL")) options.model = model;
  if (const char *photo = std::getenv("GSTZC_PHOTO")) options.photo = photo;
  return options;
}

// what holds of every run
void expectNothingCopied(const Report &report) {
  EXPECT_EQ(report.bytes_copied, 0u);
  EXPECT_EQ(report.copies, 0u);
  EXPECT_EQ(report.foreign, 0u) << "device and inode of every buffer at the sink are the ones at the source";
  EXPECT_GT(report.shown, 0u);
  EXPECT_EQ(report.latencies_ms.size(), report.shown);
}

TEST(FirstLight, PhotoFindsTheFace) {
  const Options options = optionsFromEnvironment();
  if (options.model.empty() || options.photo.empty())
    GTEST_SKIP() << "GSTZC_BLAZEFACE_MODEL and GSTZC_PHOTO name no files: scripts/test fetches them";
  auto report = runPhoto(options);
  ASSERT_TRUE(report.ok()) << report.error().message();
  expectNothingCopied(*report);
  EXPECT_EQ(report->frames, 1u);
  ASSERT_GE(report->boxes.size(), 1u);
  const Box face{"face", 0.92, 179, 82, 271, 175};
  EXPECT_GE(overlap(report->boxes.front(), face), 0.7)
      << report->boxes.front().x1 << " " << report->boxes.front().y1 << " " << report->boxes.front().x2 << " "
      << report->boxes.front().y2;
}

TEST(FirstLight, CameraCopiesNothing) {
  Options options = optionsFromEnvironment();
  if (options.model.empty()) GTEST_SKIP() << "GSTZC_BLAZEFACE_MODEL names no file: scripts/test fetches it";
  options.frames = 20;
  auto report = runCamera(options);
  ASSERT_TRUE(report.ok()) << report.error().message();
  expectNothingCopied(*report);
  EXPECT_GT(report->frames, 0u);
  EXPECT_LE(report->buffers, 32u) << "a pool, not a new buffer a frame";
}

TEST(Native, RunsOnWhatTheMachineHas) {
  Options options = optionsFromEnvironment();
  if (options.model.empty()) GTEST_SKIP() << "GSTZC_BLAZEFACE_MODEL names no file: scripts/test fetches it";
  auto only = gstzc::lab::OnlyCard::create("vkms");
  ASSERT_TRUE(only) << only.error().message();
  const NativeDevices devices = findNative();
  ASSERT_TRUE(devices.missing.empty()) << devices.missing.front().message();
  EXPECT_TRUE(devices.camera_name.starts_with("vivid: ")) << devices.camera_name;
  EXPECT_TRUE(devices.display.starts_with("/dev/dri/card")) << devices.display;
  options.frames = 5; // what differs from the camera run is which devices are taken
  auto report = runNative(options, devices);
  ASSERT_TRUE(report.ok()) << report.error().message();
  expectNothingCopied(*report);
  EXPECT_EQ(report->devices.size(), 3u);
}

TEST(Native, SaysWhatIsMissing) {
  const gstzc::test::TempDir empty;
  const NativeDevices devices = findNative(empty.path());
  ASSERT_GE(devices.missing.size(), 1u);
  const std::string text = devices.missing.front().message();
  for (const char *part : {"camera: ", "has no video nodes", "Connect a camera"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(FirstLight, PercentilesAreNearestRank) {
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(percentile({1, 2, 3, 4}, 0.99), 4);
  EXPECT_EQ(percentile({1, 2, 3, 4}, 0), 1);
}

TEST(FirstLight, Overlap) {
  EXPECT_EQ(overlap({"", 0, 0, 0, 10, 10}, {"", 0, 0, 0, 10, 10}), 1);
  EXPECT_EQ(overlap({"", 0, 0, 0, 10, 10}, {"", 0, 10, 0, 20, 10}), 0);
  EXPECT_DOUBLE_EQ(overlap({"", 0, 0, 0, 10, 10}, {"", 0, 5, 0, 15, 10}), 50.0 / 150.0);
}

} // namespace
