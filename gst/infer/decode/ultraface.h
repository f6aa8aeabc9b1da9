// SPDX-License-Identifier: LGPL-2.1-or-later
// The face detectors RFB-320, RFB-640 and slim of "Ultra-Light-Fast-Generic-Face-Detector-1MB", and the SSD models of
// the same export (pytorch-ssd): boxes come out decoded, suppression is left to us.
//
// `boxes` [B,N,4]: left, top, right, bottom in 0..1 of the input, may leave it. `scores` [B,N,C]: 0..1, class 0 is the
// background. The same models can be exported without their last step: then names and shapes are the same, but the
// boxes are relative to priors, which is what decoder=ssd is for.
#pragma once

#include <memory>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

class UltraFaceDecoder : public Decoder {
public:
  // The outputs are called "scores" and "boxes", or have two classes and as many rows as RFB has for the input: a
  // model with boxes relative to priors would have the same shapes.
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::UltraFace); }
  const FamilyDefaults &defaults() const override { return defaults_; } // of the faces: RGB, (x - 127) / 128, stretched
  int classes() const override { return classes_; }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  FamilyDefaults defaults_;
  OutputSlot scores_, boxes_;
  int classes_ = 1;     // that labels are for
  int first_label_ = 0; // of the first class after the background
};

} // namespace gstzc::infer
