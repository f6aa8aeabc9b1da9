// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufupload in pipelines on the host, with memory=memfd; what needs real dma-bufs runs in the laboratory.
#include "tests/elements/upload/upload_pipeline.h"

#include <algorithm>

#include <drm_fourcc.h>

#include "gst/upload/upload_caps.h"
#include "gst/zerocopy/caps_formats.h"
#include "gst/zerocopy/frame_layout.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

GstCaps *caps(const char *text) { return gst_caps_from_string(text); }

std::string text(GstCaps *c) {
  gchar *t = gst_caps_to_string(c);
  std::string result = t;
  g_free(t);
  gst_caps_unref(c);
  return result;
}

// ---- caps ----

TEST(UploadCaps, SystemBecomesLinearDrmInOrder) {
  GstCaps *in = caps("video/x-raw,format={BGRx,NV12,I420},width=64,height=48,colorimetry=bt709,framerate=25/1");
  GstCaps *out = uploadedCaps(in);
  GstCaps *expected = caps("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={XR24,NV12,YU12},width=64,height=48,"
                           "colorimetry=bt709,framerate=25/1");
  EXPECT_TRUE(gst_caps_is_strictly_equal(out, expected)) << text(gst_caps_ref(out));
  GstCaps *back = uploadableCaps(out);
  EXPECT_TRUE(gst_caps_is_subset(in, back)) << text(gst_caps_ref(back));
  EXPECT_TRUE(gst_caps_features_contains(gst_caps_get_features(back, 0), GST_CAPS_FEATURE_MEMORY_DMABUF))
      << "what needs no copy comes first";
  for (GstCaps *c : {in, out, expected, back}) gst_caps_unref(c);
}

TEST(UploadCaps, TiledPassesAndIsNeverInvented) {
  GstCaps *tiled =
      caps("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64,height=48");
  GstCaps *through = uploadedCaps(tiled), *source = uploadableCaps(tiled);
  EXPECT_TRUE(gst_caps_is_strictly_equal(through, tiled));
  EXPECT_TRUE(gst_caps_is_strictly_equal(source, tiled))
      << "no linear memory becomes tiled: " << text(gst_caps_ref(source));
  GstCaps *mixed =
      caps("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={NV12:0x0100000000000002,XR24,bogus,P030}");
  GstCaps *formats = uploadableCaps(mixed), *system = caps("video/x-raw,format=BGRx"),
          *nv12 = caps("video/x-raw,format=NV12");
  EXPECT_TRUE(gst_caps_can_intersect(formats, system));
  EXPECT_FALSE(gst_caps_can_intersect(formats, nv12));
  for (GstCaps *c : {tiled, through, source, mixed, formats, system, nv12}) gst_caps_unref(c);
}

TEST(UploadCaps, FormatsWithoutDrmNameAreLeftOut) {
  GstCaps *in = caps("video/x-raw,format={v210,NV12_4L4}");
  GstCaps *out = uploadedCaps(in);
  EXPECT_TRUE(gst_caps_is_empty(out)) << text(gst_caps_ref(out));
  gst_caps_unref(in);
  gst_caps_unref(out);
}

TEST(UploadCaps, EveryTemplateFormatThereAndBack) {
  GValue formats = G_VALUE_INIT;
  initFormatList(&formats);
  ASSERT_GT(gst_value_list_get_size(&formats), 20u);
  for (guint i = 0; i < gst_value_list_get_size(&formats); ++i) {
    const char *format = g_value_get_string(gst_value_list_get_value(&formats, i));
    GstCaps *in = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, format, nullptr);
    GstCaps *out = uploadedCaps(in);
    ASSERT_EQ(gst_caps_get_size(out), 1u) << format;
    GstCaps *back = uploadableCaps(out);
    EXPECT_TRUE(gst_caps_can_intersect(in, back)) << format << ": " << text(gst_caps_ref(back));
    for (GstCaps *c : {in, out, back}) gst_caps_unref(c);
  }
  g_value_unset(&formats);
}

TEST(UploadCaps, PlainDmaBufGetsItsDrmNameOrStays) {
  GstCaps *in = caps("video/x-raw(memory:DMABuf),format=NV12,width=64,height=48");
  GstCaps *out = uploadedCaps(in);
  ASSERT_EQ(gst_caps_get_size(out), 2u) << text(gst_caps_ref(out));
  EXPECT_STREQ(gst_structure_get_string(gst_caps_get_structure(out, 0), "drm-format"), "NV12");
  EXPECT_STREQ(gst_structure_get_string(gst_caps_get_structure(out, 1), "format"), "NV12");
  gst_caps_unref(in);
  gst_caps_unref(out);
}

