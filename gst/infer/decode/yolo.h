// SPDX-License-Identifier: LGPL-2.1-or-later
// The YOLO heads whose boxes come out in pixels of the input: v5, v8 (also v9 and 11), v10 (also 26). All may carry
// coefficients of instance masks (with prototypes [B,P,H/4,W/4] as a second output) or keypoints after the classes.
//
// The grids are those of the strides 8, 16, 32; of 4 to 32 (P2 models) or of 8 to 64 (P6 models).
#pragma once

#include <memory>

#include "gst/infer/decode/yolo_head.h"

namespace gstzc::infer {

// What the three have in common: where their outputs are, and what the numbers of an object mean.
class YoloDecoder : public Decoder {
public:
  const FamilyDefaults &defaults() const override { return defaults_; }

protected:
  void use(const HeadOutputs &head, const ObjectLayout &layout, const InputPlan &input);

  FamilyDefaults defaults_;
  HeadOutputs head_;
  ObjectLayout layout_;
  PictureSize size_;
};

// [B,N,5+C], N = 3 anchors for each cell: centre x, y, width, height, object score, class scores. The score of a box
// is the object's times the class's. Asked for by name any N is taken: YOLOX exported with decoding in the net has the
// same numbers, one row for each cell (but wants YOLOX's pictures, see yolox.h).
class YoloV5Decoder : public YoloDecoder {
public:
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::YoloV5); }
  int classes() const override { return layout_.classes; }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;
};

// [B,4+C,N], N = one for each cell: centre x, y, width, height, class scores; no object score. [B,N,4+C] is understood
// where the classes are known, by their count or for being COCO's 80: else it could be a YOLOX head.
class YoloV8Decoder : public YoloDecoder {
public:
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::YoloV8); }
  int classes() const override { return layout_.classes; }
  bool turned() const { return rows_; } // [B,N,4+C]
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  bool rows_ = false; // an object's numbers lie together
};

// [B,N,6]: left, top, right, bottom, score, class of at most N objects, best first; the model suppressed the rest.
class YoloV10Decoder : public YoloDecoder {
public:
  static constexpr int kMostObjects = 1000; // of models that are recognised without being named

  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::YoloV10); }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;
};

} // namespace gstzc::infer
