// SPDX-License-Identifier: LGPL-2.1-or-later
// From a model's output tensors to objects: pure functions, one class per family of models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gst/infer/engine.h"
#include "gst/infer/input_plan.h"
#include "gst/infer/preprocess.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

struct Point {
  float x = 0, y = 0;
};

// One object. Coordinates are parts of the input picture, 0..1 from its left and top edge; they may leave it.
struct Detection {
  float score = 0; // 0..1
  int label = 0;   // index into Decoder::labels()
  float left = 0, top = 0, right = 0, bottom = 0;
  std::vector<Point> keypoints;

  float area() const { return right > left && bottom > top ? (right - left) * (bottom - top) : 0; }
};

float intersectionOverUnion(const Detection &a, const Detection &b);

struct DecodeOptions {
  float threshold = 0.5f;     // objects below this score are left out
  float iou_threshold = 0.3f; // overlap from which two boxes are the same object
  int max_detections = 100;   // the best ones
};

class Decoder {
public:
  virtual ~Decoder() = default;
  virtual const char *name() const = 0;
  virtual const std::vector<std::string> &labels() const = 0;

  // How the models of this family want their pictures.
  virtual Normalisation normalisation() const = 0;
  virtual ResizeMode resizeMode() const = 0;

  // Best first. Error: tensors whose shapes are not those the decoder was made for.
  virtual Result<std::vector<Detection>> decode(const Outputs &outputs, const DecodeOptions &options) const = 0;
};

enum class DecoderKind { Auto, BlazeFace };

// The decoder for a model with these tensors; Auto takes the first that fits. The error names the outputs' shapes and
// those that would fit.
Result<std::unique_ptr<Decoder>> makeDecoder(DecoderKind kind, const InputPlan &input,
                                             const std::vector<TensorInfo> &outputs);

} // namespace gstzc::infer
