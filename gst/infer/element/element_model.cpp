// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/element_state.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gst/infer/element/device_choice.h"
#include "gst/infer/element/tensor_layout.h"
#include "gst/infer/model/model.h"

#define GST_CAT_DEFAULT gst_fence_infer_debug

namespace gstzc::infer {
namespace {

// That stopping waits for a model that is being loaded: the library cannot be interrupted while it opens a file.
constexpr std::chrono::seconds kLongestLoad{30};

} // namespace

Settings settingsOf(GstFenceInfer *self) {
  GST_OBJECT_LOCK(self);
  Settings settings = self->state->settings;
  GST_OBJECT_UNLOCK(self);
  return settings;
}

std::shared_ptr<ModelRunner> runnerOf(GstFenceInfer *self) {
  std::lock_guard lock(self->state->model_mutex);
  return self->state->runner;
}

std::shared_ptr<TensorDevice> deviceOf(GstFenceInfer *self) {
  std::lock_guard lock(self->state->model_mutex);
  return self->state->device;
}

std::string validText(const std::string &text) {
  gchar *made = g_utf8_make_valid(text.data(), static_cast<gssize>(text.size()));
  const std::string copy = made;
  g_free(made);
  return copy;
}

void useBatch(GstFenceInfer *self, const Model &model) {
  FenceInferState *s = self->state;
  const Settings settings = settingsOf(self);
  s->queue->setCapacity(std::max(queueCapacity(settings), static_cast<guint>(model.plan.batch)));
  std::lock_guard lock(s->stats_mutex);
  s->batch_ns = model.plan.batch > 1 ? settings.batch_timeout * GST_MSECOND : 0;
}

Result<std::shared_ptr<TensorDevice>> ensureDevice(GstFenceInfer *self) {
  FenceInferState *s = self->state;
  if (auto device = deviceOf(self)) return device;
  auto made = makeTensorDevice(kCudaDevice, GST_ELEMENT_CAST(self)); // asks neighbours: not with a lock held
  if (!made) return made;
  std::lock_guard lock(s->model_mutex);
  if (s->device == nullptr) s->device = made.take();
  return s->device;
}

// --- states

static void post_load_error(GstFenceInfer *self, const LoadError &failure) {
  const std::string text = validText(failure.error.message());
  switch (failure.kind) {
  case LoadFailure::NoLibrary: GST_ELEMENT_ERROR(self, LIBRARY, INIT, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::NotFound: GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::NoAccess: GST_ELEMENT_ERROR(self, RESOURCE, OPEN_READ, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::BadModel: GST_ELEMENT_ERROR(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr)); break;
  case LoadFailure::NoProvider:
  case LoadFailure::OtherOptions: GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("%s", text.c_str()), (nullptr)); break;
  }
}

// Settings that each make sense, but together leave frames as they came: said once.
static void warn_of_nothing(GstFenceInfer *self, const Settings &settings, bool decodes) {
  if (settings.output == OutputKind::RelationMeta && !decodes)
    GST_ELEMENT_WARNING(self, LIBRARY, SETTINGS,
                        ("decoder=none with output=relation-meta attaches nothing to the frames. Set "
                         "output=tensor-meta for the model's tensors, or let a decoder make results of them"),
                        (nullptr));
  if (settings.output == OutputKind::TensorMeta && settings.region == InferenceRegion::Objects)
    GST_ELEMENT_WARNING(self, LIBRARY, SETTINGS,
                        ("output=tensor-meta with inference-region=objects attaches nothing to the frames: tensors are "
                         "of whole frames. Set output=relation-meta"),
                        (nullptr));
}

bool openModel(GstFenceInfer *self) {
  FenceInferState *s = self->state;
  const Settings settings = settingsOf(self);
  auto options = modelOptions(settings);
  if (!options) {
    const std::string text = options.error().message();
    if (settings.model_file.empty())
      GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("%s", text.c_str()), (nullptr));
    else
      GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("%s", text.c_str()), (nullptr));
    return false;
  }
  std::shared_ptr<TensorDevice> device;
  if (wantsDevice(settings)) {
    auto made = makeTensorDevice(kCudaDevice, GST_ELEMENT_CAST(self));
    if (!made) {
      const char *const asked = wantsDeviceTensors(settings) ? "tensor-memory=device: " : "preprocess-device=cuda: ";
      const std::string text = validText(asked + made.error().message());
      GST_ELEMENT_ERROR(self, LIBRARY, INIT, ("%s", text.c_str()), (nullptr));
      return false;
    }
    device = made.take();
  }
  const DeviceStream stream = streamOf(device);
  auto acquired = acquireRunner(settings.model_instance_id, *options, runnerOptions(settings),
                                [&](const ModelOptions &wanted) { return loadModel(wanted, stream); });
  if (acquired.runner == nullptr) {
    post_load_error(self, acquired.failure);
    return false;
  }
  GST_INFO_OBJECT(self, "%s", describe(*acquired.runner->model()).c_str());
  if (wantsDeviceTensors(settings))
    if (auto possible = checkDeviceTensors(*acquired.runner->model(), *device); !possible) {
      const std::string text = validText(possible.error().message());
      GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("%s", text.c_str()), (nullptr));
      return false;
    }
  warn_of_nothing(self, settings, acquired.runner->model()->decoder != nullptr);
  GST_OBJECT_LOCK(self);
  s->loaded = settings;
  GST_OBJECT_UNLOCK(self);
  {
    std::lock_guard lock(s->model_mutex);
    s->runner = std::move(acquired.runner);
    s->device = std::move(device);
  }
  if (settingsOf(self).model_file != settings.model_file) requestSwap(self); // it was set meanwhile

  s->mappings = MappingCache::process();
  useBatch(self, *runnerOf(self)->model());
  s->frame = 0;
  s->warned_of_fence = false;
  s->stats_posted = g_get_monotonic_time();
  s->last.reset();
  s->caps.reset();
  s->reader.reset();
  s->setup.reset();
  s->skip.reset();
  gst_segment_init(&s->segment, GST_FORMAT_UNDEFINED);
  GST_OBJECT_LOCK(self);
  s->error_posted = false;
  GST_OBJECT_UNLOCK(self);
  std::lock_guard lock(s->stats_mutex);
  s->stats = {};
  s->dropped_before = s->queue->counts().dropped;
  s->frame_ns = s->measured_ns = 0;
  s->latency_reported_ns.reset();
  return true;
}

