// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/infer/preprocess/pictures.h"

#include <algorithm>
#include <random>

#include <sys/mman.h>
#include <unistd.h>

namespace gstzc::test {

void Unmap::operator()(uint8_t *p) const { munmap(p, length); }

GuardedMemory::GuardedMemory(size_t bytes, Against against) : size_(bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t usable = std::max<size_t>(1, (bytes + page - 1) / page) * page, length = usable + 2 * page;
  void *const memory = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  mapping_ = std::unique_ptr<uint8_t, Unmap>(static_cast<uint8_t *>(memory), Unmap{length});
  uint8_t *const begin = mapping_.get() + page;
  if (mprotect(begin, usable, PROT_READ | PROT_WRITE) != 0) std::abort();
  data_ = against == Against::Front ? begin : begin + usable - bytes;
}

GstVideoInfo infoOf(const Caps &caps) {
  GstVideoInfo info;
  gst_video_info_init(&info);
  gst_video_info_set_format(&info, gst_video_format_from_string(caps.format.c_str()), static_cast<guint>(caps.width),
                            static_cast<guint>(caps.height));
  info.colorimetry.matrix = caps.matrix;
  info.colorimetry.range = caps.full_range ? GST_VIDEO_COLOR_RANGE_0_255 : GST_VIDEO_COLOR_RANGE_16_235;
  int site = GST_VIDEO_CHROMA_SITE_NONE;
  if (caps.chroma_left && caps.chroma_top)
    site = GST_VIDEO_CHROMA_SITE_COSITED;
  else if (caps.chroma_left)
    site = GST_VIDEO_CHROMA_SITE_MPEG2;
  else if (caps.chroma_top)
    site = GST_VIDEO_CHROMA_SITE_V_COSITED;
  info.chroma_site = static_cast<GstVideoChromaSite>(site);
  return info;
}

reference::Picture randomPicture(const Caps &caps, int padding, unsigned seed) {
  std::mt19937 random(seed);
  reference::Picture picture;
  picture.format = caps.format;
  picture.width = caps.width;
  picture.height = caps.height;
  picture.full_range = caps.full_range;
  picture.chroma_left = caps.chroma_left;
  picture.chroma_top = caps.chroma_top;
  // Kr and Kb of the three standards, as they print them
  if (caps.matrix == GST_VIDEO_COLOR_MATRIX_BT709)
    picture.kr = 0.2126, picture.kb = 0.0722;
  else if (caps.matrix == GST_VIDEO_COLOR_MATRIX_BT2020)
    picture.kr = 0.2627, picture.kb = 0.0593;
  for (const reference::PlaneShape &shape : reference::planesOf(caps.format, caps.width, caps.height)) {
    const int row = shape.pixel * shape.columns, stride = row + padding;
    std::vector<uint8_t> bytes(static_cast<size_t>(stride * (shape.rows - 1) + row));
    for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
    picture.planes.push_back(std::move(bytes));
    picture.strides.push_back(stride);
  }
  return picture;
}

GuardedPicture::GuardedPicture(const reference::Picture &picture, GuardedMemory::Against against) {
  for (size_t p = 0; p < picture.planes.size(); ++p) {
    memories_.emplace_back(picture.planes[p].size(), against);
    std::copy(picture.planes[p].begin(), picture.planes[p].end(), memories_.back().data());
    planes_.data[p] = memories_.back().data();
    planes_.stride[p] = picture.strides[p];
  }
}

} // namespace gstzc::test
