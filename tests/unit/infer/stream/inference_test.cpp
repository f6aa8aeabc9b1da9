// SPDX-License-Identifier: LGPL-2.1-or-later
// Frame to boxes with an engine of the test's own behind the interface: what reaches it, and what becomes of its
// answers.
#include "gst/infer/inference.h"

#include <cerrno>
#include <chrono>
#include <future>
#include <new>

#include <gtest/gtest.h>

#include "gst/infer/stream/frame_access.h"
#include "gst/zerocopy/core/unique_fd.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace std::chrono_literals;

namespace {

// Gives fixed tensors, keeps what it was fed, and can hang until cancelled.
class FixedEngine : public Engine {
public:
  explicit FixedEngine(int side) {
    inputs_ = {{"image", TensorType::Float32, {1, side, side, 3}}};
    outputs_ = {{"scores", TensorType::Float32, {1, 896, 1}}, {"boxes", TensorType::Float32, {1, 896, 16}}};
  }
  std::string name() const override { return "fixed"; }
  const std::vector<TensorInfo> &inputs() const override { return inputs_; }
  const std::vector<TensorInfo> &outputs() const override { return outputs_; }
  Result<Outputs> run(std::span<const TensorView> inputs, Cancellation &cancel) override {
    const auto *data = static_cast<const float *>(inputs[0].data);
    fed.assign(data, data + inputs[0].bytes / sizeof(float));
    if (out_of_memory) throw std::bad_alloc();
    if (hang) {
      std::promise<void> ended;
      Cancellation::Hook hook(cancel, [&] { ended.set_value(); });
      hanging.set_value();
      ended.get_future().wait();
      return Error{"running", ECANCELED, ""};
    }
    Outputs outputs;
    outputs.tensors = {{TensorType::Float32, outputs_[0].dims, scores.data(), scores.size() * 4, MemorySpace::Host},
                       {TensorType::Float32, outputs_[1].dims, boxes.data(), boxes.size() * 4, MemorySpace::Host}};
    return outputs;
  }

  std::vector<float> scores = std::vector<float>(896, -100.0f);
  std::vector<float> boxes = std::vector<float>(896 * 16, 0.0f);
  std::vector<float> fed;
  bool hang = false;
  bool out_of_memory = false;
  std::promise<void> hanging;

private:
  std::vector<TensorInfo> inputs_, outputs_;
};

FrameCaps parse(const char *text) {
  GstCaps *caps = gst_caps_from_string(text);
  auto parsed = parseFrameCaps(caps);
  gst_caps_unref(caps);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return *parsed;
}

GstBuffer *filled(gsize size, guint8 value) {
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, size, nullptr);
  gst_buffer_memset(buffer, 0, value, size);
  return buffer;
}

TEST(Inference, BoxesInPixelsOfALetterboxedFrame) {
  auto owned = std::make_unique<FixedEngine>(128);
  FixedEngine *engine = owned.get();
  // anchor 0 is (4,4) of 128: a box of 16x16 with its centre at (64,64), the middle of the frame
  engine->scores[0] = 4;
  engine->boxes[0] = engine->boxes[1] = 60;
  engine->boxes[2] = engine->boxes[3] = 16;
  auto inference = Inference::create(std::move(owned), DecoderKind::Auto, std::nullopt);
  ASSERT_TRUE(inference.ok()) << inference.error().message();
  ASSERT_TRUE((*inference)->setCaps(parse("video/x-raw,format=RGB,width=256,height=128")).ok());
  GstBuffer *buffer = filled(256 * 128 * 3, 255);
  Cancellation cancel;
  auto result = (*inference)->process(buffer, {}, cancel);
  ASSERT_TRUE(result.ok()) << result.error().message();
  ASSERT_EQ(result->boxes.size(), 1u);
  const FrameBox &box = result->boxes[0];
  EXPECT_EQ(box.x, 112);
  EXPECT_EQ(box.y, 48);
  EXPECT_EQ(box.width, 32);
  EXPECT_EQ(box.height, 32);
  EXPECT_EQ(box.label, "face");
  EXPECT_EQ(box.keypoints.size(), 6u);
  // white within the letterbox, black outside: 1 and -1
  EXPECT_FLOAT_EQ(engine->fed[(64 * 128 + 5) * 3], 1.0f);
  EXPECT_FLOAT_EQ(engine->fed[(5 * 128 + 64) * 3], -1.0f);
  gst_buffer_unref(buffer);
}

TEST(Inference, StretchedWhereAsked) {
  auto owned = std::make_unique<FixedEngine>(128);
  FixedEngine *engine = owned.get();
  engine->scores[0] = 4;
  engine->boxes[0] = engine->boxes[1] = 60;
  engine->boxes[2] = engine->boxes[3] = 16;
  auto inference = Inference::create(std::move(owned), DecoderKind::BlazeFace, ResizeMode::Stretch);
  ASSERT_TRUE(inference.ok());
  ASSERT_TRUE((*inference)->setCaps(parse("video/x-raw,format=RGB,width=256,height=128")).ok());
  GstBuffer *buffer = filled(256 * 128 * 3, 255);
  Cancellation cancel;
  auto result = (*inference)->process(buffer, {}, cancel);
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result->boxes.size(), 1u);
  EXPECT_EQ(result->boxes[0].y, 56);
  EXPECT_EQ(result->boxes[0].height, 16);
  EXPECT_FLOAT_EQ(engine->fed[(5 * 128 + 64) * 3], 1.0f);
  gst_buffer_unref(buffer);
}

