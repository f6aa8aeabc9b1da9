// SPDX-License-Identifier: LGPL-2.1-or-later
// The pictures of a plane: drawn when something changes and never while they are shown.
#include "gst/drm/overlay/overlay_pictures.h"

#include <chrono>
#include <thread>

#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "gst/drm/device/profile_device.h"
#include "gst/drm/overlay/scene_from_buffer.h"
#include "tests/unit/drm/overlay/count_allocations.h"
#include "tests/unit/drm/overlay/pictures.h"
#include "tests/unit/drm/snapshots.h"

using namespace gstzc;
using namespace gstzc::testdata;

namespace {

constexpr int kWidth = 64, kHeight = 48;

DeviceProfile profile() {
  DeviceProfile result;
  KmsSnapshot &s = result.snapshot;
  s.path = "profile";
  s.driver = "test";
  s.max_width = s.max_height = 4096;
  s.addfb2_modifiers = s.dumb_buffers = true;
  KmsCrtc crtc;
  crtc.id = 40;
  s.crtcs = {crtc};
  s.connectors = {connector(30, "HDMI-A-1", DRM_MODE_CONNECTED)};
  s.planes = {plane(50, DRM_PLANE_TYPE_PRIMARY, {kXr24}), plane(51, DRM_PLANE_TYPE_OVERLAY, {kAr24})};
  return result;
}

class Pictures : public testing::Test {
protected:
  Pictures() {
    style_->color = 0xff00ff00;
    style_->labels = false;
    pictures_ = std::make_unique<OverlayPictures>(
        oneToOne(kWidth, kHeight), 2,
        [this]() -> Result<OverlayMemory> {
          if (no_memory_) return Error{"memory", ENOMEM, ""};
          ++made_;
          auto memory = OverlayMemory::create(device_, true, kWidth, kHeight);
          if (memory) memories_.push_back(memory->memory.get());
          return memory;
        },
        [this](const std::string &text) { notes_.push_back(text); });
  }

  std::shared_ptr<Framebuffer> draw(std::initializer_list<Rect> boxes) {
    scene_.clear();
    for (const Rect &box : boxes) scene_.boxes.push_back({box, 0, 0, -1});
    return pictures_->draw(scene_, style_);
  }
  uint32_t at(size_t memory, int x, int y) {
    uint32_t pixel;
    std::memcpy(&pixel,
                *memories_[memory]->map() + static_cast<size_t>(y) * memories_[memory]->pitch() +
                    static_cast<size_t>(x) * 4,
                4);
    return pixel;
  }

  std::shared_ptr<KmsDevice> device_ = ProfileDevice::create(profile());
  std::shared_ptr<OverlayStyle> style_ = std::make_shared<OverlayStyle>();
  std::vector<DumbBuffer *> memories_; // in the order they were made; owned by the pictures
  std::vector<std::string> notes_;
  bool no_memory_ = false;
  int made_ = 0;
  OverlayScene scene_;
  std::unique_ptr<OverlayPictures> pictures_;
};

TEST_F(Pictures, TheSameSceneIsTheSamePicture) {
  const auto first = draw({{2, 3, 20, 10}});
  ASSERT_TRUE(first);
  EXPECT_EQ(at(0, 2, 3), 0xff00ff00u);
  EXPECT_EQ(at(0, 40, 40), 0u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(draw({{2, 3, 20, 10}}), first);
  EXPECT_EQ(pictures_->counters().redraws, 1u);
  EXPECT_EQ(made_, 1);
}

TEST_F(Pictures, AFrameThatSaysTheSameAllocatesNothing) {
  GstBuffer *buffers[2];
  for (GstBuffer *&buffer : buffers) {
    buffer = gst_buffer_new();
    GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta(buffer);
    for (int i = 0; i < 50; ++i) {
      GstAnalyticsODMtd box;
      gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_static_string("a name that is rather long"), i, i, 20,
                                             10, 0.5f, &box);
    }
    guint regions[] = {0, 1};
    GstAnalyticsSegmentationMtd mask;
    gst_analytics_relation_meta_add_segmentation_mtd(
        meta, gst_buffer_ref(picture(GST_VIDEO_FORMAT_GRAY8, 2, 2, {0, 1, 1, 0}).get()), GST_SEGMENTATION_TYPE_INSTANCE,
        2, regions, 0, 0, 64, 48, &mask);
  }
  std::shared_ptr<Framebuffer> shown;
  std::optional<uint64_t> before;
  for (int frame = 0; frame < 6; ++frame) {
    if (frame == 2) before = allocationsSoFar(); // warm: vectors have grown
    sceneFromBuffer(buffers[frame % 2], kWidth, kHeight, scene_);
    shown = pictures_->draw(scene_, style_);
  }
  EXPECT_EQ(allocationsSoFar(), before);
  EXPECT_TRUE(shown);
  EXPECT_EQ(pictures_->counters().redraws, 1u);
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer);
}

