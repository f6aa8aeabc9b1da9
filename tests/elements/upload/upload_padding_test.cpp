// SPDX-License-Identifier: LGPL-2.1-or-later
// Padded rows and padded heights through dmabufupload: as downstream wishes them, as a producer has them, and copied.
#include "tests/elements/upload/upload_pipeline.h"

#include <cstring>
#include <numeric>

#include <gst/video/video.h>

#include "gst/zerocopy/gstzcallocator.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

struct Padded {
  int width, height, stride, rows;
  std::string name() const {
    return std::to_string(width) + "x" + std::to_string(height) + "_in_" + std::to_string(stride) + "x" +
           std::to_string(rows);
  }
  std::string caps() const {
    return "video/x-raw,format=NV12,width=" + std::to_string(width) + ",height=" + std::to_string(height) +
           ",framerate=25/1";
  }
  gsize chroma() const { return static_cast<gsize>(stride) * static_cast<gsize>(rows); }
  gsize size() const { return chroma() + chroma() / 2; }
  gsize pixels() const { return static_cast<gsize>(width) * static_cast<gsize>(height) * 3 / 2; }
};

class UploadPadding : public testing::TestWithParam<Padded> {};

INSTANTIATE_TEST_SUITE_P(All, UploadPadding,
                         testing::Values(Padded{1920, 1080, 1984, 1080}, Padded{1280, 720, 1920, 720},
                                         Padded{1920, 1080, 1920, 1088}, Padded{1920, 1080, 1984, 1088}),
                         [](const auto &padded) { return padded.param.name(); });

void expectLayout(GstBuffer *buffer, const Padded &padded) {
  const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
  ASSERT_NE(meta, nullptr);
  EXPECT_EQ(meta->width, static_cast<guint>(padded.width));
  EXPECT_EQ(meta->height, static_cast<guint>(padded.height));
  EXPECT_EQ(meta->stride[0], padded.stride);
  EXPECT_EQ(meta->stride[1], padded.stride);
  EXPECT_EQ(meta->offset[1] - meta->offset[0], padded.chroma());
}

// What a decoder's or display's wish for padding makes of our pool
TEST_P(UploadPadding, WishedForByDownstream) {
  const Padded &padded = GetParam();
  const std::string source = "videotestsrc num-buffers=2 pattern=ball ! " + padded.caps();
  Pipeline plain(source + " ! appsink name=sink sync=false");
  Pipeline p(source + " ! dmabufupload name=up memory=memfd stride-align=64 ! appsink name=sink sync=false");
  Downstream downstream(p, [&](GstQuery *query) {
    GstVideoAlignment alignment;
    gst_video_alignment_reset(&alignment);
    alignment.padding_right = static_cast<guint>(padded.stride - padded.width);
    alignment.padding_bottom = static_cast<guint>(padded.rows - padded.height);
    GstStructure *params = gst_structure_new("video-meta", "padding-top", G_TYPE_UINT, 0, "padding-bottom", G_TYPE_UINT,
                                             alignment.padding_bottom, "padding-left", G_TYPE_UINT, 0, "padding-right",
                                             G_TYPE_UINT, alignment.padding_right, nullptr);
    for (const char *field : {"stride-align0", "stride-align1", "stride-align2", "stride-align3"})
      gst_structure_set(params, field, G_TYPE_UINT, 0, nullptr);
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, params);
    gst_structure_free(params);
  });
  std::vector<BufferId> written, shown;
  GstPad *pad = gst_element_get_static_pad(p.element("up"), "sink");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad *, GstPadProbeInfo *info, gpointer list) {
        static_cast<std::vector<BufferId> *>(list)->push_back(idOf(GST_PAD_PROBE_INFO_BUFFER(info)));
        return GST_PAD_PROBE_OK;
      },
      &written, nullptr);
  gst_object_unref(pad);
  plain.setState(GST_STATE_PLAYING);
  p.setState(GST_STATE_PLAYING);
  for (size_t i = 0; i < 2; ++i) {
    GstSample *expected = plain.pull(), *got = p.pull();
    ASSERT_TRUE(expected != nullptr && got != nullptr) << p.waitEnd();
    GstBuffer *buffer = gst_sample_get_buffer(got);
    expectLayout(buffer, padded);
    shown.push_back(idOf(buffer));
    EXPECT_TRUE(pixels(got) == pixels(expected)) << i;
    gst_sample_unref(expected);
    gst_sample_unref(got);
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(shown, written) << "the memory that the producer wrote"; // the probe's thread has ended
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
}

