// SPDX-License-Identifier: LGPL-2.1-or-later
// The distribution's libgstcuda and its elements, unchanged, on whatever libcuda.so.1 is there: pixels that go to the
// device and come back are the same, and converted ones are right.
#include <cmath>
#include <memory>

#include <gst/app/app.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "tests/softcuda/test_driver.h"

namespace gstzc::test {
namespace {

constexpr GstClockTime kDeadline = 60 * GST_SECOND;

struct Picture {
  std::vector<unsigned char> bytes; // what is visible, plane by plane
  bool operator==(const Picture &) const = default;
};

Picture pictureOf(GstSample *sample) {
  Picture picture;
  GstVideoInfo info;
  GstVideoFrame frame;
  if (!gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) ||
      !gst_video_frame_map(&frame, &info, gst_sample_get_buffer(sample), GST_MAP_READ)) {
    ADD_FAILURE() << "no picture";
    return picture;
  }
  for (unsigned plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(&frame); ++plane) {
    int components[GST_VIDEO_MAX_COMPONENTS];
    gst_video_format_info_component(info.finfo, plane, components);
    const size_t row =
        size_t(GST_VIDEO_FRAME_COMP_WIDTH(&frame, components[0]) * GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, components[0]));
    for (int y = 0; y < GST_VIDEO_FRAME_COMP_HEIGHT(&frame, components[0]); ++y) {
      const auto *at = static_cast<unsigned char *>(GST_VIDEO_FRAME_PLANE_DATA(&frame, plane)) +
                       y * GST_VIDEO_FRAME_PLANE_STRIDE(&frame, plane);
      picture.bytes.insert(picture.bytes.end(), at, at + row);
    }
  }
  gst_video_frame_unmap(&frame);
  return picture;
}

// All pictures that arrive at `appsink name=sink`; the pipeline is gone afterwards.
std::vector<Picture> run(const std::string &line) {
  std::vector<Picture> pictures;
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch((line + " ! appsink name=sink sync=false").c_str(), &error);
  if (!pipeline) {
    ADD_FAILURE() << line << ": " << error->message;
    g_clear_error(&error);
    return pictures;
  }
  gst_object_ref_sink(pipeline);
  GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  while (GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), kDeadline)) {
    pictures.push_back(pictureOf(sample));
    gst_sample_unref(sample);
  }
  EXPECT_TRUE(gst_app_sink_is_eos(GST_APP_SINK(sink))) << line;
  GstBus *bus = gst_element_get_bus(pipeline);
  if (GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR)) {
    GError *what = nullptr;
    char *debug = nullptr;
    gst_message_parse_error(message, &what, &debug);
    ADD_FAILURE() << line << ": " << what->message << " " << debug;
    g_clear_error(&what);
    g_free(debug);
    gst_message_unref(message);
  }
  gst_object_unref(bus);
  gst_object_unref(sink);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(pipeline);
  return pictures;
}

struct Case {
  std::string format;
  int width, height;
  unsigned delay_us;
};
std::string nameOf(const testing::TestParamInfo<Case> &info) {
  return info.param.format + "_" + std::to_string(info.param.width) + "x" + std::to_string(info.param.height) + "_" +
         std::to_string(info.param.delay_us) + "us";
}

class GstCuda : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    if (!libcuda()) GTEST_SKIP() << "no libcuda.so.1";
    if (CU(cuInit)(0) != CUDA_SUCCESS) GTEST_SKIP() << "no CUDA device";
    for (const char *element : {"cudaupload", "cudadownload"}) {
      GstElementFactory *factory = gst_element_factory_find(element);
      if (!factory) GTEST_SKIP() << "no element " << element;
      gst_object_unref(factory);
    }
    if (!onStandIn()) return;
    SOFT(reset)();
    SOFT(set_delay_us)(GetParam().delay_us);
  }
  void TearDown() override {
    if (!libcuda() || !onStandIn()) return;
    SOFT(set_delay_us)(0);
    EXPECT_EQ(SOFT(misuses)(), 0u) << SOFT(misuse_list)();
    EXPECT_EQ(SOFT(live)(nullptr), 0u) << SOFT(live_list)();
  }
  static std::string source(const Case &c, int frames) {
    return "videotestsrc pattern=ball animation-mode=frames num-buffers=" + std::to_string(frames) +
           " ! video/x-raw,format=" + c.format + ",width=" + std::to_string(c.width) +
           ",height=" + std::to_string(c.height);
  }
};

TEST_P(GstCuda, UpAndDownAgain) {
  const std::vector<Picture> sent = run(source(GetParam(), 5));
  const std::vector<Picture> back =
      run(source(GetParam(), 5) + " ! cudaupload ! video/x-raw(memory:CUDAMemory) ! queue ! "
                                  "cudadownload ! video/x-raw");
  ASSERT_EQ(sent.size(), 5u);
  ASSERT_EQ(back.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(back[i] == sent[i]) << "frame " << i;
  if (onStandIn()) {
    EXPECT_GT(SOFT(calls)("cuMemcpy2DAsync_v2"), 0u) << "nothing was copied";
  }
}
INSTANTIATE_TEST_SUITE_P(Layouts, GstCuda,
                         testing::Values(Case{"NV12", 320, 240, 0}, Case{"NV12", 334, 250, 2000},
                                         Case{"NV12", 321, 241, 0}, Case{"I420", 334, 250, 0},
                                         Case{"I420", 317, 239, 2000}, Case{"P010_10LE", 320, 240, 0},
                                         Case{"RGBA", 333, 77, 2000}, Case{"NV12", 1920, 1080, 2000}),
                         nameOf);

class GstCudaConvert : public GstCuda {
protected:
  void SetUp() override {
    GstCuda::SetUp();
    GstElementFactory *factory = gst_element_factory_find("cudaconvertscale");
    if (!factory) GTEST_SKIP() << "no element cudaconvertscale (no NVRTC?)";
    gst_object_unref(factory);
  }
};

TEST_P(GstCudaConvert, MakesTheSameColours) {
  const std::string from = source(GetParam(), 2) + ",colorimetry=bt601";
  const std::string to = "format=RGBA,width=160,height=120,colorimetry=sRGB";
  const std::vector<Picture> here = run(from + " ! videoconvertscale dither=none ! video/x-raw," + to);
  const std::vector<Picture> there = run(from + " ! cudaupload ! cudaconvertscale ! video/x-raw(memory:CUDAMemory)," +
                                         to + " ! cudadownload ! video/x-raw");
  ASSERT_EQ(here.size(), 2u);
  ASSERT_EQ(there.size(), 2u);
  ASSERT_EQ(here[1].bytes.size(), there[1].bytes.size());
  double sum = 0;
  for (size_t i = 0; i < here[1].bytes.size(); ++i) sum += std::abs(int(here[1].bytes[i]) - int(there[1].bytes[i]));
  EXPECT_LT(sum / double(here[1].bytes.size()), 3); // the two filter differently
}
INSTANTIATE_TEST_SUITE_P(Conversions, GstCudaConvert,
                         testing::Values(Case{"NV12", 320, 240, 0}, Case{"I420", 334, 250, 2000}), nameOf);

} // namespace
} // namespace gstzc::test
