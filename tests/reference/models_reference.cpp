// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/reference/models_reference.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>

#include <onnxruntime_cxx_api.h>

namespace gstzc::reference {
namespace {

Ort::Env &environment() {
  static Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "reference");
  return env;
}

Ort::SessionOptions options() {
  Ort::SessionOptions o;
  o.SetIntraOpNumThreads(1);
  o.AddConfigEntry("session.intra_op.allow_spinning", "0");
  return o;
}

// Debian's 1.21 writes a hundred kilobytes of "Schema error" to std::cerr when the first session is made.
Ort::Session quietSession(const std::string &path) {
  std::ostringstream noise;
  struct Redirected {
    std::streambuf *before;
    ~Redirected() { std::cerr.rdbuf(before); }
  } const redirected{std::cerr.rdbuf(noise.rdbuf())};
  return Ort::Session(environment(), path.c_str(), options());
}

// value = (colour - mean) / divisor, the same for all channels
Target planar(int width, int height, double mean, double divisor) {
  Target t;
  t.width = width, t.height = height;
  t.nchw = true;
  for (int c = 0; c < 3; ++c) t.mean[c] = mean, t.scale[c] = 1 / divisor;
  return t;
}

Target interleaved(int side, double mean, double divisor) {
  Target t = planar(side, side, mean, divisor);
  t.nchw = false;
  return t;
}

double part(const Tensor &t, size_t row, size_t columns, size_t column) { return t.values.at(row * columns + column); }

// Greedy: the best one takes away what overlaps it; with labels, only of its own.
std::vector<Box> suppressed(std::vector<Box> boxes, double iou, Overlapping overlapping = Overlapping::KeepBest) {
  std::stable_sort(boxes.begin(), boxes.end(), [](const Box &a, const Box &b) { return a.score > b.score; });
  std::vector<Box> kept;
  while (!boxes.empty()) {
    std::vector<Box> same, others;
    for (size_t i = 0; i < boxes.size(); ++i)
      (i == 0 || (boxes[i].label == boxes[0].label && overlap(boxes[i], boxes[0]) > iou) ? same : others)
          .push_back(boxes[i]);
    Box result = same[0];
    if (overlapping == Overlapping::Average) {
      Box sum;
      sum.points.resize(result.points.size(), {0, 0});
      double weight = 0;
      for (const Box &b : same) {
        weight += b.score;
        sum.x1 += b.score * b.x1, sum.y1 += b.score * b.y1, sum.x2 += b.score * b.x2, sum.y2 += b.score * b.y2;
        for (size_t k = 0; k < b.points.size(); ++k)
          for (int axis = 0; axis < 2; ++axis) sum.points[k][axis] += b.score * b.points[k][axis];
      }
      result.x1 = sum.x1 / weight, result.y1 = sum.y1 / weight, result.x2 = sum.x2 / weight,
      result.y2 = sum.y2 / weight;
      for (size_t k = 0; k < sum.points.size(); ++k)
        result.points[k] = {sum.points[k][0] / weight, sum.points[k][1] / weight};
    }
    kept.push_back(result);
    boxes = others;
  }
  return kept;
}

Box aroundCentre(double score, int label, double cx, double cy, double w, double h) {
  return {score, label, cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2, {}};
}

Box inSource(Box box, const Input &input) {
  box.x1 = input.sourceX(box.x1), box.x2 = input.sourceX(box.x2);
  box.y1 = input.sourceY(box.y1), box.y2 = input.sourceY(box.y2);
  for (auto &p : box.points) p = {input.sourceX(p[0]), input.sourceY(p[1])};
  return box;
}

} // namespace

struct OnnxModel::Session {
  mutable Ort::Session session;
  std::string input;
  std::vector<std::string> outputs;
};

