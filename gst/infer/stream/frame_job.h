// SPDX-License-Identifier: LGPL-2.1-or-later
// One frame on its way through a model: from the end of its fences to what was found in it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/output/frame_result.h"
#include "gst/infer/stream/frame_access.h"
#include "gst/infer/stream/frame_queue.h"
#include "gst/infer/stream/frame_setup.h"
#include "gst/infer/stream/runner.h"
#include "gst/zerocopy/fence_policy.h"

namespace gstzc::infer {

// What was found in one picture of the frame.
struct PictureResult {
  std::optional<guint>
      object; // the id of the object in the frame's analytics metadata that the picture shows; none: the frame
  FrameFindings findings;
  Outputs tensors;               // kept only where they are asked for
  std::vector<BufferRef> shared; // the same in a device's memory, where they are asked for there
  Picture::Times times;
  std::chrono::nanoseconds decode{0};
  bool in_place = false; // the frame's memory was the tensor
};

struct FrameResult {
  std::vector<PictureResult> pictures;
  std::chrono::nanoseconds took{0};     // from its arrival until all was found
  guint64 copies = 0, bytes_copied = 0; // of tensors that only had to be moved into a batch
};

// What is to be done with a frame; the same for many.
struct FrameTask {
  bool look =
      true; // false: its fences are waited for, because who comes next may not know of any; nothing else is used
  std::shared_ptr<const FrameSetup> setup;
  DecodeOptions decode;
  bool keep_tensors = false;
  bool device_tensors = false;             // those kept are the device's own: the setup has Made::OnStream then
  unsigned early = 4;                      // frames that may be gone while their tensors are still to come
  bool objects = false;                    // each object that an element before found, not the frame
  std::vector<std::string> object_classes; // of those; empty: all
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;
  std::chrono::milliseconds fence_timeout{0};
};

// The frame's work in the queue. It holds the buffer until it is done; the pictures it makes of the frame hold it. What
// a device is asked to make of the frame does not: the device holds the buffer itself until it has read it, and what
// comes of it is forgotten if the frame has left meanwhile.
//
// Where the model runs on the device's stream nobody waits for the device until its results are needed: a picture goes
// to the model when the device has been told to make it, the model only enqueues its run, and the device says when what
// is to be decoded has come to the host. A frame of which only tensors in the device's memory are wanted leaves at
// once, unless the device is far behind: else nothing would hold up a producer that is faster.
class FrameJob : public FrameQueue::Work, public std::enable_shared_from_this<FrameJob> {
public:
  FrameJob(GstBuffer *buffer, FrameTask task, std::shared_ptr<FrameQueue> queue, std::weak_ptr<ModelRunner> runner);
  ~FrameJob() override;
  FrameJob(const FrameJob &) = delete;
  FrameJob &operator=(const FrameJob &) = delete;

  // Work
  void start(const FrameQueue::FenceEnd &end) override;
  bool giveUp() override;
  bool onlyPasses() const override { return !task_.look; }
  void abandoned() override;

  // For whoever takes the frame out of the queue, once: how its fences were judged, and where that was Use, what was
  // found, or the error that is in the way. Code ECANCELED: the run was ended.
  const FenceVerdict &verdict() const { return verdict_; }
  // How a fence ended that the device waited for, if it failed.
  const std::optional<FenceResult> &failedOnDevice() const { return failed_on_device_; }
  Result<FrameResult> takeResult();
  const FrameTask &task() const { return task_; }

private:
  class RegionPicture;
  class CameFromDevice;
  struct UnrefEvent {
    void operator()(GstZcDeviceEvent *event) const { gst_zc_device_event_unref(event); }
  };
  using EventRef = std::unique_ptr<GstZcDeviceEvent, UnrefEvent>;
  struct DeviceTensor { // that a device has made of a picture
    std::shared_ptr<void> memory;
    MemorySpace space = MemorySpace::Host;
    std::chrono::nanoseconds took{0};
    bool on_stream = false; // it is there when the device's stream has come that far
  };
  enum class State { Waiting, Working, GivenUp, Done };
  struct Target {
    std::optional<guint> object;
    std::optional<Region> region; // none: the whole frame
  };

  bool wanted(unsigned round) const { return round == round_ && state_ != State::GivenUp; }
  bool begin(unsigned round);
  void submit(ModelRunner &runner, std::shared_ptr<Picture> picture);
  static std::vector<EventRef> waitsOf(const TensorDevice &device, GstBuffer *buffer);
  void fillOnDevice(unsigned round, size_t index);
  void filledOnDevice(unsigned round, size_t index, DeviceTensor tensor, const Status &status);
  bool fenceFailedOnDevice();
  Result<Picture::Filled> take(unsigned round, const DeviceTensor &made, void *tensor, const void **elsewhere);
  Result<Picture::Filled> fill(unsigned round, size_t index, void *tensor, const void **elsewhere);
  void enqueued(unsigned round, size_t index, Outputs outputs, const Picture::Times &times);
  void came(unsigned round, size_t index, Result<Outputs> outputs, Picture::Times times);
  void finished(unsigned round, size_t index, Result<Outputs> outputs, const Picture::Times &times);
  Status mapFrame();
  Result<Picture::Filled> prepare(size_t index, void *tensor, const void **elsewhere);
  Result<FrameFindings> decode(size_t index, const Outputs &outputs) const;
  void complete();

  const FrameTask task_;
  const std::shared_ptr<FrameQueue> queue_;
  const std::weak_ptr<ModelRunner> runner_;
  const FrameQueue::Clock::time_point arrival_;
  std::atomic<State> state_ = State::Waiting;
  std::atomic<unsigned> round_ = 0; // pictures of an earlier round are forgotten
  FenceVerdict verdict_;

  std::mutex mutex_; // for what follows
  GstBuffer *buffer_;
  std::vector<Target> targets_;
  std::optional<MappedFrame> mapped_;
  size_t unfilled_ = 0, unfinished_ = 0;
  std::vector<EventRef> device_waits_; // the fences that the device waits for
  std::optional<FenceResult> failed_on_device_;
  FrameResult result_;
  std::optional<Error> error_;
};

} // namespace gstzc::infer
