// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport: the pixels of every layout, through the elements that others use on CUDA memory and without.
#include "tests/elements/cuda/import_pipeline.h"

#include <tuple>

using namespace gstzc;
using namespace gstzc::test;

namespace {

using Param = std::tuple<Layout, unsigned>; // layout, delay of the device in microseconds

class ImportLayouts : public CudaImport, public testing::WithParamInterface<Param> {
protected:
  void run(const std::string &behind) {
    const auto &[layout, delay] = GetParam();
    SoftCuda::get().setDelay(delay);
    start(sourceLine(layout) + " ! " + behind + " ! appsink name=sink sync=false");
    const GstVideoInfo info = infoOf(layout), plain = plainInfo(layout);
    constexpr unsigned kFrames = 3;
    for (unsigned i = 0; i < kFrames; ++i) push(frames.buffer(layout, Picture(info, i), i));
    end();
    for (unsigned i = 0; i < kFrames; ++i) {
      GstSample *sample = pipeline->pull();
      ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
      GstBuffer *buffer = gst_sample_get_buffer(sample);
      EXPECT_TRUE(Picture(info, i).sameAs(buffer, plain)) << "frame " << i;
      EXPECT_EQ(GST_BUFFER_PTS(buffer), i * 40 * GST_MSECOND);
      gst_sample_unref(sample);
    }
    EXPECT_EQ(pipeline->waitEnd(), "");
    EXPECT_EQ(pipeline->stat("copies"), 0u) << chosenRoute();
    EXPECT_EQ(pipeline->stat("frames"), kFrames);
    EXPECT_NE(chosenRoute(), "");
  }
};

TEST_P(ImportLayouts, AreRightOnTheCpu) { run("video/x-raw(memory:CUDAMemory)"); }

TEST_P(ImportLayouts, AreRightBehindCudadownload) {
  if (!has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  run("cudadownload ! video/x-raw");
}

INSTANTIATE_TEST_SUITE_P(
    , ImportLayouts,
    testing::Combine(testing::Values(Layout{"Nv12", GST_VIDEO_FORMAT_NV12, 1920, 1080},
                                     Layout{"Nv12Odd", GST_VIDEO_FORMAT_NV12, 1921, 1079},
                                     Layout{"Nv12Pitch1984", GST_VIDEO_FORMAT_NV12, 1920, 1080, 1984},
                                     Layout{"Nv12Rows1088", GST_VIDEO_FORMAT_NV12, 1920, 1080, 0, 1088},
                                     Layout{"P010", GST_VIDEO_FORMAT_P010_10LE, 1920, 1080},
                                     Layout{"P010Odd", GST_VIDEO_FORMAT_P010_10LE, 1921, 1079},
                                     Layout{"I420", GST_VIDEO_FORMAT_I420, 1920, 1080},
                                     Layout{"I420Odd", GST_VIDEO_FORMAT_I420, 1921, 1079},
                                     Layout{"I420Pitch1984", GST_VIDEO_FORMAT_I420, 1920, 1080, 1984},
                                     Layout{"Rgba", GST_VIDEO_FORMAT_RGBA, 1920, 1080},
                                     Layout{"RgbaOdd", GST_VIDEO_FORMAT_RGBA, 1921, 1079}),
                     testing::Values(0u, 2000u)),
    [](const auto &test) {
      return std::string(std::get<0>(test.param).name) + (std::get<1>(test.param) != 0 ? "Slow" : "");
    });

class ImportPictures : public CudaImport {};

// From the test source to the display's format: what is made on the way up is what comes down
TEST_F(ImportPictures, OfAProducerThatWritesIntoDmaBufs) {
  if (!has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  for (const char *format : {"NV12", "P010_10LE", "I420", "RGBA"}) {
    const std::string source =
        std::string("videotestsrc num-buffers=20 ! video/x-raw,width=320,height=240,format=") + format;
    Pipeline expected(source + " ! appsink name=sink sync=false");
    expected.setState(GST_STATE_PLAYING);
    start(source + " ! dmabufupload memory=memfd ! dmabufcudaimport name=up ! cudadownload ! video/x-raw ! "
                   "appsink name=sink sync=false");
    for (int i = 0; i < 20; ++i) {
      GstSample *want = expected.pull(), *have = pipeline->pull();
      ASSERT_NE(have, nullptr) << format << message(GST_MESSAGE_ERROR);
      EXPECT_EQ(pixels(have), pixels(want)) << format << ", frame " << i;
      gst_sample_unref(want);
      gst_sample_unref(have);
    }
    EXPECT_EQ(pipeline->stat("copies"), 0u);
    EXPECT_EQ(pipeline->stat("imports") + pipeline->stat("hits"), 20u);
    EXPECT_LT(pipeline->stat("imports"), 10u) << "buffers that come round again are known";
    pipeline.reset();
  }
}

TEST_F(ImportPictures, InBothBranchesOfATee) {
  if (!has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  const Layout layout = {"", GST_VIDEO_FORMAT_NV12, 1921, 1079, 1984, 1088};
  start(sourceLine(layout) + " ! tee name=t t. ! queue ! cudadownload ! video/x-raw ! appsink name=sink sync=false "
                             "t. ! queue ! appsink name=other sync=false");
  const Picture picture(infoOf(layout));
  push(frames.buffer(layout, picture));
  for (const char *sink : {"sink", "other"}) {
    GstSample *sample = pipeline->pull(sink);
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(layout))) << sink;
    gst_sample_unref(sample);
  }
}

TEST_F(ImportPictures, KeepTheirMetadata) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  GstBuffer *frame = frames.buffer(kSmall, Picture(infoOf(kSmall)), 3);
  GstCaps *reference = gst_caps_new_empty_simple("timestamp/x-test");
  gst_buffer_add_reference_timestamp_meta(frame, reference, 42, GST_CLOCK_TIME_NONE);
  gst_caps_unref(reference);
  gst_buffer_add_video_region_of_interest_meta(frame, "face", 1, 2, 3, 4);
  GST_BUFFER_FLAG_SET(frame, GST_BUFFER_FLAG_MARKER);
  push(frame);
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  GstBuffer *out = gst_sample_get_buffer(sample);
  EXPECT_NE(gst_buffer_get_reference_timestamp_meta(out, nullptr), nullptr);
  EXPECT_NE(gst_buffer_get_video_region_of_interest_meta_id(out, 0), nullptr);
  EXPECT_TRUE(GST_BUFFER_FLAG_IS_SET(out, GST_BUFFER_FLAG_MARKER));
  EXPECT_EQ(GST_BUFFER_PTS(out), 120 * GST_MSECOND);
  guint video_metas = 0;
  gpointer state = nullptr;
  while (gst_buffer_iterate_meta_filtered(out, &state, GST_VIDEO_META_API_TYPE) != nullptr) ++video_metas;
  EXPECT_EQ(video_metas, 1u);
  gst_sample_unref(sample);
}

} // namespace
