// SPDX-License-Identifier: LGPL-2.1-or-later
// Models with BlazeFace's shapes and known answers.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/onnx_writer.h"

namespace gstzc::test {

// A face to encode: an anchor of the fine grid (0..511) and, in pixels of the input, the box's centre relative to the
// anchor's and its size.
struct EncodedFace {
  int anchor = 0;
  float dx = 0, dy = 0, width = 0, height = 0;
};

inline std::vector<float> regressors(const std::vector<EncodedFace> &faces, int anchors) {
  std::vector<float> values(static_cast<size_t>(anchors) * 16, 0.0f);
  for (const EncodedFace &face : faces) {
    float *const at = values.data() + static_cast<size_t>(face.anchor) * 16;
    at[0] = face.dx, at[1] = face.dy, at[2] = face.width, at[3] = face.height;
  }
  return values;
}

// Input and the outputs that do not matter (the coarse grid: no face).
inline OnnxModel faceFrame(int side, const std::vector<EncodedFace> &faces, bool nchw = false) {
  OnnxModel model;
  if (nchw)
    model.input("image", kOnnxFloat, {1, 3, side, side});
  else
    model.input("image", kOnnxFloat, {1, side, side, 3});
  model.constant("fine boxes", {1, 512, 16}, regressors(faces, 512))
      .constant("coarse boxes", {1, 384, 16}, regressors({}, 384))
      .constant("coarse scores", {1, 384, 1}, std::vector<float>(384, -100.0f))
      .node("Identity", {"fine boxes"}, "boxes:0")
      .node("Identity", {"coarse boxes"}, "boxes:1")
      .node("Identity", {"coarse scores"}, "scores:1")
      .output("scores:0", kOnnxFloat, {1, 512, 1})
      .output("scores:1", kOnnxFloat, {1, 384, 1})
      .output("boxes:0", kOnnxFloat, {1, 512, 16})
      .output("boxes:1", kOnnxFloat, {1, 384, 16});
  return model;
}

// Whatever the picture, these faces, each with the raw score.
inline OnnxModel constantFaces(int side, const std::vector<EncodedFace> &faces, float raw_score) {
  std::vector<float> scores(512, -100.0f);
  for (const EncodedFace &face : faces) scores[static_cast<size_t>(face.anchor)] = raw_score;
  OnnxModel model = faceFrame(side, faces);
  model.constant("fine scores", {1, 512, 1}, scores).node("Identity", {"fine scores"}, "scores:0");
  return model;
}

// Three faces whose raw scores are the means of the input's first, second and third channel, so that scores tell which
// numbers reached the model.
inline OnnxModel channelMeans(int side, const std::array<EncodedFace, 3> &faces, bool nchw = false) {
  std::vector<float> weights(3 * 512, 0.0f), bias(512, -100.0f);
  for (size_t c = 0; c < 3; ++c) {
    weights[c * 512 + static_cast<size_t>(faces[c].anchor)] = 1.0f;
    bias[static_cast<size_t>(faces[c].anchor)] = 0.0f;
  }
  OnnxModel model = faceFrame(side, {faces.begin(), faces.end()}, nchw);
  model
      .node("ReduceMean", {"image"}, "means",
            {{"axes", nchw ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{1, 2}}})
      .constant("one row", {2}, std::vector<int64_t>{1, 3})
      .node("Reshape", {"means", "one row"}, "row")
      .constant("weights", {3, 512}, weights)
      .constant("bias", {1, 512}, bias)
      .node("MatMul", {"row", "weights"}, "weighted")
      .node("Add", {"weighted", "bias"}, "raw")
      .constant("score shape", {3}, std::vector<int64_t>{1, 512, 1})
      .node("Reshape", {"raw", "score shape"}, "scores:0");
  return model;
}

// As constantFaces(), after products of 256x256 matrices (some ms each), whose result weighs nothing: as many as
// `steps` times the absolute mean of the input, rounded up. An input of zeros takes none, so that loading such a model
// is quick.
inline OnnxModel slowFaces(const std::vector<EncodedFace> &faces, float raw_score, int steps) {
  constexpr int64_t n = 256;
  std::vector<float> identity(n * n, 0.0f), scores(512, -100.0f);
  for (size_t i = 0; i < n; ++i) identity[i * n + i] = 1.0f;
  for (const EncodedFace &face : faces) scores[static_cast<size_t>(face.anchor)] = raw_score;
  OnnxModel step; // of a Loop: its number, whether to go on, what it works on
  step.input("number", kOnnxInt64, {})
      .input("go on", kOnnxBool, {})
      .input("before", kOnnxFloat, {3 * n, n})
      .node("Identity", {"go on"}, "go on still")
      .node("MatMul", {"before", "identity"}, "after")
      .output("go on still", kOnnxBool, {})
      .output("after", kOnnxFloat, {3 * n, n});
  OnnxModel model = faceFrame(n, faces);
  model.constant("rows", {2}, std::vector<int64_t>{3 * n, n})
      .constant("identity", {n, n}, identity)
      .constant("steps", {}, std::vector<float>{static_cast<float>(steps)})
      .constant("zero", {}, std::vector<float>{0.0f})
      .constant("fine scores", {1, 512, 1}, scores)
      .node("Reshape", {"image", "rows"}, "first")
      .node("ReduceMean", {"image"}, "image's mean", {OnnxAttribute::integer("keepdims", 0)})
      .node("Abs", {"image's mean"}, "weight")
      .node("Mul", {"weight", "steps"}, "weighted")
      .node("Ceil", {"weighted"}, "rounded")
      .node("Cast", {"rounded"}, "times", {OnnxAttribute::integer("to", kOnnxInt64)})
      .node("Loop", {"times", "", "first"}, "last", {OnnxAttribute::body("body", step.graph())})
      .node("ReduceMean", {"last"}, "mean", {OnnxAttribute::integer("keepdims", 0)})
      .node("Mul", {"mean", "zero"}, "nothing")
      .node("Add", {"fine scores", "nothing"}, "scores:0");
  return model;
}

} // namespace gstzc::test
