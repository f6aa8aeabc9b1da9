// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer with the kernel's fences: udmabufs into which a sw_sync timeline is said to write, and sync_files that
// travel with the buffer. The test writes the pixels just before the fence signals, so that the model's answer says
// when they were read.
#include "tests/elements/infer/fixture.h"

#include <array>
#include <cmath>
#include <cstring>
#include <thread>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/sw_sync.h"

using namespace gstzc;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

constexpr int kWidth = 64, kHeight = 64;
constexpr size_t kSize = size_t{4} * kWidth * kHeight;
constexpr const char *kCaps = "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=64,height=64,"
                              "framerate=30/1";
constexpr int kBlack = 0, kWhite = 255;

// A frame in a udmabuf, and the pages behind it for a producer that keeps no fence of its own.
class Frame {
public:
  static Frame create(int grey) {
    auto fd = lab::allocateUdmabuf(kSize);
    EXPECT_TRUE(fd) << fd.error().message();
    auto pages = lab::Mapping::create(fd->get(), kSize);
    EXPECT_TRUE(pages) << pages.error().message();
    Frame frame(fd.take(), pages.take());
    frame.paint(grey);
    return frame;
  }

  int fd() const { return fd_.get(); }
  void paint(int grey) const { std::memset(pages_.data(), grey, kSize); }

  GstBuffer *buffer(GstClockTime pts = 0) const {
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer,
                             gst_dmabuf_allocator_alloc(allocator, UniqueFd::duplicate(fd_.get()).release(), kSize));
    gst_object_unref(allocator);
    GST_BUFFER_PTS(buffer) = pts;
    return buffer;
  }

private:
  Frame(UniqueFd fd, lab::Mapping pages) : fd_(std::move(fd)), pages_(std::move(pages)) {}
  UniqueFd fd_;
  lab::Mapping pages_;
};

class LabFences : public FenceInferTest {
protected:
  LabFences() {
    auto timeline = lab::SwTimeline::create();
    EXPECT_TRUE(timeline) << timeline.error().message();
    if (timeline) timeline_ = std::make_unique<lab::SwTimeline>(timeline.take());
  }
  ~LabFences() override {
    stop();
    EXPECT_EQ(FencePoller::process().counters().pending, 0u);
  }

  void begin(const std::string &properties) {
    start(
        save(channelMeans(128, {EncodedFace{0, 0, 0, 8, 8}, EncodedFace{14, 0, 0, 8, 8}, EncodedFace{28, 0, 0, 8, 8}}),
             "means.onnx"),
        kCaps, "threshold=0 " + properties);
  }

  SyncFile fence(uint32_t value) {
    auto made = timeline_->fence(value);
    EXPECT_TRUE(made) << made.error().message();
    return made.take();
  }

  // The timeline is said to write the frame until it reaches `value`.
  void writes(const Frame &frame, uint32_t value) {
    const auto imported = importFence(frame.fd(), fence(value), Access::Write);
    EXPECT_TRUE(imported) << imported.error().message();
  }
  void advance(uint32_t by = 1) { EXPECT_TRUE(timeline_->advance(by)); }

  GstBuffer *pull(std::chrono::milliseconds within = 20s) {
    const auto until = std::chrono::steady_clock::now() + within;
    GstBuffer *buffer = nullptr;
    while ((buffer = gst_harness_try_pull(harness_)) == nullptr && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(5ms);
    return buffer;
  }

  void expectNothing() {
    GstBuffer *early = pull(200ms);
    EXPECT_EQ(early, nullptr) << "a frame left before its producer was done";
    gst_clear_buffer(&early);
  }

  // The next frame leaves: it has this time stamp, is that dma-buf, and was read when it was all of this grey.
  void expectRead(const Frame &frame, int grey, GstClockTime pts = 0) {
    GstBuffer *out = pull();
    ASSERT_NE(out, nullptr) << "no frame left";
    EXPECT_EQ(GST_BUFFER_PTS(out), pts);
    const auto boxes = boxesOf(out);
    EXPECT_EQ(boxes.size(), 3u);
    const double raw = grey / 127.5 - 1;
    for (const Box &box : boxes) EXPECT_NEAR(box.score, 1 / (1 + std::exp(-raw)), 1e-3) << "read too early";
    const auto came = bufferId(frame.fd()), left = bufferId(gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(out, 0)));
    EXPECT_TRUE(came && left && *came == *left);
    gst_buffer_unref(out);
  }

  void expectUnread() {
    GstBuffer *out = pull();
    ASSERT_NE(out, nullptr) << "no frame left";
    EXPECT_EQ(gst_buffer_get_analytics_relation_meta(out), nullptr);
    gst_buffer_unref(out);
  }

  std::unique_ptr<lab::SwTimeline> timeline_;
};

