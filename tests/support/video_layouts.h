// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames with uncommon layouts whose every pixel byte has a value of its own place.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <ostream>
#include <vector>

#include <gst/video/video.h>
#include <gtest/gtest.h>

namespace gstzc::test {

struct Layout {
  const char *name;
  GstVideoFormat format;
  int width, height;
  int stride = 0;    // of the first plane; 0: GStreamer's default
  int luma_rows = 0; // from the first plane to the second; 0: the height
  gsize first = 0;   // bytes before the first plane
};
inline std::ostream &operator<<(std::ostream &out, const Layout &layout) { return out << layout.name; }

inline GstVideoInfo infoOf(const Layout &layout) {
  GstVideoInfo info;
  gst_video_info_set_format(&info, layout.format, static_cast<guint>(layout.width), static_cast<guint>(layout.height));
  gsize end = layout.first;
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
    if (layout.stride != 0)
      info.stride[p] = GST_VIDEO_INFO_N_PLANES(&info) == 3 && p > 0 ? layout.stride / 2 : layout.stride;
    gsize rows = static_cast<gsize>(GST_VIDEO_INFO_COMP_HEIGHT(&info, p));
    if (p == 0 && layout.luma_rows != 0) rows = static_cast<gsize>(layout.luma_rows);
    info.offset[p] = end;
    end += rows * static_cast<gsize>(info.stride[p]);
  }
  info.size = end;
  return info;
}

class Picture {
public:
  explicit Picture(const GstVideoInfo &info, unsigned seed = 0) : bytes(info.size, 0xee), info_(info) {
    for (guint p = 0; p < planes(); ++p)
      for (gsize row = 0; row < rows(p); ++row)
        for (gsize x = 0; x < rowBytes(p); ++x)
          bytes[at(p, row) + x] = static_cast<guint8>(seed + 7 * p + 13 * row + x + x / 251 + row / 83);
  }

  guint planes() const { return GST_VIDEO_INFO_N_PLANES(&info_); }
  gsize rows(guint p) const { return static_cast<gsize>(GST_VIDEO_INFO_COMP_HEIGHT(&info_, p)); }
  gsize rowBytes(guint p) const { // of the planes' widest component: the chroma of packed formats
    gsize widest = 0;
    for (guint c = 0; c < GST_VIDEO_INFO_N_COMPONENTS(&info_); ++c)
      if (GST_VIDEO_FORMAT_INFO_PLANE(info_.finfo, c) == p)
        widest = std::max(widest, static_cast<gsize>(GST_VIDEO_INFO_COMP_WIDTH(&info_, c)) *
                                      static_cast<gsize>(GST_VIDEO_INFO_COMP_PSTRIDE(&info_, c)));
    return widest;
  }
  gsize at(guint p, gsize row) const { return info_.offset[p] + row * static_cast<gsize>(info_.stride[p]); }

  // `other` has the same layout.
  testing::AssertionResult sameAs(const guint8 *other) const {
    return same([&](guint p, gsize row) { return other + at(p, row); });
  }
  // By the strides and offsets that the buffer tells of.
  testing::AssertionResult sameAs(GstBuffer *buffer, const GstVideoInfo &plain) const {
    GstVideoFrame frame;
    if (!gst_video_frame_map(&frame, &plain, buffer, GST_MAP_READ))
      return testing::AssertionFailure() << "the frame cannot be mapped";
    const auto result = same([&](guint p, gsize row) {
      return static_cast<const guint8 *>(GST_VIDEO_FRAME_PLANE_DATA(&frame, p)) +
             row * static_cast<gsize>(GST_VIDEO_FRAME_PLANE_STRIDE(&frame, p));
    });
    gst_video_frame_unmap(&frame);
    return result;
  }

  std::vector<guint8> bytes; // padding too

private:
  template <typename RowOf> testing::AssertionResult same(RowOf &&row_of) const {
    for (guint p = 0; p < planes(); ++p)
      for (gsize row = 0; row < rows(p); ++row) {
        const guint8 *other = row_of(p, row), *own = &bytes[at(p, row)];
        for (gsize x = 0; x < rowBytes(p); ++x)
          if (own[x] != other[x])
            return testing::AssertionFailure() << "byte " << x << " of row " << row << " of plane " << p << " is "
                                               << int{other[x]} << " instead of " << int{own[x]};
      }
    return testing::AssertionSuccess();
  }
  GstVideoInfo info_;
};

} // namespace gstzc::test
