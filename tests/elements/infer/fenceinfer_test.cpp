// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames through fenceinfer with the real ONNX Runtime.
#include "tests/elements/infer/fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <gst/allocators/allocators.h>
#include <linux/dma-buf.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "gst/zerocopy/core/dmabuf.h"

// These stand before libc's, for the libraries too: memfds take the place of dma-bufs here, and what is asked of them
// is written down.
static std::mutex sync_mutex;
static std::vector<__u64> sync_flags;
extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  if (request == DMA_BUF_IOCTL_SYNC) {
    std::lock_guard lock(sync_mutex);
    sync_flags.push_back(static_cast<dma_buf_sync *>(argument)->flags);
    return 0;
  }
  return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}
extern "C" __attribute__((visibility("default"))) int fstatfs(int fd, struct statfs *out) {
  const int rc = static_cast<int>(syscall(SYS_fstatfs, fd, out));
  if (rc == 0 && out->f_type == TMPFS_MAGIC) out->f_type = DMA_BUF_MAGIC;
  return rc;
}

namespace gstzc::test {
namespace {

constexpr const char *kRgb = "video/x-raw,format=RGB,width=256,height=128,framerate=30/1";

void expectMiddleFace(const std::vector<Box> &boxes, int frame_width, int frame_height) {
  ASSERT_EQ(boxes.size(), 1u);
  const double step = std::max(frame_width, frame_height) / 128.0;
  EXPECT_NEAR(boxes[0].x, frame_width / 2.0 - 16 * step, 1);
  EXPECT_NEAR(boxes[0].y, frame_height / 2.0 - 12 * step, 1);
  EXPECT_NEAR(boxes[0].w, 32 * step, 1);
  EXPECT_NEAR(boxes[0].h, 24 * step, 1);
  EXPECT_NEAR(boxes[0].score, 1 / (1 + std::exp(-3.0)), 1e-5);
  EXPECT_EQ(boxes[0].label, "face");
}

class Frames : public FenceInferTest {
protected:
  std::string middleFace() { return save(constantFaces(128, {kMiddleFace}, 3.0f)); }
};

TEST_F(Frames, AWritableBufferLeavesItself) {
  start(middleFace(), kRgb);
  GstBuffer *in = solid("RGB", 256, 128, {1, 2, 3});
  GstMemory *memory = gst_buffer_peek_memory(in, 0);
  ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_EQ(out, in);
  EXPECT_EQ(gst_buffer_n_memory(out), 1u);
  EXPECT_EQ(gst_buffer_peek_memory(out, 0), memory);
  expectMiddleFace(boxesOf(out), 256, 128);
  gst_buffer_unref(out);
  EXPECT_EQ(stat("frames"), 1u);
  EXPECT_EQ(stat("inferred"), 1u);
  EXPECT_EQ(stat("preprocessed"), 1u);
  EXPECT_EQ(stat("copies"), 0u);
  EXPECT_EQ(stat("bytes-copied"), 0u);
  EXPECT_EQ(stat("errors"), 0u);
  EXPECT_GT(stat("infer-us"), 0u);
  EXPECT_GT(stat("pre-p50-us"), 0u);
}

TEST_F(Frames, ASharedBufferLeavesAsAShellRoundTheSameMemory) {
  start(middleFace(), kRgb);
  GstBuffer *in = solid("RGB", 256, 128, {1, 2, 3});
  ASSERT_EQ(gst_harness_push(harness_, gst_buffer_ref(in)), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  EXPECT_NE(out, in);
  EXPECT_EQ(gst_buffer_peek_memory(out, 0), gst_buffer_peek_memory(in, 0));
  EXPECT_EQ(boxesOf(in).size(), 0u) << "somebody else's buffer was changed";
  expectMiddleFace(boxesOf(out), 256, 128);
  auto *parent = reinterpret_cast<GstParentBufferMeta *>(gst_buffer_get_meta(out, GST_PARENT_BUFFER_META_API_TYPE));
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(parent->buffer, in);
  gst_buffer_unref(out);
  EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(in), 1);
  gst_buffer_unref(in);
}

TEST_F(Frames, APoolGetsItsBufferBackOnlyAfterOurs) {
  start(middleFace(), kRgb);
  GstBufferPool *pool = gst_buffer_pool_new();
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, nullptr, 256 * 128 * 3, 1, 1);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  GstBufferPoolAcquireParams dont_wait = {};
  dont_wait.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  for (const bool shared : {false, true}) {
    GstBuffer *in = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &in, &dont_wait), GST_FLOW_OK) << shared;
    if (shared) gst_buffer_ref(in);
    ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    if (shared) gst_buffer_unref(in);
    GstBuffer *other = nullptr;
    EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &other, &dont_wait), GST_FLOW_EOS)
        << "the pool's memory was handed out while a frame downstream still had it";
    gst_buffer_unref(out);
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &other, &dont_wait), GST_FLOW_OK);
    EXPECT_EQ(boxesOf(other).size(), 0u) << "stale results on a recycled buffer";
    gst_buffer_unref(other);
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

