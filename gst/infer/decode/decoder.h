// SPDX-License-Identifier: LGPL-2.1-or-later
// From a model's output tensors to what it found in one picture: pure functions, one class per family of models.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gst/infer/decode/findings.h"
#include "gst/infer/engine/engine.h"
#include "gst/infer/preprocess/input_plan.h"
#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

struct DecodeOptions {
  float threshold = 0.5f;     // what has a lower score is left out
  float iou_threshold = 0.3f; // overlap from which two boxes of a class are the same object
  int max_detections = 100;   // the best ones
};

// What the models of a family are commonly trained with; used where neither the model's file nor the user says.
struct FamilyDefaults {
  PreprocessOptions preprocess;
  float threshold = 0.5f;
  float iou_threshold = 0.3f;
  std::vector<std::string> labels; // of its classes, by index; may be shorter than the classes are many
};

class Decoder {
public:
  virtual ~Decoder() = default;
  virtual const char *name() const = 0; // the nick of its DecoderKind
  virtual const FamilyDefaults &defaults() const = 0;
  virtual int classes() const { return 0; } // that the outputs have scores for; 0: not known

  // `outputs` of one picture: dimension 0, where it is the batch, is 1. Thread-safe. What the file declares is not what
  // comes: numbers that are not finite and boxes without area are left out; no index is taken from a tensor unchecked.
  // Error: tensors whose shapes are not those the decoder was made for.
  virtual Result<Findings> decode(const Outputs &outputs, const DecodeOptions &options) const = 0;
};

enum class DecoderKind {
  Auto,
  None, // no decoding: the tensors themselves are the result
  BlazeFace,
  Ssd,            // boxes relative to priors
  SsdPostprocess, // boxes, classes, scores and their number come out of the model
  UltraFace,      // RFB-320 and its kin
  YuNet,
  YoloV5,
  YoloV8,  // v8, v9 and 11: detection, poses (with keypoints) and instance masks (with prototypes)
  YoloV10, // v10 and 26: at most N objects, suppression done in the model
  YoloX,
  Detr,
  Classification,
  Segmentation,
};

const char *decoderName(DecoderKind kind); // the nick: "yolov8"

struct DecoderWishes {
  DecoderKind kind = DecoderKind::Auto;
  int classes = 0;         // that the labels or the metadata know of; 0: not known
  int keypoints = 0;       // of an object; 0: not known
  int keypoint_values = 0; // numbers of a keypoint: 2 or, with a score, 3; 0: not known
};

// The decoder for a model with these tensors; Auto takes the one that surely fits, else it is an error that names the
// outputs' shapes, the decoders and decoder=none. A named one that does not fit is an error that says what it needs.
// Null only for None.
Result<std::unique_ptr<Decoder>> makeDecoder(const DecoderWishes &wishes, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs);

} // namespace gstzc::infer
