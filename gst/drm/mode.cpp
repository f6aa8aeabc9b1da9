// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/mode.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace gstzc {
namespace {

constexpr int kLargestSide = 16384;

// CVT reduced blanking, in pixels, lines and microseconds
constexpr int kHorizontalBlank = 160;
constexpr int kHorizontalSync = 32;
constexpr int kHorizontalBackPorch = 80;
constexpr int kVerticalFrontPorch = 3;
constexpr int kVerticalBackPorchMin = 6;
constexpr double kVerticalBlankMin = 460;

// CVT tells the aspect ratio by the length of the vertical sync
int verticalSync(int width, int height) {
  if (width * 3 == height * 4) return 4;
  if (width * 9 == height * 16) return 5;
  if (width * 10 == height * 16) return 6;
  if (width * 4 == height * 5 || width * 9 == height * 15) return 7;
  return 10;
}

} // namespace

Result<ModeRequest> parseMode(const std::string &text) {
  const std::string remedy = "Write WIDTHxHEIGHT or WIDTHxHEIGHT@REFRESH, e.g. 1920x1080@60";
  const char *at = text.data(), *const end = at + text.size();
  // from_chars alone would take signs and exponents
  const auto digits = [&] { return at != end && *at >= '0' && *at <= '9'; };
  const auto number = [&](auto *value, auto... format) {
    if (!digits()) return false;
    const auto [next, error] = std::from_chars(at, end, *value, format...);
    at = next;
    return error == std::errc();
  };
  const auto sign = [&](char c) { return at != end && *at++ == c; };

  ModeRequest request;
  bool good = number(&request.width) && sign('x') && number(&request.height);
  const bool with_refresh = good && at != end;
  if (with_refresh) good = sign('@') && number(&request.refresh, std::chars_format::fixed) && at == end;
  if (!good) return Error{"mode=" + text + " is no mode", 0, remedy};
  if (request.width < 1 || request.height < 1 || request.width > kLargestSide || request.height > kLargestSide)
    return Error{"mode=" + text + " has a side outside 1 to " + std::to_string(kLargestSide), 0, remedy};
  if (with_refresh && (request.refresh < 1 || request.refresh > 1000))
    return Error{"mode=" + text + " has a refresh rate outside 1 to 1000 Hz", 0, remedy};
  return request;
}

double refreshOf(const drmModeModeInfo &mode) {
  if (mode.htotal == 0 || mode.vtotal == 0) return mode.vrefresh;
  double hz = mode.clock * 1000.0 / (double(mode.htotal) * mode.vtotal);
  if (mode.flags & DRM_MODE_FLAG_INTERLACE) hz *= 2;
  if (mode.flags & DRM_MODE_FLAG_DBLSCAN) hz /= 2;
  if (mode.vscan > 1) hz /= mode.vscan;
  return hz;
}

std::string modeName(const drmModeModeInfo &mode) {
  char text[48];
  std::snprintf(text, sizeof text, "%dx%d@%.2f", mode.hdisplay, mode.vdisplay, refreshOf(mode));
  return text;
}

drmModeModeInfo generateMode(int width, int height, double refresh) {
  const int sync = verticalSync(width, height);
  const double line = std::max((1e6 / refresh - kVerticalBlankMin) / height, 0.1); // microseconds
  const int blank =
      std::max(static_cast<int>(kVerticalBlankMin / line) + 1, kVerticalFrontPorch + sync + kVerticalBackPorchMin);
  drmModeModeInfo mode = {};
  mode.hdisplay = static_cast<uint16_t>(width);
  mode.htotal = static_cast<uint16_t>(width + kHorizontalBlank);
  mode.hsync_end = static_cast<uint16_t>(mode.htotal - kHorizontalBackPorch);
  mode.hsync_start = static_cast<uint16_t>(mode.hsync_end - kHorizontalSync);
  mode.vdisplay = static_cast<uint16_t>(height);
  mode.vtotal = static_cast<uint16_t>(height + std::min(blank, 32767));
  mode.vsync_start = static_cast<uint16_t>(height + kVerticalFrontPorch);
  mode.vsync_end = static_cast<uint16_t>(mode.vsync_start + sync);
  mode.clock = static_cast<uint32_t>(std::lround(refresh * mode.htotal * mode.vtotal / 1000.0));
  mode.vrefresh = static_cast<uint32_t>(std::lround(refresh));
  mode.flags = DRM_MODE_FLAG_PHSYNC | DRM_MODE_FLAG_NVSYNC;
  mode.type = DRM_MODE_TYPE_USERDEF;
  std::snprintf(mode.name, sizeof mode.name, "%dx%d", width, height);
  return mode;
}

} // namespace gstzc
