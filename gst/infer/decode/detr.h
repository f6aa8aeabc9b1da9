// SPDX-License-Identifier: LGPL-2.1-or-later
// Detectors with object queries, which need no suppression: DETR ("End-to-End Object Detection with Transformers",
// Carion and others) and YOLOS, RT-DETR, RF-DETR and their kin.
//
// Boxes [B,Q,4]: centre x, y, width, height in 0..1 of the input. Scores [B,Q,C], as logits, of two kinds:
// - with "no object" as the last class, softmaxed: DETR, YOLOS;
// - without it, each class with a sigmoid of its own: RT-DETR, RF-DETR.
// They are told apart by the number of classes where it is known (C = classes + 1: the former), else by Q: the former
// have 100 queries. RF-DETR, known by its names, always is of the latter kind, and may have a class too many at the end
// (those trained for own classes). Or both in one: [B,Q,4+C] with scores that are 0..1 already, as Ultralytics exports
// RT-DETR.
#pragma once

#include <memory>

#include "gst/infer/decode/class_scores.h"
#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

class DetrDecoder : public Decoder {
public:
  // By the names: logits or pred_logits with pred_boxes or boxes, RF-DETR's labels with dets. Both in one only where it
  // is named or the number of classes says so; of two classes that would have the shape of a YOLOv10 head.
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::Detr); }
  // Stretched; normalised by ImageNet's mean and deviation but, as RT-DETR wants it, RGB 0..1 for logits without "no
  // object" and for the one tensor.
  const FamilyDefaults &defaults() const override { return defaults_; }
  int classes() const override { return classes_; }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  FamilyDefaults defaults_;
  OutputSlot scores_, boxes_; // the same where both are in one
  bool joined_ = false;
  ScoreForm form_ = ScoreForm::Softmax;
  int classes_ = 0; // without "no object"
};

} // namespace gstzc::infer
