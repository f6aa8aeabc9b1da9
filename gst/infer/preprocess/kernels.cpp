// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/preprocess/kernels.h"

#include <bit>
#include <cstring>

// Those that differ in what is used here: AVX-512 beyond its first form does not, and the vectors of unknown length
// (SVE, RVV) have no operators.
#define HWY_DISABLED_TARGETS                                                                                   \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_NEON_BF16 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gst/infer/preprocess/kernels.cpp"
#include <hwy/foreach_target.h> // IWYU pragma: keep

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gstzc::infer::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kLanes>;
using Words = hn::Rebind<uint32_t, Floats>;
using Integers = hn::Rebind<int32_t, Floats>;
using V = hn::Vec<Floats>;

inline V mulAdd(V a, V b, V c) { return hn::MulAdd(a, b, c); }
inline V limited(V v, V low, V high) { return hn::Min(hn::Max(v, low), high); }
#define GSTZC_PIXEL inline
#include "gst/infer/preprocess/pixel.inl.h"
#undef GSTZC_PIXEL

V samplesAt(const uint32_t *words, int shift, hn::Vec<Words> mask) {
  const Words d;
  const auto samples = hn::And(hn::ShiftRightSame(hn::LoadU(d, words), shift), mask);
  return hn::ConvertTo(Floats(), hn::BitCast(Integers(), samples));
}

void bilinear(const Corners &c, const float *right, float lower, size_t n, float *samples) {
  const Floats d;
  const auto mask = hn::Set(Words(), c.mask);
  const auto below = hn::Set(d, lower);
  for (size_t i = 0; i < n; i += hn::Lanes(d)) {
    const V upper_left = samplesAt(c.upper_left + i, c.left_shift, mask);
    const V upper_right = samplesAt(c.upper_right + i, c.right_shift, mask);
    const V lower_left = samplesAt(c.lower_left + i, c.left_shift, mask);
    const V lower_right = samplesAt(c.lower_right + i, c.right_shift, mask);
    hn::StoreU(between(upper_left, upper_right, lower_left, lower_right, hn::LoadU(d, right + i), below), d,
               samples + i);
  }
}

template <typename T> void weigh(const T *row, size_t n, uint32_t mask, float weight, bool add, float *sums) {
  const Floats d;
  const auto factor = hn::Set(d, weight), none = hn::Zero(d);
  const auto bits = hn::Set(Words(), mask);
  size_t i = 0;
  for (const size_t step = hn::Lanes(d); i + step <= n; i += step) {
    const auto loaded = hn::LoadU(hn::Rebind<T, Floats>(), row + i);
    const auto samples = hn::And(hn::PromoteTo(Words(), loaded), bits);
    const V values = hn::ConvertTo(d, hn::BitCast(Integers(), samples));
    hn::StoreU(hn::MulAdd(values, factor, add ? hn::LoadU(d, sums + i) : none), d, sums + i);
  }
  for (; i < n; ++i) {
    T sample;
    std::memcpy(&sample, row + i, sizeof sample);
    sums[i] = static_cast<float>(sample & mask) * weight + (add ? sums[i] : 0.0f);
  }
}

void weigh8(const uint8_t *row, size_t n, float weight, bool add, float *sums) {
  weigh(row, n, 0xff, weight, add, sums);
}

void weigh16(const uint8_t *row, size_t n, uint32_t mask, float weight, bool add, float *sums) {
  weigh(reinterpret_cast<const uint16_t *>(row), n, mask, weight, add, sums);
}

// The number types of tensors; float16 is handled as its bits.
struct Float32 {
  using Lane = float;
  static auto from(V v) { return v; }
};

struct Float16 {
  using Lane = uint16_t;
  static auto from(V v) {
    return hn::BitCast(hn::Rebind<uint16_t, Floats>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, Floats>(), v));
  }
};

template <typename T, int kLow, int kHigh> struct Integer {
  using Lane = T;
  static auto from(V v) {
    const Floats d;
    const V held = limited(v, hn::Set(d, static_cast<float>(kLow)), hn::Set(d, static_cast<float>(kHigh)));
    return hn::DemoteTo(hn::Rebind<T, Floats>(), hn::NearestInt(held));
  }
};
using UInt8 = Integer<uint8_t, 0, 255>;
using Int8 = Integer<int8_t, -128, 127>;