void closeModel(GstFenceInfer *self) {
  FenceInferState *s = self->state;
  std::shared_ptr<ModelRunner> runner;
  std::shared_ptr<TensorDevice> device;
  {
    std::lock_guard lock(s->model_mutex);
    runner.swap(s->runner);
    device.swap(s->device);
    ++s->runs; // what is still being loaded comes too late
  }
  if (!s->swaps.end(kLongestLoad))
    GST_WARNING_OBJECT(self, "a model is still being loaded after %d s: it ends without the element",
                       static_cast<int>(kLongestLoad.count()));
  if (device != nullptr) {
    std::lock_guard lock(s->stats_mutex);
    s->stats.copies += device->copies();
    s->stats.bytes_copied += device->bytesCopied();
  }
  s->reader.reset();
  s->setup.reset();
  s->last.reset();
  s->last_setup.reset();
  s->mappings.reset();
} // the runner ends here, if nobody shares it, and the device

// --- another model while frames flow

struct Swap {
  guint64 run = 0, number = 0; // of the request
  Settings settings;
};

static void post_swap(GstFenceInfer *self, const std::string &new_file, const std::string &old_file,
                      const std::string &why, bool warn) {
  const std::string file = validText(new_file), previous = validText(old_file), error = validText(why);
  GstStructure *told = gst_structure_new("fenceinfer-model", "model-file", G_TYPE_STRING, file.c_str(), "previous",
                                         G_TYPE_STRING, previous.c_str(), "success", G_TYPE_BOOLEAN, error.empty(),
                                         "error", G_TYPE_STRING, error.empty() ? nullptr : error.c_str(), nullptr);
  gst_element_post_message(GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self), told));
  if (warn)
    GST_ELEMENT_WARNING(self, LIBRARY, SETTINGS, ("model-file stays %s: %s", previous.c_str(), error.c_str()),
                        (nullptr));
}

// Why the model cannot take over for the frames that come now; empty where it can.
static std::string unfit(GstFenceInfer *self, const std::shared_ptr<const Model> &model) {
  if (const auto device = deviceOf(self); device != nullptr && wantsDeviceTensors(settingsOf(self)))
    if (auto possible = checkDeviceTensors(*model, *device); !possible) return possible.error().message();
  if (model->decoder != nullptr && !model->not_numbers.empty())
    return Error{"model file " + model->file + ": output " + model->not_numbers +
                     " has values that are not numbers (NaN), whatever the picture",
                 0, "Check mean and scale, and whether a float16 model overflows"}
        .message();
  GstCaps *caps = gst_pad_get_current_caps(self->sinkpad);
  if (caps == nullptr) return {};
  auto parsed = parseFrameCaps(caps);
  gst_caps_unref(caps);
  if (!parsed) return parsed.error().message();
  const auto device = readByDevice(*parsed, settingsOf(self)) ? deviceOf(self) : nullptr;
  auto setup = FrameSetup::create(model, *parsed, device);
  return setup ? std::string() : setup.error().message();
}

