// SPDX-License-Identifier: LGPL-2.1-or-later
// Camera, inference and display together: the camera's own memory is on the screen, the model's box on a plane above
// it.
#include <vector>

#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "gst/drm/planning.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/writeback.h"
#include "tests/support/face_models.h"
#include "tests/support/temp_dir.h"

using namespace gstzc;
using namespace gstzc::lab;
using namespace std::chrono_literals;

namespace {

constexpr int kRounding = 2; // YUV to RGB in the kernel's fixed point
constexpr uint32_t kGreen = 0x00ff00;

class Chain : public testing::TestWithParam<std::pair<const char *, int>> {};

TEST_P(Chain, CameraInferenceDisplay) {
  const auto [format, tolerance] = GetParam();
  auto card = openCard("vkms");
  ASSERT_TRUE(card) << card.error().message();
  // whatever the picture: one face of a quarter of the input's width in its middle
  const test::TempDir dir;
  const std::string model = dir.file("face.onnx");
  test::constantFaces(128, {{0, 60, 60, 32, 24}}, 3.0f).save(model);

  Player player(std::string("v4l2src name=src io-mode=dmabuf num-buffers=6 ! video/x-raw(memory:DMABuf),format=DMA_DRM,"
                            "drm-format=") +
                format + ",width=320,height=180 ! fenceinfer model-file=" + model +
                " ! drmmodifiersink name=sink message-flips=true sync=false mode=320x180 "
                "overlay-color=0xff00ff00 overlay-labels=false fd=" +
                std::to_string(card->get()));
  std::vector<Rect> boxes;
  player.at_sink = [&](GstBuffer *buffer) {
    GstAnalyticsRelationMeta *meta = gst_buffer_get_analytics_relation_meta(buffer);
    gpointer state = nullptr;
    GstAnalyticsODMtd box;
    boxes.clear();
    while (meta != nullptr &&
           gst_analytics_relation_meta_iterate(meta, &state, gst_analytics_od_mtd_get_mtd_type(), &box)) {
      Rect r;
      gfloat confidence;
      gst_analytics_od_mtd_get_location(&box, &r.x, &r.y, &r.width, &r.height, &confidence);
      boxes.push_back(r);
    }
  };
  ASSERT_TRUE(player.play(120s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_EQ(player.sourceBuffers().size(), 6u);
  EXPECT_EQ(player.sinkBuffers(), player.sourceBuffers()) << "same device and inode at both ends";
  ASSERT_EQ(boxes.size(), 1u);
  const Rect box = boxes[0];
  EXPECT_NEAR(box.x, 120, 2);
  EXPECT_NEAR(box.y, 60, 2);
  EXPECT_NEAR(box.width, 80, 2);
  EXPECT_NEAR(box.height, 60, 2);
  EXPECT_NE(player.configuration().find("overlay on plane"), std::string::npos) << player.configuration();

  auto shown = captureWriteback(card->get());
  ASSERT_TRUE(shown) << shown.error().message();
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame) << frame.error().message();
  ASSERT_EQ(shown->width, 320u);
  const auto outline = [&](int x, int y) {
    const bool inside = x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
    return inside && !(x >= box.x + 2 && x < box.x + box.width - 2 && y >= box.y + 2 && y < box.y + box.height - 2);
  };
  unsigned wrong = 0;
  for (uint32_t y = 0; y < 180; ++y)
    for (uint32_t x = 0; x < 320; ++x) {
      const bool green = outline(static_cast<int>(x), static_cast<int>(y));
      wrong += distance(shown->at(x, y), green ? kGreen : frame->at(x, y)) > (green ? 0 : tolerance);
    }
  EXPECT_EQ(wrong, 0u);
}
INSTANTIATE_TEST_SUITE_P(Formats, Chain, testing::Values(std::pair{"NV12", kRounding}, std::pair{"XR24", 0}));

} // namespace
