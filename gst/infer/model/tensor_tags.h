// SPDX-License-Identifier: LGPL-2.1-or-later
// Ids by which decoders outside of this plugin find a model's outputs: Collabora's tensor-id-registry, which
// GStreamer's tensor decoders follow.
#pragma once

#include <vector>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/engine/engine.h"
#include "gst/infer/model/model_config.h"

namespace gstzc::infer {

// One for each output, empty where the registry has none that fits. Without a decoder (null) the names that
// TensorFlow's detection models give their outputs tell, as they do for onnxinference 1.26. `keypoints` is the number
// of an object's points, 0 for none; `softmaxed` says that class scores are probabilities already.
std::vector<TensorTag> defaultTags(const Decoder *decoder, const std::vector<TensorInfo> &outputs, int keypoints = 0,
                                   bool softmaxed = false);

} // namespace gstzc::infer
