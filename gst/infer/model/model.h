// SPDX-License-Identifier: LGPL-2.1-or-later
// One model ready for pictures: the engine, how a picture has to look, what its outputs mean.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/engine/engine.h"
#include "gst/infer/engine/onnx_engine.h"
#include "gst/infer/model/model_config.h"
#include "gst/infer/preprocess/preprocess.h"

namespace gstzc::infer {

// What a model is loaded with. Two that are equal give models that do the same.
struct ModelOptions {
  std::string file;
  std::string modelinfo_file; // empty: the one beside the model, if there is one
  std::string labels_file;    // empty: none
  EngineOptions engine;
  ModelConfig user; // what the user says of the model: above all other sources
  int batch = 1;    // pictures of a run, where the model leaves it open
  bool operator==(const ModelOptions &) const = default;
};

// Immutable; run() of the engine may be called from several threads at once.
struct Model {
  std::unique_ptr<Engine> engine;
  InputPlan plan;
  PreprocessOptions preprocess;
  std::unique_ptr<Decoder> decoder; // null: decoder=none
  std::vector<std::string> labels;
  float threshold = 0.5f, iou_threshold = 0.3f; // the family's; the user's own values are above them
  std::vector<TensorTag> tags;                  // of each output; an empty id where nothing is known
  // The first of its outputs, described, that is not numbers (NaN) whatever picture it was shown when it was loaded;
  // empty: there is none.
  std::string not_numbers;
  std::string file;
  ModelConfig known; // from all sources together, for messages

  // "" where there is no such label.
  const std::string &label(int index) const;
};

struct LoadedModel {
  std::shared_ptr<const Model> model; // or null and
  LoadError failure;                  // why
};

// Opens the file, finds out how it wants its pictures and what its outputs are, and runs it once on an empty picture,
// so that the first frame finds it warm and a model that cannot run is found out now. Errors name the file, the tensor
// and its shape.
//
// What is known comes from the family's defaults, the file's metadata, the modelinfo file and the user, each above the
// one before. Where the metadata contradict the tensors, the tensors are right; where a file or a value that the user
// named does, it is an error.
//
// `stream`: for an engine on that device, which then runs on it and keeps it. `cancel`, where it is not null, may end
// it from another thread (code ECANCELED): between its steps, and the runs in it. Opening the file is one step.
LoadedModel loadModel(const ModelOptions &options, const DeviceStream &stream = {}, Cancellation *cancel = nullptr);

// The same with an engine of the caller's. It is opened twice where the model leaves the picture's size open: the
// second time with that in EngineOptions::dimensions.
using OpenEngine = std::function<LoadResult(const EngineOptions &)>;
LoadedModel loadModelWith(const ModelOptions &options, const OpenEngine &open, Cancellation *cancel = nullptr);

// One line for logs and messages: engine, provider, decoder, input, preprocessing, labels.
std::string describe(const Model &model);

} // namespace gstzc::infer
