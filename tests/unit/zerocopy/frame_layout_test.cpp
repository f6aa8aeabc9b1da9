// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/frame_layout.h"

#include <string>

#include <drm_fourcc.h>
#include <gtest/gtest.h>

using namespace gstzc;

namespace {

Result<FrameCaps> parse(const char *text) {
  GstCaps *caps = gst_caps_from_string(text);
  auto result = parseFrameCaps(caps);
  gst_caps_unref(caps);
  return result;
}

struct Buffer {
  explicit Buffer(gsize size) : buffer(gst_buffer_new_allocate(nullptr, size, nullptr)) {}
  ~Buffer() { gst_buffer_unref(buffer); }
  GstBuffer *buffer;
};

TEST(FrameCaps, LinearDmaDrm) {
  auto caps = parse("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=1920,height=1080");
  ASSERT_TRUE(caps.ok()) << caps.error().message();
  EXPECT_EQ(caps->memory, MemoryKind::DmaBuf);
  EXPECT_TRUE(caps->drm_notation);
  EXPECT_EQ(caps->fourcc, guint32{DRM_FORMAT_NV12});
  EXPECT_TRUE(caps->linear());
  EXPECT_EQ(GST_VIDEO_INFO_FORMAT(&caps->info), GST_VIDEO_FORMAT_NV12);
}

TEST(FrameCaps, TiledKeepsItsModifier) {
  auto caps = parse("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64,height=48");
  ASSERT_TRUE(caps.ok()) << caps.error().message();
  EXPECT_EQ(caps->modifier, 0x0100000000000002u);
  EXPECT_FALSE(caps->linear());
  EXPECT_EQ(caps->width(), 64);
}

TEST(FrameCaps, PlainDmaBufAndSystem) {
  auto dmabuf = parse("video/x-raw(memory:DMABuf),format=BGRx,width=64,height=48");
  ASSERT_TRUE(dmabuf.ok());
  EXPECT_EQ(dmabuf->memory, MemoryKind::DmaBuf);
  EXPECT_FALSE(dmabuf->drm_notation);
  EXPECT_EQ(dmabuf->fourcc, guint32{DRM_FORMAT_XRGB8888});
  auto system = parse("video/x-raw,format=RGB,width=64,height=48");
  ASSERT_TRUE(system.ok());
  EXPECT_EQ(system->memory, MemoryKind::System);
  EXPECT_EQ(system->fourcc, guint32{DRM_FORMAT_BGR888});
}

TEST(FrameCaps, RefusesWithTheCapsInTheMessage) {
  for (const char *text : {
           "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=0,height=48",
           "video/x-raw,format=NV12,width=64,height=0",
           "video/x-raw,format=BGRx,width=1073741825,height=1", // 4 bytes a row where sizes wrap
           "video/x-raw,format=GRAY8,width=1,height=32768",
           "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=32768,height=1",
           "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0,width=64,height=48",
           "audio/x-raw,format=S16LE,rate=8000,channels=1,layout=interleaved",
       }) {
    auto caps = parse(text);
    ASSERT_FALSE(caps.ok()) << text;
    EXPECT_NE(caps.error().message().find("caps"), std::string::npos) << caps.error().message();
  }
}

TEST(FrameCaps, RefusalsSayWhatIsWrong) {
  const auto text = [](const char *caps) {
    const auto parsed = parse(caps);
    return parsed ? std::string("taken") : parsed.error().message();
  };
  const std::string encoded = text("video/x-h264");
  EXPECT_NE(encoded.find("no raw video"), std::string::npos) << encoded;
  EXPECT_NE(encoded.find("decoder"), std::string::npos) << encoded;
  EXPECT_EQ(encoded.find("0x0"), std::string::npos) << encoded;
  const std::string linear = text("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0,width=64,height=48");
  EXPECT_NE(linear.find("drm-format=NV12 for linear frames"), std::string::npos) << linear;
}

TEST(FrameLayout, DefaultsOfOddSizes) {
  auto caps = parse("video/x-raw,format=NV12,width=1921,height=1079").take();
  Buffer b(caps.info.size);
  auto layout = frameLayout(b.buffer, caps);
  ASSERT_TRUE(layout.ok()) << layout.error().message();
  ASSERT_EQ(layout->n_planes, 2u);
  EXPECT_EQ(layout->planes[0].stride, 1924);
  EXPECT_EQ(layout->planes[1].offset, 2077920u);
  EXPECT_EQ(layout->planes[1].row_bytes, 1922) << "961 chroma pairs";
  EXPECT_EQ(layout->planes[1].rows, 540);
  EXPECT_FALSE(layout->allDmaBuf());
}

TEST(FrameLayout, RowsThatNoStrideHoldsAreRefused) {
  auto caps = parse("video/x-raw,format=BGRx,width=64,height=1").take();
  GST_VIDEO_INFO_WIDTH(&caps.info) = 1073741825; // 4 bytes a row in 32 bits
  Buffer b(256);
  auto layout = frameLayout(b.buffer, caps);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message().find("4294967300"), std::string::npos) << layout.error().message();
}

