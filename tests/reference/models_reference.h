// SPDX-License-Identifier: LGPL-2.1-or-later
// Published models run and decoded once more, in plain double precision: what fenceinfer's results are compared with.
// Shares no code with gst/infer. What each model expects and gives is its authors' description (RFB-320:
// Ultra-Light-Fast-Generic-Face-Detector; YuNet: libfacedetection.train; YOLOX; DeepLab v3 of TF-Hub; MediaPipe's
// BlazeFace). Failures throw std::exception, which fails a test.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/reference/preprocess_reference.h"

namespace gstzc::reference {

struct Tensor {
  std::vector<int64_t> dims;
  std::vector<float> values;
};

// A session of ONNX Runtime on the CPU, one thread, no spinning.
class OnnxModel {
public:
  explicit OnnxModel(const std::string &path);
  ~OnnxModel();
  OnnxModel(const OnnxModel &) = delete;
  OnnxModel &operator=(const OnnxModel &) = delete;

  // Of a model with one picture as its input: the outputs by name.
  std::map<std::string, Tensor> run(const Tensor &input) const;

private:
  struct Session;
  std::unique_ptr<Session> session_;
};

// What the model gets of a picture, and where things in it lie in the source.
struct Input {
  Tensor tensor;                                    // [1,3,h,w] or [1,h,w,3]
  double left = 0, top = 0, zoom_x = 1, zoom_y = 1; // the picture's corner and size in the model's
  double sourceX(double x) const { return (x - left) / zoom_x; }
  double sourceY(double y) const { return (y - top) / zoom_y; }
};
Input inputOf(const Picture &picture, const Target &target);

// Pixels of the source picture; boxes may leave it.
struct Box {
  double score = 0;
  int label = 0;
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  std::vector<std::array<double, 2>> points;
};

double overlap(const Box &a, const Box &b); // intersection over union

// Best first. Thresholds as the models' authors use them.
std::vector<Box> rfb320(const OnnxModel &model, const Picture &picture, double threshold = 0.6, double iou = 0.3);
std::vector<Box> yunet(const OnnxModel &model, const Picture &picture, int width, int height, Fit fit = Fit::Stretch,
                       double threshold = 0.6, double iou = 0.3);
std::vector<Box> yoloxNano(const OnnxModel &model, const Picture &picture, double threshold = 0.3, double iou = 0.45);
enum class Overlapping { KeepBest, Average }; // averaged by score, as MediaPipe does
std::vector<Box> blazeFace(const OnnxModel &model, const Picture &picture, int side, double threshold = 0.5,
                           double iou = 0.3, Overlapping overlapping = Overlapping::KeepBest);

// Part of the picture, 0..1, that each of the 21 classes has.
std::array<double, 21> deeplabShares(const OnnxModel &model, const Picture &picture);

} // namespace gstzc::reference
