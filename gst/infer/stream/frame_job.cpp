// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/frame_job.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "gst/infer/engine/not_a_number.h"
#include "gst/infer/output/findings_meta.h"
#include "gst/infer/preprocess/direct.h"
#include "gst/infer/stream/frame_job_pictures.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc::infer {

using Clock = FrameQueue::Clock;

FrameJob::FrameJob(GstBuffer *buffer, FrameTask task, std::shared_ptr<FrameQueue> queue,
                   std::weak_ptr<ModelRunner> runner)
    : task_(std::move(task)), queue_(std::move(queue)), runner_(std::move(runner)), arrival_(Clock::now()),
      buffer_(gst_buffer_ref(buffer)) {}

FrameJob::~FrameJob() {
  mapped_.reset();
  gst_clear_buffer(&buffer_);
}

bool FrameJob::giveUp() {
  State waiting = State::Waiting;
  return state_.compare_exchange_strong(waiting, State::GivenUp);
}

void FrameJob::abandoned() {
  const State before = state_.exchange(State::GivenUp);
  if (before == State::Working) return; // the frame is being read; complete() lets it go
  // its pictures may stay in the runner's line for long, but nobody reads them now: the producer gets its buffer back
  const std::lock_guard lock(mutex_);
  gst_clear_buffer(&buffer_);
}

void FrameJob::start(const FrameQueue::FenceEnd &end) {
  verdict_ = end.result ? judgeFence(*end.result, task_.on_fence_error, end.timeout)
                        : judgeFence(end.result.error(), task_.on_fence_error);
  const auto runner = runner_.lock();
  if (verdict_.fate != FrameFate::Use || !task_.look || !runner) {
    complete();
    return;
  }
  size_t pictures = 0;
  const unsigned round = round_;
  {
    std::lock_guard lock(mutex_);
    targets_.clear();
    if (task_.objects) {
      for (const RegionObject &object : objectsOf(buffer_, task_.object_classes))
        targets_.push_back({object.id, object.region});
    } else {
      targets_.push_back({});
    }
    pictures = unfilled_ = unfinished_ = targets_.size();
    result_ = {};
    result_.pictures.resize(pictures);
    device_waits_.clear();
    if (const auto &on = task_.setup->on_device; on) device_waits_ = waitsOf(*on->device, buffer_);
    for (size_t i = 0; i < pictures; ++i) result_.pictures[i].object = targets_[i].object;
    error_.reset();
  }
  if (pictures == 0) complete();
  for (size_t i = 0; i < pictures; ++i) {
    if (task_.setup->on_device)
      fillOnDevice(round, i);
    else
      submit(*runner, std::make_shared<RegionPicture>(shared_from_this(), round, i));
  }
}

void FrameJob::submit(ModelRunner &runner, std::shared_ptr<Picture> picture) {
  runner.submit(task_.setup->model, std::move(picture));
  // the hurry at the end of the stream was of those submitted before it, not of one that waited for its fences
  if (task_.setup->model->plan.batch > 1 && queue_->drains()) runner.hurry();
}

// With the lock held. False: nobody wants the picture any more, or not in this round.
bool FrameJob::begin(unsigned round) {
  State state = State::Waiting;
  return wanted(round) && (state_.compare_exchange_strong(state, State::Working) || state == State::Working);
}

Result<Picture::Filled> FrameJob::fill(unsigned round, size_t index, void *tensor, const void **elsewhere) {
  {
    std::unique_lock lock(mutex_);
    if (!begin(round)) return Picture::Filled::NotYet;
    State state = State::Waiting;
    if (!mapped_) {
      // The frame may have lain in the queue for long, and the kernel, once it is told of a read, waits for whoever
      // writes into the memory by then, without a deadline that we could set. So nobody reads who has not looked.
      auto fences = frameFences(buffer_, Access::Read);
      if (!fences || !fences->none()) {
        ++round_;
        state = State::Working;
        state_.compare_exchange_strong(state, State::Waiting); // unless it was given up just now
        lock.unlock();
        queue_->waitAgain(this, std::move(fences), task_.fence_timeout);
        return Picture::Filled::NotYet;
      }
      if (auto mapped = mapFrame(); !mapped) return mapped.error();
    }
  }
  // from here on the mapping stays: this picture is one of the unfilled
  auto filled = prepare(index, tensor, elsewhere);
  std::lock_guard lock(mutex_);
  if (--unfilled_ == 0 && (!filled || *filled == Picture::Filled::Yes)) mapped_.reset(); // no longer needed
  return filled;
}

