// SPDX-License-Identifier: LGPL-2.1-or-later
// SSD heads whose boxes are relative to priors (see priors.h).
//
// Boxes [B,N,4] or flat [B,4N]; scores [B,N,C], class 0 is the background. With the variances v of the SSD paper's
// implementation, 0.1 and 0.2: centre = prior's centre + v0 * b * prior's size, size = prior's size * exp(v1 * b).
//
// The order of the four numbers is x, y, width, height, and scores that are no probabilities yet are softmaxed. Models
// of the TensorFlow Object Detection API, known by their names (box_encodings, class_predictions, convert_scores) or by
// an NHWC input, have y, x, height, width, and a sigmoid of each score.
//
// Priors come from the model as a third output, or from the set that has N for the input's size:
// - [B,2,4N], as Caffe's PriorBox layer makes them: corners, then four variances each;
// - [B,N,4] or [N,4] in an output with "prior" or "anchor" in its name: centre and size, in the order of the boxes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/output_slot.h"
#include "gst/infer/decode/priors.h"

namespace gstzc::infer {

class SsdDecoder : public Decoder {
public:
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::Ssd); }
  const FamilyDefaults &defaults() const override { return defaults_; } // RGB -1..1, stretched
  int classes() const override { return classes_; }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  enum class PriorForm { Made, Corners, Centres };

  FamilyDefaults defaults_;
  OutputSlot boxes_, scores_;
  PriorForm form_ = PriorForm::Made;
  std::optional<OutputSlot> priors_; // that come out of the model
  std::vector<Prior> made_;          // else
  size_t rows_ = 0;
  bool tensor_flow_ = false;
  int classes_ = 0;     // that labels are for
  int first_label_ = 0; // of the first class after the background
};

} // namespace gstzc::infer