// Scores are sigmoids of the channels' means, so they say which numbers the model was given.
TEST_F(Frames, ChannelsArriveInOrderAndNormalised) {
  const std::array<EncodedFace, 3> faces = {EncodedFace{0, 0, 0, 8, 8}, EncodedFace{14, 0, 0, 8, 8},
                                            EncodedFace{28, 0, 0, 8, 8}};
  const std::string nhwc = save(channelMeans(128, faces), "nhwc.onnx");
  const std::string nchw = save(channelMeans(128, faces, true), "nchw.onnx");
  struct {
    const char *format, *more;
    std::vector<guint8> pixel;
    double rgb[3], tolerance;
  } const rows[] = {
      {"RGB", "", {200, 100, 20}, {200, 100, 20}, 1e-4},
      {"BGR", "", {20, 100, 200}, {200, 100, 20}, 1e-4},
      {"BGRx", "", {20, 100, 200, 0}, {200, 100, 20}, 1e-4},
      {"xRGB", "", {0, 200, 100, 20}, {200, 100, 20}, 1e-4},
      // BT.601: 16..235 and 0..255, and BT.709, worked out by hand from the standards' formulae
      {"NV12", ",colorimetry=bt601", {81, 90, 240}, {254.4, 0.0, 0.0}, 0.02},
      {"NV12", ",colorimetry=1:4:0:0", {128, 128, 228}, {128 + 1.402 * 100, 128 - 0.714136 * 100, 128}, 0.02},
      {"NV12", ",colorimetry=bt709", {173, 42, 26}, {0, 255, 0}, 0.02},
  };
  for (const auto &row : rows)
    for (const std::string &model : {nhwc, nchw}) {
      const std::string caps = std::string("video/x-raw,width=64,height=64,format=") + row.format + row.more;
      start(model, caps.c_str(), "threshold=0");
      ASSERT_EQ(gst_harness_push(harness_, solid(row.format, 64, 64, row.pixel)), GST_FLOW_OK);
      GstBuffer *out = gst_harness_pull(harness_);
      auto boxes = boxesOf(out);
      ASSERT_EQ(boxes.size(), 3u) << caps;
      std::sort(boxes.begin(), boxes.end(), [](const Box &a, const Box &b) { return a.x < b.x; });
      for (int c = 0; c < 3; ++c) {
        const double value = std::min(row.rgb[c], 255.0) / 127.5 - 1;
        EXPECT_NEAR(boxes[c].score, 1 / (1 + std::exp(-value)), row.tolerance) << caps << " channel " << c;
      }
      gst_buffer_unref(out);
      stop();
    }
}

TEST_F(Frames, OddSizesAndPaddedStrides) {
  start(middleFace(), "video/x-raw,format=NV12,width=1921,height=1079,framerate=30/1");
  ASSERT_EQ(gst_harness_push(harness_, solid("NV12", 1921, 1079, {100, 128, 128})), GST_FLOW_OK);
  GstBuffer *out = gst_harness_pull(harness_);
  expectMiddleFace(boxesOf(out), 1921, 1079);
  gst_buffer_unref(out);

  // planes in memories of their own, the strides the buffer's own
  gst_harness_set_src_caps_str(harness_, "video/x-raw,format=NV12,width=641,height=479,framerate=30/1");
  GstBuffer *in = gst_buffer_new();
  const gint strides[] = {1024, 704};
  const gsize offsets[] = {0, 1024 * 479};
  gst_buffer_append_memory(in, gst_allocator_alloc(nullptr, 1024 * 479, nullptr));
  gst_buffer_append_memory(in, gst_allocator_alloc(nullptr, 704 * 240, nullptr));
  gst_buffer_memset(in, 0, 128, 1024 * 479 + 704 * 240);
  gst_buffer_add_video_meta_full(in, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 641, 479, 2, offsets, strides);
  ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
  out = gst_harness_pull(harness_);
  expectMiddleFace(boxesOf(out), 641, 479);
  gst_buffer_unref(out);
}

