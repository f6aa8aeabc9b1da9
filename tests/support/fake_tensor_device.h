// SPDX-License-Identifier: LGPL-2.1-or-later
// A device without hardware: it reads frames with the CPU, at once or when the test says so, and fails where it is told
// to.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/device/tensor_device.h"

namespace gstzc::test {

class FakeTensorDevice : public infer::TensorDevice {
public:
  // What stands for the preprocessing; default: the frame's first byte, as a float and over and over.
  using Pixels = std::function<void(GstBuffer *frame, const infer::PixelPlan &plan, void *tensor, size_t bytes)>;

  ~FakeTensorDevice() override {
    ++destroyed();
    release(Error{"the device is gone", ECANCELED, ""});
  }
  std::string name() const override { return "fake device 0"; }
  Status accepts(const FrameCaps &) override {
    if (refuse_caps) return Error{"frames with such caps", 0, "Use others"};
    return Nothing{};
  }
  bool waitsFor(GstZcDeviceEvent *event) const override {
    return waits_for != nullptr && std::strcmp(gst_zc_device_event_get_kind(event), waits_for) == 0;
  }

  Status fill(GstBuffer *frame, const FrameCaps &caps, const infer::PixelPlan &plan, infer::TensorTarget target,
              infer::Made, Done done) override {
    if (refuse_fill) return Error{"the device takes nothing", EIO, "Try another one"};
    ++fills;
    last_kind = caps.memory;
    Work work = {gst_buffer_ref(frame), plan, std::move(target), std::move(done)};
    {
      const std::lock_guard lock(mutex_);
      plans_.push_back(plan);
      if (hold) held_.push_back(std::move(work));
    }
    if (work.done) end(std::move(work), fail ? Status(Error{"the device failed", EIO, ""}) : Nothing{});
    return Nothing{};
  }
  Result<std::shared_ptr<void>> newHostMemory(size_t bytes) override {
    if (refuse_memory) return Error{"pinning memory", ENOMEM, "Use fewer frames"};
    ++memories;
    return std::shared_ptr<void>(std::calloc(1, bytes), std::free);
  }
  // Where it has a stream its memory is the host's all the same.
  Result<std::shared_ptr<void>> newDeviceMemory(size_t bytes) override {
    if (own_stream == nullptr) return Error{"memory of a fake", ENOSYS, ""};
    return newHostMemory(bytes);
  }
  void *stream() const override { return own_stream; }
  int libraryDevice() const override { return own_stream != nullptr ? library_device : -1; }

  void toHost(infer::Outputs tensors, Came came) override {
    ++downloads;
    tensors_to_host += static_cast<int>(tensors.tensors.size());
    for (infer::TensorView &view : tensors.tensors) view.space = infer::MemorySpace::Host;
    tensors.on_stream = false;
    {
      const std::lock_guard lock(mutex_);
      results_.push_back({std::move(tensors), std::move(came)});
    }
    if (!hold_results) releaseResults();
  }
  Result<std::vector<infer::BufferRef>> share(const infer::Outputs &tensors) override {
    if (refuse_share) return Error{"the device shares nothing", EIO, ""};
    std::vector<infer::BufferRef> buffers;
    for (const infer::TensorView &view : tensors.tensors) {
      buffers.emplace_back(gst_buffer_new_allocate(nullptr, view.bytes, nullptr));
      gst_buffer_fill(buffers.back().get(), 0, view.data, view.bytes);
    }
    return buffers;
  }
  // What was to come to the host comes, or that instead.
  void releaseResults(const Status &status = Nothing{}) {
    std::vector<Results> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(results_);
    }
    for (Results &results : all) {
      if (status)
        results.came(std::move(results.tensors));
      else
        results.came(status.error());
    }
  }
  guint64 copies() const override { return 3; }
  guint64 bytesCopied() const override { return 300; }

  // Ends the oldest of what is held, or all.
  bool releaseOne(const Status &status = Nothing{}) {
    Work work;
    {
      const std::lock_guard lock(mutex_);
      if (held_.empty()) return false;
      work = std::move(held_.front());
      held_.pop_front();
    }
    end(std::move(work), status);
    return true;
  }
  void release(const Status &status = Nothing{}) {
    while (releaseOne(status)) {
    }
  }
  std::vector<infer::PixelPlan> plans() const {
    const std::lock_guard lock(mutex_);
    return plans_;
  }
  static std::atomic<int> &destroyed() {
    static std::atomic<int> count = 0;
    return count;
  }

  Pixels pixels = [](GstBuffer *frame, const infer::PixelPlan &, void *tensor, size_t bytes) {
    guint8 byte = 0;
    gst_buffer_extract(frame, 0, &byte, 1);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) static_cast<float *>(tensor)[i] = byte;
  };
  const char *waits_for = nullptr; // kind of event
  void *own_stream = nullptr;      // any address; before the first use
  int library_device = 0;          // with a stream
  std::atomic<bool> hold_results = false, refuse_share = false;
  std::atomic<int> downloads = 0, tensors_to_host = 0;
  std::atomic<bool> hold = false, fail = false, refuse_fill = false, refuse_caps = false, refuse_memory = false;
  std::atomic<int> fills = 0, memories = 0;
  std::atomic<MemoryKind> last_kind = MemoryKind::System;

private:
  struct Work {
    GstBuffer *frame = nullptr;
    infer::PixelPlan plan;
    infer::TensorTarget target;
    Done done;
  };
  struct Results {
    infer::Outputs tensors;
    Came came;
  };
  void end(Work work, const Status &status) {
    if (status) pixels(work.frame, work.plan, work.target.memory.get(), work.target.bytes);
    gst_buffer_unref(work.frame);
    work.done(status);
  }

  mutable std::mutex mutex_;
  std::deque<Work> held_;
  std::vector<infer::PixelPlan> plans_;
  std::vector<Results> results_;
};

} // namespace gstzc::test
