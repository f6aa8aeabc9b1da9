// SPDX-License-Identifier: LGPL-2.1-or-later
// An engine that is whatever model a test describes.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gst/infer/engine/onnx_engine.h"

namespace gstzc::test {

// Tensors of these shapes, all 0 but for `values`, which fill the first one.
inline infer::Outputs tensors(const std::vector<infer::TensorInfo> &infos, const std::vector<float> &values = {}) {
  auto storage = std::make_shared<std::vector<std::vector<float>>>();
  infer::Outputs outputs;
  for (const infer::TensorInfo &info : infos) {
    size_t count = 1;
    for (const int64_t dim : info.dims) count *= static_cast<size_t>(dim);
    storage->emplace_back(count, 0.0f);
    if (storage->size() == 1) std::copy_n(values.begin(), std::min(values.size(), count), storage->back().begin());
    outputs.tensors.push_back({info.type, info.dims, nullptr, count * infer::tensorTypeSize(info.type)});
  }
  for (size_t i = 0; i < infos.size(); ++i) outputs.tensors[i].data = (*storage)[i].data();
  outputs.owner = storage;
  return outputs;
}

struct FakeModel {
  std::vector<infer::TensorInfo> inputs, outputs;
  std::map<std::string, std::string> metadata;
  std::function<Result<infer::Outputs>(const infer::TensorView &)>
      run; // default: what the outputs declare, open ones 1
};

class FakeEngine : public infer::Engine {
public:
  explicit FakeEngine(FakeModel model) : model_(std::move(model)) {}
  std::string name() const override { return "Fake 1.0"; }
  std::map<std::string, std::string> metadata() const override { return model_.metadata; }
  const std::vector<infer::TensorInfo> &inputs() const override { return model_.inputs; }
  const std::vector<infer::TensorInfo> &outputs() const override { return model_.outputs; }
  Result<infer::Outputs> run(std::span<const infer::TensorView> inputs, infer::Cancellation &) override {
    if (model_.run) return model_.run(inputs[0]);
    std::vector<infer::TensorInfo> infos = model_.outputs;
    for (infer::TensorInfo &info : infos)
      for (size_t i = 0; i < info.dims.size(); ++i)
        if (info.dims[i] < 0) info.dims[i] = i == 0 ? inputs[0].dims[0] : 1;
    return tensors(infos);
  }

private:
  FakeModel model_;
};

} // namespace gstzc::test
