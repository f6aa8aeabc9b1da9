// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/box_overlay.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <drm_fourcc.h>

namespace gstzc {
namespace {

constexpr uint32_t kOutline = 0xff00ff00; // opaque green: premultiplied and straight alpha are the same

int lineWidth(int height) { return std::clamp(height / 240, 1, 8) + 1; }

} // namespace

Rect boxOnTarget(const Rect &box, const Placement &placement) {
  // 64 bits: a model may say anything
  const auto axis = [](int64_t from, int64_t length, int source, int source_length, int target_length, int *out,
                       int *out_length) {
    const auto scale = [&](int64_t v) {
      return static_cast<int>(
          std::clamp<int64_t>((v - source) * target_length / std::max(source_length, 1), 0, target_length));
    };
    const int begin = scale(from), end = scale(from + length);
    *out = begin;
    *out_length = std::max(end - begin, 0);
  };
  Rect result;
  axis(box.x, box.width, placement.source.x, placement.source.width, placement.target.width, &result.x, &result.width);
  axis(box.y, box.height, placement.source.y, placement.source.height, placement.target.height, &result.y,
       &result.height);
  if (result.width == 0 || result.height == 0) return {};
  return result;
}

void drawOutlines(unsigned char *data, uint32_t pitch, int width, int height, const std::vector<Rect> &boxes,
                  uint32_t argb, int line) {
  const auto fill = [&](int x0, int y0, int x1, int y1) {
    x0 = std::clamp(x0, 0, width);
    x1 = std::clamp(x1, 0, width);
    y0 = std::clamp(y0, 0, height);
    y1 = std::clamp(y1, 0, height);
    for (int y = y0; y < y1; ++y) {
      unsigned char *row = data + static_cast<size_t>(y) * pitch;
      for (int x = x0; x < x1; ++x) std::memcpy(row + static_cast<size_t>(x) * 4, &argb, 4);
    }
  };
  for (const Rect &b : boxes) {
    const int w = std::min({line, (b.width + 1) / 2, (b.height + 1) / 2});
    const int right = b.x + b.width, bottom = b.y + b.height;
    fill(b.x, b.y, right, b.y + w);
    fill(b.x, bottom - w, right, bottom);
    fill(b.x, b.y, b.x + w, bottom);
    fill(right - w, b.y, right, bottom);
  }
}

Result<std::shared_ptr<Framebuffer>> BoxOverlay::draw(const std::vector<Rect> &boxes) {
  if (!pictures_.empty() && pictures_[last_].boxes == boxes) return pictures_[last_].fb;

  size_t chosen = pictures_.size();
  for (size_t i = 0; i < pictures_.size(); ++i)
    if (pictures_[i].fb.use_count() == 1) chosen = i;
  if (chosen == pictures_.size()) {
    if (pictures_.size() >= most_) return Error{"all pictures of the overlay are on their way to the screen", 0, ""};
    auto memory = DumbBuffer::create(device_, static_cast<uint32_t>(width_), static_cast<uint32_t>(height_), 32);
    if (!memory) return memory.error();
    const Framebuffer::Plane plane{(*memory)->handle(), (*memory)->pitch(), 0};
    auto fb = Framebuffer::create(device_, modifiers_, {DRM_FORMAT_ARGB8888, DRM_FORMAT_MOD_LINEAR},
                                  static_cast<uint32_t>(width_), static_cast<uint32_t>(height_), {&plane, 1});
    if (!fb) return fb.error();
    pictures_.push_back({memory.take(), fb.take(), {}});
  }

  Picture &picture = pictures_[chosen];
  auto data = picture.memory->map();
  if (!data) return data.error();
  const int line = lineWidth(height_);
  drawOutlines(*data, picture.memory->pitch(), width_, height_, picture.boxes, 0, line);
  drawOutlines(*data, picture.memory->pitch(), width_, height_, boxes, kOutline, line);
  picture.boxes = boxes;
  last_ = chosen;
  return picture.fb;
}

} // namespace gstzc
