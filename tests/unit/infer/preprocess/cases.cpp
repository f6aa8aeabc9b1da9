// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/infer/preprocess/cases.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>

namespace gstzc::test {

using namespace gstzc::infer;

namespace {

// IEEE 754 binary16.
double halfAt(const uint8_t *bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -value : value;
}

class Draw {
public:
  explicit Draw(unsigned seed) : random_(seed) {}
  template <typename T> T of(std::initializer_list<T> choices) { return choices.begin()[random_() % choices.size()]; }
  bool coin() { return random_() % 2 != 0; }
  double between(double low, double high) { return low + (high - low) * (random_() / 4294967295.0); }

private:
  std::mt19937 random_;
};

} // namespace

std::ostream &operator<<(std::ostream &out, const Case &c) {
  out << c.caps.format << " " << c.caps.width << "x" << c.caps.height << " + " << c.padding << " matrix "
      << c.caps.matrix << (c.caps.full_range ? " full" : "") << (c.caps.chroma_left ? " left" : "")
      << (c.caps.chroma_top ? " top" : "") << " to " << c.plan.width << "x" << c.plan.height << "x" << c.plan.channels
      << " " << tensorTypeName(c.plan.type) << (c.plan.layout == TensorLayout::Nchw ? " nchw" : " nhwc") << " resize "
      << static_cast<int>(c.options.resize) << (c.options.scaling == Scaling::Area ? " area" : "")
      << (c.options.normalisation.bgr ? " bgr" : "");
  if (c.region)
    out << " region " << c.region->width << "x" << c.region->height << " at " << c.region->x << "," << c.region->y;
  return out;
}

double numberAt(const uint8_t *tensor, size_t i, TensorType type) {
  float value;
  switch (type) {
  case TensorType::UInt8: return tensor[i];
  case TensorType::Int8: return static_cast<int8_t>(tensor[i]);
  case TensorType::Float16: return halfAt(tensor + 2 * i);
  default: std::memcpy(&value, tensor + 4 * i, sizeof value); return static_cast<double>(value);
  }
}

reference::Target targetOf(const Case &c) {
  reference::Target target;
  target.width = c.plan.width;
  target.height = c.plan.height;
  target.channels = c.plan.channels;
  switch (c.options.resize) {
  case ResizeMode::Stretch: target.fit = reference::Fit::Stretch; break;
  case ResizeMode::Letterbox: target.fit = reference::Fit::Letterbox; break;
  case ResizeMode::LetterboxTopLeft: target.fit = reference::Fit::LetterboxTopLeft; break;
  case ResizeMode::Crop: target.fit = reference::Fit::Crop; break;
  }
  target.area = c.options.scaling == Scaling::Area;
  target.nchw = c.plan.layout == TensorLayout::Nchw;
  if (c.region) {
    target.left = c.region->x, target.top = c.region->y;
    target.shown_width = c.region->width, target.shown_height = c.region->height;
  }
  const Normalisation &norm = c.options.normalisation;
  target.bgr = norm.bgr;
  target.padding = static_cast<double>(norm.padding);
  for (size_t i = 0; i < 3; ++i) {
    target.mean[i] = static_cast<double>(norm.mean[i]);
    target.scale[i] = static_cast<double>(norm.scale[i]);
  }
  return target;
}

Case drawCase(const char *format, unsigned seed) {
  Draw draw(seed);
  Case c;
  const auto side = [&] { return draw.of({1, 2, 3, 4, 5, 7, 16, 17, 18, 33, 64, 65, 101, 150}); };
  const auto tensor_side = [&] { return draw.of({1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 50}); };
  c.caps = {format, side(), side()};
  c.caps.matrix = draw.of({GST_VIDEO_COLOR_MATRIX_BT601, GST_VIDEO_COLOR_MATRIX_BT709, GST_VIDEO_COLOR_MATRIX_BT2020});
  c.caps.full_range = draw.coin();
  c.caps.chroma_left = draw.coin();
  c.caps.chroma_top = draw.coin();
  c.padding = draw.of({0, 1, 3, 27, 64});
  c.plan = {tensor_side(), tensor_side(), draw.of({TensorLayout::Nchw, TensorLayout::Nhwc}),
            draw.of({TensorType::Float32, TensorType::Float16, TensorType::UInt8, TensorType::Int8}),
            draw.of({1, 3, 3})};
  c.options.resize =
      draw.of({ResizeMode::Stretch, ResizeMode::Letterbox, ResizeMode::LetterboxTopLeft, ResizeMode::Crop});
  c.options.scaling = draw.of({Scaling::Bilinear, Scaling::Area});
  Normalisation &norm = c.options.normalisation;
  norm.bgr = draw.coin();
  norm.padding = draw.of({0.0f, 114.0f, 255.0f});
  switch (c.plan.type) {
  case TensorType::UInt8:
    if (draw.coin()) norm.mean = {-40, 10, 60}, norm.scale = {1.5f, 0.9f, 1.0f};
    break;
  case TensorType::Int8: norm.mean = {128, 130, 100}, norm.scale = {1, 1.2f, -0.5f}; break;
  default: norm.mean = {123.7f, 116.3f, 103.5f}, norm.scale = {1 / 58.4f, 1 / 57.1f, 1 / 57.4f}; break;
  }
  if (draw.coin()) {
    const double w = c.caps.width, h = c.caps.height;
    c.region = Region{draw.between(-0.5 * w, w), draw.between(-0.5 * h, h), draw.between(0.3, 1.5 * w),
                      draw.between(0.3, 1.5 * h)};
  }
  c.against = draw.of({GuardedMemory::Against::Front, GuardedMemory::Against::Back});
  return c;
}

double scaleOf(const Case &c, size_t i) {
  const auto channels = static_cast<size_t>(c.plan.channels);
  const size_t pixels = static_cast<size_t>(c.plan.width) * static_cast<size_t>(c.plan.height);
  const size_t channel = c.plan.layout == TensorLayout::Nchw ? i / pixels : i % channels;
  const Normalisation &norm = c.options.normalisation;
  return static_cast<double>(norm.scale[norm.bgr && channels == 3 ? 2 - channel : channel]);
}

} // namespace gstzc::test
