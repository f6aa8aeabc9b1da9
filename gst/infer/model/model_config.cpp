// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model_config.h"

#include "gst/infer/model/text_file.h"

namespace gstzc::infer {
namespace {

constexpr size_t kMaxLabelBytes = 1 << 20; // ImageNet's 21,841 names are 0.5 MB

template <typename T> void take(std::optional<T> &into, const std::optional<T> &from) {
  if (from) into = from;
}

} // namespace

ModelConfig merge(const ModelConfig &weak, const ModelConfig &strong) {
  ModelConfig both = weak;
  take(both.width, strong.width);
  take(both.height, strong.height);
  take(both.layout, strong.layout);
  take(both.resize, strong.resize);
  take(both.scaling, strong.scaling);
  take(both.mean, strong.mean);
  take(both.scale, strong.scale);
  take(both.padding, strong.padding);
  take(both.bgr, strong.bgr);
  take(both.decoder, strong.decoder);
  take(both.classes, strong.classes);
  take(both.keypoints, strong.keypoints);
  take(both.keypoint_values, strong.keypoint_values);
  if (!strong.labels.empty()) both.labels = strong.labels;
  if (!strong.claims.empty()) both.claims = strong.claims;
  for (const auto &[name, tag] : strong.tensors) both.tensors[name] = tag;
  return both;
}

Result<std::vector<std::string>> readLabels(const std::string &path) {
  auto text = readTextFile("labels file", path, kMaxLabelBytes);
  if (!text) return text.error();
  std::vector<std::string> labels;
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    std::string line = text->substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(std::move(line));
    at = end + 1;
  }
  // an editor may leave several; an empty line further up is a class that has no name
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  if (labels.empty()) return Error{"labels file " + path + " has no labels", 0, "Write one label a line"};
  return labels;
}

} // namespace gstzc::infer