// What became of a request.
struct Outcome {
  std::string previous; // model file
  std::string error;
  std::string description; // of the model that took over
  bool decodes = false;    // it has a decoder
  bool late = false;       // the element has stopped
  bool overtaken = false;  // by a later request
  bool other_caps = false; // the model wants other frames than the one before
};

// Loads and hands over. When it returns, nothing of the inference library is in this thread's hands any more.
static Outcome load_and_set(GstFenceInfer *self, const Swap &swap) {
  FenceInferState *s = self->state;
  Outcome outcome;
  BackgroundLoads::Entry entry; // ends last
  {
    std::lock_guard lock(s->model_mutex);
    outcome.late = s->runner == nullptr || swap.run != s->runs;
    if (outcome.late) return outcome;
    entry = s->swaps.enter();
  }
  const auto overtaken = [&] {
    std::lock_guard lock(s->model_mutex);
    return swap.number != s->loads;
  };
  LoadedModel loaded;
  auto options = modelOptions(swap.settings);
  if (!options)
    outcome.error = options.error().message();
  else if (overtaken()) // what nobody wants any more need not be loaded
    outcome.overtaken = true;
  else if (loaded = loadModel(*options, wantsDevice(swap.settings) ? streamOf(deviceOf(self)) : DeviceStream(),
                              entry.cancellation());
           loaded.model == nullptr)
    outcome.error = loaded.failure.error.message();
  else
    outcome.error = unfit(self, loaded.model);

  std::shared_ptr<const Model> old; // goes without the lock
  {
    std::lock_guard lock(s->model_mutex);
    outcome.late = s->runner == nullptr || swap.run != s->runs;
    if (outcome.late) return outcome;
    old = s->runner->model();
    outcome.previous = old->file;
    outcome.overtaken = swap.number != s->loads;
    if (outcome.overtaken || !outcome.error.empty()) return outcome;
    s->runner->setModel(loaded.model, *options);
  }
  outcome.description = describe(*loaded.model);
  outcome.decodes = loaded.model->decoder != nullptr;
  outcome.other_caps = !sameTensorCaps(*old, *loaded.model);
  GST_OBJECT_LOCK(self);
  s->loaded = swap.settings;
  GST_OBJECT_UNLOCK(self);
  return outcome;
}

// In a thread of its own.
static void swap_model(GstElement *element, gpointer data) {
  auto *self = GST_FENCE_INFER(element);
  FenceInferState *s = self->state;
  const Swap &swap = *static_cast<Swap *>(data);
  const Outcome outcome = load_and_set(self, swap);
  const std::string &file = swap.settings.model_file;
  if (outcome.late) {
    GST_DEBUG_OBJECT(self, "%s: loaded too late", file.c_str());
    return;
  }
  if (outcome.overtaken) {
    post_swap(self, file, outcome.previous, "model-file was set again before this one was loaded", false);
    return;
  }
  if (outcome.error.empty()) {
    GST_INFO_OBJECT(self, "%s", outcome.description.c_str());
    if (outcome.other_caps) gst_pad_push_event(self->sinkpad, gst_event_new_reconfigure());
  } else {
    std::vector<const char *> back;
    GST_OBJECT_LOCK(self);
    Settings loaded = s->loaded;
    loaded.model_file = outcome.previous; // another element that shares the model may have changed it
    if (s->settings.model_file == file) back = restoreModelSettings(s->settings, swap.settings, loaded);
    GST_OBJECT_UNLOCK(self);
    for (const char *name : back) g_object_notify(G_OBJECT(self), name);
  }
  post_swap(self, file, outcome.previous, outcome.error, !outcome.error.empty());
  if (outcome.error.empty()) warn_of_nothing(self, swap.settings, outcome.decodes);
}

void requestSwap(GstFenceInfer *self) {
  FenceInferState *s = self->state;
  auto swap = std::make_unique<Swap>();
  {
    std::lock_guard lock(s->model_mutex);
    if (s->runner == nullptr) return;
    swap->run = s->runs;
    swap->number = ++s->loads;
  }
  swap->settings = settingsOf(self);
  gst_element_call_async(GST_ELEMENT(self), swap_model, swap.release(),
                         [](gpointer data) { delete static_cast<Swap *>(data); });
}

} // namespace gstzc::infer
