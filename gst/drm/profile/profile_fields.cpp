// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/profile_fields.h"

#include <charconv>
#include <cstdio>
#include <unordered_map>

#include <drm_fourcc.h>

#include "gst/drm/profile/device_profile.h"
#include "gst/drm/profile/profile_names.h"
#include "gst/drm/profile/profile_reader.h"

namespace gstzc {

using json::Value;

namespace {

uint32_t readFourcc(const Value &value) {
  const std::string text = value.text(16);
  if (!value.exists() || text.empty()) {
    if (value.isString()) value.fail("a fourcc of four characters is needed, such as \"NV12\" or \"C8  \"");
    return 0;
  }
  const auto parsed = parseDrmFormat(text);
  if (!parsed || parsed->modifier != DRM_FORMAT_MOD_LINEAR) {
    value.fail("a fourcc of four characters is needed, such as \"NV12\" or \"C8  \"");
    return 0;
  }
  return parsed->fourcc;
}

} // namespace

std::vector<uint32_t> readFourccs(const Value &list) {
  std::vector<uint32_t> result;
  for (const Value &v : list.items(kMaxPlaneFormats)) result.push_back(readFourcc(v));
  return result;
}

uint64_t readModifier(const Value &value) {
  if (value.isInteger()) return value.bits();
  const std::string text = value.text(32);
  uint64_t modifier = 0;
  const char *const end = text.data() + text.size();
  if (text.starts_with("0x") || text.starts_with("0X")) {
    const auto [at, error] = std::from_chars(text.data() + 2, end, modifier, 16);
    if (error == std::errc() && at == end) return modifier;
  }
  if (value.exists()) value.fail("a modifier is needed: 0x and up to 16 hexadecimal digits");
  return 0;
}

std::vector<uint64_t> readModifiers(const Value &list) {
  std::vector<uint64_t> result;
  for (const Value &v : list.items(kMaxPlaneModifiers)) result.push_back(readModifier(v));
  return result;
}

uint32_t readRotations(const Value &list) {
  uint32_t mask = 0;
  for (const Value &v : list.items(8)) {
    const auto bit = rotationOf(v.text(16));
    if (!bit)
      v.fail("one of rotate-0, rotate-90, rotate-180, rotate-270, reflect-x, reflect-y is needed");
    else
      mask |= *bit;
  }
  return mask;
}

int readErrno(const Value &value) {
  if (!value.exists()) return 0;
  if (value.isInteger()) return static_cast<int>(value.integer(1, 4095));
  const auto code = errnoOf(value.text(16));
  if (!code) value.fail("the name of an errno is needed, such as \"EINVAL\"");
  return code.value_or(0);
}

uint32_t bitOf(uint32_t rotation) {
  uint32_t bit = 0;
  while ((rotation >> bit) > 1) ++bit;
  return bit;
}

drmModeModeInfo readTimings(const Value &value) {
  drmModeModeInfo mode = {};
  if (!value.isObject()) {
    if (value.exists()) value.fail("a mode is needed, such as \"1920x1080@60\"");
    return mode;
  }
  const auto small = [&](const char *name) { return static_cast<uint16_t>(value.member(name).integer(0, UINT16_MAX)); };
  mode.clock = static_cast<uint32_t>(value.member("clock").integer(0, UINT32_MAX));
  mode.hdisplay = small("hdisplay");
  mode.hsync_start = small("hsync_start");
  mode.hsync_end = small("hsync_end");
  mode.htotal = small("htotal");
  mode.hskew = small("hskew");
  mode.vdisplay = small("vdisplay");
  mode.vsync_start = small("vsync_start");
  mode.vsync_end = small("vsync_end");
  mode.vtotal = small("vtotal");
  mode.vscan = small("vscan");
  mode.vrefresh = static_cast<uint32_t>(value.member("vrefresh").integer(0, UINT32_MAX));
  mode.flags = static_cast<uint32_t>(value.member("flags").integer(0, UINT32_MAX));
  mode.type = static_cast<uint32_t>(value.member("type").integer(0, UINT32_MAX));
  std::snprintf(mode.name, sizeof mode.name, "%s", value.member("name").text(256).c_str());
  if (mode.hdisplay == 0 || mode.vdisplay == 0 || mode.htotal < mode.hdisplay || mode.vtotal < mode.vdisplay ||
      mode.clock == 0)
    value.fail("timings need clock, hdisplay, vdisplay, and totals that are no smaller");
  return mode;
}

std::vector<DrmFormat> pairsByFormat(const std::vector<uint32_t> &formats,
                                     const std::vector<std::pair<uint64_t, std::vector<uint32_t>>> &modifiers) {
  std::vector<uint32_t> order = formats;
  std::unordered_map<uint32_t, std::vector<uint64_t>> of;
  for (const uint32_t fourcc : formats) of[fourcc];
  for (const auto &[modifier, taken] : modifiers)
    for (const uint32_t fourcc : taken) {
      const auto [at, fresh] = of.try_emplace(fourcc);
      if (fresh) order.push_back(fourcc);
      if (modifier != DRM_FORMAT_MOD_INVALID) at->second.push_back(modifier);
    }
  std::vector<DrmFormat> result;
  for (const uint32_t fourcc : order) {
    for (const uint64_t modifier : of[fourcc]) result.push_back({fourcc, modifier});
    of[fourcc].clear(); // a fourcc that is listed twice
  }
  return result;
}

void checkSizes(const Value &value, std::optional<uint32_t> min_width, std::optional<uint32_t> min_height,
                std::optional<uint32_t> max_width, std::optional<uint32_t> max_height) {
  const auto wrong = [](const auto &min, const auto &max) { return min && max && *min > *max; };
  if (wrong(min_width, max_width) || wrong(min_height, max_height))
    value.member(value.member("min_size").exists() ? "min_size" : "max_size").fail("min_size is larger than max_size");
}

} // namespace gstzc