TEST_F(LabFences, ReadyBefore) {
  begin("");
  const Frame frame = Frame::create(kBlack);
  writes(frame, 1);
  frame.paint(kWhite);
  advance();
  ASSERT_EQ(gst_harness_push(harness_, frame.buffer()), GST_FLOW_OK);
  expectRead(frame, kWhite);
  EXPECT_EQ(stat("fence-waits"), 0u);
}

TEST_F(LabFences, ReadyAfter) {
  begin("fence-timeout=60000");
  const Frame frame = Frame::create(kBlack);
  writes(frame, 1);
  ASSERT_EQ(gst_harness_push(harness_, frame.buffer()), GST_FLOW_OK);
  expectNothing();
  frame.paint(kWhite);
  advance();
  expectRead(frame, kWhite);
  EXPECT_EQ(stat("fence-waits"), 1u);
  EXPECT_GE(stat("fence-wait-us"), 200'000u);
  EXPECT_EQ(stat("copies"), 0u);
  EXPECT_EQ(stat("errors"), 0u);
}

TEST_F(LabFences, Never) {
  struct {
    const char *policy;
    bool leaves;
  } const rows[] = {{"drop", false}, {"pass", true}};
  for (const auto &row : rows) {
    SCOPED_TRACE(row.policy);
    begin(std::string("fence-timeout=300 on-fence-error=") + row.policy);
    const Frame late = Frame::create(kBlack), good = Frame::create(kWhite);
    writes(late, 1000);
    ASSERT_EQ(gst_harness_push(harness_, late.buffer(1)), GST_FLOW_OK);
    ASSERT_EQ(gst_harness_push(harness_, good.buffer(2)), GST_FLOW_OK);
    if (row.leaves) expectUnread();
    expectRead(good, kWhite, 2);
    EXPECT_EQ(stat("fence-timeouts"), 1u);
    EXPECT_EQ(stat("fence-errors"), 0u);
    EXPECT_EQ(stat("dropped"), row.leaves ? 0u : 1u);
    stop();
  }
}

TEST_F(LabFences, NeverIsAnErrorWhereAsked) {
  begin("fence-timeout=300 on-fence-error=error");
  const Frame late = Frame::create(kBlack);
  writes(late, 1000);
  ASSERT_EQ(gst_harness_push(harness_, late.buffer()), GST_FLOW_OK);
  GstMessage *error = message(GST_MESSAGE_ERROR, 20 * GST_SECOND);
  ASSERT_NE(error, nullptr);
  gst_message_unref(error);
  EXPECT_EQ(stat("fence-timeouts"), 1u);
}

TEST_F(LabFences, ADeviceThatIsGoneFailsItsFrame) {
  begin("fence-timeout=60000");
  const Frame broken = Frame::create(kBlack), good = Frame::create(kWhite);
  writes(broken, 1);
  ASSERT_EQ(gst_harness_push(harness_, broken.buffer(1)), GST_FLOW_OK);
  ASSERT_EQ(gst_harness_push(harness_, good.buffer(2)), GST_FLOW_OK);
  expectNothing();
  timeline_->close();
  expectRead(good, kWhite, 2);
  EXPECT_EQ(stat("fence-errors"), 1u);
  EXPECT_EQ(stat("fence-timeouts"), 0u);
  EXPECT_EQ(stat("dropped"), 1u);
  EXPECT_EQ(stat("fence-waits"), 1u);
}

TEST_F(LabFences, OutOfOrderAcrossFourBuffers) {
  begin("max-in-flight=4 fence-timeout=60000");
  // a timeline each: the points of one signal in order
  std::vector<lab::SwTimeline> timelines;
  std::vector<Frame> frames;
  for (GstClockTime n = 0; n < 4; ++n) {
    timelines.push_back(lab::SwTimeline::create().take());
    frames.push_back(Frame::create(kBlack));
    const auto imported = importFence(frames[n].fd(), timelines[n].fence(1).take(), Access::Write);
    ASSERT_TRUE(imported) << imported.error().message();
    ASSERT_EQ(gst_harness_push(harness_, frames[n].buffer(n)), GST_FLOW_OK);
  }
  for (size_t n : {2, 3, 1, 0}) {
    expectNothing();
    frames[n].paint(50 * static_cast<int>(n));
    ASSERT_TRUE(timelines[n].advance(1));
  }
  for (GstClockTime n = 0; n < 4; ++n) expectRead(frames[n], 50 * static_cast<int>(n), n);
  EXPECT_EQ(stat("fence-waits"), 4u);
}

TEST_F(LabFences, ExplicitAndImplicitTogether) {
  begin("fence-timeout=60000");
  const Frame frame = Frame::create(kBlack);
  writes(frame, 1);
  GstBuffer *in = frame.buffer();
  auto other = lab::SwTimeline::create().take();
  GError *error = nullptr;
  ASSERT_NE(gst_buffer_add_zc_fence_meta(in, other.fence(1)->release().release(), 7, &error), nullptr);
  ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
  expectNothing();
  advance();
  expectNothing();
  frame.paint(kWhite);
  ASSERT_TRUE(other.advance(1));
  expectRead(frame, kWhite);
}

TEST_F(LabFences, AnExplicitFenceThatFailedBeforeIsSeen) {
  begin("on-fence-error=pass");
  const Frame frame = Frame::create(kBlack);
  GstBuffer *in = frame.buffer();
  SyncFile broken = fence(1);
  timeline_->close();
  ASSERT_NE(gst_buffer_add_zc_fence_meta(in, broken.release().release(), 0, nullptr), nullptr);
  ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
  expectUnread();
  EXPECT_EQ(stat("fence-errors"), 1u);
  EXPECT_EQ(stat("fence-waits"), 0u);
}

// Readers do not wait for each other, both wait for the writer.
TEST_F(LabFences, TwoReadersOneWriter) {
  begin("fence-timeout=60000");
  const Frame frame = Frame::create(kBlack);
  writes(frame, 2);
  ASSERT_TRUE(importFence(frame.fd(), fence(1000), Access::Read)); // somebody who reads for long
  GstHarness *second = gst_harness_new_parse(
      ("fenceinfer model-file=\"" + dir_.file("means.onnx") + "\" threshold=0 fence-timeout=60000").c_str());
  gst_harness_set_src_caps_str(second, kCaps);
  GstBuffer *in = frame.buffer();
  ASSERT_EQ(gst_harness_push(second, gst_buffer_ref(in)), GST_FLOW_OK);
  ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
  expectNothing();
  EXPECT_EQ(gst_harness_buffers_in_queue(second), 0u);
  frame.paint(kWhite);
  advance(2);
  expectRead(frame, kWhite);
  GstBuffer *other = gst_harness_pull(second);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(boxesOf(other).size(), 3u);
  gst_buffer_unref(other);
  gst_harness_teardown(second);
}

// Y and UV in a dma-buf each: the frame waits for both.
TEST_F(LabFences, EachPlanesDmaBufCounts) {
  start(save(constantFaces(128, {kMiddleFace}, 3.0f)),
        "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=64,framerate=30/1",
        "fence-timeout=60000");
  const Frame luma = Frame::create(kBlack), chroma = Frame::create(kBlack);
  GstBuffer *in = gst_buffer_append(luma.buffer(), chroma.buffer());
  const gsize offsets[] = {0, kSize};
  const gint strides[] = {kWidth, kWidth};
  gst_buffer_add_video_meta_full(in, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, kWidth, kHeight, 2, offsets,
                                 strides);
  writes(chroma, 1);
  ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
  expectNothing();
  advance();
  GstBuffer *out = pull();
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(boxesOf(out).size(), 1u);
  gst_buffer_unref(out);
}

// A fence that comes after the frame: the kernel would wait for it when the frame is read, for as long as it takes.
TEST_F(LabFences, ALateFenceIsWaitedForWithADeadline) {
  constexpr GstClockTime kBefore = 10; // frames that the worker has to read first, while the fence comes
  begin("workers=1 max-in-flight=16 fence-timeout=500");
  const Frame good = Frame::create(kWhite), late = Frame::create(kBlack);
  for (GstClockTime pts = 1; pts <= kBefore; ++pts)
    ASSERT_EQ(gst_harness_push(harness_, good.buffer(pts)), GST_FLOW_OK);
  ASSERT_EQ(gst_harness_push(harness_, late.buffer(kBefore + 1)), GST_FLOW_OK);
  writes(late, 1000);
  for (GstClockTime pts = 1; pts <= kBefore; ++pts) expectRead(good, kWhite, pts);
  ASSERT_EQ(gst_harness_push(harness_, good.buffer(kBefore + 2)), GST_FLOW_OK);
  expectRead(good, kWhite, kBefore + 2);
  EXPECT_EQ(stat("fence-timeouts"), 1u);
  EXPECT_EQ(stat("dropped"), 1u);
}

TEST_F(LabFences, FlushAndStopWaitForNoFence) {
  begin("fence-timeout=60000");
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  const Frame stuck = Frame::create(kBlack), good = Frame::create(kWhite);
  writes(stuck, 1000);
  ASSERT_EQ(gst_harness_push(harness_, stuck.buffer()), GST_FLOW_OK);
  expectNothing();
  const auto before = std::chrono::steady_clock::now();
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_start()));
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE)));
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_segment(&segment)));
  EXPECT_EQ(FencePoller::process().counters().pending, 0u);
  ASSERT_EQ(gst_harness_push(harness_, good.buffer(5)), GST_FLOW_OK);
  expectRead(good, kWhite, 5);
  ASSERT_EQ(gst_harness_push(harness_, stuck.buffer()), GST_FLOW_OK);
  EXPECT_EQ(gst_element_set_state(harness_->element, GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 30s) << "somebody waited for the fence";
}

} // namespace
