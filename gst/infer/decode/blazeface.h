// SPDX-License-Identifier: LGPL-2.1-or-later
// MediaPipe's BlazeFace detectors: front (input 128x128) and back (256x256).
//
// 896 anchors, which are centres only: a grid of 16x16 cells with 2 anchors a cell, then one of 8x8 cells with 6. Per
// anchor a raw score (a sigmoid makes 0..1 of it) and 16 numbers in pixels of the input:
// centre relative to the anchor, width, height, and six points relative to the anchor: left eye, right eye (as seen in
// the picture), nose, mouth, left ear, right ear. Overlapping boxes are blended, weighted by score.
#pragma once

#include <array>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

class BlazeFaceDecoder : public Decoder {
public:
  static constexpr int kAnchors = 896, kFineAnchors = 512, kNumbers = 16, kKeypoints = 6;

  // Null where the shapes are not BlazeFace's: a square input and, among the outputs in any order, [1,896,1] and
  // [1,896,16], or the same split by grid: [1,512,1], [1,384,1], [1,512,16], [1,384,16].
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  // Centre of anchor `i` as part of the input picture.
  static Point anchor(int i);

  const char *name() const override { return decoderName(DecoderKind::BlazeFace); }
  const FamilyDefaults &defaults() const override; // RGB -1..1, letterboxed in the middle, padded with black
  int classes() const override { return 1; }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  // One output tensor and the anchors it covers.
  struct Part {
    OutputSlot output;
    int first = 0, count = 0;
  };

  float side_ = 128; // of the input, pixels
  std::vector<Part> scores_, numbers_;
};

} // namespace gstzc::infer
