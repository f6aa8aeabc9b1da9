// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/device_choice.h"

namespace gstzc::infer {

bool readByDevice(const FrameCaps &caps, PreprocessDevice setting) {
  return caps.memory == MemoryKind::Cuda || setting == PreprocessDevice::Cuda;
}

GstCaps *withoutDeviceMemory(const GstCaps *caps) {
  GstCaps *rest = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstCapsFeatures *features = gst_caps_get_features(caps, i);
    if (features != nullptr && gst_caps_features_contains(features, kCudaFeature)) continue;
    gst_caps_append_structure_full(rest, gst_structure_copy(gst_caps_get_structure(caps, i)),
                                   features != nullptr ? gst_caps_features_copy(features) : nullptr);
  }
  return rest;
}

} // namespace gstzc::infer
