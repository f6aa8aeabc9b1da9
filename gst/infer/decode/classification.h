// SPDX-License-Identifier: LGPL-2.1-or-later
// What the whole picture shows: one score for each class, as models for ImageNet give.
#pragma once

#include <memory>
#include <vector>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

// Scores are taken as they are where all lie in 0..1 and either their sum is 1 within 0.01 (a softmax is in the model)
// or there are 16 or more (sigmoids are: a picture may have several classes), else a softmax is made of them; told
// apart for each picture. Bytes are scores of 0..255.
class ClassificationDecoder : public Decoder {
public:
  // Null where there is not one output [1,C], [1,C,1,1] or [1,1,1,C] of float32, float16 or uint8 with 2 classes or
  // more. Auto also wants C to be the number of labels where they are known, and leaves [n,C] of an open n with C up to
  // 7 alone: these are n boxes, as YOLOv7's export with suppression gives them. Named, C may be left open.
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return "classification"; }
  const FamilyDefaults &defaults() const override { return defaults_; }
  int classes() const override { return classes_; }

  // Findings::classifications: scores from the threshold on, at most max_detections, best first, equal ones by index.
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  OutputSlot output_;
  int classes_ = 0; // 0: left open
  FamilyDefaults defaults_;
};

} // namespace gstzc::infer
