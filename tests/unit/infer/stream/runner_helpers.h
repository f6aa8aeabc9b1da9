// SPDX-License-Identifier: LGPL-2.1-or-later
// A model whose engine does what the test says, and pictures that tell what became of them.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/stream/runner.h"

namespace gstzc::test {

// One run, as the engine saw it.
struct SeenRun {
  std::vector<int64_t> dims;
  std::vector<float> numbers; // the first of each picture
  const void *data = nullptr;
  std::thread::id thread;
};

// Pictures of two floats. Gives twice the first of them as output "double" ([n,1]), the whole input as "copy"
// ([n,1,1,2]) and, where the test wants it, something else. Runs wait while the gate is closed, and end when they are
// cancelled.
class FakeEngine : public infer::Engine {
public:
  std::string name() const override { return "fake"; }
  const std::vector<infer::TensorInfo> &inputs() const override { return inputs_; }
  const std::vector<infer::TensorInfo> &outputs() const override { return outputs_; }

  Result<infer::Outputs> run(std::span<const infer::TensorView> inputs, infer::Cancellation &cancel) override {
    const infer::TensorView &input = inputs[0];
    const auto *values = static_cast<const float *>(input.data);
    const auto n = static_cast<size_t>(input.dims[0]);
    EXPECT_EQ(input.bytes, n * 2 * sizeof(float));
    SeenRun seen{input.dims, {}, input.data, std::this_thread::get_id()};
    for (size_t i = 0; i < n; ++i) seen.numbers.push_back(values[2 * i]);
    {
      std::unique_lock lock(mutex_);
      seen_.push_back(seen);
      most_ = std::max(most_, ++running_);
      changed_.notify_all();
      lock.unlock();
      bool over = false;
      const infer::Cancellation::Hook hook(cancel, [&] {
        const std::lock_guard in_hook(mutex_);
        over = true;
        changed_.notify_all();
      });
      lock.lock();
      changed_.wait(lock, [&] { return open_ || over; });
      --running_;
      if (over) {
        ++cancelled_;
        lock.unlock();
        return Error{"cancelled by the test's engine", ECANCELED, ""};
      }
      lock.unlock();
    }
    if (special) return special(seen);
    auto memory = std::make_shared<std::vector<float>>(3 * n);
    for (size_t i = 0; i < n; ++i) (*memory)[i] = 2 * values[2 * i];
    std::memcpy(memory->data() + n, values, input.bytes);
    infer::Outputs outputs;
    const auto batch = static_cast<int64_t>(n);
    outputs.tensors.push_back({infer::TensorType::Float32, {batch, 1}, memory->data(), n * sizeof(float)});
    outputs.tensors.push_back(
        {infer::TensorType::Float32, {batch, 1, 1, 2}, memory->data() + n, 2 * n * sizeof(float)});
    outputs.owner = memory;
    return outputs;
  }

  // With a stream the device's memory is the host's all the same.
  void *stream() const override { return own_stream; }
  std::optional<int> cudaDevice() const override { return own_stream != nullptr ? std::optional(0) : std::nullopt; }
  Result<infer::Outputs> enqueue(std::span<const infer::TensorView> inputs) override {
    if (own_stream == nullptr) return Engine::enqueue(inputs);
    EXPECT_EQ(inputs[0].space, infer::MemorySpace::Device);
    infer::Cancellation never;
    auto outputs = run(inputs, never);
    if (!outputs) return outputs;
    outputs->on_stream = true;
    for (infer::TensorView &view : outputs->tensors) view.space = infer::MemorySpace::Device;
    ++enqueued;
    return outputs;
  }
  void *own_stream = nullptr; // any address; before the first use
  std::atomic<int> enqueued = 0;

  void close() { set(false); }
  void open() { set(true); }
  // False: so many runs did not begin in ten seconds.
  bool began(size_t runs) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return seen_.size() >= runs; });
  }
  std::vector<SeenRun> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  int most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  int cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
  }

  std::function<Result<infer::Outputs>(const SeenRun &)> special; // set before the first run

private:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  const std::vector<infer::TensorInfo> inputs_ = {{"input", infer::TensorType::Float32, {-1, 1, 1, 2}, {}}};
  const std::vector<infer::TensorInfo> outputs_ = {{"double", infer::TensorType::Float32, {-1, 1}, {}},
                                                   {"copy", infer::TensorType::Float32, {-1, 1, 1, 2}, {}}};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int running_ = 0, most_ = 0, cancelled_ = 0;
  std::vector<SeenRun> seen_;
};

struct FakeModel {
  std::shared_ptr<const infer::Model> model;
  FakeEngine *engine; // the model's
};

inline FakeModel fakeModel(int batch, bool open_batch) {
  auto engine = std::make_unique<FakeEngine>();
  auto model = std::make_shared<infer::Model>();
  FakeEngine *borrowed = engine.get();
  model->engine = std::move(engine);
  model->plan = {.width = 2,
                 .height = 1,
                 .layout = infer::TensorLayout::Nchw,
                 .type = infer::TensorType::Float32,
                 .channels = 1,
                 .batch = batch,
                 .open_batch = open_batch};
  return {std::move(model), borrowed};
}

// A picture of {number, -number}.
class FakePicture : public infer::Picture {
public:
  explicit FakePicture(float number) : values_{number, -number} {}

  bool wanted() const override {
    EXPECT_TRUE(!finished_ || again_) << "asked after it was finished";
    return wanted_;
  }
  void submittedAgain() { again_ = true; } // from within its fill()
  Result<Filled> fill(void *tensor, const void **elsewhere) override {
    EXPECT_FALSE(finished_);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor) % sizeof(float), 0u);
    {
      const std::lock_guard lock(mutex_);
      tensor_ = tensor;
      may_lie_elsewhere_ = elsewhere != nullptr;
    }
    if (at_fill) {
      if (auto result = at_fill(elsewhere)) return *result;
    }
    std::memcpy(tensor, values_, sizeof values_);
    return Filled::Yes;
  }
  void finished(Result<infer::Outputs> outputs, const Times &times) override {
    {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(finished_) << "finished twice";
      result_ = std::move(outputs);
      times_ = times;
      finished_ = true;
      thread_ = std::this_thread::get_id();
    }
    if (at_end) at_end();
    const std::lock_guard lock(mutex_);
    returned_ = true;
    changed_.notify_all();
  }

  void unwant() { wanted_ = false; }
  bool isFinished() const { return finished_; }
  // False: finished() has not returned in ten seconds.
  bool ends() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return returned_; });
  }
  // Of a finished one.
  const Result<infer::Outputs> &result() const { return *result_; }
  int errorCode() const { return result_ && !result_->ok() ? result_->error().code : 0; }
  float output(size_t index = 0, size_t value = 0) const {
    return static_cast<const float *>((*result_)->tensors[index].data)[value];
  }
  Times times() const { return times_; }
  std::thread::id thread() const { return thread_; }
  void *tensor() const {
    const std::lock_guard lock(mutex_);
    return tensor_;
  }
  bool mayLieElsewhere() const {
    const std::lock_guard lock(mutex_);
    return may_lie_elsewhere_;
  }
  const float *values() const { return values_; }

  // Set before it is submitted.
  std::function<std::optional<Result<Filled>>(const void **)> at_fill;
  std::function<void()> at_end;

private:
  const float values_[2];
  std::atomic<bool> wanted_ = true, finished_ = false, again_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool returned_ = false;
  std::optional<Result<infer::Outputs>> result_;
  Times times_;
  std::thread::id thread_;
  void *tensor_ = nullptr;
  bool may_lie_elsewhere_ = false;
};

} // namespace gstzc::test
