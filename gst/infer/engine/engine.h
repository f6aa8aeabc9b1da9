// SPDX-License-Identifier: LGPL-2.1-or-later
// What runs a neural net: the interface between fenceinfer and an inference library. It knows neither the library's
// types nor GStreamer's, so that further engines (GPU providers, several sessions at once) fit behind it.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gst/zerocopy/core/result.h"

namespace gstzc::infer {

enum class TensorType { Float32, Float16, UInt8, Int8, Int32, Int64, Other };

const char *tensorTypeName(TensorType type); // "float32"
size_t tensorTypeSize(TensorType type);      // bytes of one element; 0 for Other
// Of all elements; nothing where a dimension is negative or the bytes are too many to count.
std::optional<size_t> tensorBytes(TensorType type, const std::vector<int64_t> &dims);
std::string describeTensor(TensorType type, const std::vector<int64_t> &dims); // "float32 [1,?,3]"; ? is -1

// One input or output of a model. A dimension of -1 is one that the model leaves open; it may have a name.
struct TensorInfo {
  std::string name;
  TensorType type = TensorType::Other;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names; // one for each dimension, "" where there is none; empty: no names at all
  std::string describe() const;       // "input:0 (float32 [1,128,128,3])"; -1 is written as ?
};

// Where the bytes of a tensor are. Engines that run on the CPU take and give Host.
enum class MemorySpace { Host, Device };

// Bytes of a tensor that somebody else owns; all dimensions known.
struct TensorView {
  TensorType type = TensorType::Other;
  std::vector<int64_t> dims;
  void *data = nullptr;
  size_t bytes = 0;
  MemorySpace space = MemorySpace::Host;
};

// What a run gave, in the order of Engine::outputs(). The views are valid for as long as `owner` lives.
struct Outputs {
  std::vector<TensorView> tensors;
  std::shared_ptr<void> owner;
  bool on_stream = false; // they are in the device's memory, and there when Engine::stream() has come that far
};

// A stream of a CUDA device, in the device's primary context, which is the one that inference libraries use.
struct DeviceStream {
  int device = -1;             // ordinal; -1: there is none
  void *handle = nullptr;      // CUstream
  std::shared_ptr<void> owner; // of the stream, kept by those who use it
};

// Ends a run that is under way from another thread. One object per stream of runs; `cancel()` also makes the next runs
// end at once, until `reset()`.
class Cancellation {
public:
  void cancel() {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (hook_) hook_();
  }
  void reset() {
    std::lock_guard lock(mutex_);
    cancelled_ = false;
  }
  bool cancelled() const {
    std::lock_guard lock(mutex_);
    return cancelled_;
  }

  // While it lives, cancel() calls `hook`; at once where cancel() came before. One at a time.
  class Hook {
  public:
    Hook(Cancellation &owner, std::function<void()> hook) : owner_(owner) {
      std::lock_guard lock(owner_.mutex_);
      owner_.hook_ = std::move(hook);
      if (owner_.cancelled_) owner_.hook_();
    }
    ~Hook() {
      std::lock_guard lock(owner_.mutex_);
      owner_.hook_ = nullptr;
    }
    Hook(const Hook &) = delete;
    Hook &operator=(const Hook &) = delete;

  private:
    Cancellation &owner_;
  };

private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::function<void()> hook_;
};

struct EngineOptions {
  int intra_threads = 1;         // threads that share one run
  std::string library;           // file of the inference library and no other; empty: look for it
  std::string provider = "auto"; // auto, cpu, cuda, tensorrt, … or a provider's own name
  // Handed to the named provider as they are, but for "library": the file that has the provider, where it is not part
  // of the inference library.
  std::vector<std::pair<std::string, std::string>> provider_options;
  bool allow_cpu_fallback = false;           // else a provider that cannot be had is an error
  std::map<std::string, int64_t> dimensions; // what open dimensions of inputs are fixed to, by their names
  bool operator==(const EngineOptions &) const = default;
};

class Engine {
public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;                  // "ONNX Runtime 1.21.0"
  virtual std::string provider() const { return "cpu"; } // that runs it, as EngineOptions::provider names it
  // What the exporter of the model's file wrote into it under keys of its own (ONNX: metadata_props), as it is there.
  virtual std::map<std::string, std::string> metadata() const { return {}; }
  // The ordinal of the CUDA device whose memory run() takes, beside the host's; in the device's primary context.
  virtual std::optional<int> cudaDevice() const { return {}; }
  virtual const std::vector<TensorInfo> &inputs() const = 0;
  virtual const std::vector<TensorInfo> &outputs() const = 0;

  // Runs the model once and returns when the outputs are there. `inputs` in the order of inputs(), of the same types,
  // of any size where a dimension is open; their bytes are read until the call returns. Safe to call from several
  // threads, each with a Cancellation of its own. A cancelled run is an error with code ECANCELED.
  virtual Result<Outputs> run(std::span<const TensorView> inputs, Cancellation &cancel) = 0;

  // The CUDA stream that it was loaded with and runs on; null: none, and no enqueue().
  virtual void *stream() const { return nullptr; }
  // Puts one run on stream() and returns, which may be before anything of it has happened: inputs and outputs are in
  // the device's memory. The inputs are read, and the outputs are there, when the stream has come that far; whoever
  // calls keeps both until then. Safe to call from several threads.
  virtual Result<Outputs> enqueue(std::span<const TensorView> inputs) {
    (void)inputs;
    return Error{"a run on a device's stream, which " + name() + " does not have", ENOSYS, ""};
  }
};

} // namespace gstzc::infer
