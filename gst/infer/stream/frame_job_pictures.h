// SPDX-License-Identifier: LGPL-2.1-or-later
// What the runner sees of a frame. Only frame_job*.cpp include this.
#pragma once

#include <memory>
#include <utility>

#include "gst/infer/stream/frame_job.h"

namespace gstzc::infer {

// One of the frame's pictures, in one round; with a tensor where a device makes it.
class FrameJob::RegionPicture : public Picture {
public:
  RegionPicture(std::shared_ptr<FrameJob> job, unsigned round, size_t index, DeviceTensor made = {})
      : job_(std::move(job)), round_(round), index_(index), made_(std::move(made)) {}
  bool wanted() const override { return job_->wanted(round_); }
  Result<Filled> fill(void *tensor, const void **elsewhere) override {
    return made_.memory != nullptr ? job_->take(round_, made_, tensor, elsewhere)
                                   : job_->fill(round_, index_, tensor, elsewhere);
  }
  void finished(Result<Outputs> outputs, const Times &times) override {
    Times all = times;
    all.fill += made_.took;
    if (made_.on_stream) {
      // the model has still to read the tensor, and must not go before; after an error some of it may be on the stream
      struct OfTheRun {
        std::shared_ptr<void> outputs, input;
        std::shared_ptr<const FrameSetup> setup;
      };
      const auto owner = std::make_shared<OfTheRun>(
          OfTheRun{outputs ? std::move(outputs->owner) : nullptr, std::move(made_.memory), job_->task_.setup});
      if (outputs) {
        outputs->owner = owner;
        return job_->enqueued(round_, index_, outputs.take(), all);
      }
      job_->task_.setup->on_device->device->toHost({{}, owner, true}, [](const Result<Outputs> &) {});
    }
    made_.memory.reset(); // the model has read it
    job_->finished(round_, index_, std::move(outputs), all);
  }

private:
  const std::shared_ptr<FrameJob> job_;
  const unsigned round_;
  const size_t index_;
  DeviceTensor made_;
};

// The results of one that have come to the host: to be decoded by a worker, without a run.
class FrameJob::CameFromDevice : public Picture {
public:
  CameFromDevice(std::shared_ptr<FrameJob> job, unsigned round, size_t index, Outputs outputs, const Times &times)
      : job_(std::move(job)), round_(round), index_(index), outputs_(std::move(outputs)), times_(times) {}
  bool wanted() const override { return job_->wanted(round_); }
  Result<Filled> fill(void *, const void **) override {
    job_->finished(round_, index_, std::move(outputs_), times_);
    return Filled::NotYet; // and never: it is done
  }
  void finished(Result<Outputs> outputs, const Times &) override {
    job_->finished(round_, index_, std::move(outputs), times_); // it was dropped
  }

private:
  const std::shared_ptr<FrameJob> job_;
  const unsigned round_;
  const size_t index_;
  Outputs outputs_;
  const Times times_;
};

} // namespace gstzc::infer
