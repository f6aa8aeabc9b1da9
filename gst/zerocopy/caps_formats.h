// SPDX-License-Identifier: LGPL-2.1-or-later
// Caps arithmetic of formats: between GStreamer's names and those of DRM.
#pragma once

#include <gst/gst.h>

#include "gst/zerocopy/core/export.h"

namespace gstzc {

GSTZC_API void appendString(GValue *list, const char *text); // to a list of GStreamer's

// Formats with a linear DRM name, in GStreamer's order of preference, as a caps field's list. Caller owns the value.
GSTZC_API void initFormatList(GValue *formats);    // "NV12", "BGRx", …
GSTZC_API void initDrmFormatList(GValue *formats); // "NV12", "XR24", …

// format=DMA_DRM, alone or as a list of one
GSTZC_API bool isDrmNotation(const GstStructure *structure);

// A structure with plain formats as linear DMA_DRM; null where no format has a DRM name. Transfer full.
GSTZC_API GstStructure *linearDrmStructure(const GstStructure *structure);

// The entries of a DMA_DRM structure as plain formats, with `tiled` also those with a modifier; null where there are
// none. Transfer full.
GSTZC_API GstStructure *plainStructure(const GstStructure *structure, bool tiled);

// Of any size: DMA_DRM of any format and modifier; plain formats that have a DRM name. Transfer full.
GSTZC_API GstStructure *anyDrmStructure();
GSTZC_API GstStructure *anyPlainStructure();

// Takes structure and features (null: system memory); leaves out what is in the caps already.
GSTZC_API void appendDistinct(GstCaps *caps, GstStructure *structure, GstCapsFeatures *features);

} // namespace gstzc
