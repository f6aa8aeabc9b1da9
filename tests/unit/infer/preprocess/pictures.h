// SPDX-License-Identifier: LGPL-2.1-or-later
// Random pictures in every format for the tests of the preprocessing, between pages that nobody may touch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gst/video/video.h>

#include "gst/infer/preprocess/preprocess.h"
#include "tests/reference/preprocess_reference.h"

namespace gstzc::test {

struct Unmap {
  size_t length = 0;
  void operator()(uint8_t *p) const;
};

// Memory with a page on each side that ends the program at the first touch. The bytes lie against one of these pages.
class GuardedMemory {
public:
  enum class Against { Front, Back };
  GuardedMemory(size_t bytes, Against against);

  uint8_t *data() const { return data_; }
  size_t size() const { return size_; }

private:
  std::unique_ptr<uint8_t, Unmap> mapping_;
  uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

// What the caps of a picture say.
struct Caps {
  std::string format;
  int width = 0, height = 0;
  GstVideoColorMatrix matrix = GST_VIDEO_COLOR_MATRIX_BT601;
  bool full_range = false;
  bool chroma_left = false, chroma_top = false;
};

GstVideoInfo infoOf(const Caps &caps);

// Rows of `padding` bytes more than they need; the last one ends with its last pixel.
reference::Picture randomPicture(const Caps &caps, int padding, unsigned seed);

// A picture's planes as the product gets them.
class GuardedPicture {
public:
  GuardedPicture(const reference::Picture &picture, GuardedMemory::Against against);
  const infer::FramePlanes &planes() const { return planes_; }

private:
  std::vector<GuardedMemory> memories_;
  infer::FramePlanes planes_;
};

} // namespace gstzc::test