OnnxModel::OnnxModel(const std::string &path) : session_(new Session{quietSession(path), {}, {}}) {
  Ort::AllocatorWithDefaultOptions allocator;
  session_->input = session_->session.GetInputNameAllocated(0, allocator).get();
  for (size_t i = 0; i < session_->session.GetOutputCount(); ++i)
    session_->outputs.push_back(session_->session.GetOutputNameAllocated(i, allocator).get());
}

OnnxModel::~OnnxModel() = default;

std::map<std::string, Tensor> OnnxModel::run(const Tensor &input) const {
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const Ort::Value value = Ort::Value::CreateTensor<float>(memory, const_cast<float *>(input.values.data()),
                                                           input.values.size(), input.dims.data(), input.dims.size());
  const char *in = session_->input.c_str();
  std::vector<const char *> names;
  for (const std::string &name : session_->outputs) names.push_back(name.c_str());
  const auto values = session_->session.Run({}, &in, &value, 1, names.data(), names.size());
  std::map<std::string, Tensor> result;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto info = values[i].GetTensorTypeAndShapeInfo();
    const float *data = values[i].GetTensorData<float>();
    result[session_->outputs[i]] = {info.GetShape(), {data, data + info.GetElementCount()}};
  }
  return result;
}

Input inputOf(const Picture &picture, const Target &target) {
  Input input;
  input.zoom_x = static_cast<double>(target.width) / picture.width;
  input.zoom_y = static_cast<double>(target.height) / picture.height;
  if (target.fit != Fit::Stretch) input.zoom_x = input.zoom_y = std::min(input.zoom_x, input.zoom_y);
  if (target.fit == Fit::Letterbox) {
    input.left = (target.width - picture.width * input.zoom_x) / 2;
    input.top = (target.height - picture.height * input.zoom_y) / 2;
  }
  const std::vector<double> numbers = preprocess(picture, target);
  input.tensor.values.assign(numbers.begin(), numbers.end());
  input.tensor.dims = {1, target.height, target.width, 3};
  if (target.nchw) input.tensor.dims = {1, 3, target.height, target.width};
  return input;
}

double overlap(const Box &a, const Box &b) {
  const double w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1), h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (w <= 0 || h <= 0) return 0;
  return w * h / ((a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - w * h);
}

std::vector<Box> rfb320(const OnnxModel &model, const Picture &picture, double threshold, double iou) {
  const auto outputs = model.run(inputOf(picture, planar(320, 240, 127, 128)).tensor);
  const Tensor &scores = outputs.at("scores"), &corners = outputs.at("boxes");
  std::vector<Box> boxes;
  for (size_t i = 0; i < 4420; ++i)
    if (const double score = part(scores, i, 2, 1); score >= threshold)
      boxes.push_back({score,
                       0,
                       part(corners, i, 4, 0) * picture.width,
                       part(corners, i, 4, 1) * picture.height,
                       part(corners, i, 4, 2) * picture.width,
                       part(corners, i, 4, 3) * picture.height,
                       {}});
  return suppressed(boxes, iou);
}

std::vector<Box> yunet(const OnnxModel &model, const Picture &picture, int width, int height, Fit fit, double threshold,
                       double iou) {
  Target form = planar(width, height, 0, 1);
  form.fit = fit;
  form.bgr = true;
  const Input input = inputOf(picture, form);
  const auto outputs = model.run(input.tensor);
  const auto inUnit = [](double v) { return std::min(std::max(v, 0.0), 1.0); };
  std::vector<Box> boxes;
  for (const int s : {8, 16, 32}) {
    const auto output = [&](const char *kind) -> const Tensor & { return outputs.at(kind + std::to_string(s)); };
    const int columns = width / s;
    for (int i = 0; i < columns * (height / s); ++i) {
      const double score = std::sqrt(inUnit(part(output("cls_"), i, 1, 0)) * inUnit(part(output("obj_"), i, 1, 0)));
      if (score < threshold) continue;
      const int row = i / columns, column = i % columns;
      const auto b = [&](int k) { return part(output("bbox_"), i, 4, k); };
      Box box = aroundCentre(score, 0, (column + b(0)) * s, (row + b(1)) * s, std::exp(b(2)) * s, std::exp(b(3)) * s);
      for (int k = 0; k < 5; ++k)
        box.points.push_back(
            {(part(output("kps_"), i, 10, 2 * k) + column) * s, (part(output("kps_"), i, 10, 2 * k + 1) + row) * s});
      boxes.push_back(inSource(box, input));
    }
  }
  return suppressed(boxes, iou);
}

