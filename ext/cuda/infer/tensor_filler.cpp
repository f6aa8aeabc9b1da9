// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/infer/tensor_filler.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ext/cuda/infer/calling_back.h"
#include "ext/cuda/sync/kept_for_good.h"
#include "ext/cuda/sync/wait_points.h"
#include "gst/infer/preprocess/pixel_plan.h"

namespace gstzc::cuda {

struct TensorFiller::Picture {
  Picture(GstBuffer *buffer, ReadFrame from, infer::TensorTarget to, Ended then)
      : frame(buffer), read(std::move(from)), target(std::move(to)), ended(std::move(then)) {}
  ~Picture() { gst_clear_buffer(&frame); }
  Picture(const Picture &) = delete;
  Picture &operator=(const Picture &) = delete;

  GstBuffer *frame;
  ReadFrame read;
  infer::TensorTarget target;
  Ended ended;
  Slot slot;
  Status enqueued = Nothing{};
};

Result<std::unique_ptr<TensorFiller>> TensorFiller::create(ContextPtr context) {
  auto filler = std::unique_ptr<TensorFiller>(new TensorFiller(context));
  auto stream = newStream(context);
  if (!stream) return stream.error();
  filler->stream_ = stream.take();
  auto order = newEvent(context);
  if (!order) return order.error();
  filler->order_ = order.take();
  auto kernels = KernelModule::load(context);
  if (!kernels) return kernels.error();
  filler->kernels_ = kernels.take();
  auto retire = RetireQueue::create(context);
  if (!retire) return retire.error();
  filler->retire_ = retire.take();
  return filler;
}

Result<TensorFiller::Slot> TensorFiller::takeSlot(size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::find_if(slots_.begin(), slots_.end(), [&](const Slot &slot) { return slot.bytes == bytes; });
    if (fits != slots_.end()) {
      Slot slot = std::move(*fits);
      slots_.erase(fits);
      return slot;
    }
    std::erase_if(slots_, [](const Slot &slot) { return slot.bytes > 0; }); // those of another model
  }
  Slot slot;
  if (bytes > 0) {
    auto tensor = allocDevice(context_, bytes);
    if (!tensor) return tensor.error();
    slot.tensor = tensor.take();
  }
  auto end = newEvent(context_);
  if (!end) return end.error();
  slot.end = end.take();
  slot.bytes = bytes;
  return slot;
}

Status TensorFiller::enqueue(Picture &picture, const infer::PixelPlan &plan) {
  const bool to_host = picture.target.space == infer::MemorySpace::Host;
  const uint64_t bytes = infer::tensorBytes(plan);
  if (bytes > picture.target.bytes)
    return Error{"a tensor of " + std::to_string(bytes) + " bytes in memory of " + std::to_string(picture.target.bytes),
                 EINVAL, ""};
  auto slot = takeSlot(to_host ? bytes : 0);
  if (!slot) return slot.error();
  picture.slot = slot.take();

  const Driver &driver = context_->driver;
  const ContextScope scope(*context_);
  if (auto current = scope.status(); !current) return current;
  if (waitPoint("frame-writers"))
    if (auto waits = waitForWriters(*context_, stream_.get(), order_.get(), picture.frame); !waits) return waits;
  if (picture.read.import && waitPoint("frame-refresh"))
    if (auto fresh = picture.read.import->refresh(stream_.get()); !fresh) return fresh;
  const CUdeviceptr tensor =
      to_host ? picture.slot.tensor.get() : reinterpret_cast<CUdeviceptr>(picture.target.memory.get());
  if (auto launched = kernels_->launchPreprocess(stream_.get(), plan, picture.read.planes, tensor); !launched)
    return launched;
  if (to_host) {
    const CUresult copied = driver.cuMemcpyDtoHAsync(picture.target.memory.get(), tensor, bytes, stream_.get());
    if (auto said = driver.check(copied, "cuMemcpyDtoHAsync of a tensor of " + std::to_string(bytes) + " bytes"); !said)
      return said;
  }
  return driver.check(driver.cuEventRecord(picture.slot.end.get(), stream_.get()), "cuEventRecord after the tensor");
}

