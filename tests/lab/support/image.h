// SPDX-License-Identifier: LGPL-2.1-or-later
// A picture that a display showed, and its way from and into files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gst/zerocopy/core/result.h"

namespace gstzc::lab {

// Rows without padding; a pixel is 0x00RRGGBB.
struct Image {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<uint32_t> pixels;

  uint32_t at(uint32_t x, uint32_t y) const { return pixels[size_t{y} * width + x]; }
};

// Largest difference of a colour component between two pixels.
int distance(uint32_t a, uint32_t b);

Status writePng(const Image &image, const std::string &path);

// Binary PPM (P6) of 8 bit components, as QEMU's screendump writes it.
Result<Image> readPpm(const std::string &path);

// What a display that QEMU shows ("bochs0", "virtio0") has on its screen now. Only inside the laboratory.
Result<Image> screendump(const std::string &device);

} // namespace gstzc::lab
