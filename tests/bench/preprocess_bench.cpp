// SPDX-License-Identifier: LGPL-2.1-or-later
// From 1080p NV12 frames to tensors: CPU time of one thread against GStreamer's converter (what videoconvertscale runs
// with method=bilinear), which writes 8-bit pictures of the tensor's size, and bytes read a second against reading the
// same frames in order. The frames are more than the caches hold; all sides run by turns, each on all frames.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gst/video/video.h>

#include "gst/infer/preprocess/preprocess.h"
#include "tests/bench/measure.h"

namespace gstzc {
namespace {

using namespace infer;

constexpr int kWidth = 1920, kHeight = 1080, kFrames = 64, kRounds = 15;

// Pictures with smooth parts and noise, as cameras make them.
std::vector<uint8_t> makeFrame(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> frame(bytes);
  uint32_t state = seed * 2654435761u + 1;
  for (size_t i = 0; i < bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    frame[i] = static_cast<uint8_t>(40 + (i / 16 + seed) % 150 + (state >> 28));
  }
  return frame;
}

struct Shape {
  const char *name;
  InputPlan plan;
  PreprocessOptions options;
  GstVideoFormat picture; // what the converter writes
  int picture_width, picture_height;
  GstVideoResamplerMethod method;
  int taps; // 0: as many as the method wants
  double limit;
};

// Bytes of the rows of NV12 that samples are taken from: what has to be read at least, in whole rows.
double bytesTouched(const Shape &shape, const Mapping &mapping) {
  if (shape.options.scaling == Scaling::Area) return kWidth * kHeight * 1.5;
  std::vector<bool> luma(kHeight), chroma(kHeight / 2);
  const auto mark = [](std::vector<bool> &rows, double at) {
    const int last = static_cast<int>(rows.size()) - 1;
    for (const int row : {static_cast<int>(at), static_cast<int>(at) + 1})
      rows[static_cast<size_t>(std::clamp(row, 0, last))] = true;
  };
  for (int y = 0; y < shape.plan.height; ++y) {
    const double at = mapping.frameY(y + 0.5);
    if (at < 0 || at > kHeight) continue;
    mark(luma, at - 0.5);
    mark(chroma, at / 2 - 0.5);
  }
  return static_cast<double>(kWidth) * static_cast<double>(std::count(luma.begin(), luma.end(), true) +
                                                           std::count(chroma.begin(), chroma.end(), true));
}

class Measurement {
public:
  Measurement() {
    gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_NV12, kWidth, kHeight);
    for (uint32_t i = 0; i < kFrames; ++i) frames_.push_back(makeFrame(info_.size, i));
  }

  bool measure(const Shape &shape) {
    auto preprocessor = Preprocessor::create(info_, shape.plan, shape.options);
    if (!preprocessor) {
      std::fprintf(stderr, "%s: %s\n", shape.name, preprocessor.error().message().c_str());
      return false;
    }
    GstVideoInfo picture;
    gst_video_info_set_format(&picture, shape.picture, static_cast<guint>(shape.picture_width),
                              static_cast<guint>(shape.picture_height));
    GstStructure *config = gst_structure_new("options", GST_VIDEO_CONVERTER_OPT_RESAMPLER_METHOD,
                                             GST_TYPE_VIDEO_RESAMPLER_METHOD, shape.method, nullptr);
    if (shape.taps > 0) gst_structure_set(config, GST_VIDEO_RESAMPLER_OPT_MAX_TAPS, G_TYPE_INT, shape.taps, nullptr);
    const std::unique_ptr<GstVideoConverter, decltype(&gst_video_converter_free)> converter(
        gst_video_converter_new(&info_, &picture, config), gst_video_converter_free);
    std::vector<float> tensor(shape.plan.bytes() / sizeof(float));
    std::vector<uint8_t> out(picture.size);

    const double touched = bytesTouched(shape, preprocessor->mapping());
    std::vector<double> ours, theirs, reading, ratios, floors;
    for (int round = -1; round < kRounds; ++round) { // the first one warms up
      const double a = perFrame([&](const std::vector<uint8_t> &frame) {
        FramePlanes planes;
        planes.data = {frame.data(), frame.data() + info_.offset[1]};
        planes.stride = {info_.stride[0], info_.stride[1]};
        preprocessor->run(planes, tensor.data());
      });
      const double b = perFrame([&](std::vector<uint8_t> &frame) { convert(converter.get(), frame, picture, out); });
      const double c = perFrame([&](const std::vector<uint8_t> &frame) { read(frame); });
      if (round < 0) continue;
      ours.push_back(a);
      theirs.push_back(b);
      reading.push_back(c);
      ratios.push_back(a / b);
      floors.push_back(a / (c * touched / static_cast<double>(info_.size)));
    }
    const double time = bench::median(ours);
    const double rate = touched / time, ceiling = static_cast<double>(info_.size) / bench::median(reading);
    bench::report({shape.name, time / 1e3, "us", time / bench::median(theirs), "GstVideoConverter to 8 bits",
                   spreadOf(ratios), shape.limit});
    bench::report({std::string(shape.name) + ", memory", rate, "GB/s", ceiling / rate, "reading as many bytes in order",
                   spreadOf(floors), 0});
    std::fprintf(stderr,
                 "%s: %.0f us, the converter %.0f us (%.1f times); %.1f GB/s of the rows it needs, in order %.1f\n",
                 shape.name, time / 1e3, bench::median(theirs) / 1e3, bench::median(theirs) / time, rate, ceiling);
    return true;
  }

private:
  static double spreadOf(const std::vector<double> &ratios) {
    return bench::quantile(ratios, 0.75) - bench::quantile(ratios, 0.25);
  }

