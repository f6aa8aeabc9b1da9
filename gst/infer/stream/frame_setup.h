// SPDX-License-Identifier: LGPL-2.1-or-later
// What frames of certain caps need on their way into a certain model.
#pragma once

#include <memory>

#include "gst/infer/model/model.h"
#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/core/mapping.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

// Formats and layouts that the CPU reads; the error says what is in the way.
Status checkReadable(const FrameCaps &caps);

// Immutable; shared by the frames it is for.
struct FrameSetup {
  std::shared_ptr<const Model> model;
  FrameCaps caps;
  Preprocessor whole;     // for the whole frame
  bool is_tensor = false; // a frame without gaps between its rows is the tensor
  std::shared_ptr<MappingCache> mappings = MappingCache::process(); // it goes with its last user

  // Nothing throws: memory that runs out is an error with code ENOMEM.
  static Result<std::shared_ptr<const FrameSetup>> create(std::shared_ptr<const Model> model, const FrameCaps &caps);
};

} // namespace gstzc::infer
