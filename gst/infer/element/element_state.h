// SPDX-License-Identifier: LGPL-2.1-or-later
// What the parts of the element share: gstfenceinfer.cpp has its pads, its task and its type; element_model.cpp its
// model and its device, as they come and go. Nobody else includes this.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <gst/gst.h>

#include "gst/infer/device/tensor_device.h"
#include "gst/infer/element/background_loads.h"
#include "gst/infer/element/settings.h"
#include "gst/infer/gstfenceinfer.h"
#include "gst/infer/stats.h"
#include "gst/infer/stream/frame_job.h"
#include "gst/infer/stream/frame_queue.h"
#include "gst/infer/stream/frame_setup.h"
#include "gst/infer/stream/runner.h"
#include "gst/infer/stream/skip_policy.h"
#include "gst/zerocopy/core/mapping.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"

GST_DEBUG_CATEGORY_EXTERN(gst_fence_infer_debug);

namespace gstzc::infer {

struct FenceInferState {
  Settings settings; // under the object lock

  const std::shared_ptr<FrameQueue> queue = std::make_shared<FrameQueue>();
  // Queue and task open and close together under this: a task that pauses because the queue was closed must not do so
  // after somebody opened it and started the task. Never held while waiting for the task.
  std::mutex task_mutex;

  std::mutex model_mutex;
  std::shared_ptr<ModelRunner> runner; // from PAUSED on; under model_mutex
  guint64 runs = 0;                    // counts the times a model was there; under model_mutex
  guint64 loads = 0;                   // counts the models asked for: the last one wins; under model_mutex
  BackgroundLoads swaps;               // entered under model_mutex, and only while `runs` is the request's
  Settings loaded; // with which the runner's model was, as far as this element loaded it; under the object lock
  std::shared_ptr<TensorDevice> device; // made when the first frames need it, for this run; under model_mutex

  std::shared_ptr<MappingCache> mappings; // while a model is loaded, so that other caps find them too

  SkipPolicy skip;
  // the streaming thread's, or anybody's while it is stopped
  std::optional<FrameCaps> caps;
  std::shared_ptr<TensorDevice> reader;    // of frames with these caps; null: the CPU
  std::shared_ptr<const FrameSetup> setup; // for these caps
  GstSegment segment;

  // the source-pad task's, or anybody's while it is stopped
  guint64 frame = 0; // number of the next one
  bool warned_of_fence = false;
  bool discont = false;            // frames before the next one were dropped
  std::optional<FrameResult> last; // for frames that repeat it
  std::shared_ptr<const FrameSetup> last_setup;
  guint64 last_frame = 0; // its number
  GstClockTime last_pts = GST_CLOCK_TIME_NONE;
  gint64 stats_posted = 0; // monotonic time, us

  bool error_posted = false; // under the object lock

  std::mutex stats_mutex;
  Stats stats;                                // under stats_mutex
  guint64 dropped_before = 0;                 // what the queue had dropped when this run began; under stats_mutex
  bool counted = false;                       // the frame that the task has was counted already; under stats_mutex
  guint64 frame_ns = 0;                       // a frame's duration; 0: the caps do not say; under stats_mutex
  guint64 batch_ns = 0;                       // that a picture may wait for others; under stats_mutex
  guint64 measured_ns = 0;                    // from a frame's arrival to its results; under stats_mutex
  std::optional<guint64> latency_reported_ns; // in the last answer to a latency query; under stats_mutex

  // How long a frame is here. With the lock of stats_mutex, as the next.
  guint64 latency() const { return std::max(frame_ns + batch_ns, measured_ns); }
  // A pipeline that was told too little is late with every frame: true where it has to ask again, once.
  bool latencyHasGrown() {
    if (!latency_reported_ns || latency() <= *latency_reported_ns + *latency_reported_ns / 4) return false;
    latency_reported_ns = latency();
    return true;
  }
};

Settings settingsOf(GstFenceInfer *self);
std::shared_ptr<ModelRunner> runnerOf(GstFenceInfer *self);
std::shared_ptr<TensorDevice> deviceOf(GstFenceInfer *self);

// Messages have to be UTF-8; names of files and what stands in broken models need not be.
std::string validText(const std::string &text);

// From READY to PAUSED and back: the model, its runner, and the device where that has to be there from the start.
// False: said on the bus.
bool openModel(GstFenceInfer *self);
void closeModel(GstFenceInfer *self);

// The device of this run; made where there is none yet.
Result<std::shared_ptr<TensorDevice>> ensureDevice(GstFenceInfer *self);

// What follows from how many pictures the model takes at a time.
void useBatch(GstFenceInfer *self, const Model &model);

// Loads the model file that the settings name by now, aside, and has it take over; nothing where none is open yet: it
// will be on the way to PAUSED.
void requestSwap(GstFenceInfer *self);

} // namespace gstzc::infer

struct _GstFenceInfer {
  GstElement parent;
  GstPad *sinkpad;
  GstPad *srcpad;
  gstzc::infer::FenceInferState *state;
};
