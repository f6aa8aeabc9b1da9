// SPDX-License-Identifier: LGPL-2.1-or-later
// High dynamic range: what frames say of themselves, and whether a screen understands it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <drm_mode.h>
#include <gst/video/video.h>

namespace gstzc {

// Transfer functions as CTA-861 numbers them.
constexpr uint8_t kEotfPq = 2, kEotfHlg = 3;

// What the screen is to be told of PQ and HLG frames, from their transfer function, and from mastering-display-info and
// content-light-level of the caps where those are. Nothing for other frames.
std::optional<hdr_output_metadata> hdrMetadataOf(const GstVideoInfo &info, const GstCaps *caps);

// The transfer functions that an EDID promises, bit i: number i. 0: it says nothing of them.
uint8_t edidTransferFunctions(std::span<const uint8_t> edid);

} // namespace gstzc
