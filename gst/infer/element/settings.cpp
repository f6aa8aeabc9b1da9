// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <thread>
#include <utility>

#include <sched.h>

namespace gstzc::infer {
namespace {

template <typename E> GEnumValue entry(E value, const char *text, const char *nick) {
  return {static_cast<gint>(value), text, nick};
}
constexpr GEnumValue kEnd = {0, nullptr, nullptr};

GType layoutType() {
  static const GEnumValue values[] = {
      entry(Layout::Auto, "model where no element downstream shows or keeps the frames, else frame", "auto"),
      entry(Layout::Frame, "Frames as downstream wants them", "frame"),
      entry(Layout::Model, "Frames that are the model's input tensor, where upstream can make them", "model"), kEnd};
  static const GType type = g_enum_register_static("GstFenceInferLayout", values);
  return type;
}

GType preprocessDeviceType() {
  using D = PreprocessDevice;
  static const GEnumValue values[] = {entry(D::Auto, "CUDA for frames in its memory, the CPU for all others", "auto"),
                                      entry(D::Cpu, "The same: the CPU does not look into CUDA memory", "cpu"),
                                      entry(D::Cuda, "CUDA, which imports dma-bufs; they go on as they are", "cuda"),
                                      kEnd};
  static const GType type = g_enum_register_static("GstFenceInferPreprocessDevice", values);
  return type;
}

GType resizeType() {
  static const GEnumValue values[] = {
      {-1, "As the model says, or as its family is trained", "auto"},
      entry(ResizeMode::Stretch, "The frame fills the model's input", "stretch"),
      entry(ResizeMode::Letterbox, "The frame keeps its shape, in the middle of the model's input", "letterbox"),
      entry(ResizeMode::LetterboxTopLeft, "The frame keeps its shape, at the input's left and top",
            "letterbox-topleft"),
      entry(ResizeMode::Crop, "The middle of the frame, as large as the input's shape allows", "crop"),
      kEnd};
  static const GType type = g_enum_register_static("GstFenceInferResizeMode", values);
  return type;
}

GType scalingType() {
  static const GEnumValue values[] = {
      {-1, "As the model says, or bilinear", "auto"},
      entry(Scaling::Bilinear, "Between the two nearest samples in each direction", "bilinear"),
      entry(Scaling::Area, "The mean of all samples that a tensor pixel covers", "area"),
      kEnd};
  static const GType type = g_enum_register_static("GstFenceInferScaling", values);
  return type;
}

GType channelOrderType() {
  static const GEnumValue values[] = {entry(Choice::Auto, "As the model says, or as its family is trained", "auto"),
                                      entry(Choice::First, "Red first", "rgb"),
                                      entry(Choice::Second, "Blue first", "bgr"), kEnd};
  static const GType type = g_enum_register_static("GstFenceInferChannelOrder", values);
  return type;
}

GType dropPolicyType() {
  using W = FrameQueue::WhenFull;
  static const GEnumValue values[] = {
      entry(W::Block, "Upstream waits", "block"),
      entry(W::DropOldest, "The oldest frame that only passes is dropped, else the oldest that nobody works on",
            "leaky-old"),
      entry(W::DropNewest, "The new frame is dropped", "leaky-new"), kEnd};
  static const GType type = g_enum_register_static("GstFenceInferDropPolicy", values);
  return type;
}

GType regionType() {
  static const GEnumValue values[] = {
      entry(InferenceRegion::Frame, "The whole frame", "frame"),
      entry(InferenceRegion::Objects, "Each object that an element before this one found", "objects"), kEnd};
  static const GType type = g_enum_register_static("GstFenceInferRegion", values);
  return type;
}

GType outputType() {
  static const GEnumValue values[] = {
      entry(OutputKind::RelationMeta, "Decoded: GstAnalyticsRelationMeta", "relation-meta"),
      entry(OutputKind::TensorMeta, "The model's output tensors: GstTensorMeta", "tensor-meta"),
      entry(OutputKind::Both, "Both", "both"), kEnd};
  static const GType type = g_enum_register_static("GstFenceInferOutput", values);
  return type;
}

GType tensorMemoryType() {
  static const GEnumValue values[] = {
      entry(TensorMemory::Host, "Memory of the host", "host"),
      entry(TensorMemory::Device,
            "Memory of the device that runs the model, with an event that says when they are there", "device"),
      kEnd};
  static const GType type = g_enum_register_static("GstFenceInferTensorMemory", values);
  return type;
}

GType decoderType() {
  using D = DecoderKind;
  static const GEnumValue values[] = {
      entry(D::Auto, "The one that surely fits the model's outputs", "auto"),
      entry(D::None, "None: the output tensors themselves", decoderName(D::None)),
      entry(D::BlazeFace, "MediaPipe's BlazeFace, front and back", decoderName(D::BlazeFace)),
      entry(D::Ssd, "SSD: boxes relative to priors", decoderName(D::Ssd)),
      entry(D::SsdPostprocess, "SSD with its post-processing in the model", decoderName(D::SsdPostprocess)),
      entry(D::UltraFace, "RFB-320 and its kin", decoderName(D::UltraFace)),
      entry(D::YuNet, "YuNet: faces with five points", decoderName(D::YuNet)),
      entry(D::YoloV5, "YOLOv5", decoderName(D::YoloV5)),
      entry(D::YoloV8, "YOLOv8, v9, 11: objects, poses, instance masks", decoderName(D::YoloV8)),
      entry(D::YoloV10, "YOLOv10, 26: suppression done in the model", decoderName(D::YoloV10)),
      entry(D::YoloX, "YOLOX", decoderName(D::YoloX)),
      entry(D::Detr, "DETR and its kin", decoderName(D::Detr)),
      entry(D::Classification, "Scores of classes for the picture", decoderName(D::Classification)),
      entry(D::Segmentation, "A class for each pixel", decoderName(D::Segmentation)),
      kEnd};
  static const GType type = g_enum_register_static("GstFenceInferDecoder", values);
  return type;
}

// What a model is loaded with counts as changeable while playing: it is looked at when model-file is set.
constexpr auto kReady = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
constexpr auto kPlaying =
    static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);

// Of what a model is loaded with.
#define GSTZC_WITH_THE_MODEL "; while frames flow it is taken when model-file is set"

struct Property {
  GParamSpec *spec;
  std::function<void(Settings &, const GValue *)> set;
  std::function<void(const Settings &, GValue *)> get;
};

Property text(std::string Settings::*member, const char *name, const char *nick, const char *blurb, GParamFlags flags,
              const char *initial = nullptr) {
  return {g_param_spec_string(name, nick, blurb, initial, flags),
          [member](Settings &s, const GValue *v) {
            const gchar *value = g_value_get_string(v);
            s.*member = value != nullptr ? value : "";
          },
          [member](const Settings &s, GValue *v) {
            g_value_set_string(v, (s.*member).empty() ? nullptr : (s.*member).c_str());
          }};
}

Property flag(bool Settings::*member, const char *name, const char *nick, const char *blurb, GParamFlags flags) {
  return {g_param_spec_boolean(name, nick, blurb, Settings{}.*member, flags),
          [member](Settings &s, const GValue *v) { s.*member = g_value_get_boolean(v) != FALSE; },
          [member](const Settings &s, GValue *v) { g_value_set_boolean(v, s.*member); }};
}

Property count(unsigned Settings::*member, GParamSpec *spec) {
  return {spec, [member](Settings &s, const GValue *v) { s.*member = g_value_get_uint(v); },
          [member](const Settings &s, GValue *v) { g_value_set_uint(v, s.*member); }};
}

Property count(unsigned Settings::*member, const char *name, const char *nick, const char *blurb, guint min, guint max,
               GParamFlags flags) {
  return count(member, g_param_spec_uint(name, nick, blurb, min, max, Settings{}.*member, flags));
}

Property integer(int Settings::*member, const char *name, const char *nick, const char *blurb, gint min, gint max,
                 GParamFlags flags) {
  return {g_param_spec_int(name, nick, blurb, min, max, Settings{}.*member, flags),
          [member](Settings &s, const GValue *v) { s.*member = g_value_get_int(v); },
          [member](const Settings &s, GValue *v) { g_value_set_int(v, s.*member); }};
}

Property fraction(float Settings::*member, const char *name, const char *nick, const char *blurb, GParamFlags flags) {
  return {g_param_spec_float(name, nick, blurb, -1, 1, Settings{}.*member, flags),
          [member](Settings &s, const GValue *v) { s.*member = g_value_get_float(v); },
          [member](const Settings &s, GValue *v) { g_value_set_float(v, s.*member); }};
}

template <typename E>
Property choice(E Settings::*member, GType type, const char *name, const char *nick, const char *blurb,
                GParamFlags flags) {
  return {g_param_spec_enum(name, nick, blurb, type, static_cast<gint>(Settings{}.*member), flags),
          [member](Settings &s, const GValue *v) { s.*member = static_cast<E>(g_value_get_enum(v)); },
          [member](const Settings &s, GValue *v) { g_value_set_enum(v, static_cast<gint>(s.*member)); }};
}

std::vector<Property> makeProperties() {
  using S = Settings;
  return {
      text(&S::model_file, "model-file", "Model file",
           "ONNX file of the model; set while frames flow, it is loaded aside and swapped in", kPlaying),
      text(&S::modelinfo_file, "modelinfo-file", "Model info file",
           "What the model needs, as GStreamer 1.28 writes it; default: <model-file>.modelinfo if there is "
           "one" GSTZC_WITH_THE_MODEL,
           kPlaying),
      text(&S::labels_file, "labels-file", "Labels file",
           "Names of the classes, one a line; the first is class 0" GSTZC_WITH_THE_MODEL, kPlaying),
      text(&S::model_instance_id, "model-instance-id", "Model instance",
           "Elements of the process with the same one share the loaded model, its threads and batches", kReady),
      text(&S::onnxruntime_library, "onnxruntime-library", "ONNX Runtime library",
           "File of the library to use; default: $GSTZC_ONNXRUNTIME, else the installed one", kReady),
      text(&S::execution_provider, "execution-provider", "Execution provider",
           "What runs the model: auto, cpu, cuda, tensorrt, … or a provider's own name", kReady, "auto"),
      {g_param_spec_boxed("provider-options", "Provider options",
                          "Options of the execution provider, handed on as they are: \"options,key=value,…\"",
                          GST_TYPE_STRUCTURE, kReady),
       [](S &s, const GValue *v) {
         const auto *options = static_cast<const GstStructure *>(g_value_get_boxed(v));
         s.provider_options.reset();
         if (options != nullptr) s.provider_options = {gst_structure_copy(options), FreeStructure()};
       },
       [](const S &s, GValue *v) { g_value_set_boxed(v, s.provider_options.get()); }},
      flag(&S::allow_cpu_fallback, "allow-cpu-fallback", "Allow CPU fallback",
           "Use the CPU where the execution provider asked for cannot be had, instead of failing", kReady),
      integer(&S::intra_threads, "intra-threads", "Threads of a run", "CPU threads that share the work of one run", 1,
              256, kReady),
      count(&S::workers, "workers", "Workers", "Runs at a time; 0: as many as there are cores for them", 0, 64, kReady),
      count(&S::max_in_flight, "max-in-flight", "Maximum in flight",
            "Frames held at a time (at least batch-size); then drop-policy says", 1, 256, kReady),
      count(&S::batch_size, "batch-size", "Batch size", "Pictures of a run at most, where the model leaves it open", 1,
            256, kReady),
      count(&S::batch_timeout, "batch-timeout", "Batch timeout",
            "Milliseconds that the first picture of a batch waits for others", 0, 10000, kReady),
      choice(&S::drop_policy, dropPolicyType(), "drop-policy", "Drop policy",
             "What happens to a frame that comes while max-in-flight frames are held", kPlaying),
      count(&S::inference_interval, "inference-interval", "Inference interval",
            "Every so many frames one is looked at; the others pass", 1, G_MAXINT, kPlaying),
      flag(&S::repeat_results, "repeat-results", "Repeat results",
           "Frames that are not looked at carry the results of the last one that was, marked as not fresh", kPlaying),
      flag(&S::qos, "qos", "QoS", "Frames that a sink reports to be late already are not looked at", kPlaying),
      choice(&S::layout, layoutType(), "layout", "Layout", "What upstream is asked for", kReady),
      choice(&S::preprocess_device, preprocessDeviceType(), "preprocess-device", "Preprocessing device",
             "What makes tensors of frames", kReady),
      integer(
          &S::input_width, "input-width", "Input width",
          "Width of the model's picture where the model leaves it open; 0: what the model says" GSTZC_WITH_THE_MODEL, 0,
          kMaxPictureSide, kPlaying),
      integer(
          &S::input_height, "input-height", "Input height",
          "Height of the model's picture where the model leaves it open; 0: what the model says" GSTZC_WITH_THE_MODEL,
          0, kMaxPictureSide, kPlaying),
      choice(&S::resize, resizeType(), "resize-mode", "Resize mode",
             "How a frame gets the model's input size" GSTZC_WITH_THE_MODEL, kPlaying),
      choice(&S::scaling, scalingType(), "scaling", "Scaling",
             "How a tensor pixel is made of the frame's" GSTZC_WITH_THE_MODEL, kPlaying),
      choice(&S::channel_order, channelOrderType(), "channel-order", "Channel order",
             "Order of the colours in the tensor" GSTZC_WITH_THE_MODEL, kPlaying),
      {g_param_spec_double(
           "pad-value", "Padding value",
           "Colour of the padding, 0 to 255; -1: as the model says, or as its family is trained" GSTZC_WITH_THE_MODEL,
           -1, 255, S{}.pad_value, kPlaying),
       [](S &s, const GValue *v) { s.pad_value = g_value_get_double(v); },
       [](const S &s, GValue *v) { g_value_set_double(v, s.pad_value); }},
      text(&S::mean, "mean", "Mean",
           "Subtracted from a colour of 0 to 255: one number or three (red,green,blue); default: the "
           "model's" GSTZC_WITH_THE_MODEL,
           kPlaying),
      text(&S::scale, "scale", "Scale",
           "A colour less its mean is multiplied by it: one number or three (red,green,blue); default: the "
           "model's" GSTZC_WITH_THE_MODEL,
           kPlaying),
      choice(&S::region, regionType(), "inference-region", "Inference region", "What of a frame the model looks at",
             kReady),
      text(&S::object_class, "object-class", "Object class",
           "With inference-region=objects: the labels of those looked at, divided by commas; default: all", kPlaying),
      choice(&S::decoder, decoderType(), "decoder", "Decoder",
             "What makes results of the model's outputs" GSTZC_WITH_THE_MODEL, kPlaying),
      fraction(&S::threshold, "threshold", "Threshold",
               "What has a lower score is left out; -1: what is usual for the model's family", kPlaying),
      fraction(&S::iou_threshold, "iou-threshold", "IoU threshold",
               "Boxes of a class that overlap by more (intersection over union) are the same object; -1: what is usual "
               "for the model's family",
               kPlaying),
      integer(&S::max_detections, "max-detections", "Maximum detections",
              "The best so many results of a picture are kept", 1, G_MAXINT, kPlaying),
      choice(&S::output, outputType(), "output", "Output", "What is attached to a frame", kReady),
      choice(&S::tensor_memory, tensorMemoryType(), "tensor-memory", "Tensor memory",
             "Where the tensors of output=tensor-meta are", kReady),
      flag(&S::message_results, "message-results", "Message results",
           "Post an element message fenceinfer-result for each frame", kPlaying),
      count(&S::stats_interval, "stats-interval", "Statistics interval",
            "Milliseconds between element messages fenceinfer-stats; 0: none", 0, G_MAXINT, kPlaying),
      count(&S::fence_timeout, fenceTimeoutSpec()),
      {onFenceErrorSpec(),
       [](S &s, const GValue *v) { s.on_fence_error = static_cast<GstZcOnFenceError>(g_value_get_enum(v)); },
       [](const S &s, GValue *v) { g_value_set_enum(v, s.on_fence_error); }},
  };
}

// Made when first wanted; the class has its own references to the specs. Never destroyed: threads may outlive what runs
// at exit.
const std::vector<Property> &properties() {
  static const auto *const properties = new std::vector<Property>(makeProperties());
  return *properties;
}

// "1.5" or "1,2.5,3"; empty: nothing said
Result<std::optional<std::array<float, 3>>> parseNumbers(const char *property, const std::string &text) {
  if (text.empty()) return std::optional<std::array<float, 3>>{};
  const Error wrong{std::string("property ") + property + " is \"" + text + "\"", 0,
                    "It takes one number, or three divided by commas (red,green,blue)"};
  std::array<float, 3> numbers = {};
  size_t n = 0;
  for (const char *at = text.c_str();; ++at) { // past the comma
    gchar *end = nullptr;
    const double number = g_ascii_strtod(at, &end);
    if (end == at || !(std::abs(number) <= std::numeric_limits<float>::max()) || n == numbers.size()) return wrong;
    numbers[n++] = static_cast<float>(number);
    at = end + std::strspn(end, " ");
    if (*at == '\0') break;
    if (*at != ',') return wrong;
  }
  if (n == 1) numbers.fill(numbers[0]);
  if (n == 2) return wrong;
  return std::optional(numbers);
}

int availableCores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(CPU_COUNT(&cores), 1);
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

} // namespace

