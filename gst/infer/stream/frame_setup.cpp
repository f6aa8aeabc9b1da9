// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/frame_setup.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "gst/infer/preprocess/direct.h"

namespace gstzc::infer {

Status checkReadable(const FrameCaps &caps) {
  if (!caps.linear()) {
    gchar *name = gst_video_dma_drm_fourcc_to_string(caps.fourcc, caps.modifier);
    const std::string format = name != nullptr ? name : "an unknown format";
    g_free(name);
    return Error{"frames in the tiled layout " + format + " cannot be read by the CPU", 0,
                 "Ask the producer for the linear layout: drm-format without a modifier, such as drm-format=" +
                     format.substr(0, format.find(':'))};
  }
  const GstVideoFormat format = GST_VIDEO_INFO_FORMAT(&caps.info);
  const auto formats = readableFormats();
  if (std::find(formats.begin(), formats.end(), format) != formats.end()) return Nothing{};
  gchar *name = caps.drm_notation ? gst_video_dma_drm_fourcc_to_string(caps.fourcc, caps.modifier) : nullptr;
  const std::string shown = name != nullptr ? name : gst_video_format_to_string(format);
  g_free(name);
  return Error{"frames in format " + shown + " are not read", 0,
               "Convert them to NV12, RGB or BGRx first; gst-inspect-1.0 fenceinfer lists all formats"};
}

MemorySpace tensorSpace(const Model &model, const TensorDevice &device) {
  const auto reads = model.engine->cudaDevice();
  const bool same = reads && *reads == device.libraryDevice();
  return same && model.plan.batch <= 1 ? MemorySpace::Device : MemorySpace::Host; // batches are gathered by the CPU
}

DeviceStream streamOf(const std::shared_ptr<TensorDevice> &device) {
  if (device == nullptr || device->libraryDevice() < 0 || device->stream() == nullptr) return {};
  return {device->libraryDevice(), device->stream(), device};
}

bool runsOnStreamOf(const Model &model, const TensorDevice &device) {
  return model.engine->stream() != nullptr && model.engine->stream() == device.stream() &&
         tensorSpace(model, device) == MemorySpace::Device;
}

Error named(const Error &error, const TensorDevice &device) {
  return {device.name() + ": " + error.what, error.code, error.remedy};
}

Result<std::shared_ptr<const FrameSetup>> FrameSetup::create(std::shared_ptr<const Model> model, const FrameCaps &caps,
                                                             std::shared_ptr<TensorDevice> device) {
  try {
    if (auto readable = checkReadable(caps); !readable) return readable.error();
    auto preprocessor = Preprocessor::create(caps.info, model->plan, model->preprocess);
    if (!preprocessor) return preprocessor.error();
    const bool is_tensor = isTensor(caps.info, model->plan, model->preprocess);
    auto setup = std::unique_ptr<FrameSetup>(new FrameSetup{std::move(model), caps, preprocessor.take(), is_tensor});
    if (device != nullptr) {
      if (auto accepted = device->accepts(caps); !accepted) return named(accepted.error(), *device);
      auto whole = makePixelPlan(caps.info, setup->model->plan, setup->model->preprocess);
      if (!whole) return whole.error();
      auto tensors =
          std::make_shared<TensorPool>(device, setup->model->plan.bytes(), tensorSpace(*setup->model, *device));
      const Made when = runsOnStreamOf(*setup->model, *device) ? Made::OnStream : Made::Done;
      setup->on_device =
          DeviceSetup{.device = std::move(device), .whole = *whole, .tensors = std::move(tensors), .when = when};
    }
    return std::shared_ptr<const FrameSetup>(std::move(setup));
  } catch (const std::bad_alloc &) { // the callers are C functions that no exception may pass through
    return Error{"preparing for the caps", ENOMEM, "Use a model with smaller tensors, or give the process more memory"};
  }
}

} // namespace gstzc::infer
