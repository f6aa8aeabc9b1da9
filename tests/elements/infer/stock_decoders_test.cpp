// SPDX-License-Identifier: LGPL-2.1-or-later
// GStreamer's own elements behind ours: decoders of tensors, and overlays.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "gst/infer/output/findings_meta.h"
#include "gst/infer/output/tensor_meta.h"
#include "tests/elements/infer/fixture.h"

using namespace gstzc::infer;

namespace gstzc::test {
namespace {

class StockElement : public testing::Test {
protected:
  ~StockElement() override {
    if (harness_ != nullptr) gst_harness_teardown(harness_);
  }
  bool start(const std::string &element, const char *caps) {
    GstElementFactory *factory = gst_element_factory_find(element.substr(0, element.find(' ')).c_str());
    if (factory == nullptr) return false;
    gst_object_unref(factory);
    harness_ = gst_harness_new_parse(element.c_str());
    gst_harness_set_src_caps_str(harness_, caps);
    return true;
  }
  GstHarness *harness_ = nullptr;
};

// A post-processed SSD's outputs: two boxes as top, left, bottom, right in parts of the picture.
struct SsdOutputs {
  std::vector<float> boxes = {0.25f, 0.125f, 0.75f, 0.5f, 0, 0, 0.1f, 0.1f};
  std::vector<float> scores = {0.9f, 0.1f}, classes = {2, 0}, count = {2};
};

Outputs ssdOutputs() {
  const auto memory = std::make_shared<SsdOutputs>();
  const auto view = [](std::vector<float> &of, std::vector<int64_t> dims) {
    return TensorView{TensorType::Float32, std::move(dims), of.data(), of.size() * sizeof(float), MemorySpace::Host};
  };
  return {{view(memory->boxes, {1, 2, 4}), view(memory->classes, {1, 2}), view(memory->scores, {1, 2}),
           view(memory->count, {1})},
          memory};
}

const std::vector<TensorTag> kSsdTags = {{"Gst.Model.ObjectDetector.Boxes", "", false},
                                         {"Gst.Model.ObjectDetector.Classes", "", false},
                                         {"Gst.Model.ObjectDetector.Scores", "", false},
                                         {"Gst.Model.ObjectDetector.NumDetections", "", false}};

// From 1.28 on decoders are chosen by tensors in the caps, and have other ids.
class StockSsd : public StockElement {
protected:
  void SetUp() override {
    guint major, minor, micro, nano;
    gst_version(&major, &minor, &micro, &nano);
    if (minor > 26) GTEST_SKIP() << "ssdobjectdetector takes these ids up to GStreamer 1.26";
    std::ofstream(labels_.file("labels.txt")) << "cat\ndog\nbird\n";
    if (!start("ssdobjectdetector label-file=" + labels_.file("labels.txt"),
               "video/x-raw,format=RGB,width=640,height=480,framerate=30/1"))
      GTEST_SKIP() << "no ssdobjectdetector";
    frame_ = gst_buffer_new_allocate(nullptr, 640 * 480 * 3, nullptr);
    std::vector<TensorInfo> infos(4);
    for (size_t i = 0; i < infos.size(); ++i) infos[i].name = "output " + std::to_string(i);
    const auto attached = attachTensors(frame_, ssdOutputs(), infos, kSsdTags);
    ASSERT_TRUE(attached) << attached.error().message();
  }
  ~StockSsd() override { gst_clear_buffer(&frame_); }

  std::vector<Box> decode(GstBuffer *frame) { // takes it
    EXPECT_EQ(gst_harness_push(harness_, frame), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    const auto boxes = boxesOf(out);
    gst_buffer_unref(out);
    return boxes;
  }
  static void expectBird(const Box &box) {
    EXPECT_EQ(box.label, "bird");
    EXPECT_FLOAT_EQ(box.score, 0.9f);
    EXPECT_EQ(box.x, 80);
    EXPECT_EQ(box.y, 120);
    EXPECT_EQ(box.w, 240);
    EXPECT_EQ(box.h, 240);
  }

  TempDir labels_;
  GstBuffer *frame_ = nullptr;
};

TEST_F(StockSsd, DecodesOurTensors) {
  const auto boxes = decode(std::exchange(frame_, nullptr));
  ASSERT_EQ(boxes.size(), 1u) << "the other is below its threshold";
  expectBird(boxes[0]);
}

// Behind a tee: the decoder has to copy the frame to add to it.
TEST_F(StockSsd, DecodesThemOnAFrameThatOthersHave) {
  const auto boxes = decode(gst_buffer_ref(frame_));
  ASSERT_EQ(boxes.size(), 1u);
  expectBird(boxes[0]);
  EXPECT_TRUE(boxesOf(frame_).empty());
}

TEST_F(StockSsd, FindsThemAmongThoseOfAnotherModel) {
  float other = 1;
  TensorInfo info;
  info.name = "other";
  GstBuffer *frame = gst_buffer_new_allocate(nullptr, 640 * 480 * 3, nullptr);
  ASSERT_TRUE(attachTensors(frame, {{{TensorType::Float32, {1}, &other, 4, MemorySpace::Host}}, {}}, {info}, {}));
  std::vector<TensorInfo> infos(4);
  ASSERT_TRUE(attachTensors(frame, ssdOutputs(), infos, kSsdTags));
  const auto boxes = decode(frame);
  ASSERT_EQ(boxes.size(), 1u);
  expectBird(boxes[0]);
}

TEST_F(StockSsd, AddsToOurFindings) {
  FrameBox face;
  face.label = "face";
  face.width = face.height = 10;
  attachFindings(frame_, {.boxes = {face}});
  const auto boxes = decode(std::exchange(frame_, nullptr));
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].label, "face");
  expectBird(boxes[1]);
}

class StockOverlay : public StockElement {
#ifdef __SANITIZE_ADDRESS__
  // the element never lets go of the last picture it drew
  const __lsan::ScopedDisabler not_ours_;
#endif
};

// White lines round the box on a black frame, and nothing where the box is not.
TEST_F(StockOverlay, DrawsOurBoxes) {
  if (!start("objectdetectionoverlay draw-labels=false", "video/x-raw,format=RGB,width=64,height=48,framerate=30/1"))
    GTEST_SKIP() << "no objectdetectionoverlay";
  FrameBox box;
  box.label = "face";
  box.x = 10, box.y = 20, box.width = 30, box.height = 15;
  box.keypoints = {{12, 22}};
  box.mask = FrameMask{10, 20, 30, 15, 1, 1, {255}};
  GstBuffer *frame = solid("RGB", 64, 48, {0, 0, 0});
  attachFindings(frame, {.boxes = {box}, .classes = {{"day", 0, 1}}});
  ASSERT_EQ(gst_harness_push(harness_, frame), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(out, &map, GST_MAP_READ));
  const auto brightness = [&](int x, int y) { return map.data[(y * 64 + x) * 3]; };
  for (const auto &[x, y] : {std::pair{20, 20}, {20, 35}, {10, 27}, {40, 27}})
    EXPECT_GT(std::max({brightness(x, y), brightness(x - 1, y), brightness(x, y - 1)}), 100) << x << ", " << y;
  for (const auto &[x, y] : {std::pair{25, 27}, {2, 2}, {60, 40}}) EXPECT_EQ(brightness(x, y), 0) << x << ", " << y;
  gst_buffer_unmap(out, &map);
  gst_buffer_unref(out);
}

} // namespace
} // namespace gstzc::test