TEST_F(Pictures, OnlyTheDifferenceIsPainted) {
  auto first = draw({{0, 0, 20, 10}});
  const auto second = draw({{0, 0, 20, 10}, {40, 30, 10, 10}});
  EXPECT_EQ(pictures_->counters().redraws, 2u);
  first.reset();
  const uint64_t before = pictures_->counters().pixels;
  (void)draw({{0, 0, 20, 10}, {41, 30, 10, 10}}); // in the first one again, which lacked the second box
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(pictures_->counters().pixels - before, 10u * 10);
  EXPECT_EQ(at(0, 41, 30), 0xff00ff00u);
  EXPECT_EQ(at(0, 40, 30), 0u);
  EXPECT_EQ(at(0, 0, 0), 0xff00ff00u);
}

TEST_F(Pictures, NoneIsWrittenWhileSomebodyHasIt) {
  const auto one = draw({{0, 0, 4, 4}}), two = draw({{8, 0, 4, 4}}), three = draw({{16, 0, 4, 4}});
  EXPECT_EQ(made_, 3) << "two shown and one to write";
  EXPECT_EQ(draw({{24, 0, 4, 4}}), three) << "what is newest stays where there is none to write";
  EXPECT_EQ(made_, 3);
  EXPECT_TRUE(notes_.empty()) << "and nothing is wrong with that";
  EXPECT_EQ(at(0, 0, 0), 0xff00ff00u);
  EXPECT_EQ(at(1, 8, 0), 0xff00ff00u);
  EXPECT_EQ(at(2, 16, 0), 0xff00ff00u);
  for (size_t m = 0; m < 3; ++m) EXPECT_EQ(at(m, 24, 0), 0u);
}

TEST_F(Pictures, NothingVisibleIsNoPicture) {
  EXPECT_EQ(draw({{1000, 1000, 5, 5}}), nullptr);
  EXPECT_EQ(draw({}), nullptr);
  EXPECT_EQ(made_, 0);
  const auto some = draw({{0, 0, 4, 4}});
  EXPECT_TRUE(some);
  EXPECT_EQ(draw({}), nullptr);
  EXPECT_EQ(draw({{0, 0, 4, 4}}).get(), some.get()) << "it has it in it already, though it is held";
  EXPECT_EQ(pictures_->counters().redraws, 1u);
}

TEST_F(Pictures, AStyleIsAReasonToDraw) {
  (void)draw({{0, 0, 4, 4}});
  style_ = std::make_shared<OverlayStyle>(*style_);
  (void)draw({{0, 0, 4, 4}});
  EXPECT_EQ(pictures_->counters().redraws, 1u) << "another one that says the same";
  style_ = std::make_shared<OverlayStyle>(*style_);
  style_->color = 0xffff0000;
  (void)draw({{0, 0, 4, 4}});
  EXPECT_EQ(pictures_->counters().redraws, 2u);
  EXPECT_EQ(at(0, 0, 0), 0xffff0000u);
}

// No frame waits for fonts: the picture is drawn again when they are there.
TEST_F(Pictures, LabelsComeWhenThereAreFonts) {
  style_->labels = true;
  scene_.boxes = {{{2, 24, 60, 20}, 0, g_quark_from_static_string("face"), 93}};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto ink = [&] {
    int dark = 0;
    for (size_t m = 0; m < memories_.size(); ++m)
      for (int y = 0; y < 24; ++y)
        for (int x = 0; x < kWidth; ++x)
          dark += at(m, x, y) >> 24 == 0xff && ((at(m, x, y) >> 8) & 255) < 100; // letters on green
    return dark;
  };
  ASSERT_TRUE(pictures_->draw(scene_, style_));
  while (!TextRenderer::warm() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_TRUE(pictures_->draw(scene_, style_));
  if (!notes_.empty()) GTEST_SKIP() << notes_[0];
  EXPECT_GT(ink(), 10);
  const uint64_t redraws = pictures_->counters().redraws;
  EXPECT_LE(redraws, 2u);
  for (int i = 0; i < 5; ++i) (void)pictures_->draw(scene_, style_);
  EXPECT_EQ(pictures_->counters().redraws, redraws);
}

TEST_F(Pictures, WithoutMemoryOneNote) {
  no_memory_ = true;
  EXPECT_EQ(draw({{0, 0, 4, 4}}), nullptr);
  EXPECT_EQ(draw({{0, 0, 5, 4}}), nullptr);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("Cannot allocate memory (12)"), std::string::npos) << notes_[0];
  no_memory_ = false;
  EXPECT_TRUE(draw({{0, 0, 5, 4}}));
}

TEST_F(Pictures, FramebuffersGoWithThem) {
  {
    const auto one = draw({{0, 0, 4, 4}}), two = draw({{8, 0, 4, 4}});
    EXPECT_EQ(std::static_pointer_cast<ProfileDevice>(device_)->counters().live_framebuffers, 2u);
  }
  pictures_.reset();
  EXPECT_EQ(std::static_pointer_cast<ProfileDevice>(device_)->counters().live_framebuffers, 0u);
}

} // namespace
