// SPDX-License-Identifier: LGPL-2.1-or-later
// YuNet (libfacedetection): faces with five points, any input size that is a multiple of 32.
//
// For each stride s of 8, 16, 32, with N cells: cls_s and obj_s [B,N,1] (0..1), bbox_s [B,N,4], kps_s [B,N,10]. Of the
// cell (column, row): score = sqrt(cls obj); centre ((b0 + column) s, (b1 + row) s), size (exp(b2) s, exp(b3) s); point
// k ((k0 + column) s, (k1 + row) s), in pixels of the input. Points: left eye, right eye (as seen in the picture),
// nose, left and right corner of the mouth.
#pragma once

#include <array>
#include <memory>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/decode/grids.h"
#include "gst/infer/decode/output_slot.h"

namespace gstzc::infer {

class YuNetDecoder : public Decoder {
public:
  static constexpr int kKeypoints = 5;

  // By names; without them by shapes, which tell all but cls from obj, and those two are worth the same.
  static std::unique_ptr<Decoder> match(const DecoderWishes &wishes, const InputPlan &input,
                                        const std::vector<TensorInfo> &outputs);
  static const char *expected();

  const char *name() const override { return decoderName(DecoderKind::YuNet); }
  const FamilyDefaults &defaults() const override { return defaults_; } // BGR 0..255
  int classes() const override { return 1; }
  Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const override;

private:
  FamilyDefaults defaults_;
  struct Grid {
    OutputSlot cls, obj, bbox, kps;
  };
  std::array<Grid, kStrides.size()> grids_;
  InputPlan input_;
};

} // namespace gstzc::infer
