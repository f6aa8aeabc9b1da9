// SPDX-License-Identifier: LGPL-2.1-or-later
// Which samples a tensor pixel takes, with which weights. Included like pixel.inl.h.

// The two samples round `centre`, of `samples`. Where there are two they are always two beside each other: at the edges
// the inner one with weight 0.
GSTZC_PIXEL Taps bilinearTaps(int64_t centre, int32_t samples) {
  if (samples < 2) return Taps{};
  const int64_t one = int64_t{1} << kPositionBits, last = (samples - 1) * one;
  int64_t at = centre - one / 2;
  at = at < 0 ? 0 : at > last ? last : at;
  int32_t first = static_cast<int32_t>(at >> kPositionBits);
  if (first > samples - 2) first = samples - 2;
  const float second = static_cast<float>(at - first * one) / static_cast<float>(one);
  return Taps{first, 2, 1 - second, 0, second};
}

// All samples that `centre - width / 2` to `centre + width / 2` covers, of `samples`, by the part covered; the edge
// samples stand for what is outside. `width` one sample or more, `inverse` 1 / width.
GSTZC_PIXEL Taps areaTaps(int64_t centre, int64_t width, float inverse, int32_t samples) {
  const int64_t one = int64_t{1} << kPositionBits, end = samples * one;
  const int64_t low = centre - width / 2, high = low + width;
  // a hair, so that rounding adds no sample of which nothing is covered
  const int64_t hair = one >> 26;
  const int64_t from = low + hair, to = high - hair;
  const auto first = static_cast<int32_t>((from < 0 ? 0 : from >= end ? end - 1 : from) >> kPositionBits);
  auto last = static_cast<int32_t>((to < 0 ? 0 : to >= end ? end - 1 : to) >> kPositionBits);
  if (last < first) last = first;
  if (last == first) return Taps{first, 1, 1, 0, 0};
  return Taps{first, last - first + 1, static_cast<float>((first + 1) * one - low) * inverse,
              static_cast<float>(one) * inverse, static_cast<float>(high - last * one) * inverse};
}

GSTZC_PIXEL Taps tapsAt(const PixelAxis &axis, int32_t tensor_pixel) {
  const int64_t centre = axis.start + (tensor_pixel - axis.first) * axis.step;
  return axis.inverse_width > 0 ? areaTaps(centre, axis.step, axis.inverse_width, axis.samples)
                                : bilinearTaps(centre, axis.samples);
}
