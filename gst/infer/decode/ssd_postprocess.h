// SPDX-License-Identifier: LGPL-2.1-or-later
// SSD models that end in TensorFlow's detection post-processing: what comes out is sorted, suppressed and ready.
//
// boxes [B,N,4]: top, left, bottom, right in 0..1 of the input; classes [B,N]; scores [B,N]; count [B] or [B,1]: how
// many of the N are objects. Names end like those of the TensorFlow Object Detection API (detection_boxes,
// detection_classes, detection_scores, num_detections) or of TFLite (TFLite_Detection_PostProcess, …:1, …:2, …:3: the
// same order). Other names are understood where all four are there and the classes are integers or named so.
//
// TensorFlow's own classes count from 1, since its label maps do; TFLite's and those of other names from 0. Labels
// begin with the first object in either case: line 1 of a labels file is class 1 of the former and 0 of the latter.
#pragma once

#include <memory>
#include <optional>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

class SsdPostprocessDecoder : public Decoder {
public:
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::SsdPostprocess); }
  const FamilyDefaults &defaults() const override { return defaults_; } // RGB -1..1, stretched
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  FamilyDefaults defaults_;
  OutputSlot boxes_, classes_, scores_;
  std::optional<OutputSlot> count_; // none: all N
  int first_class_ = 0;             // the number of the first class that is an object
};

} // namespace gstzc::infer