std::vector<Box> yoloxNano(const OnnxModel &model, const Picture &picture, double threshold, double iou) {
  Target form = planar(416, 416, 0, 1);
  form.fit = Fit::LetterboxTopLeft;
  form.bgr = true;
  form.padding = 114;
  const Input input = inputOf(picture, form);
  const auto outputs = model.run(input.tensor);
  const Tensor &grid = outputs.at("output");
  std::vector<Box> boxes;
  size_t i = 0;
  for (const int s : {8, 16, 32})
    for (int row = 0; row < 416 / s; ++row)
      for (int column = 0; column < 416 / s; ++column, ++i) {
        int label = 0;
        for (int c = 1; c < 80; ++c)
          if (part(grid, i, 85, 5 + c) > part(grid, i, 85, 5 + label)) label = c;
        const double score = part(grid, i, 85, 4) * part(grid, i, 85, 5 + label);
        if (score < threshold) continue;
        boxes.push_back(
            inSource(aroundCentre(score, label, (part(grid, i, 85, 0) + column) * s, (part(grid, i, 85, 1) + row) * s,
                                  std::exp(part(grid, i, 85, 2)) * s, std::exp(part(grid, i, 85, 3)) * s),
                     input));
      }
  return suppressed(boxes, iou);
}

std::vector<Box> blazeFace(const OnnxModel &model, const Picture &picture, int side, double threshold, double iou,
                           Overlapping overlapping) {
  Target form = interleaved(side, 127.5, 127.5);
  form.fit = Fit::Letterbox;
  const Input input = inputOf(picture, form);
  const auto outputs = model.run(input.tensor);
  std::vector<Box> boxes;
  struct {
    const char *scores, *numbers;
    int cells, anchors;
  } const layers[] = {{"Identity:0", "Identity_2:0", 16, 2}, {"Identity_1:0", "Identity_3:0", 8, 6}};
  for (const auto &layer : layers)
    for (int i = 0; i < layer.cells * layer.cells * layer.anchors; ++i) {
      const double raw = std::min(std::max(part(outputs.at(layer.scores), i, 1, 0), -100.0), 100.0);
      const double score = 1 / (1 + std::exp(-raw));
      if (score < threshold) continue;
      const int cell = i / layer.anchors;
      const double ax = (cell % layer.cells + 0.5) / layer.cells * side;
      const double ay = (cell / layer.cells + 0.5) / layer.cells * side;
      const auto r = [&](int k) { return part(outputs.at(layer.numbers), i, 16, k); };
      Box box = aroundCentre(score, 0, ax + r(0), ay + r(1), r(2), r(3));
      for (int k = 0; k < 6; ++k) box.points.push_back({ax + r(4 + 2 * k), ay + r(5 + 2 * k)});
      boxes.push_back(inSource(box, input));
    }
  return suppressed(boxes, iou, overlapping);
}

std::array<double, 21> deeplabShares(const OnnxModel &model, const Picture &picture) {
  const auto outputs = model.run(inputOf(picture, interleaved(257, 127.5, 127.5)).tensor);
  const Tensor &logits = outputs.at("ResizeBilinear_3");
  std::array<double, 21> shares = {};
  constexpr size_t kPixels = 257 * 257;
  for (size_t i = 0; i < kPixels; ++i) {
    size_t best = 0;
    for (size_t c = 1; c < 21; ++c)
      if (part(logits, i, 21, c) > part(logits, i, 21, best)) best = c;
    shares[best] += 1.0 / kPixels;
  }
  return shares;
}

} // namespace gstzc::reference