TEST_F(Frames, DmaBufsInBothNotations) {
  for (const char *notation : {"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=640,height=480",
                               "video/x-raw(memory:DMABuf),format=NV12,width=640,height=480"}) {
    start(middleFace(), notation);
    constexpr gsize size = 640 * 480 * 3 / 2;
    const int fd = memfd_create("frame", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(fd, size), 0);
    const auto before = bufferId(fd);
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    GstBuffer *in = gst_buffer_new();
    gst_buffer_append_memory(in, gst_dmabuf_allocator_alloc(allocator, fd, size)); // takes the descriptor
    gst_object_unref(allocator);
    {
      std::lock_guard lock(sync_mutex);
      sync_flags.clear();
    }
    ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    expectMiddleFace(boxesOf(out), 640, 480);
    GstMemory *memory = gst_buffer_peek_memory(out, 0);
    ASSERT_TRUE(gst_is_dmabuf_memory(memory));
    const auto after = bufferId(gst_dmabuf_memory_get_fd(memory));
    ASSERT_TRUE(before.ok() && after.ok());
    EXPECT_EQ(*before, *after);
    {
      // one bracket for both planes, for reading only
      std::lock_guard lock(sync_mutex);
      EXPECT_EQ(sync_flags,
                (std::vector<__u64>{DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ}));
    }
    GstCaps *caps = gst_pad_get_current_caps(harness_->sinkpad);
    GstCaps *expected = gst_caps_from_string(notation);
    EXPECT_TRUE(gst_caps_is_subset(caps, expected)) << "other caps leave than came in";
    gst_caps_unref(caps);
    gst_caps_unref(expected);
    gst_buffer_unref(out);
    stop();
  }
}

TEST_F(Frames, OrderIsKeptAndEosDrains) {
  start(save(slowFaces({{0, 124, 124, 64, 48}}, 3.0f, 3)), kRgb, "max-in-flight=4");
  constexpr int count = 30;
  for (int i = 0; i < count; ++i) {
    GstBuffer *in = solid("RGB", 256, 128, {1, 2, 3});
    GST_BUFFER_PTS(in) = i * GST_MSECOND;
    ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
    if (i == 10) { // an event between two frames stays there
      ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_gap(10 * GST_MSECOND, 1)));
    }
  }
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_eos()));
  for (int i = 0; i < count; ++i) {
    GstBuffer *out = gst_harness_pull(harness_);
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(GST_BUFFER_PTS(out), i * GST_MSECOND);
    EXPECT_EQ(boxesOf(out).size(), 1u);
    gst_buffer_unref(out);
  }
  bool gap = false, eos = false;
  while (!eos) {
    GstEvent *event = gst_harness_pull_event(harness_);
    ASSERT_NE(event, nullptr) << "no end of stream";
    gap |= GST_EVENT_TYPE(event) == GST_EVENT_GAP;
    eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
    gst_event_unref(event);
  }
  EXPECT_TRUE(gap);
  EXPECT_EQ(stat("frames"), 30u);
  EXPECT_EQ(stat("dropped"), 0u);
}

TEST_F(Frames, NewCapsInMidStream) {
  start(middleFace(), kRgb);
  for (int round = 0; round < 3; ++round) {
    gst_harness_set_src_caps_str(harness_, kRgb);
    ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 256, 128, {9, 9, 9})), GST_FLOW_OK);
    // at once, while the one before may still be in work
    gst_harness_set_src_caps_str(harness_, "video/x-raw,format=NV12,width=641,height=479,framerate=30/1");
    ASSERT_EQ(gst_harness_push(harness_, solid("NV12", 641, 479, {100, 128, 128})), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    expectMiddleFace(boxesOf(out), 256, 128);
    gst_buffer_unref(out);
    out = gst_harness_pull(harness_);
    expectMiddleFace(boxesOf(out), 641, 479);
    gst_buffer_unref(out);
  }
}

