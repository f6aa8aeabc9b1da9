// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/hdr.h"

#include <algorithm>
#include <cstddef>

#include <gst/video/video-hdr.h>

namespace gstzc {

std::optional<hdr_output_metadata> hdrMetadataOf(const GstVideoInfo &info, const GstCaps *caps) {
  hdr_output_metadata result = {};
  hdr_metadata_infoframe &frame = result.hdmi_metadata_type1;
  switch (info.colorimetry.transfer) {
  case GST_VIDEO_TRANSFER_SMPTE2084: frame.eotf = kEotfPq; break;
  case GST_VIDEO_TRANSFER_ARIB_STD_B67: frame.eotf = kEotfHlg; break;
  default: return std::nullopt;
  }
  GstVideoMasteringDisplayInfo display;
  if (gst_video_mastering_display_info_from_caps(&display, caps)) {
    // both sides have chromaticities in 0.00002, and the darkest luminance in 0.0001 cd/m²; the brightest one has no
    // fraction on the wire
    for (size_t i = 0; i < 3; ++i)
      frame.display_primaries[i] = {display.display_primaries[i].x, display.display_primaries[i].y};
    frame.white_point = {display.white_point.x, display.white_point.y};
    frame.max_display_mastering_luminance =
        static_cast<uint16_t>(std::min<guint32>(display.max_display_mastering_luminance / 10000, UINT16_MAX));
    frame.min_display_mastering_luminance =
        static_cast<uint16_t>(std::min<guint32>(display.min_display_mastering_luminance, UINT16_MAX));
  }
  GstVideoContentLightLevel light;
  if (gst_video_content_light_level_from_caps(&light, caps)) {
    frame.max_cll = light.max_content_light_level;
    frame.max_fall = light.max_frame_average_light_level;
  }
  return result;
}

uint8_t edidTransferFunctions(std::span<const uint8_t> edid) {
  constexpr size_t kBlock = 128;
  constexpr uint8_t kCtaExtension = 0x02, kExtendedTag = 7, kHdrStaticMetadata = 6;
  for (size_t block = kBlock; block + kBlock <= edid.size(); block += kBlock) {
    const auto cta = edid.subspan(block, kBlock);
    if (cta[0] != kCtaExtension || cta[1] < 3) continue;
    const size_t end = std::min<size_t>(cta[2], kBlock - 1); // where the detailed timings begin
    for (size_t at = 4; at < end;) {
      const size_t length = cta[at] & 0x1f;
      if (at + 1 + length > end) break;
      if (cta[at] >> 5 == kExtendedTag && length >= 2 && cta[at + 1] == kHdrStaticMetadata) return cta[at + 2] & 0x3f;
      at += 1 + length;
    }
  }
  return 0;
}

} // namespace gstzc