  template <typename F> double perFrame(F &&work) {
    const uint64_t start = bench::clockNs(CLOCK_THREAD_CPUTIME_ID);
    for (std::vector<uint8_t> &frame : frames_) work(frame);
    return static_cast<double>(bench::clockNs(CLOCK_THREAD_CPUTIME_ID) - start) / kFrames;
  }

  void convert(GstVideoConverter *converter, std::vector<uint8_t> &bytes, GstVideoInfo &picture,
               std::vector<uint8_t> &out) {
    GstVideoFrame from = {}, to = {};
    from.info = info_;
    to.info = picture;
    for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info_); ++p) from.data[p] = bytes.data() + info_.offset[p];
    for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&picture); ++p) to.data[p] = out.data() + picture.offset[p];
    gst_video_converter_frame(converter, &from, &to);
  }

  // Eight sums, so that no addition waits for the one before it.
  void read(const std::vector<uint8_t> &frame) {
    uint64_t sums[8] = {};
    for (size_t i = 0; i + sizeof sums <= frame.size(); i += sizeof sums) {
      uint64_t words[8];
      std::memcpy(words, frame.data() + i, sizeof words);
      for (size_t k = 0; k < 8; ++k) sums[k] += words[k];
    }
    for (const uint64_t sum : sums) sink_ = sink_ + sum;
  }

  GstVideoInfo info_;
  std::vector<std::vector<uint8_t>> frames_;
  volatile uint64_t sink_ = 0;
};

} // namespace
} // namespace gstzc

int main(int argc, char **argv) {
  using namespace gstzc;
  gst_init(&argc, &argv);
  const Normalisation centred = {.mean = {127.5f, 127.5f, 127.5f}, .scale = {1 / 128.0f, 1 / 128.0f, 1 / 128.0f}};
  const Shape shapes[] = {
      {"1080p to 320x240 planar f32",
       {320, 240, TensorLayout::Nchw, TensorType::Float32},
       {.normalisation = centred},
       GST_VIDEO_FORMAT_RGBP,
       320,
       240,
       GST_VIDEO_RESAMPLER_METHOD_LINEAR,
       2,
       0.25},
      {"1080p to 128x128 interleaved f32",
       {128, 128, TensorLayout::Nhwc, TensorType::Float32},
       {.resize = ResizeMode::Letterbox, .normalisation = centred},
       GST_VIDEO_FORMAT_RGB,
       128,
       72,
       GST_VIDEO_RESAMPLER_METHOD_LINEAR,
       2,
       0},
      {"1080p to 640x640 planar f32",
       {640, 640, TensorLayout::Nchw, TensorType::Float32},
       {.resize = ResizeMode::Letterbox, .normalisation = centred},
       GST_VIDEO_FORMAT_RGBP,
       640,
       360,
       GST_VIDEO_RESAMPLER_METHOD_LINEAR,
       2,
       0},
      {"1080p to 320x240 planar f32, area",
       {320, 240, TensorLayout::Nchw, TensorType::Float32},
       {.scaling = Scaling::Area, .normalisation = centred},
       GST_VIDEO_FORMAT_RGBP,
       320,
       240,
       GST_VIDEO_RESAMPLER_METHOD_LINEAR,
       0,
       0},
  };
  Measurement measurement;
  for (const Shape &shape : shapes)
    if (!measurement.measure(shape)) return 1;
  return 0;
}
