// SPDX-License-Identifier: LGPL-2.1-or-later
// Worker threads that run a model on pictures, one by one or in batches, for one element or for several that share it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
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
    OnDevice,  // the same in a device's memory: of a model whose engine reads it
    OnStream,  // the same, there when Engine::stream() has come that far: the outputs come so, too
    NotYet,    // it may not be read yet: forget it, it will be submitted again
  };

  virtual ~Picture() = default;

  // fill() is called by a worker; finished() too, or by who calls dropUnwanted() or ends the runner; both without the
  // runner's locks. wanted() is called by all of them, with its lock held: it must not call the runner. Of one that
  // is submitted again from within fill() it may be asked after finished(), until that fill() has returned.
  virtual bool wanted() const = 0; // false: nobody waits for it any more, nor will anybody
  // Writes one picture to `tensor`, InputPlan::bytes() of the model that it was submitted with; or, where `elsewhere`
  // is not null, may set it to memory that holds the tensor until finished() returns.
  virtual Result<Filled> fill(void *tensor, const void **elsewhere) = 0;
  // The last call, once unless NotYet: the outputs of this picture alone (the batch dimension is 1), or why there are
  // none. Code ECANCELED: it was not wanted any more, or the runner is going.
  virtual void finished(Result<Outputs> outputs, const Times &times) = 0;
};

// Pictures wait in one line, in the order they came. A worker that is free takes the oldest with those behind it that
// are for the same model, as many as a run may take; without a batch timeout no more than its share, so that other
// workers that are free have theirs: batches save nothing where runs side by side do. The threads sleep while nothing
// waits.
class ModelRunner {
public:
  struct Options {
    int workers = 1;                            // runs at a time
    int batch = 1;                              // pictures of a run at most; no more than the model's plan allows
    std::chrono::microseconds batch_timeout{0}; // that the first picture of a batch waits for others, from submit() on
    bool operator==(const Options &) const = default;
  };

  // `loaded_with`: what others who want to share the runner are compared by.
  ModelRunner(std::shared_ptr<const Model> model, const Options &options, const ModelOptions &loaded_with = {});
  // Ends runs, calls finished() of what is left (ECANCELED) and joins. Not while something is held that a finished()
  // waits for. A finished() may give up the last reference to its runner: then the threads end by themselves, when the
  // calls they are in return.
  ~ModelRunner();
  ModelRunner(const ModelRunner &) = delete;
  ModelRunner &operator=(const ModelRunner &) = delete;

  // What new pictures are to be made for.
  std::shared_ptr<const Model> model() const;
  ModelOptions modelOptions() const;
  void setModel(std::shared_ptr<const Model> model, const ModelOptions &loaded_with);

  // Never blocks. Where a model fixes its batch the last picture is repeated. The pictures of a batch each get their
  // part of the outputs: one whose first dimension is not the batch is an error that names it. One picture alone gets
  // the outputs as they are. Where no thread could be started, finished() is called from in here, and says so.
  void submit(std::shared_ptr<const Model> model, std::shared_ptr<Picture> picture);
  // Some pictures are not wanted any more: takes them out (ECANCELED), and ends runs in which none is wanted.
  void dropUnwanted();
  // No more pictures will come for now: until the next submit() batches do not wait.
  void hurry();

  size_t waiting() const; // pictures that no worker has taken

private:
  class Core;
  const std::shared_ptr<Core> core_; // the threads' too
  std::vector<std::thread> threads_;
};

using ModelLoader = std::function<LoadedModel(const ModelOptions &)>;

// Runners that elements of a process share, by name. An empty id shares nothing.
struct AcquiredRunner {
  std::shared_ptr<ModelRunner> runner; // or null and
  LoadError failure;                   // why
};
// Loads the model where nobody has it; those who ask for it meanwhile wait and get the same. Error: somebody has the id
// with other options; it says which. What failed to load is tried anew the next time.
AcquiredRunner acquireRunner(const std::string &instance_id, const ModelOptions &model,
                             const ModelRunner::Options &options, const ModelLoader &loader);

} // namespace gstzc::infer
