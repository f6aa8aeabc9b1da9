// SPDX-License-Identifier: LGPL-2.1-or-later
// The whole preprocessing of one pixel of a tensor, for devices that have a thread for each. Included like pixel.inl.h
// and after it and taps.inl.h, where beside mulAdd() and limited() these are known of a float: bitsOf(v), the uint32_t
// that represents it, and toNearest(v), the int32_t next to it (ties to even).
//
// Nothing here multiplies and adds but by mulAdd(), and what is rounded is rounded as IEEE 754 does: so devices give
// the same numbers as CPUs.

GSTZC_PIXEL uint32_t sampleAt(const uint8_t *row, const PixelComponent &component, int32_t i) {
  const uint8_t *const at = row + component.offset + int64_t{i} * component.pixel;
  const uint32_t sample = component.sample_bytes == 1 ? at[0] : at[0] | static_cast<uint32_t>(at[1]) << 8;
  return sample & component.mask;
}

GSTZC_PIXEL const uint8_t *rowAt(const PixelPlanes &planes, const PixelComponent &component, int32_t j) {
  return reinterpret_cast<const uint8_t *>(planes.address[component.plane]) +
         int64_t{j} * planes.stride[component.plane];
}

// Between the nearest two of both directions.
GSTZC_PIXEL float bilinearAt(const PixelPlanes &planes, const PixelComponent &component, const Taps &across,
                             const Taps &down) {
  const int32_t left = across.first, right = left + across.count - 1;
  const uint8_t *const upper = rowAt(planes, component, down.first);
  const uint8_t *const lower = rowAt(planes, component, down.first + down.count - 1);
  const auto at = [&](const uint8_t *row, int32_t i) { return static_cast<float>(sampleAt(row, component, i)); };
  return between(at(upper, left), at(upper, right), at(lower, left), at(lower, right), across.weight_last,
                 down.weight_last);
}

// Samples with the same weight, added up without rounding.
struct Sums {
  uint64_t first, between, last;
};

GSTZC_PIXEL float weighed(float first, float between, float last, const Taps &taps) {
  return mulAdd(first, taps.weight_first, mulAdd(between, taps.weight_between, last * taps.weight_last));
}

GSTZC_PIXEL float weighed(const Sums &sums, const Taps &taps) {
  return weighed(static_cast<float>(sums.first), static_cast<float>(sums.between), static_cast<float>(sums.last), taps);
}

GSTZC_PIXEL Sums sumsOf(const uint8_t *row, const PixelComponent &component, const Taps &across) {
  Sums sums = {sampleAt(row, component, across.first), 0, 0};
  const int32_t last = across.first + across.count - 1;
  for (int32_t i = across.first + 1; i < last; ++i) sums.between += sampleAt(row, component, i);
  if (across.count > 1) sums.last = sampleAt(row, component, last);
  return sums;
}

// The mean of all that is covered, in one direction at least.
GSTZC_PIXEL float meanAt(const PixelPlanes &planes, const PixelComponent &component, const Taps &across,
                         const Taps &down) {
  float first = 0, last = 0;
  Sums between = {0, 0, 0};
  for (int32_t j = 0; j < down.count; ++j) {
    const Sums row = sumsOf(rowAt(planes, component, down.first + j), component, across);
    if (j > 0 && j < down.count - 1) {
      between.first += row.first;
      between.between += row.between;
      between.last += row.last;
    } else {
      const float mean = weighed(row, across);
      if (j == 0)
        first = mean;
      else
        last = mean;
    }
  }
  return weighed(first, weighed(between, across), last, down);
}

// The channels of pixel (x, y), as numbers that are not rounded to the tensor's type yet.
struct PixelValues {
  float channel[3];
};

GSTZC_PIXEL PixelValues pixelAt(const PixelPlan &plan, const PixelPlanes &planes, int32_t x, int32_t y) {
  const bool shown = x >= plan.columns.first && x < plan.columns.last && y >= plan.rows.first && y < plan.rows.last;
  float a = plan.padding, b = a, c = a;
  Taps across, down;
  int grid = -1;
  for (int i = 0; shown && i < plan.components; ++i) {
    const PixelComponent &component = plan.component[i];
    if (component.grid != grid) {
      grid = component.grid;
      across = tapsAt(plan.across[grid], x);
      down = tapsAt(plan.down[grid], y);
    }
    const bool mean = plan.across[grid].inverse_width > 0 || plan.down[grid].inverse_width > 0;
    const float sample = mean ? meanAt(planes, component, across, down) : bilinearAt(planes, component, across, down);
    // a loop, so that the code is there once; where there is one component it stands for all
    if (i == 0) a = sample;
    if (i <= 1) b = sample;
    c = sample;
  }
  PixelValues values;
  for (int k = 0; k < 3; ++k) {
    const PixelChannel &from = plan.channel[k];
    const ChannelOf<float> channel = {
        {from.factors[0], from.factors[1], from.factors[2]}, from.constant, from.scale, from.bias};
    values.channel[k] =
        shown ? channelValue(channel, a, b, c, 0.0f, 255.0f) : numberOf(channel, plan.padding, 0.0f, 255.0f);
  }
  return values;
}

// IEEE 754 binary16, to the nearest, ties to even.
GSTZC_PIXEL uint16_t halfOf(float v) {
  const uint32_t bits = bitsOf(v), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const uint32_t infinity = 0x7f800000u, smallest_normal = 0x38800000u, rebias = 112u << 23;
  uint32_t half = 0x7c00u;
  if (magnitude > infinity)
    half = 0x7e00u; // not a number
  else if (magnitude < smallest_normal)
    half = static_cast<uint32_t>(toNearest((v < 0 ? -v : v) * 16777216.0f)); // multiples of 2^-24
  else if (magnitude < 0x47800000u) // a carry makes the exponent one more, up to infinity
    half = (magnitude - rebias + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  return static_cast<uint16_t>(sign | half);
}

// `tensor`: of the picture, aligned as its numbers.
GSTZC_PIXEL void storeNumber(const PixelPlan &plan, uint8_t *tensor, uint64_t at, float v) {
  switch (plan.number) {
  case PixelNumber::Float32: reinterpret_cast<float *>(tensor)[at] = v; break;
  case PixelNumber::Float16: reinterpret_cast<uint16_t *>(tensor)[at] = halfOf(v); break;
  case PixelNumber::UInt8: tensor[at] = static_cast<uint8_t>(toNearest(limited(v, 0.0f, 255.0f))); break;
  case PixelNumber::Int8:
    reinterpret_cast<int8_t *>(tensor)[at] = static_cast<int8_t>(toNearest(limited(v, -128.0f, 127.0f)));
    break;
  }
}

GSTZC_PIXEL void makePixel(const PixelPlan &plan, const PixelPlanes &planes, uint8_t *tensor, int32_t x, int32_t y) {
  const PixelValues values = pixelAt(plan, planes, x, y);
  const uint64_t pixel = static_cast<uint64_t>(y) * static_cast<uint64_t>(plan.width) + static_cast<uint64_t>(x);
  const uint64_t pixels = static_cast<uint64_t>(plan.width) * static_cast<uint64_t>(plan.height);
  for (int k = 0; k < plan.channels; ++k) {
    const auto channel = static_cast<uint64_t>(k);
    const uint64_t at =
        plan.interleaved ? pixel * static_cast<uint64_t>(plan.channels) + channel : channel * pixels + pixel;
    storeNumber(plan, tensor, at, values.channel[k]);
  }
}
