// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/preprocess.h"

#include <algorithm>
#include <cmath>

namespace gstzc::infer {
namespace {

// 8 bits a component, planes without tiles: GstVideoFormatInfo says all that is needed of them
constexpr GstVideoFormat kFormats[] = {
    GST_VIDEO_FORMAT_NV12, GST_VIDEO_FORMAT_RGB,  GST_VIDEO_FORMAT_BGRx, GST_VIDEO_FORMAT_BGR,  GST_VIDEO_FORMAT_RGBx,
    GST_VIDEO_FORMAT_xRGB, GST_VIDEO_FORMAT_xBGR, GST_VIDEO_FORMAT_BGRA, GST_VIDEO_FORMAT_RGBA, GST_VIDEO_FORMAT_ARGB,
    GST_VIDEO_FORMAT_ABGR, GST_VIDEO_FORMAT_NV21, GST_VIDEO_FORMAT_NV16, GST_VIDEO_FORMAT_I420, GST_VIDEO_FORMAT_YV12,
    GST_VIDEO_FORMAT_Y42B, GST_VIDEO_FORMAT_Y444, GST_VIDEO_FORMAT_YUY2, GST_VIDEO_FORMAT_UYVY, GST_VIDEO_FORMAT_GRAY8,
};

struct Taps {
  int first = 0, second = 0;
  float weight = 0; // of the second
};

// The two samples round `position` (sample i at i) of a row of `count`.
Taps taps(double position, int count) {
  const double at = std::clamp(position, 0.0, static_cast<double>(count - 1));
  const int first = static_cast<int>(at);
  return {first, std::min(first + 1, count - 1), static_cast<float>(at - first)};
}

// Position among the samples of a component that is subsampled by 1 << shift, from the position among the frame's.
double subsampled(double position, unsigned shift, bool cosited) {
  const double factor = 1u << shift;
  return cosited ? position / factor : (position + 0.5) / factor - 0.5;
}

// Tensor pixels whose centres lie on the frame, of an axis of `count` pixels.
std::pair<int, int> covered(int count, double step, double origin, int frame) {
  // a hair of tolerance, so that rounding never turns an edge pixel into padding
  const double slack = 1e-6 * step;
  const auto inside = [&](int i) {
    const double at = (i + 0.5) * step + origin;
    return at > -slack && at < frame + slack;
  };
  int first = 0, last = count;
  while (first < count && !inside(first)) ++first;
  while (last > first && !inside(last - 1)) --last;
  return {first, last};
}

struct Range {
  double luma_offset, luma_scale, chroma_scale; // the scales take the nominal range to 255
};

Range rangeOf(const GstVideoInfo &info) {
  GstVideoColorRange range = info.colorimetry.range;
  if (range == GST_VIDEO_COLOR_RANGE_UNKNOWN)
    range = GST_VIDEO_FORMAT_INFO_IS_YUV(info.finfo) ? GST_VIDEO_COLOR_RANGE_16_235 : GST_VIDEO_COLOR_RANGE_0_255;
  if (range == GST_VIDEO_COLOR_RANGE_16_235) return {16, 255.0 / 219, 255.0 / 224};
  return {0, 1, 1};
}

} // namespace

Mapping mapTensorToFrame(const InputPlan &plan, const Region &region, ResizeMode mode) {
  Mapping mapping;
  mapping.step_x = region.width / plan.width;
  mapping.step_y = region.height / plan.height;
  if (mode == ResizeMode::Crop) mapping.step_x = mapping.step_y = std::min(mapping.step_x, mapping.step_y);
  if (mode == ResizeMode::Letterbox || mode == ResizeMode::LetterboxTopLeft)
    mapping.step_x = mapping.step_y = std::max(mapping.step_x, mapping.step_y);
  mapping.origin_x = region.x;
  mapping.origin_y = region.y;
  if (mode != ResizeMode::LetterboxTopLeft) {
    mapping.origin_x += (region.width - plan.width * mapping.step_x) / 2;
    mapping.origin_y += (region.height - plan.height * mapping.step_y) / 2;
  }
  return mapping;
}

std::span<const GstVideoFormat> readableFormats() { return kFormats; }

Result<Preprocessor> Preprocessor::create(const GstVideoInfo &info, const InputPlan &plan,
                                          const PreprocessOptions &options, const std::optional<Region> &region) {
  const GstVideoFormat format = GST_VIDEO_INFO_FORMAT(&info);
  if (std::find(std::begin(kFormats), std::end(kFormats), format) == std::end(kFormats))
    return Error{std::string("frames in format ") + gst_video_format_to_string(format) + " are not read", 0,
                 "Convert them to NV12, RGB or BGRx first"};
  const GstVideoFormatInfo *finfo = info.finfo;
  const int width = GST_VIDEO_INFO_WIDTH(&info), height = GST_VIDEO_INFO_HEIGHT(&info);

  Preprocessor p;
  p.plan_ = plan;
  p.norm_ = options.normalisation;
  p.mapping_ = mapTensorToFrame(
      plan, region.value_or(Region{0, 0, static_cast<double>(width), static_cast<double>(height)}), options.resize);
  std::tie(p.first_column_, p.last_column_) = covered(plan.width, p.mapping_.step_x, p.mapping_.origin_x, width);
  std::tie(p.first_row_, p.last_row_) = covered(plan.height, p.mapping_.step_y, p.mapping_.origin_y, height);

  const GstVideoChromaSite site = GST_VIDEO_INFO_CHROMA_SITE(&info);
  const guint n = GST_VIDEO_FORMAT_INFO_IS_GRAY(finfo) ? 1 : 3; // alpha is not looked at
  for (guint c = 0; c < n; ++c) {
    Component component;
    component.plane = GST_VIDEO_FORMAT_INFO_PLANE(finfo, c);
    p.planes_ = std::max(p.planes_, component.plane + 1);
    const int columns = GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(finfo, c, width);
    const int rows = GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(finfo, c, height);
    const int pixel = GST_VIDEO_FORMAT_INFO_PSTRIDE(finfo, c), offset = GST_VIDEO_FORMAT_INFO_POFFSET(finfo, c);
    for (int x = p.first_column_; x < p.last_column_; ++x) {
      const double at = subsampled(p.mapping_.frameX(x + 0.5) - 0.5, GST_VIDEO_FORMAT_INFO_W_SUB(finfo, c),
                                   (site & GST_VIDEO_CHROMA_SITE_H_COSITED) != 0);
      const Taps t = taps(at, columns);
      component.left.push_back(t.first * pixel + offset);
      component.right.push_back(t.second * pixel + offset);
      component.weight.push_back(t.weight);
    }
    for (int y = p.first_row_; y < p.last_row_; ++y) {
      const double at = subsampled(p.mapping_.frameY(y + 0.5) - 0.5, GST_VIDEO_FORMAT_INFO_H_SUB(finfo, c),
                                   (site & GST_VIDEO_CHROMA_SITE_V_COSITED) != 0);
      const Taps t = taps(at, rows);
      component.top.push_back(t.first);
      component.bottom.push_back(t.second);
      component.row_weight.push_back(t.weight);
    }
    p.components_.push_back(std::move(component));
  }

  const Range range = rangeOf(info);
  const double luma = range.luma_scale, chroma = range.chroma_scale, black = -range.luma_offset * luma;
  if (GST_VIDEO_FORMAT_INFO_IS_YUV(finfo)) {
    double kr = 0, kb = 0;
    if (!gst_video_color_matrix_get_Kr_Kb(info.colorimetry.matrix, &kr, &kb))
      gst_video_color_matrix_get_Kr_Kb(height > 576 ? GST_VIDEO_COLOR_MATRIX_BT709 : GST_VIDEO_COLOR_MATRIX_BT601, &kr,
                                       &kb);
    const double kg = 1 - kr - kb;
    const double rv = 2 * (1 - kr) * chroma, bu = 2 * (1 - kb) * chroma;
    const double gu = -bu * kb / kg, gv = -rv * kr / kg;
    const double rows[3][3] = {{luma, 0, rv}, {luma, gu, gv}, {luma, bu, 0}};
    p.matrix_ = true;
    for (int i = 0; i < 3; ++i)
      p.to_rgb_[i] = {static_cast<float>(rows[i][0]), static_cast<float>(rows[i][1]), static_cast<float>(rows[i][2]),
                      static_cast<float>(black - 128 * (rows[i][1] + rows[i][2]))};
  } else {
    for (int i = 0; i < 3; ++i) p.to_rgb_[i] = {static_cast<float>(luma), 0, 0, static_cast<float>(black)};
  }
  return p;
}

void Preprocessor::sampleRow(const Component &component, const FramePlanes &frame, int row, float *out) const {
  const uint8_t *const data = frame.data[component.plane];
  const ptrdiff_t stride = frame.stride[component.plane];
  const uint8_t *const top = data + component.top[row] * stride;
  const uint8_t *const bottom = data + component.bottom[row] * stride;
  const float down = component.row_weight[row];
  const int *const left = component.left.data(), *const right = component.right.data();
  const float *const weight = component.weight.data();
  for (int x = 0, n = last_column_ - first_column_; x < n; ++x) {
    const float a = top[left[x]], b = top[right[x]], c = bottom[left[x]], d = bottom[right[x]];
    const float upper = a + (b - a) * weight[x], lower = c + (d - c) * weight[x];
    out[x] = upper + (lower - upper) * down;
  }
}

void Preprocessor::toRgb(float *a, float *b, float *c) const {
  const int n = last_column_ - first_column_;
  const auto clamp = [](float v) { return std::min(std::max(v, 0.0f), 255.0f); };
  if (matrix_) {
    for (int x = 0; x < n; ++x) {
      const float y = a[x], u = b[x], v = c[x];
      a[x] = clamp(y * to_rgb_[0][0] + v * to_rgb_[0][2] + to_rgb_[0][3]);
      b[x] = clamp(y * to_rgb_[1][0] + u * to_rgb_[1][1] + v * to_rgb_[1][2] + to_rgb_[1][3]);
      c[x] = clamp(y * to_rgb_[2][0] + u * to_rgb_[2][1] + to_rgb_[2][3]);
    }
    return;
  }
  const bool grey = components_.size() == 1;
  if (to_rgb_[0][0] != 1 || to_rgb_[0][3] != 0)
    for (float *channel : {a, b, c}) {
      if (grey && channel != a) break;
      for (int x = 0; x < n; ++x) channel[x] = clamp(channel[x] * to_rgb_[0][0] + to_rgb_[0][3]);
    }
  if (grey) {
    std::copy(a, a + n, b);
    std::copy(a, a + n, c);
  }
}

template <typename T> static T store(float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return static_cast<T>(std::clamp(value, 0.0f, 255.0f) + 0.5f);
}

// One row of the tensor; `rgb` holds the covered columns, or is null for a row of padding.
template <typename T> void Preprocessor::writeRow(const float *const rgb[3], int row, T *tensor) const {
  const int first = rgb != nullptr ? first_column_ : 0, last = rgb != nullptr ? last_column_ : 0;
  const ptrdiff_t plane = static_cast<ptrdiff_t>(plan_.width) * plan_.height;
  const bool nchw = plan_.layout == TensorLayout::Nchw;
  const int step = nchw ? 1 : 3;
  for (int c = 0; c < 3; ++c) {
    const int colour = norm_.bgr ? 2 - c : c;
    const float scale = norm_.scale[colour], bias = -norm_.mean[colour] * scale;
    const T padding = store<T>(norm_.padding * scale + bias);
    T *out = nchw ? tensor + c * plane + static_cast<ptrdiff_t>(row) * plan_.width
                  : tensor + static_cast<ptrdiff_t>(row) * plan_.width * 3 + c;
    for (int x = 0; x < first; ++x) out[x * step] = padding;
    if (rgb != nullptr) {
      const float *const in = rgb[colour] - first;
      for (int x = first; x < last; ++x) out[x * step] = store<T>(in[x] * scale + bias);
    }
    for (int x = last; x < plan_.width; ++x) out[x * step] = padding;
  }
}

template <typename T> void Preprocessor::runAs(const FramePlanes &frame, T *tensor) const {
  const size_t n = static_cast<size_t>(plan_.width);
  std::vector<float> rows(3 * n);
  float *const channels[3] = {rows.data(), rows.data() + n, rows.data() + 2 * n};
  for (int y = 0; y < plan_.height; ++y) {
    if (y < first_row_ || y >= last_row_) {
      writeRow<T>(nullptr, y, tensor);
      continue;
    }
    for (size_t c = 0; c < components_.size(); ++c) sampleRow(components_[c], frame, y - first_row_, channels[c]);
    toRgb(channels[0], channels[1], channels[2]);
    writeRow<T>(channels, y, tensor);
  }
}

void Preprocessor::run(const FramePlanes &frame, void *tensor) const {
  if (plan_.type == TensorType::UInt8)
    runAs(frame, static_cast<uint8_t *>(tensor));
  else
    runAs(frame, static_cast<float *>(tensor));
}

} // namespace gstzc::infer
