// SPDX-License-Identifier: LGPL-2.1-or-later
// Boxes of detections as pictures for an overlay plane.
#pragma once

#include <memory>
#include <vector>

#include "gst/drm/framebuffer.h"
#include "gst/drm/planning.h"

namespace gstzc {

// Where a box of the frame lies in a picture that covers the placement's target. Parts outside are cut off; an empty
// result: nothing of it is visible.
Rect boxOnTarget(const Rect &box, const Placement &placement);

// Outlines of `boxes` in 32-bit pixels. `pitch` in bytes; boxes lie inside of width x height.
void drawOutlines(unsigned char *data, uint32_t pitch, int width, int height, const std::vector<Rect> &boxes,
                  uint32_t argb, int line);

// ARGB8888 pictures. A picture is written only while nobody shows it.
class BoxOverlay {
public:
  // `shown`: the most pictures that are on screen or on their way there at a time
  BoxOverlay(std::shared_ptr<KmsDevice> device, bool modifiers, int width, int height, size_t shown)
      : device_(std::move(device)), modifiers_(modifiers), width_(width), height_(height), most_(shown + 1) {}

  // The picture with these boxes; the last one again if they are the same.
  Result<std::shared_ptr<Framebuffer>> draw(const std::vector<Rect> &boxes);
  int width() const { return width_; }
  int height() const { return height_; }

private:
  struct Picture {
    std::unique_ptr<DumbBuffer> memory;
    std::shared_ptr<Framebuffer> fb;
    std::vector<Rect> boxes;
  };
  std::shared_ptr<KmsDevice> device_;
  bool modifiers_;
  int width_, height_;
  size_t most_;
  std::vector<Picture> pictures_;
  size_t last_ = 0; // the picture drawn last, when there is any
};

} // namespace gstzc
