// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/frame_source.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "gst/zerocopy/gstzcallocator.h"
#include "tests/support/dmabuf_memory.h"
#include "tests/support/frame_caps.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::test;

namespace {

constexpr const char *kNv12 = "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=48";

struct Buffer {
  ~Buffer() { gst_buffer_unref(get); }
  GstBuffer *get = gst_buffer_new();
  Result<ImportSource> source(const FrameCaps &caps) const {
    auto layout = frameLayout(get, caps);
    if (!layout) return layout.error();
    return importSource(get, *layout);
  }
};

TEST(ImportSource, HasThePlanesInTheWholeDmaBuf) {
  const Wrapper wrapper;
  const UniqueFd fd = memfd(16384);
  Buffer buffer;
  GstMemory *memory = wrapper.wrap(fd.get(), 16384);
  gst_memory_resize(memory, 256, 16384 - 256);
  gst_buffer_append_memory(buffer.get, memory);
  gsize offsets[GST_VIDEO_MAX_PLANES] = {0, 128 * 56};
  gint strides[GST_VIDEO_MAX_PLANES] = {128, 128};
  gst_buffer_add_video_meta_full(buffer.get, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 48, 2, offsets,
                                 strides);
  const auto source = buffer.source(frameCaps(kNv12));
  ASSERT_TRUE(source.ok()) << source.error().message();
  EXPECT_EQ(source->size, 16384u);
  EXPECT_EQ(source->id, bufferId(fd.get()).value());
  ASSERT_EQ(source->n_planes, 2u);
  EXPECT_EQ(source->planes[0].offset, 256u);
  EXPECT_EQ(source->planes[1].offset, 256u + 128 * 56);
  EXPECT_EQ(source->planes[1].pitch, 128u);
  EXPECT_EQ(source->planes[1].rows, 24u);
  EXPECT_EQ(source->planes[1].row_bytes, 64u);
  EXPECT_EQ(source->fourcc, 0x3231564eu);
  EXPECT_EQ(source->memfd, -1) << "who wrapped a descriptor keeps what is under it";
}

TEST(ImportSource, KnowsTheFileUnderMemoryOfOurAllocators) {
  GError *error = nullptr;
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, &error);
  ASSERT_NE(allocator, nullptr);
  Buffer buffer;
  gst_buffer_append_memory(buffer.get, gst_allocator_alloc(allocator, 8192, nullptr));
  const auto source = buffer.source(frameCaps(kNv12));
  ASSERT_TRUE(source.ok()) << source.error().message();
  EXPECT_GE(source->memfd, 0);
  gst_object_unref(allocator);
}

TEST(ImportSource, RefusesPlanesInTwoDmaBufs) {
  const Wrapper wrapper;
  const UniqueFd luma = memfd(4096), chroma = memfd(4096);
  Buffer buffer;
  gst_buffer_append_memory(buffer.get, wrapper.wrap(luma.get(), 64 * 48));
  gst_buffer_append_memory(buffer.get, wrapper.wrap(chroma.get(), 64 * 24));
  const auto source = buffer.source(frameCaps(kNv12));
  ASSERT_FALSE(source.ok());
  EXPECT_EQ(source.error().code, EOPNOTSUPP);
}

TEST(ImportSource, TakesTwoMemoriesOfOneDmaBuf) {
  const Wrapper wrapper;
  const UniqueFd fd = memfd(8192);
  Buffer buffer;
  GstMemory *chroma = wrapper.wrap(fd.get(), 8192);
  gst_memory_resize(chroma, 4096, 64 * 24);
  gst_buffer_append_memory(buffer.get, wrapper.wrap(fd.get(), 64 * 48));
  gst_buffer_append_memory(buffer.get, chroma);
  const auto source = buffer.source(frameCaps(kNv12));
  ASSERT_TRUE(source.ok()) << source.error().message();
  EXPECT_EQ(source->planes[1].offset, 4096u);
}

class Import : public DeviceImport {};

TEST(ImportedInfo, HasThePlanesOfTheImport) {
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, 63, 47);
  Import import;
  import.n_planes = 2;
  import.planes[0] = {0, 128, 47, 63};
  import.planes[1] = {128 * 48, 128, 24, 64};
  import.size = 128 * 48 + 128 * 23 + 64; // the last row ends with its pixels
  const auto result = importedInfo(info, import);
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(result->offset[1], 128u * 48);
  EXPECT_EQ(result->stride[1], 128);
  EXPECT_EQ(result->size, import.size);
  --import.size;
  EXPECT_FALSE(importedInfo(info, import).ok()) << "a plane that ends outside";
  ++import.size;
  import.n_planes = 1;
  EXPECT_FALSE(importedInfo(info, import).ok()) << "a plane is missing";
}

} // namespace
