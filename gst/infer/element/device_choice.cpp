// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/device_choice.h"

#include <string>

#include "gst/infer/stream/frame_setup.h"

namespace gstzc::infer {

bool readByDevice(const FrameCaps &caps, const Settings &settings) {
  return caps.memory == MemoryKind::Cuda || wantsDevice(settings);
}

Status checkDeviceTensors(const Model &model, const TensorDevice &device) {
  const std::string what = "tensor-memory=device: ";
  const std::string provider = model.engine->provider();
  const auto ordinal = model.engine->cudaDevice();
  if (!ordinal)
    return Error{
        what + "execution provider " + provider + " of " + model.engine->name() + " has its outputs in host memory", 0,
        "Set execution-provider to cuda or tensorrt (with onnxruntime-library of a build that has it), or "
        "tensor-memory=host"};
  if (device.libraryDevice() < 0)
    return Error{what + device.name() + " is used in a CUDA context that inference libraries do not use", 0,
                 "Give the pipeline the device's primary context, or set tensor-memory=host"};
  if (device.libraryDevice() != *ordinal)
    return Error{what + "the model runs on CUDA device " + std::to_string(*ordinal) + ", the frames are read by " +
                     device.name(),
                 0, "Set provider-options=\"options,device_id=" + std::to_string(device.libraryDevice()) + "\""};
  if (model.plan.batch > 1)
    return Error{what + "a run of this model takes " + std::to_string(model.plan.batch) +
                     " pictures, which are gathered in host memory",
                 0, "Set batch-size=1, or tensor-memory=host"};
  if (!runsOnStreamOf(model, device))
    return Error{what + "the model runs on another stream than the one that the frames are read on", 0,
                 "Use a model-instance-id of its own and no option user_compute_stream, or tensor-memory=host"};
  return Nothing{};
}

GstCaps *withoutDeviceMemory(const GstCaps *caps) {
  GstCaps *rest = gst_caps_new_empty();
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    const GstCapsFeatures *features = gst_caps_get_features(caps, i);
    if (features != nullptr && gst_caps_features_contains(features, kCudaFeature)) continue;
    gst_caps_append_structure_full(rest, gst_structure_copy(gst_caps_get_structure(caps, i)),
                                   features != nullptr ? gst_caps_features_copy(features) : nullptr);
  }
  return rest;
}

} // namespace gstzc::infer