TEST(Inference, BrokenFramesAreErrorsThatSayWhat) {
  auto inference = Inference::create(std::make_unique<FixedEngine>(128), DecoderKind::Auto, std::nullopt);
  ASSERT_TRUE(inference.ok());
  Cancellation cancel;
  GstBuffer *small = filled(100, 0);
  EXPECT_FALSE((*inference)->process(small, {}, cancel).ok()) << "before caps";
  ASSERT_TRUE((*inference)->setCaps(parse("video/x-raw,format=NV12,width=64,height=48")).ok());
  auto result = (*inference)->process(small, {}, cancel);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("plane 0"), std::string::npos) << result.error().message();
  gst_buffer_unref(small);
}

TEST(Inference, MemoryThatRunsOutIsAnError) {
  auto owned = std::make_unique<FixedEngine>(128);
  owned->out_of_memory = true;
  auto inference = Inference::create(std::move(owned), DecoderKind::Auto, std::nullopt);
  ASSERT_TRUE((*inference)->setCaps(parse("video/x-raw,format=RGB,width=8,height=8")).ok());
  GstBuffer *buffer = filled(8 * 8 * 3, 0);
  Cancellation cancel;
  auto result = (*inference)->process(buffer, {}, cancel);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ENOMEM);
  EXPECT_FALSE(result.error().remedy.empty());
  gst_buffer_unref(buffer);
}

TEST(Inference, CancelEndsARunThatHangs) {
  auto owned = std::make_unique<FixedEngine>(128);
  FixedEngine *engine = owned.get();
  engine->hang = true;
  auto inference = Inference::create(std::move(owned), DecoderKind::Auto, std::nullopt);
  ASSERT_TRUE((*inference)->setCaps(parse("video/x-raw,format=RGB,width=8,height=8")).ok());
  GstBuffer *buffer = filled(8 * 8 * 3, 0);
  Cancellation cancel;
  auto run = std::async(std::launch::async, [&] { return (*inference)->process(buffer, {}, cancel); });
  engine->hanging.get_future().wait();
  cancel.cancel();
  ASSERT_EQ(run.wait_for(10s), std::future_status::ready);
  auto result = run.get();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ECANCELED);
  gst_buffer_unref(buffer);
}

TEST(CheckReadable, NamesTiledLayoutsAndFormats) {
  auto tiled = checkReadable(
      parse("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64,height=48"));
  ASSERT_FALSE(tiled.ok());
  EXPECT_NE(tiled.error().message().find("NV12:0x0100000000000002"), std::string::npos) << tiled.error().message();
  EXPECT_NE(tiled.error().message().find("drm-format=NV12"), std::string::npos) << tiled.error().message();
  auto deep = checkReadable(parse("video/x-raw,format=P012_LE,width=64,height=48"));
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().message().find("P012_LE"), std::string::npos);
  EXPECT_TRUE(
      checkReadable(parse("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=48")).ok());
}

TEST(ToFrame, ClampsAndLeavesOutWhatIsOutside) {
  const InputPlan plan{100, 100, TensorLayout::Nhwc, TensorType::Float32};
  const Mapping mapping = mapTensorToFrame(plan, {0, 0, 200, 100}, ResizeMode::Letterbox);
  Findings findings;
  auto &detections = findings.detections;
  detections.resize(4);
  detections[0].left = -0.5f, detections[0].right = 0.25f, detections[0].top = 0, detections[0].bottom = 0.5f;
  detections[1].left = 0.2f, detections[1].right = 0.4f, detections[1].top = 0, detections[1].bottom = 0.2f; // padding
  detections[2].left = 0.5f, detections[2].right = 9e9f, detections[2].top = 0.5f, detections[2].bottom = 9e9f;
  detections[3].left = 0.5f, detections[3].right = 0.6f, detections[3].top = 0.4f, detections[3].bottom = 0.6f;
  detections[3].label = 5; // without a name
  const auto boxes = toFrame(findings, {"thing"}, plan, mapping, 200, 100).boxes;
  ASSERT_EQ(boxes.size(), 3u);
  EXPECT_EQ(boxes[0].x, 0);
  EXPECT_EQ(boxes[0].y, 0);
  EXPECT_EQ(boxes[0].width, 50);
  EXPECT_EQ(boxes[0].height, 50);
  EXPECT_EQ(boxes[0].label, "thing");
  EXPECT_EQ(boxes[1].x, 100);
  EXPECT_EQ(boxes[1].width, 100);
  EXPECT_EQ(boxes[1].height, 50);
  EXPECT_EQ(boxes[2].label, "");
}

} // namespace
