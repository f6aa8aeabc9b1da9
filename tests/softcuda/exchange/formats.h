// SPDX-License-Identifier: LGPL-2.1-or-later
// The picture formats that the stand-ins know.
#pragma once

#include <cstdint>

#include <drm_fourcc.h>

namespace softcuda {

struct PicturePlane {
  uint32_t x_step, y_step, bytes, channels; // pixels of the picture per element, its bytes, its channels
};
struct PictureFormat {
  uint32_t fourcc;
  int egl_color_format; // CUeglColorFormat, named after the order in a word
  bool sixteen_bit, yuv;
  uint32_t n_planes;
  PicturePlane planes[3];

  uint32_t rowBytes(uint32_t plane, uint32_t width) const {
    return (width + planes[plane].x_step - 1) / planes[plane].x_step * planes[plane].bytes;
  }
  uint32_t rows(uint32_t plane, uint32_t height) const {
    return (height + planes[plane].y_step - 1) / planes[plane].y_step;
  }
};

constexpr PictureFormat kPictureFormats[] = {
    {DRM_FORMAT_NV12, 0x01, false, true, 2, {{1, 1, 1, 1}, {2, 2, 2, 2}}},
    {DRM_FORMAT_NV21, 0x15, false, true, 2, {{1, 1, 1, 1}, {2, 2, 2, 2}}},
    {DRM_FORMAT_P010, 0x17, true, true, 2, {{1, 1, 2, 1}, {2, 2, 4, 2}}},
    {DRM_FORMAT_YUV420, 0x00, false, true, 3, {{1, 1, 1, 1}, {2, 2, 1, 1}, {2, 2, 1, 1}}},
    {DRM_FORMAT_YVU420, 0x43, false, true, 3, {{1, 1, 1, 1}, {2, 2, 1, 1}, {2, 2, 1, 1}}},
    {DRM_FORMAT_ARGB8888, 0x06, false, false, 1, {{1, 1, 4, 4}}},
    {DRM_FORMAT_XRGB8888, 0x06, false, false, 1, {{1, 1, 4, 4}}},
    {DRM_FORMAT_ABGR8888, 0x0e, false, false, 1, {{1, 1, 4, 4}}},
    {DRM_FORMAT_XBGR8888, 0x0e, false, false, 1, {{1, 1, 4, 4}}},
    {DRM_FORMAT_R8, 0x09, false, false, 1, {{1, 1, 1, 1}}},
    {DRM_FORMAT_GR88, 0x11, false, false, 1, {{1, 1, 2, 2}}},
};
constexpr const PictureFormat *pictureFormat(uint32_t fourcc) {
  for (const PictureFormat &format : kPictureFormats)
    if (format.fourcc == fourcc) return &format;
  return nullptr;
}

} // namespace softcuda
