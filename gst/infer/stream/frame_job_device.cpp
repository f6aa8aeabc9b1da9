// SPDX-License-Identifier: LGPL-2.1-or-later
// A frame's way through a model where a device reads it.
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gst/infer/stream/frame_job.h"
#include "gst/infer/stream/frame_job_pictures.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::infer {

using Clock = FrameQueue::Clock;

namespace {

using Views = std::vector<TensorView>;

Error notComplete() { return {"the frame is not complete", ECANCELED, ""}; }

} // namespace

// The fences of the frame that the device waits for.
std::vector<FrameJob::EventRef> FrameJob::waitsOf(const TensorDevice &device, GstBuffer *buffer) {
  std::vector<EventRef> waits;
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_ZC_FENCE_META_API_TYPE)) {
    GstZcDeviceEvent *event = gst_zc_fence_meta_get_event(reinterpret_cast<GstZcFenceMeta *>(meta));
    if (event != nullptr && device.waitsFor(event)) waits.emplace_back(gst_zc_device_event_ref(event));
  }
  return waits;
}

// Only in start(): until that has returned, and this picture is finished, the frame is here.
void FrameJob::fillOnDevice(unsigned round, size_t index) {
  const FrameSetup &setup = *task_.setup;
  const DeviceSetup &on = *setup.on_device;
  PixelPlan plan = on.whole;
  const auto begun = [&]() -> Status {
    if (const auto &region = targets_[index].region; region) {
      auto part = makePixelPlan(setup.caps.info, setup.model->plan, setup.model->preprocess, region);
      if (!part) return part.error();
      plan = *part;
    }
    auto memory = on.tensors->get();
    if (!memory) return named(memory.error(), *on.device);
    const TensorTarget target{on.tensors->space(), memory.take(), on.tensors->bytes()};
    auto done = [job = weak_from_this(), round, index, made = target, on_stream = on.when == Made::OnStream,
                 start = Clock::now()](const Status &status) mutable {
      if (const auto self = job.lock())
        self->filledOnDevice(round, index, {std::move(made.memory), made.space, Clock::now() - start, on_stream},
                             status);
    };
    auto asked = on.device->fill(buffer_, setup.caps, plan, target, on.when, std::move(done));
    return asked ? asked : Status(named(asked.error(), *on.device));
  }();
  if (!begun) finished(round, index, begun.error(), {});
}

// From the device's call, at any time after it was asked.
void FrameJob::filledOnDevice(unsigned round, size_t index, DeviceTensor tensor, const Status &status) {
  if (!wanted(round)) return;
  const Picture::Times times{.fill = tensor.took};
  if (!status) return finished(round, index, named(status.error(), *task_.setup->on_device->device), times);
  if (!tensor.on_stream && fenceFailedOnDevice()) return finished(round, index, notComplete(), times);
  const auto runner = runner_.lock();
  if (!runner) return finished(round, index, Error{"the model is gone", ECANCELED, ""}, times);
  submit(*runner, std::make_shared<RegionPicture>(shared_from_this(), round, index, std::move(tensor)));
}

// The device has passed them all. What they stood for may have failed all the same.
bool FrameJob::fenceFailedOnDevice() {
  const std::lock_guard lock(mutex_);
  for (const EventRef &event : device_waits_) {
    const gint status = gst_zc_device_event_get_status(event.get());
    if (status >= 0) continue;
    const auto now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    failed_on_device_ = FenceResult{FenceOutcome::Failed, -status, static_cast<uint64_t>(now)};
    verdict_ = judgeFence(*failed_on_device_, task_.on_fence_error, task_.fence_timeout);
    return true;
  }
  return false;
}

Result<Picture::Filled> FrameJob::take(unsigned round, const DeviceTensor &made, void *tensor, const void **elsewhere) {
  const std::lock_guard lock(mutex_);
  if (!begin(round)) return Picture::Filled::NotYet;
  if (elsewhere != nullptr) {
    *elsewhere = made.memory.get();
    if (made.on_stream) return Picture::Filled::OnStream;
    return made.space == MemorySpace::Device ? Picture::Filled::OnDevice : Picture::Filled::Elsewhere;
  }
  if (made.space == MemorySpace::Device) return Error{"a tensor on the device in a batch", EINVAL, ""};
  const size_t bytes = task_.setup->model->plan.bytes();
  std::memcpy(tensor, made.memory.get(), bytes);
  ++result_.copies;
  result_.bytes_copied += bytes;
  return Picture::Filled::Yes;
}

// A run is on the device's stream, and all that it needs of the host.
void FrameJob::enqueued(unsigned round, size_t index, Outputs outputs, const Picture::Times &times) {
  TensorDevice &device = *task_.setup->on_device->device;
  const bool shared = task_.keep_tensors && task_.device_tensors, decoded = task_.setup->model->decoder != nullptr;
  const bool to_host = wanted(round) && (decoded || (task_.keep_tensors && !shared));
  Result<Outputs> result = outputs;
  bool judged = true; // that it has no fence that may turn out to have failed
  if (shared && wanted(round)) {
    auto buffers = device.share(outputs);
    const std::lock_guard lock(mutex_);
    if (!buffers)
      result = named(buffers.error(), device);
    else if (round == round_)
      result_.pictures[index].shared = buffers.take();
  }
  {
    const std::lock_guard lock(mutex_);
    judged = device_waits_.empty();
  }
  const auto runs = task_.setup->on_device->runs;
  const bool far_behind = runs->fetch_add(1) >= task_.early;
  const std::shared_ptr<void> counted(nullptr, [runs](void *) { --*runs; }); // until the device is past it
  const bool leaves = !result || (!to_host && judged && !far_behind);
  Outputs needed = std::move(outputs);
  if (!to_host || leaves) needed.tensors.clear(); // its owner is kept by the device all the same
  auto came = [counted, job = weak_from_this(), round, index, times, to_host,
               views = result ? result->tensors : Views(), start = Clock::now()](Result<Outputs> copies) {
    const auto self = job.lock();
    if (!self) return;
    Picture::Times all = times;
    all.run += Clock::now() - start;
    if (copies && !to_host) copies->tensors = views; // nobody looks into them
    self->came(round, index, std::move(copies), all);
  };
  device.toHost(std::move(needed),
                leaves ? TensorDevice::Came([counted](const Result<Outputs> &) {}) : std::move(came));
  if (leaves) finished(round, index, std::move(result), times);
}

// The device is past the run.
void FrameJob::came(unsigned round, size_t index, Result<Outputs> outputs, Picture::Times times) {
  if (!wanted(round)) return;
  if (!outputs) return finished(round, index, named(outputs.error(), *task_.setup->on_device->device), times);
  if (fenceFailedOnDevice()) return finished(round, index, notComplete(), times);
  if (task_.setup->model->decoder == nullptr) return finished(round, index, std::move(outputs), times);
  const auto runner = runner_.lock();
  if (!runner) return finished(round, index, Error{"the model is gone", ECANCELED, ""}, times);
  submit(*runner, std::make_shared<CameFromDevice>(shared_from_this(), round, index, outputs.take(), times));
}

} // namespace gstzc::infer
