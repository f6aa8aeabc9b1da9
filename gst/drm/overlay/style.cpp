// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/style.h"

#include <array>
#include <cmath>

#include <glib.h>

namespace gstzc {
namespace {

// Light and dark ones of hues that are far from each other; the first is what has no name.
constexpr std::array<uint32_t, 17> kPalette = {
    0xff00ff00, 0xffff3b30, 0xff2f7bff, 0xffffe100, 0xffd24bff, 0xff00d5e0, 0xffff7a00, 0xffff8fc7, 0xff8a5a2b,
    0xff007a3d, 0xff9fb8ff, 0xff8fd400, 0xff7a1fa2, 0xff00a0a0, 0xffffd9b0, 0xff9e0142, 0xffb0b0b0,
};
constexpr uint32_t kNamed = kPalette.size() - 1;

uint32_t fromHue(double hue, double saturation, double value) {
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue * 6, 6);
    const double v = value - value * saturation * std::fmax(0, std::fmin(std::fmin(k, 4 - k), 1));
    return static_cast<uint32_t>(std::lround(v * 255));
  };
  return 0xff000000 | channel(5) << 16 | channel(3) << 8 | channel(1);
}

// golden ratio: neighbours in number are far apart in hue
uint32_t generated(uint32_t number) {
  return fromHue(std::fmod(number * 0.618033988749895, 1.0), number % 2 != 0 ? 0.6 : 0.95, number % 3 != 0 ? 1.0 : 0.7);
}

} // namespace

uint32_t ClassColors::of(uint32_t label) {
  if (label == 0) return kPalette[0];
  const auto [found, fresh] = colors_.try_emplace(label, 0);
  if (!fresh) return found->second;
  const gchar *name = g_quark_to_string(label);
  const uint32_t hash = name != nullptr ? g_str_hash(name) : label; // quarks differ from run to run
  for (uint32_t i = 0; i < kNamed; ++i) {
    const uint32_t slot = (hash + i) % kNamed;
    if (((taken_ >> slot) & 1) != 0) continue;
    taken_ |= 1u << slot;
    return found->second = kPalette[slot + 1];
  }
  return found->second = generated(static_cast<uint32_t>(colors_.size()));
}

uint32_t ClassColors::ofNumber(uint32_t number) { return number < kNamed ? kPalette[number + 1] : generated(number); }

uint32_t readableOn(uint32_t color) {
  const double luma = 0.299 * ((color >> 16) & 255) + 0.587 * ((color >> 8) & 255) + 0.114 * (color & 255);
  return luma > 128 ? 0xff000000 : 0xffffffff;
}

} // namespace gstzc