Status FrameJob::mapFrame() {
  auto layout = frameLayout(buffer_, task_.setup->caps);
  if (!layout) return layout.error();
  auto mapped = MappedFrame::map(buffer_, *layout, task_.setup->whole.planes(), *task_.setup->mappings);
  if (!mapped) return mapped.error();
  mapped_.emplace(mapped.take());
  return Nothing{};
}

Result<Picture::Filled> FrameJob::prepare(size_t index, void *tensor, const void **elsewhere) {
  const FrameSetup &setup = *task_.setup;
  const FramePlanes &planes = mapped_->planes();
  if (const auto &region = targets_[index].region; region) {
    auto preprocessor = Preprocessor::create(setup.caps.info, setup.model->plan, setup.model->preprocess, *region);
    if (!preprocessor) return preprocessor.error();
    preprocessor->run(planes, tensor);
    return Picture::Filled::Yes;
  }
  if (!setup.is_tensor) {
    setup.whole.run(planes, tensor);
    return Picture::Filled::Yes;
  }
  const void *packed = packedTensor(planes, setup.caps.info, setup.model->plan);
  if (packed != nullptr && elsewhere != nullptr) {
    *elsewhere = packed;
    std::lock_guard lock(mutex_);
    result_.pictures[index].in_place = true;
    return Picture::Filled::Elsewhere;
  }
  if (packed != nullptr)
    std::memcpy(tensor, packed, setup.model->plan.bytes());
  else
    setup.whole.run(planes, tensor);
  std::lock_guard lock(mutex_);
  ++result_.copies;
  result_.bytes_copied += setup.model->plan.bytes();
  return Picture::Filled::Yes;
}

void FrameJob::finished(unsigned round, size_t index, Result<Outputs> outputs, const Picture::Times &times) {
  if (round != round_) return;
  const Model &model = *task_.setup->model;
  FrameFindings findings;
  std::optional<Error> error;
  const auto start = Clock::now();
  if (!outputs) {
    error = outputs.error();
  } else if (model.decoder != nullptr && wanted(round)) {
    try {
      auto found = decode(index, *outputs);
      if (found)
        findings = found.take();
      else
        error = found.error();
    } catch (const std::bad_alloc &) {
      error = Error{"decoding the model's outputs", ENOMEM, "Give the process more memory"};
    }
  }
  const auto decoded = Clock::now() - start;
  bool last = false;
  {
    std::lock_guard lock(mutex_);
    if (round != round_) return; // another picture of the frame has it started anew
    result_.pictures[index].times = times;
    result_.pictures[index].decode = decoded;
    if (error) {
      if (!error_) error_ = std::move(error);
    } else {
      PictureResult &picture = result_.pictures[index];
      picture.findings = std::move(findings);
      if (task_.keep_tensors) picture.tensors = outputs.take();
    }
    last = --unfinished_ == 0;
  }
  if (last) complete();
}

Result<FrameFindings> FrameJob::decode(size_t index, const Outputs &outputs) const {
  const FrameSetup &setup = *task_.setup;
  const Model &model = *setup.model;
  if (auto bad = firstNotANumber(outputs); bad)
    return Error{"model file " + model.file + ": output " + model.engine->outputs()[*bad].describe() +
                     " has values that are not numbers (NaN)",
                 0, "Check mean, scale and the model's precision"};
  auto found = model.decoder->decode(outputs, task_.decode);
  if (!found) return found.error();
  const auto &region = targets_[index].region;
  const Mapping mapping =
      region ? mapTensorToFrame(model.plan, *region, model.preprocess.resize) : setup.whole.mapping();
  return toFrame(*found, model.labels, model.plan, mapping, setup.caps.width(), setup.caps.height(), region);
}

void FrameJob::complete() {
  {
    std::lock_guard lock(mutex_);
    result_.took = Clock::now() - arrival_;
    mapped_.reset();
    device_waits_.clear();
    gst_clear_buffer(&buffer_); // else the one who takes the frame from the queue could not write to it
  }
  State working = state_;
  while (working != State::GivenUp && !state_.compare_exchange_weak(working, State::Done)) {
  }
  queue_->done(this);
}

Result<FrameResult> FrameJob::takeResult() {
  std::lock_guard lock(mutex_);
  if (error_) return *error_;
  return std::move(result_);
}

} // namespace gstzc::infer
