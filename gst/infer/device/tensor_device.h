// SPDX-License-Identifier: LGPL-2.1-or-later
// What fenceinfer asks of a device that has the frames, or can import them: tensors, without the frame on the CPU. The
// plugin of the device registers it; fenceinfer loads that plugin when it is needed.
#pragma once

#include <cstddef>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/engine/engine.h"
#include "gst/infer/preprocess/pixel_plan.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcdeviceevent.h"

namespace gstzc::infer {

// Memory for one picture's tensor, and where it is.
struct TensorTarget {
  MemorySpace space = MemorySpace::Host; // of newHostMemory(), or of newDeviceMemory()
  std::shared_ptr<void> memory;
  size_t bytes = 0;
};

// When TensorDevice::fill() calls `done`.
enum class Made {
  Done,     // the tensor is there, and the frame was released before
  OnStream, // what makes it is on the device's stream, for who reads it on that stream; the frame may be held still.
            // What fails later is told to who asks for what comes behind it
};

struct UnrefBuffer {
  void operator()(GstBuffer *buffer) const { gst_buffer_unref(buffer); }
};
using BufferRef = std::unique_ptr<GstBuffer, UnrefBuffer>;

// One device as one element uses it. Thread-safe.
class TensorDevice {
public:
  using Done = std::function<void(Status)>;          // once, on any thread without locks, quick
  using Came = std::function<void(Result<Outputs>)>; // the same

  // Waits for what is under way, with a deadline. On any thread, within a `done` too.
  virtual ~TensorDevice() = default;
  virtual std::string name() const = 0; // "CUDA device 0 (NVIDIA …)"

  // Frames with these caps can be read; else the error says why and what would help.
  virtual Status accepts(const FrameCaps &caps) = 0;
  // Fences of this kind are waited for on the device, before the frame is read; all others are over before fill().
  virtual bool waitsFor(GstZcDeviceEvent *event) const = 0;

  // Has the device make one picture of the frame, and returns at once. The frame, of which a reference is taken, is
  // held until it has been read. When `when` says, `done` is called: `target` has the tensor then, or there is none.
  // Errors: nothing was begun, and `done` is not called. Made::OnStream is for memory of the device.
  virtual Status fill(GstBuffer *frame, const FrameCaps &caps, const PixelPlan &plan, TensorTarget target, Made when,
                      Done done) = 0;

  // For tensors that what is on stream() now writes (Outputs::on_stream), or none at all. Neither call waits for the
  // device; both keep the tensors' owner until the device is past them.
  //
  // Has the device copy them into memory of the host and calls `came` when they are there, or with what has failed.
  virtual void toHost(Outputs tensors, Came came) {
    (void)tensors;
    came(Error{"results in the device's memory", ENOSYS, ""});
  }
  // Each as a buffer with one memory of the device, for others who know it, with the moment when it is there as its
  // GstZcFenceMeta.
  virtual Result<std::vector<BufferRef>> share(const Outputs &tensors) {
    (void)tensors;
    return Error{"tensors in the device's memory for others", ENOSYS, ""};
  }

  // Memory that the device can write, freed with the last reference, which need not be before the device's end.
  virtual Result<std::shared_ptr<void>> newHostMemory(size_t bytes) = 0;
  virtual Result<std::shared_ptr<void>> newDeviceMemory(size_t bytes) = 0;
  // The stream that it runs on; null where there is none.
  virtual void *stream() const = 0;
  // The ordinal of the CUDA device whose runtime, and with it an inference library, can read newDeviceMemory(): where
  // that is in the device's primary context. -1: nobody else can.
  virtual int libraryDevice() const { return -1; }

  // Of frames that were copied because they could not be imported.
  virtual guint64 copies() const = 0;
  virtual guint64 bytesCopied() const = 0;
};

// `element` is asked for its context (GstContext), as the elements of the device do.
using TensorDeviceMaker = Result<std::shared_ptr<TensorDevice>> (*)(GstElement *element);

// For the plugin, where it is loaded. `name`: of the kind of device, "cuda"; the plugin's is "zerocopy" and that.
void registerTensorDevice(const std::string &name, TensorDeviceMaker maker);

// It is registered, or the plugin that would do so is installed.
bool haveTensorDevice(const std::string &name);
// Loads the plugin where it is not yet. Errors: there is no such plugin, or it cannot be loaded; what the maker says.
Result<std::shared_ptr<TensorDevice>> makeTensorDevice(const std::string &name, GstElement *element);

} // namespace gstzc::infer
