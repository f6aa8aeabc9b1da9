// SPDX-License-Identifier: LGPL-2.1-or-later
// The models that inference is measured with, as fenceinfer and as GStreamer's onnxinference want them.
#pragma once

#include <string>
#include <vector>

namespace gstzc::bench {

struct BenchModel {
  std::string name; // "BlazeFace-128"
  std::string file; // as published
  int width = 0, height = 0;
  bool channels_first = false;
  float mean = 0, divisor = 1; // value = (colour - mean) / divisor, colour 0..255
  std::string input;           // name of the tensor
  std::vector<int> input_dims;
  struct Output {
    std::string name, id; // id: what others know the tensor by
    std::vector<int> dims;
  };
  std::vector<Output> outputs;
  std::string group_id;

  bool present() const { return !file.empty(); }
};

// Of the demo's cache (GSTZC_BLAZEFACE_MODEL); absent: file is empty.
BenchModel blazeFaceFront();
// Of a folder of published models (GSTZC_SHARED).
BenchModel rfb320();
BenchModel yuNet(); // only what fenceinfer needs; its batch is open

// A copy in `path` that onnxinference takes. GStreamer 1.26 wants an id for each output in the file's metadata, 1.28 a
// file beside it that describes all tensors: both are written. False where a file cannot be read or written.
bool copyForOnnxInference(const BenchModel &model, const std::string &path);

} // namespace gstzc::bench