guint installSettings(GObjectClass *klass) {
  guint id = 0;
  for (const Property &property : properties()) g_object_class_install_property(klass, ++id, property.spec);
  return id;
}

bool setSetting(Settings &settings, guint id, const GValue *value) {
  if (id < 1 || id > properties().size()) return false;
  properties()[id - 1].set(settings, value);
  return true;
}

std::vector<const char *> restoreModelSettings(Settings &settings, const Settings &asked, const Settings &loaded) {
  static constexpr const char *of_model[] = {"model-file",   "modelinfo-file", "labels-file", "input-width",
                                             "input-height", "resize-mode",    "scaling",     "channel-order",
                                             "pad-value",    "mean",           "scale",       "decoder"};
  std::vector<const char *> changed;
  for (const Property &property : properties()) {
    const char *const name = g_param_spec_get_name(property.spec);
    if (std::none_of(std::begin(of_model), std::end(of_model),
                     [&](const char *n) { return std::strcmp(n, name) == 0; }))
      continue;
    GValue now = G_VALUE_INIT, wanted = G_VALUE_INIT, kept = G_VALUE_INIT;
    const std::pair<GValue *, const Settings *> values[] = {{&now, &settings}, {&wanted, &asked}, {&kept, &loaded}};
    for (const auto &[value, from] : values) {
      g_value_init(value, G_PARAM_SPEC_VALUE_TYPE(property.spec));
      property.get(*from, value);
    }
    if (g_param_values_cmp(property.spec, &now, &wanted) == 0 && g_param_values_cmp(property.spec, &now, &kept) != 0) {
      property.set(settings, &kept);
      changed.push_back(name);
    }
    for (const auto &[value, from] : values) g_value_unset(value);
  }
  return changed;
}