TEST(FrameLayout, MetaWinsAndMemoriesAreFound) {
  auto caps = parse("video/x-raw,format=NV12,width=1280,height=1080").take();
  Buffer b(1920 * 1088);
  gst_buffer_append_memory(b.buffer, gst_allocator_alloc(nullptr, 1920 * 544, nullptr));
  gsize offsets[4] = {0, 1920 * 1088};
  gint strides[4] = {1920, 1920};
  gst_buffer_add_video_meta_full(b.buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 1280, 1080, 2, offsets,
                                 strides);
  auto layout = frameLayout(b.buffer, caps);
  ASSERT_TRUE(layout.ok()) << layout.error().message();
  EXPECT_EQ(layout->planes[0].stride, 1920);
  EXPECT_EQ(layout->planes[1].memory, 1u);
  EXPECT_EQ(layout->planes[1].in_memory, 0u);
}

// NV42 has a fourcc and no GStreamer format, P016 neither before 1.28: the rows of their chroma are known all the same.
TEST(FrameLayout, FormatsThatGStreamerDoesNotKnow) {
  struct Row {
    const char *format;
    gsize second_plane;
    guint rows;
  };
  for (const Row &row : {Row{"NV42", 128 * 48, 48}, Row{"YV16", 128 * 48, 48}, Row{"P016", 128 * 48, 24}}) {
    auto caps = parse(
        (std::string("video/x-raw(memory:DMABuf),format=DMA_DRM,width=64,height=48,drm-format=") + row.format).c_str());
    ASSERT_TRUE(caps.ok()) << caps.error().message();
    const Buffer memory(row.second_plane + 128 * row.rows); // not a row more
    const gsize offsets[GST_VIDEO_MAX_PLANES] = {0, row.second_plane};
    const gint strides[GST_VIDEO_MAX_PLANES] = {128, 128};
    gst_buffer_add_video_meta_full(memory.buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_DMA_DRM, 64, 48, 2,
                                   offsets, strides);
    auto layout = frameLayout(memory.buffer, *caps);
    ASSERT_TRUE(layout.ok()) << row.format << ": " << layout.error().message();
    EXPECT_EQ(layout->planes[1].rows, static_cast<gint>(row.rows)) << row.format;
  }
}

TEST(FrameLayout, RefusesWhatDoesNotFit) {
  auto caps = parse("video/x-raw,format=NV12,width=64,height=48").take();
  Buffer small(64 * 48);
  auto layout = frameLayout(small.buffer, caps);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message().find("plane 1"), std::string::npos) << layout.error().message();

  Buffer narrow(64 * 72);
  gsize offsets[4] = {0, 64 * 48};
  gint strides[4] = {32, 64};
  gst_buffer_add_video_meta_full(narrow.buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 48, 2, offsets,
                                 strides);
  layout = frameLayout(narrow.buffer, caps);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message().find("stride of 32"), std::string::npos) << layout.error().message();

  Buffer cut(64 * 72 - 1);
  layout = frameLayout(cut.buffer, caps);
  ASSERT_FALSE(layout.ok()) << "one byte short";
}

} // namespace
