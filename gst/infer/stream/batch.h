// SPDX-License-Identifier: LGPL-2.1-or-later
// What a batch is made of, and what each of its pictures gets back.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "gst/infer/engine/engine.h"
#include "gst/infer/preprocess/input_plan.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// Memory for the input of runs: aligned for vectors, grown when needed, never shrunk.
class Scratch {
public:
  static constexpr size_t kAlignment = 64; // bytes
  Result<std::byte *> atLeast(size_t bytes);

private:
  struct Free {
    void operator()(std::byte *data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_ = 0;
};

// The most pictures of a run, where the user wants at most `wanted`: what the model fixes comes before that, because a
// run takes as long with fewer.
int batchLimit(const InputPlan &plan, int wanted);

// How many of `waiting` pictures one of `idle` workers takes, the asking one among them: its share, rounded up.
size_t fairShare(size_t waiting, size_t idle);

// The outputs of each of the first `pictures` pictures of a run of `batch`, as views into the same memory whose
// dimension 0 is 1; a run of one has them as they are. Error: an output without the batch as its dimension 0, which
// `infos` names.
Result<std::vector<Outputs>> splitOutputs(const Outputs &outputs, const std::vector<TensorInfo> &infos, int batch,
                                          int pictures);

} // namespace gstzc::infer