// ---- frames ----

TEST(Upload, ProducerWritesIntoThePool) {
  Pipeline p("videotestsrc num-buffers=30 ! video/x-raw,format=NV12,width=1921,height=1079 ! "
             "dmabufupload name=up memory=memfd ! appsink name=sink sync=false max-buffers=2");
  p.setState(GST_STATE_PLAYING);
  std::set<BufferId> buffers;
  int n = 0;
  while (GstSample *sample = p.pull()) {
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    auto frame = parseFrameCaps(gst_sample_get_caps(sample));
    ASSERT_TRUE(frame.ok()) << frame.error().message();
    EXPECT_TRUE(frame->drm_notation);
    EXPECT_TRUE(frame->linear());
    EXPECT_EQ(frame->fourcc, guint32{DRM_FORMAT_NV12});
    const auto layout = frameLayout(buffer, *frame);
    ASSERT_TRUE(layout.ok()) << layout.error().message();
    EXPECT_EQ(layout->planes[0].stride, 2048);
    buffers.insert(idOf(buffer));
    gst_sample_unref(sample);
    ++n;
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(n, 30);
  EXPECT_EQ(p.stat("frames"), 30u);
  EXPECT_EQ(p.stat("passed"), 30u);
  EXPECT_EQ(p.stat("copies"), 0u);
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
  EXPECT_LE(buffers.size(), 6u) << "2 in the sink's queue, some in flight: the pool is reused";
  EXPECT_EQ(p.stat("pool-buffers"), buffers.size());
}

TEST(Upload, ConverterAndDecoderLikeElementsWriteIntoThePool) {
  for (const char *middle : {"videoconvert ! video/x-raw,format=BGRx", "videoscale ! video/x-raw,width=641,height=481",
                             "videobox top=-3 ! video/x-raw,format=I420"}) {
    Pipeline p(std::string("videotestsrc num-buffers=10 ! video/x-raw,format=I420,width=320,height=240 ! ") + middle +
               " ! dmabufupload name=up memory=memfd ! fakesink");
    EXPECT_EQ(p.run(), "") << middle;
    EXPECT_EQ(p.stat("frames"), 10u) << middle;
    EXPECT_EQ(p.stat("bytes-copied"), 0u) << middle;
  }
}

class UploadFormats : public testing::TestWithParam<std::tuple<std::string, std::pair<int, int>>> {};

TEST_P(UploadFormats, PixelsAreThoseOfThePlainPipeline) {
  const auto &[format, size] = GetParam();
  const std::string source = "videotestsrc num-buffers=2 pattern=smpte ! video/x-raw,format=" + format +
                             ",width=" + std::to_string(size.first) + ",height=" + std::to_string(size.second);
  Pipeline plain(source + " ! appsink name=sink sync=false");
  Pipeline into_pool(source + " ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  Pipeline copied(source + " ! identity drop-allocation=true ! dmabufupload name=up memory=memfd ! appsink name=sink "
                           "sync=false");
  for (Pipeline *p : {&plain, &into_pool, &copied}) p->setState(GST_STATE_PLAYING);
  for (int i = 0; i < 2; ++i) {
    GstSample *a = plain.pull(), *b = into_pool.pull(), *c = copied.pull();
    ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr) << into_pool.waitEnd() << copied.waitEnd();
    const auto expected = pixels(a);
    EXPECT_TRUE(pixels(b) == expected) << "frame " << i << " through the pool";
    EXPECT_TRUE(pixels(c) == expected) << "frame " << i << " copied";
    for (GstSample *sample : {a, b, c}) gst_sample_unref(sample);
  }
  EXPECT_EQ(into_pool.waitEnd(), "");
  EXPECT_EQ(copied.waitEnd(), "");
  EXPECT_EQ(into_pool.stat("bytes-copied"), 0u);
  EXPECT_EQ(copied.stat("copies"), 2u) << "exactly one a frame";
  EXPECT_GT(copied.stat("bytes-copied"), 0u);
}

std::vector<std::string> templateFormats() {
  gst_init(nullptr, nullptr);
  GValue list = G_VALUE_INIT;
  initFormatList(&list);
  std::vector<std::string> names;
  for (guint i = 0; i < gst_value_list_get_size(&list); ++i)
    names.push_back(g_value_get_string(gst_value_list_get_value(&list, i)));
  g_value_unset(&list);
  // videotestsrc makes no packed 10-bit NV12; frame_copy_test has it
  names.erase(std::remove(names.begin(), names.end(), "NV12_10LE40"), names.end());
  return names;
}

