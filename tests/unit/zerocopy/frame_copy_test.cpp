// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/frame_copy.h"

#include <cerrno>
#include <string>
#include <vector>

#include <gst/allocators/allocators.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcfencemeta.h"

using namespace gstzc;

namespace {

FrameCaps capsOf(const std::string &format, int width, int height) {
  GstCaps *caps = gst_caps_from_string(
      ("video/x-raw,format=" + format + ",width=" + std::to_string(width) + ",height=" + std::to_string(height))
          .c_str());
  FrameCaps result = parseFrameCaps(caps).take();
  gst_caps_unref(caps);
  return result;
}

// A frame with strides `extra` bytes (a multiple of 4) above the default, `gap` bytes before each plane, filled by
// `byte`
GstBuffer *makeFrame(const FrameCaps &caps, gint extra, gsize gap, guint8 fill) {
  gsize offset[GST_VIDEO_MAX_PLANES] = {}, at = 0;
  gint stride[GST_VIDEO_MAX_PLANES] = {};
  const guint planes = GST_VIDEO_INFO_N_PLANES(&caps.info);
  for (guint p = 0; p < planes; ++p) {
    at += gap;
    offset[p] = at;
    stride[p] = GST_VIDEO_INFO_PLANE_STRIDE(&caps.info, p) + extra;
    at += static_cast<gsize>(stride[p]) * (caps.height() + 1);
  }
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, at, nullptr);
  gst_buffer_memset(buffer, 0, fill, at);
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&caps.info), caps.width(),
                                 caps.height(), planes, offset, stride);
  return buffer;
}

// Every pixel byte gets a value of its place, padding keeps what it is
void paint(GstBuffer *buffer, const FrameCaps &caps) {
  const auto layout = frameLayout(buffer, caps).take();
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READWRITE));
  for (guint p = 0; p < layout.n_planes; ++p)
    for (gint row = 0; row < layout.planes[p].rows; ++row)
      for (gint i = 0; i < layout.planes[p].row_bytes; ++i)
        map.data[layout.planes[p].in_memory + static_cast<gsize>(layout.planes[p].stride) * row + i] =
            static_cast<guint8>(p * 89 + row * 7 + i * 3 + 1);
  gst_buffer_unmap(buffer, &map);
}

void expectPainted(GstBuffer *buffer, const FrameCaps &caps, guint8 padding) {
  const auto layout = frameLayout(buffer, caps).take();
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READ));
  for (guint p = 0; p < layout.n_planes; ++p)
    for (gint row = 0; row < layout.planes[p].rows; ++row) {
      const guint8 *line = map.data + layout.planes[p].in_memory + static_cast<gsize>(layout.planes[p].stride) * row;
      for (gint i = 0; i < layout.planes[p].row_bytes; ++i)
        ASSERT_EQ(line[i], static_cast<guint8>(p * 89 + row * 7 + i * 3 + 1))
            << "plane " << p << " row " << row << " byte " << i;
      if (layout.planes[p].stride > layout.planes[p].row_bytes) {
        ASSERT_EQ(line[layout.planes[p].row_bytes], padding) << "padding of plane " << p << " row " << row;
      }
    }
  gst_buffer_unmap(buffer, &map);
}

class Copy : public testing::TestWithParam<std::tuple<const char *, std::pair<int, int>>> {};

TEST_P(Copy, StridesAndOffsetsOfBothSides) {
  const auto [format, size] = GetParam();
  const FrameCaps caps = capsOf(format, size.first, size.second);
  GstBuffer *src = makeFrame(caps, 64, 36, 0xaa), *dst = makeFrame(caps, 128, 0, 0x55);
  paint(src, caps);
  const auto bytes = copyFrame(dst, caps, src, caps);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message();
  EXPECT_GT(*bytes, 0u);
  EXPECT_LE(*bytes, GST_VIDEO_INFO_SIZE(&caps.info));
  expectPainted(dst, caps, 0x55);
  gst_buffer_unref(src);
  gst_buffer_unref(dst);
}

INSTANTIATE_TEST_SUITE_P(
    All, Copy,
    testing::Combine(testing::Values("NV12", "NV21", "I420", "YV12", "Y42B", "Y444", "Y41B", "NV16", "NV24", "YUY2",
                                     "UYVY", "RGB", "BGR", "BGRx", "RGBA", "RGB16", "GRAY8", "GRAY16_LE", "P010_10LE",
                                     "NV12_10LE40", "Y210", "VUYA"),
                     testing::Values(std::pair{641, 481}, std::pair{64, 48}, std::pair{1, 1}, std::pair{3, 5})));

