// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer's properties, except those that are no settings (stats).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/model/model.h"
#include "gst/infer/stream/frame_queue.h"
#include "gst/infer/stream/runner.h"
#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/gstzcfencepolicy.h"

namespace gstzc::infer {

// What upstream is asked for.
enum class Layout {
  Auto,  // Model where nobody downstream shows or keeps the frames, else Frame
  Frame, // what downstream wants
  Model, // frames that are the model's tensor, if upstream can
};

// What reads the frames' pixels.
enum class PreprocessDevice {
  Auto, // CUDA where the frames are in its memory, else the CPU
  Cpu,  // the same
  Cuda, // CUDA, dma-bufs too
};

enum class OutputKind { RelationMeta, TensorMeta, Both };

// Where the tensors of OutputKind::TensorMeta and Both are.
enum class TensorMemory {
  Host,
  Device, // of the device that reads the frames and runs the model
};
enum class InferenceRegion { Frame, Objects };
enum class Choice { Auto, First, Second }; // of a property that the model may answer for itself

struct FreeStructure {
  void operator()(GstStructure *s) const { gst_structure_free(s); }
};

struct Settings {
  // the model
  std::string model_file, modelinfo_file, labels_file, model_instance_id;
  // what runs it
  std::string onnxruntime_library;
  std::string execution_provider = "auto";
  std::shared_ptr<const GstStructure> provider_options;
  bool allow_cpu_fallback = false;
  int intra_threads = 1;
  // frames and runs
  unsigned workers = 0;
  unsigned max_in_flight = 4;
  unsigned batch_size = 1;
  unsigned batch_timeout = 0; // ms
  FrameQueue::WhenFull drop_policy = FrameQueue::WhenFull::Block;
  unsigned inference_interval = 1;
  bool repeat_results = false;
  bool qos = true;
  // the picture
  Layout layout = Layout::Auto;
  PreprocessDevice preprocess_device = PreprocessDevice::Auto;
  int input_width = 0, input_height = 0;
  int resize = -1, scaling = -1; // ResizeMode, Scaling; -1: the model's
  Choice channel_order = Choice::Auto;
  double pad_value = -1;
  std::string mean, scale;
  InferenceRegion region = InferenceRegion::Frame;
  std::string object_class;
  // the results
  DecoderKind decoder = DecoderKind::Auto;
  float threshold = -1, iou_threshold = -1; // below 0: the model family's
  int max_detections = 100;
  OutputKind output = OutputKind::RelationMeta;
  TensorMemory tensor_memory = TensorMemory::Host;
  bool message_results = false;
  unsigned stats_interval = 0; // ms
  // time
  unsigned fence_timeout = kFenceTimeoutDefault; // ms
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;
};

// Installs them with the ids 1, 2, …; the number of them.
guint installSettings(GObjectClass *klass);
// False: no property of ours. `id` as installed.
bool setSetting(Settings &settings, guint id, const GValue *value);
bool getSetting(const Settings &settings, guint id, GValue *value);
// Of the settings that a model is loaded with, those that are still as in `asked` become what they are in `loaded`:
// `asked` failed to load, `loaded` is the model that stays. The names of those that changed.
std::vector<const char *> restoreModelSettings(Settings &settings, const Settings &asked, const Settings &loaded);
// The id of model-file, the one setting that means more than itself while frames flow.
guint modelFileId();

// The enumerations' types, for gst_type_mark_as_plugin_api().
std::vector<GType> settingTypes();

inline bool wantsTensors(const Settings &s) { return s.output != OutputKind::RelationMeta; }
inline bool wantsDeviceTensors(const Settings &s) { return wantsTensors(s) && s.tensor_memory == TensorMemory::Device; }
// Whether a device reads all frames, whatever memory they are in, and is there before the model.
inline bool wantsDevice(const Settings &s) {
  return s.preprocess_device == PreprocessDevice::Cuda || wantsDeviceTensors(s);
}

// What the settings say to the parts that do the work. Errors name the property, its value and what it may be.
Result<ModelOptions> modelOptions(const Settings &settings);
ModelRunner::Options runnerOptions(const Settings &settings);
guint queueCapacity(const Settings &settings); // frames held at a time
DecodeOptions decodeOptions(const Settings &settings, const Model &model);

} // namespace gstzc::infer
