// SPDX-License-Identifier: LGPL-2.1-or-later
// Worker threads that run a model on pictures, one by one or in batches, for one element or for several that share it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gst/infer/engine/engine.h"
#include "gst/infer/model/model.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

// One picture for a model.
class Picture {
public:
  struct Times {
    std::chrono::nanoseconds wait{0}; // from submit() until a worker took it
    std::chrono::nanoseconds fill{0};
    std::chrono::nanoseconds run{0}; // of the whole batch
    int batch = 0;                   // pictures in it
  };
  enum class Filled {
    Yes,
    Elsewhere, // the picture lies in memory as the tensor; only asked for where a run takes one picture
    NotYet,    // it may not be read yet: forget it, it will be submitted again
  };

  virtual ~Picture() = default;

  // All of it is called by a worker, wanted() by several.
  virtual bool wanted() const = 0; // false: nobody waits for it any more
  // Writes one picture to `tensor`, InputPlan::bytes() of the model that it was submitted with; or, where `elsewhere`
  // is not null, may set it to memory that holds the tensor until finished() returns.
  virtual Result<Filled> fill(void *tensor, const void **elsewhere) = 0;
  // The last call, once unless NotYet: the outputs of this picture alone (the batch dimension is 1), or why there are
  // none. Code ECANCELED: it was not wanted any more, or the runner is going.
  virtual void finished(Result<Outputs> outputs, const Times &times) = 0;
};

class ModelRunner {
public:
  struct Options {
    int workers = 1;                            // runs at a time
    int batch = 1;                              // pictures of a run at most; no more than the model's plan allows
    std::chrono::microseconds batch_timeout{0}; // that the first picture of a batch waits for others
    bool operator==(const Options &) const = default;
  };

  ModelRunner(std::shared_ptr<const Model> model, const Options &options);
  ~ModelRunner(); // ends runs, calls finished() of what is left, joins
  ModelRunner(const ModelRunner &) = delete;
  ModelRunner &operator=(const ModelRunner &) = delete;

  // What new pictures are to be made for.
  std::shared_ptr<const Model> model() const;
  void setModel(std::shared_ptr<const Model> model);

  // Never blocks. A batch takes pictures of one model in the order they came. A model that fixes its batch gets the
  // last picture repeated.
  void submit(std::shared_ptr<const Model> model, std::shared_ptr<Picture> picture);
  // Some pictures are not wanted any more: takes them out, and ends runs in which none is wanted.
  void dropUnwanted();
  // No more pictures will come for now: batches do not wait.
  void hurry();

  size_t waiting() const; // pictures that no worker has taken
};

// Runners that elements of a process share, by name. An empty id shares nothing.
struct AcquiredRunner {
  std::shared_ptr<ModelRunner> runner; // or null and
  LoadError failure;                   // why
};
// Loads the model where nobody has it. Error: somebody has the id with other options; it says which differ.
AcquiredRunner acquireRunner(const std::string &instance_id, const ModelOptions &model,
                             const ModelRunner::Options &options);

} // namespace gstzc::infer