std::string formatName(const testing::TestParamInfo<UploadFormats::ParamType> &info) {
  const auto &[format, size] = info.param;
  return format + "_" + std::to_string(size.first) + "x" + std::to_string(size.second);
}

INSTANTIATE_TEST_SUITE_P(All, UploadFormats,
                         testing::Combine(testing::ValuesIn(templateFormats()), testing::Values(std::pair{641, 481})),
                         formatName);
INSTANTIATE_TEST_SUITE_P(Large, UploadFormats,
                         testing::Combine(testing::Values("NV12", "I420", "RGB", "BGRx", "YUY2"),
                                          testing::Values(std::pair{1921, 1079}, std::pair{1, 1})),
                         formatName);

TEST(Upload, PaddedInputThroughItsMeta) {
  // videotestsrc into a pool of the first element with wide strides; identity hides the second's pool from the first
  Pipeline p("videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=641,height=481 ! "
             "dmabufupload memory=memfd stride-align=4096 ! dmabufupload name=up memory=memfd ! "
             "appsink name=sink sync=false");
  Pipeline plain(
      "videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=641,height=481 ! appsink name=sink sync=false");
  p.setState(GST_STATE_PLAYING);
  plain.setState(GST_STATE_PLAYING);
  for (int i = 0; i < 3; ++i) {
    GstSample *a = p.pull(), *b = plain.pull();
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(gst_buffer_get_video_meta(gst_sample_get_buffer(a))->stride[0], 4096);
    EXPECT_TRUE(pixels(a) == pixels(b)) << i;
    gst_sample_unref(a);
    gst_sample_unref(b);
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(p.stat("passed"), 3u) << "DMA_DRM caps pass as they are";
}

// Pushes one frame with the given GstVideoMeta by hand
TEST(Upload, PaddedSystemMemoryIsCopiedByItsStrides) {
  Pipeline p("appsrc name=src format=time caps=\"video/x-raw,format=NV12,width=33,height=21,framerate=25/1\" ! "
             "dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  p.setState(GST_STATE_PLAYING);
  const gsize plane1 = 100 * 30;
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, plane1 + 120 * 11, nullptr);
  gst_buffer_memset(buffer, 0, 0xee, plane1 + 120 * 11);
  for (gsize row = 0; row < 21; ++row) gst_buffer_memset(buffer, row * 100, static_cast<guint8>(row), 33);
  for (gsize row = 0; row < 11; ++row)
    gst_buffer_memset(buffer, plane1 + row * 120, static_cast<guint8>(100 + row), 34);
  gsize offset[GST_VIDEO_MAX_PLANES] = {0, plane1};
  gint stride[GST_VIDEO_MAX_PLANES] = {100, 120};
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 33, 21, 2, offset, stride);
  GST_BUFFER_PTS(buffer) = 7 * GST_MSECOND;
  GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
  GstCaps *reference = gst_caps_new_empty_simple("timestamp/x-unix");
  gst_buffer_add_reference_timestamp_meta(buffer, reference, 5, GST_CLOCK_TIME_NONE);
  ASSERT_EQ(gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), buffer), GST_FLOW_OK);
  gst_app_src_end_of_stream(GST_APP_SRC(p.element("src")));
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  const auto got = pixels(sample);
  ASSERT_EQ(got.size(), 33u * 21 + 34 * 11);
  for (size_t row = 0; row < 21; ++row)
    for (size_t x = 0; x < 33; ++x) ASSERT_EQ(got[row * 33 + x], row);
  for (size_t row = 0; row < 11; ++row)
    for (size_t x = 0; x < 34; ++x) ASSERT_EQ(got[33 * 21 + row * 34 + x], 100 + row);
  GstBuffer *out = gst_sample_get_buffer(sample);
  EXPECT_EQ(GST_BUFFER_PTS(out), 7 * GST_MSECOND);
  EXPECT_EQ(GST_BUFFER_DURATION(out), 40 * GST_MSECOND);
  EXPECT_NE(gst_buffer_get_reference_timestamp_meta(out, reference), nullptr)
      << "metas that are not of the memory stay";
  gst_caps_unref(reference);
  EXPECT_EQ(gst_buffer_get_n_meta(out, GST_VIDEO_META_API_TYPE), 1u);
  gst_sample_unref(sample);
  EXPECT_EQ(p.stat("copies"), 1u);
  EXPECT_EQ(p.stat("bytes-copied"), got.size());
}

} // namespace