bool getSetting(const Settings &settings, guint id, GValue *value) {
  if (id < 1 || id > properties().size()) return false;
  properties()[id - 1].get(settings, value);
  return true;
}

guint modelFileId() { return 1; }

std::vector<GType> settingTypes() {
  return {layoutType(),
          preprocessDeviceType(),
          resizeType(),
          scalingType(),
          channelOrderType(),
          dropPolicyType(),
          regionType(),
          outputType(),
          tensorMemoryType(),
          decoderType(),
          GST_TYPE_ZC_ON_FENCE_ERROR};
}

Result<ModelOptions> modelOptions(const Settings &s) {
  ModelOptions options;
  if (s.model_file.empty()) return Error{"model-file is not set", 0, "Set it to an ONNX file"};
  options.file = s.model_file;
  options.modelinfo_file = s.modelinfo_file;
  options.labels_file = s.labels_file;
  options.batch = static_cast<int>(s.batch_size);
  options.engine.intra_threads = s.intra_threads;
  options.engine.library = s.onnxruntime_library;
  options.engine.provider = s.execution_provider.empty() ? "auto" : s.execution_provider;
  options.engine.allow_cpu_fallback = s.allow_cpu_fallback;
  if (s.provider_options) {
    const GstStructure *structure = s.provider_options.get();
    for (gint i = 0, n = gst_structure_n_fields(structure); i < n; ++i) {
      const gchar *name = gst_structure_nth_field_name(structure, static_cast<guint>(i));
      const GValue *value = gst_structure_get_value(structure, name);
      gchar *text = G_VALUE_HOLDS_STRING(value) ? g_value_dup_string(value) : gst_value_serialize(value);
      options.engine.provider_options.emplace_back(name, text != nullptr ? text : "");
      g_free(text);
    }
  }
  if (s.input_width > 0) options.user.width = s.input_width;
  if (s.input_height > 0) options.user.height = s.input_height;
  if (s.resize >= 0) options.user.resize = static_cast<ResizeMode>(s.resize);
  if (s.scaling >= 0) options.user.scaling = static_cast<Scaling>(s.scaling);
  if (s.channel_order != Choice::Auto) options.user.bgr = s.channel_order == Choice::Second;
  if (s.pad_value >= 0) options.user.padding = static_cast<float>(s.pad_value);
  if (s.decoder != DecoderKind::Auto) options.user.decoder = s.decoder;
  auto mean = parseNumbers("mean", s.mean);
  if (!mean) return mean.error();
  options.user.mean = *mean;
  auto scale = parseNumbers("scale", s.scale);
  if (!scale) return scale.error();
  if (*scale && std::any_of((*scale)->begin(), (*scale)->end(), [](float factor) { return factor == 0; }))
    return Error{"property scale is \"" + s.scale + "\"", 0,
                 "A factor of 0 makes all pictures the same: write 1 for colours of 0 to 255, 0.0039216 for 0 to 1"};
  options.user.scale = *scale;
  return options;
}

ModelRunner::Options runnerOptions(const Settings &s) {
  ModelRunner::Options options;
  options.workers = static_cast<int>(s.workers);
  if (options.workers == 0)
    options.workers = std::clamp(availableCores() / s.intra_threads, 1, static_cast<int>(queueCapacity(s)));
  options.batch = static_cast<int>(s.batch_size);
  options.batch_timeout = std::chrono::milliseconds(s.batch_timeout);
  return options;
}

guint queueCapacity(const Settings &s) { return std::max(s.max_in_flight, s.batch_size); }

DecodeOptions decodeOptions(const Settings &s, const Model &model) {
  return {s.threshold >= 0 ? s.threshold : model.threshold,
          s.iou_threshold >= 0 ? s.iou_threshold : model.iou_threshold, s.max_detections};
}

} // namespace gstzc::infer
