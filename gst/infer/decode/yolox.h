// SPDX-License-Identifier: LGPL-2.1-or-later
// YOLOX, exported without decoding in the net ("raw grid"). With it (--decode_in_inference) the shape is the same and
// the numbers are those of decoder=yolov5.
//
// [B,N,5+C], N = one row for each cell of the grids of strides 8, 16, 32, row by row: b0, b1, b2, b3, object score,
// class scores (both 0..1). Of the cell (column, row) of stride s: centre ((b0 + column) s, (b1 + row) s), size
// (exp(b2) s, exp(b3) s), in pixels of the input. The score of a box is the object's times the class's.
#pragma once

#include <memory>

#include "gst/infer/decode/yolo_head.h"

namespace gstzc::infer {

class YoloXDecoder : public Decoder {
public:
  // A YOLOv8 head with an object's numbers together has the same shape with 4+C: without a known number of classes only
  // COCO's 80 are taken for YOLOX's, unless it is asked for by name.
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::YoloX); }
  // BGR 0..255, letterboxed at the left and top edge, padded with grey.
  const FamilyDefaults &defaults() const override { return defaults_; }
  int classes() const override { return layout_.classes; }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  FamilyDefaults defaults_;
  OutputSlot objects_;
  InputPlan input_;
  ObjectLayout layout_;
};

} // namespace gstzc::infer