TEST_F(Frames, ResultsAsMessages) {
  start(middleFace(), kRgb, "message-results=true");
  for (int i = 0; i < 2; ++i) {
    GstBuffer *in = solid("RGB", 256, 128, {1, 2, 3});
    GST_BUFFER_PTS(in) = 1000 + i;
    ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
    gst_buffer_unref(gst_harness_pull(harness_));
    GstMessage *posted = message(GST_MESSAGE_ELEMENT);
    ASSERT_NE(posted, nullptr);
    const GstStructure *s = gst_message_get_structure(posted);
    EXPECT_TRUE(gst_structure_has_name(s, "fenceinfer-result"));
    guint64 timestamp = 0, frame = 99;
    gst_structure_get(s, "timestamp", G_TYPE_UINT64, &timestamp, "frame", G_TYPE_UINT64, &frame, nullptr);
    EXPECT_EQ(timestamp, 1000u + i);
    EXPECT_EQ(frame, static_cast<guint64>(i));
    const GValue *list = gst_structure_get_value(s, "detections");
    ASSERT_EQ(gst_value_array_get_size(list), 1u);
    gint w = 0;
    gst_structure_get_int(gst_value_get_structure(gst_value_array_get_value(list, 0)), "w", &w);
    EXPECT_EQ(w, 64);
    gst_message_unref(posted);
  }
  g_object_set(harness_->element, "message-results", FALSE, nullptr);
  ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 256, 128, {1, 2, 3})), GST_FLOW_OK);
  gst_buffer_unref(gst_harness_pull(harness_));
  EXPECT_EQ(message(GST_MESSAGE_ELEMENT, 0), nullptr);
}

TEST_F(Frames, ThresholdWhilePlaying) {
  start(middleFace(), kRgb); // score 0.953
  for (const float threshold : {0.96f, 0.95f}) {
    g_object_set(harness_->element, "threshold", threshold, nullptr);
    ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 256, 128, {1, 2, 3})), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    EXPECT_NE(gst_buffer_get_analytics_relation_meta(out), nullptr) << "a frame without faces was looked at too";
    EXPECT_EQ(boxesOf(out).size(), threshold > 0.955f ? 0u : 1u);
    gst_buffer_unref(out);
  }
}

// The published model and photograph; the box was found with other implementations of model and resizing.
TEST_F(Frames, BlazeFaceFindsTheAstronaut) {
  const char *model = std::getenv("GSTZC_BLAZEFACE_MODEL"), *photo = std::getenv("GSTZC_PHOTO");
  if (model == nullptr || photo == nullptr || !std::filesystem::exists(model) || !std::filesystem::exists(photo))
    GTEST_SKIP() << "GSTZC_BLAZEFACE_MODEL and GSTZC_PHOTO name no files";
  for (const char *format : {"RGB", "BGRx", "NV12"}) {
    const std::string line = std::string("filesrc location=\"") + photo + "\" ! pngdec ! videoconvert ! " +
                             "video/x-raw,format=" + format + " ! fenceinfer model-file=\"" + model +
                             "\" message-results=true ! fakesink";
    GError *error = nullptr;
    GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
    ASSERT_EQ(error, nullptr) << error->message;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstBus *bus = gst_element_get_bus(pipeline);
    GstMessage *found = gst_bus_timed_pop_filtered(
        bus, 30 * GST_SECOND, static_cast<GstMessageType>(GST_MESSAGE_ELEMENT | GST_MESSAGE_ERROR | GST_MESSAGE_EOS));
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(GST_MESSAGE_TYPE(found), GST_MESSAGE_ELEMENT) << "no result";
    const GValue *list = gst_structure_get_value(gst_message_get_structure(found), "detections");
    ASSERT_EQ(gst_value_array_get_size(list), 1u) << format;
    const GstStructure *face = gst_value_get_structure(gst_value_array_get_value(list, 0));
    gint x, y, w, h;
    gdouble score;
    gst_structure_get(face, "x", G_TYPE_INT, &x, "y", G_TYPE_INT, &y, "w", G_TYPE_INT, &w, "h", G_TYPE_INT, &h, "score",
                      G_TYPE_DOUBLE, &score, nullptr);
    const double both_w = std::min(x + w, 271) - std::max(x, 179), both_h = std::min(y + h, 175) - std::max(y, 82);
    ASSERT_GT(both_w, 0);
    ASSERT_GT(both_h, 0);
    const double both = both_w * both_h;
    EXPECT_GE(both / (w * h + 92.0 * 93.0 - both), 0.7) << x << " " << y << " " << w << " " << h;
    EXPECT_NEAR(score, 0.92, 0.05);
    gst_message_unref(found);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(bus);
    gst_object_unref(pipeline);
  }
}

} // namespace
} // namespace gstzc::test
