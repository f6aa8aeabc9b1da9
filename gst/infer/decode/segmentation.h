// SPDX-License-Identifier: LGPL-2.1-or-later
// The class of every place of the picture: models for semantic segmentation.
#pragma once

#include <memory>
#include <vector>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

// What the first output holds decides:
// - scores, float32 or float16, [1,C,h,w] or [1,h,w,C] with C from 2 to 255: the class with the highest one; whether
//   they are logits or probabilities makes no difference to that
// - classes, int32, int64 or uint8, [1,h,w], [1,1,h,w] or [1,h,w,1]
// - one float32 or float16 for each place, in the same shapes, told apart for each picture: classes where all are whole
//   numbers; else scores of class 1 against class 0, as they are where all lie in 0..1, else through a sigmoid; class 1
//   from the threshold on
// Further outputs of the same shape (torchvision's "aux") are not looked at.
class SegmentationDecoder : public Decoder {
public:
  // A place without a class: classes below 0 and above 254, and where no score is a number. PASCAL VOC and Cityscapes
  // mark what does not count so.
  static constexpr uint8_t kNoClass = 255;
  static constexpr int kMaxClasses = 255;

  // Null where the first output has none of these shapes. Auto also wants: all outputs of one shape; scores or integers
  // (one floating point number may be anything, such as a depth); as many places as the input has pixels or, evenly in
  // both directions, down to an eighth (coarser grids are those of detectors); as many classes as labels where they are
  // known, else not as many as the input has channels, since that may be a picture. Named, the map may have any size.
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return "segmentation"; }
  const FamilyDefaults &defaults() const override { return defaults_; }
  int classes() const override { return classes_; }

  // Findings::segmentation: a cell for each place of the tensor.
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  OutputSlot output_;
  size_t row_dim_ = 0, column_dim_ = 0; // of height and width among the dimensions
  size_t class_dim_ = 0;                // 0: one number for each place
  int classes_ = 0;                     // 0: not known
  FamilyDefaults defaults_;
};

} // namespace gstzc::infer