TEST(FrameCopy, PlanesCutAcrossMemories) {
  const FrameCaps caps = capsOf("NV12", 64, 48);
  GstBuffer *whole = makeFrame(caps, 0, 0, 0xaa), *dst = makeFrame(caps, 64, 0, 0x55);
  paint(whole, caps);
  GstMapInfo map;
  gst_buffer_map(whole, &map, GST_MAP_READ);
  GstBuffer *src = gst_buffer_new();
  for (gsize at = 0; at < map.size; at += 1000)
    gst_buffer_append_memory(src, gst_memory_new_wrapped(GST_MEMORY_FLAG_READONLY, map.data, map.size, at,
                                                         MIN(1000, map.size - at), nullptr, nullptr));
  const GstVideoMeta *meta = gst_buffer_get_video_meta(whole);
  gst_buffer_add_video_meta_full(src, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 48, 2, meta->offset,
                                 meta->stride);
  const auto bytes = copyFrame(dst, caps, src, caps);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message();
  expectPainted(dst, caps, 0x55);
  gst_buffer_unref(src);
  gst_buffer_unmap(whole, &map);
  gst_buffer_unref(whole);
  gst_buffer_unref(dst);
}

TEST(FrameCopy, RefusesFramesThatDoNotFit) {
  const FrameCaps caps = capsOf("NV12", 64, 48);
  GstBuffer *dst = makeFrame(caps, 0, 0, 0);
  GstBuffer *small = gst_buffer_new_allocate(nullptr, 64 * 72 - 1, nullptr);
  auto bytes = copyFrame(dst, caps, small, caps);
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.error().message().find("plane 1"), std::string::npos) << bytes.error().message();

  GstBuffer *cut = gst_buffer_new_allocate(nullptr, 3000, nullptr); // too short, in two memories
  gst_buffer_append_memory(cut, gst_allocator_alloc(nullptr, 1000, nullptr));
  bytes = copyFrame(dst, caps, cut, caps);
  ASSERT_FALSE(bytes.ok());
  EXPECT_NE(bytes.error().message().find("4000"), std::string::npos) << bytes.error().message();

  GstBuffer *planes = gst_buffer_new_allocate(nullptr, 64 * 72, nullptr);
  gsize offset[GST_VIDEO_MAX_PLANES] = {};
  gint stride[GST_VIDEO_MAX_PLANES] = {64};
  gst_buffer_add_video_meta_full(planes, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_GRAY8, 64, 48, 1, offset, stride);
  bytes = copyFrame(dst, caps, planes, caps);
  ASSERT_FALSE(bytes.ok()) << "one plane of two";

  bytes = copyFrame(dst, caps, small, capsOf("NV21", 64, 48));
  ASSERT_FALSE(bytes.ok()) << "another format";
  for (GstBuffer *buffer : {dst, small, cut, planes}) gst_buffer_unref(buffer);
}

// a pipe nobody writes to is as silent as a fence that never comes
TEST(CopyWait, AProducerThatHangsIsAnErrorInTime) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd writing(ends[1]);
  const FrameCaps caps = capsOf("GRAY8", 64, 4);
  GstBuffer *from = gst_buffer_new(), *to = gst_buffer_new_allocate(nullptr, caps.info.size, nullptr);
  GstAllocator *allocator = gst_dmabuf_allocator_new();
  gst_buffer_append_memory(from,
                           gst_dmabuf_allocator_alloc(allocator, ends[0], caps.info.size)); // takes the descriptor
  auto bytes = copyFrame(to, caps, from, caps);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ETIMEDOUT) << bytes.error().message();
  gst_buffer_unref(from);
  gst_buffer_unref(to);
  gst_object_unref(allocator);
}

// A frame that a device of this process never finishes with
GstBuffer *busyFrame(const FrameCaps &caps, guint8 fill) {
  GstBuffer *frame = makeFrame(caps, 0, 0, fill);
  GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(eventfd(0, EFD_CLOEXEC), nullptr);
  gst_buffer_add_zc_event_meta(frame, event, 0);
  gst_zc_device_event_unref(event);
  return frame;
}

TEST(CopyWait, EndsWhenItIsInterruptedWhicheverFrameIsBusy) {
  const FrameCaps caps = capsOf("GRAY8", 64, 4);
  for (const bool source : {true, false}) {
    GstBuffer *busy = busyFrame(caps, 0x55), *idle = makeFrame(caps, 0, 0, 0xaa);
    int asked = 0;
    const auto bytes =
        copyFrame(source ? idle : busy, caps, source ? busy : idle, caps, [&asked] { return ++asked > 1; });
    ASSERT_FALSE(bytes.ok()) << source;
    EXPECT_EQ(bytes.error().code, ECANCELED) << bytes.error().message();
    EXPECT_EQ(asked, 2) << "asked for as long as it waits";
    guint8 first = 0;
    gst_buffer_extract(source ? idle : busy, 0, &first, 1);
    EXPECT_EQ(first, source ? 0xaa : 0x55) << "nothing was written";
    gst_buffer_unref(busy);
    gst_buffer_unref(idle);
  }
}

TEST(CopyWait, MemoryThatADeviceStillUsesIsNotWrittenInto) {
  const FrameCaps caps = capsOf("GRAY8", 64, 4);
  GstBuffer *from = makeFrame(caps, 0, 0, 0xaa), *to = busyFrame(caps, 0x55);
  const auto bytes = copyFrame(to, caps, from, caps);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ETIMEDOUT) << bytes.error().message();
  guint8 first = 0;
  gst_buffer_extract(to, 0, &first, 1);
  EXPECT_EQ(first, 0x55);
  gst_buffer_unref(from);
  gst_buffer_unref(to);
}

} // namespace
