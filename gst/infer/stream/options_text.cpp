// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/options_text.h"

#include <array>
#include <cstdio>
#include <map>
#include <optional>

namespace gstzc::infer {
namespace {

std::string quoted(const std::string &value) {
  std::string result = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string text(const std::string &value) { return value.empty() ? "none" : quoted(value); }
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(int value) { return std::to_string(value); }
std::string text(int64_t value) { return std::to_string(value); }

std::string text(float value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", static_cast<double>(value)); // different floats are different texts
  return digits;
}

std::string text(const std::array<float, 3> &values) {
  return text(values[0]) + "," + text(values[1]) + "," + text(values[2]);
}

std::string text(TensorLayout value) { return value == TensorLayout::Nchw ? "NCHW" : "NHWC"; }

std::string text(ResizeMode value) {
  switch (value) {
  case ResizeMode::Stretch: return "stretch";
  case ResizeMode::Letterbox: return "letterbox";
  case ResizeMode::LetterboxTopLeft: return "letterbox-topleft";
  case ResizeMode::Crop: return "crop";
  }
  return "";
}

std::string text(Scaling value) { return value == Scaling::Bilinear ? "bilinear" : "area"; }
std::string text(DecoderKind value) { return decoderName(value); }

std::string text(const TensorTag &tag) {
  return quoted(tag.id) + (tag.group_id.empty() ? "" : " of " + quoted(tag.group_id)) +
         (tag.column_major ? " column-major" : "");
}

template <typename T> std::string text(const std::optional<T> &value) { return value ? text(*value) : "the model's"; }

template <typename Pairs> std::string list(const Pairs &pairs) {
  std::string result;
  for (const auto &[name, value] : pairs) result += (result.empty() ? "" : ", ") + quoted(name) + "=" + text(value);
  return result.empty() ? "none" : result;
}

std::string list(const std::vector<std::string> &values) {
  std::string result;
  for (const std::string &value : values) result += (result.empty() ? "" : ", ") + quoted(value);
  return result.empty() ? "none" : result;
}

} // namespace

std::vector<NamedOption> describeOptions(const ModelOptions &model, const ModelRunner::Options &runner) {
  const EngineOptions &engine = model.engine;
  const ModelConfig &user = model.user;
  return {
      {"model-file", text(model.file)},
      {"modelinfo-file", text(model.modelinfo_file)},
      {"labels-file", text(model.labels_file)},
      {"execution-provider", text(engine.provider)},
      {"provider-options", list(engine.provider_options)},
      {"allow-cpu-fallback", text(engine.allow_cpu_fallback)},
      {"onnxruntime-library", text(engine.library)},
      {"intra-threads", text(engine.intra_threads)},
      {"dimensions", list(engine.dimensions)},
      {"workers", text(runner.workers)},
      {"batch-size", text(runner.batch) + (model.batch != runner.batch ? " (model " + text(model.batch) + ")" : "")},
      {"batch-timeout", text(int64_t{runner.batch_timeout.count()}) + " µs"},
      {"input-width", text(user.width)},
      {"input-height", text(user.height)},
      {"tensor layout", text(user.layout)},
      {"resize-mode", text(user.resize)},
      {"scaling", text(user.scaling)},
      {"mean", text(user.mean)},
      {"scale", text(user.scale)},
      {"pad-value", text(user.padding)},
      {"channel-order", !user.bgr   ? "the model's"
                        : *user.bgr ? "bgr"
                                    : "rgb"},
      {"decoder", text(user.decoder)},
      {"classes", text(user.classes)},
      {"keypoints", text(user.keypoints)},
      {"values of a keypoint", text(user.keypoint_values)},
      {"labels", list(user.labels)},
      {"tensor ids", list(user.tensors)},
  };
}

} // namespace gstzc::infer
