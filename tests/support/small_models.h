// SPDX-License-Identifier: LGPL-2.1-or-later
// Models without weights whose answers follow from the picture by hand.
#pragma once

#include <string>
#include <vector>

#include "tests/support/onnx_writer.h"

namespace gstzc::test {

// The picture itself, as output "copy".
inline OnnxModel copyOfThePicture(OnnxType type, const OnnxModel::Dims &dims) {
  OnnxModel model;
  model.input("image", type, dims).node("Identity", {"image"}, "copy").output("copy", type, dims);
  return model;
}

// The means of the three channels, as scores of three classes: "scores" [batch,3]. Of a float picture [batch,3,h,w].
inline OnnxModel colourClassifier(const OnnxModel::Dims &dims) {
  OnnxModel model;
  model.input("image", kOnnxFloat, dims)
      .node("ReduceMean", {"image"}, "scores", {{"axes", {2, 3}}, OnnxAttribute::integer("keepdims", 0)})
      .output("scores", kOnnxFloat, {dims[0], 3});
  return model;
}

// An object in parts of the picture.
struct PlacedObject {
  float top = 0, left = 0, bottom = 0, right = 0;
  int label = 0;
  float score = 0.9f;
};

// Whatever the picture, these objects: an SSD whose post-processing is done (classes counted from 1). The picture is
// [1,side,side,3].
inline OnnxModel placedObjects(int side, const std::vector<PlacedObject> &objects) {
  std::vector<float> boxes, classes, scores;
  for (const PlacedObject &object : objects) {
    boxes.insert(boxes.end(), {object.top, object.left, object.bottom, object.right});
    classes.push_back(static_cast<float>(object.label + 1));
    scores.push_back(object.score);
  }
  const auto count = static_cast<int64_t>(objects.size());
  OnnxModel model;
  model.input("image", kOnnxFloat, {1, side, side, 3})
      .constant("boxes", {1, count, 4}, boxes)
      .constant("classes", {1, count}, classes)
      .constant("scores", {1, count}, scores)
      .constant("count", {1}, std::vector<float>{static_cast<float>(count)})
      .node("Identity", {"boxes"}, "detection_boxes")
      .node("Identity", {"classes"}, "detection_classes")
      .node("Identity", {"scores"}, "detection_scores")
      .node("Identity", {"count"}, "num_detections")
      .output("detection_boxes", kOnnxFloat, {1, count, 4})
      .output("detection_classes", kOnnxFloat, {1, count})
      .output("detection_scores", kOnnxFloat, {1, count})
      .output("num_detections", kOnnxFloat, {1});
  return model;
}

} // namespace gstzc::test