template <class Number, int kChannels, bool kInterleaved>
void convertRow(const Conversion &conversion, const float *const components[3], size_t n, void *const out[3]) {
  using Lane = typename Number::Lane;
  const Floats d;
  const hn::Rebind<Lane, Floats> to;
  const size_t step = hn::Lanes(d);
  const V black = hn::Zero(d), white = hn::Set(d, 255.0f);
  ChannelOf<V> channels[kChannels];
  for (int k = 0; k < kChannels; ++k) {
    const PixelChannel &c = conversion.channels[k];
    channels[k] = {{hn::Set(d, c.factors[0]), hn::Set(d, c.factors[1]), hn::Set(d, c.factors[2])},
                   hn::Set(d, c.constant),
                   hn::Set(d, c.scale),
                   hn::Set(d, c.bias)};
  }
  constexpr int kRows = kInterleaved ? 1 : kChannels; // of the tensor that are written at once
  constexpr size_t kWidth = kInterleaved ? kChannels : 1;
  for (size_t i = 0; i < n; i += step) {
    const V a = hn::LoadU(d, components[0] + i), b = hn::LoadU(d, components[1] + i),
            c = hn::LoadU(d, components[2] + i);
    const bool whole = i + step <= n;
    Lane last[kRows][kLanes * kWidth];
    Lane *at[kRows];
    for (int k = 0; k < kRows; ++k) at[k] = whole ? static_cast<Lane *>(out[k]) + i * kWidth : last[k];
    if constexpr (kInterleaved && kChannels == 3) {
      hn::StoreInterleaved3(Number::from(channelValue(channels[0], a, b, c, black, white)),
                            Number::from(channelValue(channels[1], a, b, c, black, white)),
                            Number::from(channelValue(channels[2], a, b, c, black, white)), to, at[0]);
    } else {
      for (int k = 0; k < kChannels; ++k)
        hn::StoreU(Number::from(channelValue(channels[k], a, b, c, black, white)), to, at[k]);
    }
    if (whole) continue;
    for (int k = 0; k < kRows; ++k)
      std::memcpy(static_cast<Lane *>(out[k]) + i * kWidth, last[k], (n - i) * kWidth * sizeof(Lane));
  }
}

template <class Number>
void convertTo(const Conversion &conversion, const float *const components[3], size_t n, void *const out[3]) {
  if (conversion.count == 1)
    convertRow<Number, 1, false>(conversion, components, n, out);
  else if (conversion.interleaved)
    convertRow<Number, 3, true>(conversion, components, n, out);
  else
    convertRow<Number, 3, false>(conversion, components, n, out);
}

void convert(const Conversion &conversion, const float *const components[3], size_t n, void *const out[3]) {
  switch (conversion.number) {
  case PixelNumber::Float16: return convertTo<Float16>(conversion, components, n, out);
  case PixelNumber::UInt8: return convertTo<UInt8>(conversion, components, n, out);
  case PixelNumber::Int8: return convertTo<Int8>(conversion, components, n, out);
  default: return convertTo<Float32>(conversion, components, n, out);
  }
}

} // namespace gstzc::infer::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gstzc::infer::kernels {
namespace {

template <typename T> void pick(const uint8_t *row, const int32_t *offsets, size_t n, uint32_t *words) {
  for (size_t i = 0; i < n; ++i) {
    T word;
    std::memcpy(&word, row + offsets[i], sizeof word);
    if constexpr (std::endian::native == std::endian::big)
      word = sizeof word == 2 ? __builtin_bswap16(static_cast<uint16_t>(word)) : __builtin_bswap32(word);
    words[i] = word;
  }
}

} // namespace

HWY_EXPORT(bilinear);
HWY_EXPORT(weigh8);
HWY_EXPORT(weigh16);
HWY_EXPORT(convert);

void pick16(const uint8_t *row, const int32_t *offsets, size_t n, uint32_t *words) {
  pick<uint16_t>(row, offsets, n, words);
}

void pick32(const uint8_t *row, const int32_t *offsets, size_t n, uint32_t *words) {
  pick<uint32_t>(row, offsets, n, words);
}

void bilinear(const Corners &corners, const float *right, float lower, size_t n, float *samples) {
  HWY_DYNAMIC_DISPATCH(bilinear)(corners, right, lower, n, samples);
}

void weigh8(const uint8_t *row, size_t n, float weight, bool add, float *sums) {
  HWY_DYNAMIC_DISPATCH(weigh8)(row, n, weight, add, sums);
}

void weigh16(const uint8_t *row, size_t n, uint32_t mask, float weight, bool add, float *sums) {
  HWY_DYNAMIC_DISPATCH(weigh16)(row, n, mask, weight, add, sums);
}

void convert(const Conversion &conversion, const float *const components[3], size_t n, void *const out[3]) {
  HWY_DYNAMIC_DISPATCH(convert)(conversion, components, n, out);
}

} // namespace gstzc::infer::kernels
#endif
