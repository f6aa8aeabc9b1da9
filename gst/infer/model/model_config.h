// SPDX-License-Identifier: LGPL-2.1-or-later
// What is known of a model besides its tensors, from three sources: metadata in its file, a .modelinfo file beside it,
// the user. What a source does not say is absent.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/engine/engine.h"
#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// How an output is known to decoders outside of this plugin (GstTensorMeta).
struct TensorTag {
  std::string id;       // "ssd-mobilenet-v1-variant-1-out-boxes"
  std::string group_id; // "" where none
  bool column_major = false;
  bool operator==(const TensorTag &) const = default;
};

// What a .modelinfo file says of the tensor whose name a section has.
struct TensorClaim {
  std::string name;
  std::optional<bool> input; // else an output
  std::string type;          // "float32"; "" where nothing is said
  std::vector<int64_t> dims; // -1: any; empty: nothing is said
  bool column_major = false;
  bool operator==(const TensorClaim &) const = default;
};

struct ModelConfig {
  std::optional<int> width, height; // of the picture, where the model leaves them open
  std::optional<TensorLayout> layout;
  std::optional<ResizeMode> resize;
  std::optional<Scaling> scaling;
  std::optional<std::array<float, 3>> mean, scale; // see Normalisation
  std::optional<float> padding;
  std::optional<bool> bgr;
  std::optional<DecoderKind> decoder;
  std::optional<int> classes, keypoints, keypoint_values; // see DecoderWishes
  std::vector<std::string> labels;                        // empty: not said
  std::map<std::string, TensorTag> tensors;               // by the tensor's name
  std::vector<TensorClaim> claims;                        // of the .modelinfo file
  bool operator==(const ModelConfig &) const = default;
};

// `strong` where it says something, else `weak`; tensors one by one.
ModelConfig merge(const ModelConfig &weak, const ModelConfig &strong);

// The keys that Ultralytics' exporter writes (see metadata.cpp), and upstream onnxinference's of 1.26: an output's name
// → its tensor id; which keys are names of outputs is for the caller to find out. Values that cannot be read are left
// out (and logged): a model must not fail for what it says about itself.
ModelConfig configFromMetadata(const std::map<std::string, std::string> &metadata);

// A .modelinfo file as GStreamer 1.28 defines it (see modelinfo.cpp). Errors name file, section, key and value.
Result<ModelConfig> configFromModelInfo(const std::string &path);

// The same of the file's text; errors name `path`.
Result<ModelConfig> configFromModelInfoText(const std::string &text, const std::string &path);

// Errors name the file, section, key and value, and what the model has instead: a section that no tensor has the name
// of, another direction or type, other dimensions where both say them.
Status checkModelInfo(const std::vector<TensorClaim> &claims, const std::string &path, const std::string &model_file,
                      const std::vector<TensorInfo> &inputs, const std::vector<TensorInfo> &outputs);

// "<model>.modelinfo" or, with the model's extension left out, "<mod>.modelinfo" where there is such a file, else "".
std::string modelInfoBeside(const std::string &model_file);

// One label a line, line 1 is class 0; an empty line is a class without a name, those at the end do not count. Errors:
// cannot be read, no labels, longer than 1 MB, no UTF-8.
Result<std::vector<std::string>> readLabels(const std::string &path);

} // namespace gstzc::infer