void TensorFiller::fill(GstBuffer *frame, ReadFrame read, const infer::PixelPlan &plan, infer::TensorTarget target,
                        infer::Made when, Ended ended) {
  auto picture = std::make_shared<Picture>(frame, std::move(read), std::move(target), std::move(ended));
  picture->enqueued = enqueue(*picture, plan);
  Ended now;
  if (when == infer::Made::OnStream && picture->enqueued) now = std::exchange(picture->ended, nullptr);
  // also after an error: some of it may be on the stream
  retire_->retire(stream_.get(), [this, picture = std::move(picture)] { end(*picture); });
  if (now) now(Nothing{});
}

TensorFiller::Outcome TensorFiller::outcomeOf(const Slot &slot) {
  const ContextScope scope(*context_);
  const CUresult state = scope.status() ? context_->driver.cuEventQuery(slot.end.get()) : CUDA_ERROR_UNKNOWN;
  if (state == CUDA_ERROR_NOT_READY)
    return {Error{"the device did not end its work in time", ETIMEDOUT, "It hangs, or is lost"}, true};
  return {context_->driver.check(state, "the device's work on a frame"), false};
}

void TensorFiller::behind(Ended then, std::function<void()> used) {
  struct Behind {
    Slot slot;
    Status recorded = Nothing{};
    Ended then;
    std::function<void()> used;
  };
  auto behind = std::make_shared<Behind>();
  behind->then = std::move(then);
  behind->used = std::move(used);
  if (auto slot = takeSlot(0); !slot) {
    behind->recorded = slot.error();
  } else {
    behind->slot = slot.take();
    const ContextScope scope(*context_);
    behind->recorded = scope.status();
    if (behind->recorded)
      behind->recorded = context_->driver.check(context_->driver.cuEventRecord(behind->slot.end.get(), stream_.get()),
                                                "cuEventRecord after a run");
  }
  retire_->retire(stream_.get(), [this, behind = std::move(behind)] {
    const CallingBack here;
    Outcome outcome{behind->recorded, false};
    if (outcome.status) outcome = outcomeOf(behind->slot);
    if (outcome.used) {
      if (behind->used) behind->used();
      KeptForGood::add(std::make_shared<Slot>(std::move(behind->slot)));
    } else if (behind->recorded) {
      const std::lock_guard lock(mutex_);
      slots_.push_back(std::move(behind->slot));
    }
    const Ended after = std::move(behind->then);
    behind->used = nullptr;
    after(std::move(outcome.status));
  });
}

void TensorFiller::retireShared(CUstream order, Readers readers, std::function<void()> free) {
  behind(
      [this, order, readers, free = std::move(free)](const Status &) {
        const auto release = [free] {
          const CallingBack here;
          free();
        };
        if (readers == Readers::Anywhere)
          retire_->retireBehindAll(order, release);
        else
          retire_->retire(order, release);
      },
      {});
}

// The stream is past it, or the retire queue has lost patience.
void TensorFiller::end(Picture &picture) {
  Outcome outcome{picture.enqueued, false};
  if (outcome.status) outcome = outcomeOf(picture.slot);
  if (outcome.used) {
    KeptForGood::add(picture.target.memory);
    KeptForGood::add(std::make_shared<Slot>(std::move(picture.slot)));
    if (picture.read.import) KeptForGood::add(picture.read.import);
  } else if (picture.enqueued) {
    const std::lock_guard lock(mutex_);
    slots_.push_back(std::move(picture.slot));
  }
  picture.read.import.reset();
  gst_clear_buffer(&picture.frame);
  picture.target = {};
  const Ended ended = std::move(picture.ended);
  if (ended) ended(std::move(outcome.status));
}

} // namespace gstzc::cuda