// A frame whose pixels are of their place and whose padding is 0xee
GstBuffer *paddedFrame(const Padded &padded, GstAllocator *allocator) {
  GstBuffer *buffer = gst_buffer_new_allocate(allocator, padded.size(), nullptr);
  GstMapInfo map;
  EXPECT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
  std::memset(map.data, 0xee, map.size);
  const auto fill = [&](gsize offset, int rows, int seed) {
    for (int row = 0; row < rows; ++row) {
      guint8 *line = map.data + offset + static_cast<gsize>(row) * static_cast<gsize>(padded.stride);
      std::iota(line, line + padded.width, static_cast<guint8>(seed + row));
    }
  };
  fill(0, padded.height, 1);
  fill(padded.chroma(), padded.height / 2, 100);
  gst_buffer_unmap(buffer, &map);
  gsize offset[GST_VIDEO_MAX_PLANES] = {0, padded.chroma()};
  gint stride[GST_VIDEO_MAX_PLANES] = {padded.stride, padded.stride};
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12,
                                 static_cast<guint>(padded.width), static_cast<guint>(padded.height), 2, offset,
                                 stride);
  return buffer;
}

void expectPixels(GstSample *sample, const Padded &padded) {
  const auto got = pixels(sample);
  ASSERT_EQ(got.size(), padded.pixels());
  const auto width = static_cast<size_t>(padded.width);
  std::vector<guint8> line(width);
  for (size_t row = 0; row < static_cast<size_t>(padded.height) * 3 / 2; ++row) {
    const auto height = static_cast<size_t>(padded.height);
    std::iota(line.begin(), line.end(), static_cast<guint8>(row < height ? 1 + row : 100 + row - height));
    ASSERT_TRUE(std::equal(line.begin(), line.end(), got.begin() + static_cast<ptrdiff_t>(row * width))) << row;
  }
}

TEST_P(UploadPadding, DmaBufsPassWithTheirLayout) {
  const Padded &padded = GetParam();
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  Pipeline p("appsrc name=src format=time caps=\"" + padded.caps() +
             "\" ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  p.setState(GST_STATE_PLAYING);
  GstBuffer *frame = paddedFrame(padded, allocator);
  GstMemory *memory = gst_buffer_peek_memory(frame, 0);
  ASSERT_EQ(gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), frame), GST_FLOW_OK);
  gst_app_src_end_of_stream(GST_APP_SRC(p.element("src")));
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  EXPECT_EQ(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0), memory);
  expectLayout(gst_sample_get_buffer(sample), padded);
  expectPixels(sample, padded);
  gst_sample_unref(sample);
  gst_object_unref(allocator);
  EXPECT_EQ(p.stat("passed"), 1u);
}

TEST_P(UploadPadding, OtherMemoryIsCopiedWithoutItsPadding) {
  const Padded &padded = GetParam();
  Pipeline p("appsrc name=src format=time caps=\"" + padded.caps() +
             "\" ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  p.setState(GST_STATE_PLAYING);
  ASSERT_EQ(gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), paddedFrame(padded, nullptr)), GST_FLOW_OK);
  gst_app_src_end_of_stream(GST_APP_SRC(p.element("src")));
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  expectPixels(sample, padded);
  gst_sample_unref(sample);
  EXPECT_EQ(p.stat("copies"), 1u);
  EXPECT_EQ(p.stat("bytes-copied"), padded.pixels());
}

} // namespace
