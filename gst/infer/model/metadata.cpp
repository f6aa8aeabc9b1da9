// SPDX-License-Identifier: LGPL-2.1-or-later
// What exporters write into the metadata of an ONNX file.
//
// Ultralytics (ultralytics/engine/exporter.py): description, author, date, version, license, docs, stride, task, head,
// batch, imgsz, names, args, channels, end2end and, for poses, kpt_shape and kpt_names; each value is str() of a Python
// object. Not all versions write all of them; YOLOv5's own exporter writes stride and names only. Whether the model
// suppresses overlaps itself is end2end or the argument nms, as ultralytics/nn/autobackend.py reads them.
//
// GStreamer 1.26's onnxinference: an output's name → the id of its tensor.
#include "gst/infer/model/model_config.h"

#include <algorithm>

#include "gst/infer/model/literal.h"
#include "gst/infer/model/model_log.h"

#define GST_CAT_DEFAULT modelLog()

namespace gstzc::infer {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr size_t kMaxValueBytes = 1 << 20;
constexpr int64_t kMaxClasses = 65536, kMaxKeypoints = 1024;
constexpr size_t kMaxIdBytes = 128;

constexpr const char *kExportersKeys[] = {"description", "author",   "date",    "version",   "license",  "docs",
                                          "stride",      "task",     "head",    "batch",     "imgsz",    "names",
                                          "args",        "channels", "end2end", "kpt_shape", "kpt_names"};

// "" where there is none.
std::string text(const Metadata &metadata, const char *key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

void ignored(const char *key, const std::string &value, const char *expected) {
  GST_DEBUG("the model's metadata has %s=%.80s, which is not %s: left out", key, value.c_str(), expected);
}

// The value of a key; nothing where there is no such key or no such value.
std::optional<Literal> literal(const Metadata &metadata, const char *key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  auto value = found->second.size() <= kMaxValueBytes ? parseLiteral(found->second) : std::nullopt;
  if (!value) ignored(key, found->second, "a value that can be read");
  return value;
}

std::optional<int> integer(const Literal &value, int64_t least, int64_t most) {
  if (value.kind != Literal::Kind::Integer || value.integer < least || value.integer > most) return std::nullopt;
  return static_cast<int>(value.integer);
}

// An index, or in JSON an index in quotes.
std::optional<int> classIndex(const Literal &key) {
  if (key.kind != Literal::Kind::Text) return integer(key, 0, kMaxClasses - 1);
  const auto number = parseLiteral(key.text);
  return number ? integer(*number, 0, kMaxClasses - 1) : std::nullopt;
}

// {0: 'person', 2: 'car'}, or a list. A class between two others that has no name gets an empty one. Empty where it is
// neither.
std::vector<std::string> classNames(const Literal &names) {
  std::vector<std::string> labels;
  const auto put = [&](size_t index, const Literal &name) {
    if (name.kind != Literal::Kind::Text) return false;
    if (labels.size() <= index) labels.resize(index + 1);
    labels[index] = name.text;
    return true;
  };
  if (names.kind == Literal::Kind::List) {
    if (names.items.size() > static_cast<size_t>(kMaxClasses)) return {};
    for (size_t i = 0; i < names.items.size(); ++i)
      if (!put(i, names.items[i])) return {};
  } else if (names.kind == Literal::Kind::Dict) {
    for (size_t i = 0; i + 1 < names.items.size(); i += 2) {
      const auto index = classIndex(names.items[i]);
      if (!index || !put(static_cast<size_t>(*index), names.items[i + 1])) return {};
    }
  }
  return labels;
}

void readNames(const Metadata &metadata, ModelConfig &config) {
  const auto names = literal(metadata, "names");
  if (!names) return;
  config.labels = classNames(*names);
  if (config.labels.empty())
    ignored("names", text(metadata, "names"), "a dictionary of class numbers and names");
  else
    config.classes = static_cast<int>(config.labels.size());
}

// [height, width], or one number for both.
void readSize(const Metadata &metadata, ModelConfig &config) {
  const auto size = literal(metadata, "imgsz");
  if (!size) return;
  const bool two = size->kind == Literal::Kind::List && size->items.size() == 2;
  const auto height = integer(two ? size->items[0] : *size, 1, kMaxPictureSide);
  const auto width = integer(two ? size->items[1] : *size, 1, kMaxPictureSide);
  if (height && width)
    config.height = height, config.width = width;
  else
    ignored("imgsz", text(metadata, "imgsz"), "[height, width]");
}

// [points, numbers of a point].
void readKeypoints(const Metadata &metadata, ModelConfig &config) {
  const auto shape = literal(metadata, "kpt_shape");
  if (!shape) return;
  const bool two = shape->kind == Literal::Kind::List && shape->items.size() == 2;
  const auto points = two ? integer(shape->items[0], 1, kMaxKeypoints) : std::nullopt;
  const auto values = two ? integer(shape->items[1], 2, 3) : std::nullopt;
  if (points && values)
    config.keypoints = points, config.keypoint_values = values;
  else
    ignored("kpt_shape", text(metadata, "kpt_shape"), "[points, 2 or 3]");
}

bool contains(std::string text, const char *part) {
  std::transform(text.begin(), text.end(), text.begin(), g_ascii_tolower);
  return text.find(part) != std::string::npos;
}

// How the exporter's own predictor prepares pictures (ultralytics/data/augment.py: LetterBox, classify_transforms;
// models/rtdetr/predict.py: stretched), and which outputs its heads have.
void readTask(const Metadata &metadata, ModelConfig &config) {
  const std::string task = text(metadata, "task");
  const bool classify = task == "classify", rotated = task == "obb";
  if (!classify && !rotated && task != "detect" && task != "segment" && task != "pose") {
    if (!task.empty()) ignored("task", task, "one of detect, segment, pose, classify, obb");
    return;
  }
  // other exporters know tasks too, but not what comes with them here
  if (!metadata.contains("stride") && !metadata.contains("names")) return;

  config.mean = std::array{0.0f, 0.0f, 0.0f};
  config.scale = std::array{1 / 255.0f, 1 / 255.0f, 1 / 255.0f};
  config.bgr = false;
  if (classify) {
    config.resize = ResizeMode::Crop;
    config.decoder = DecoderKind::Classification;
    return;
  }
  const bool detr = contains(text(metadata, "head"), "rtdetr") || contains(text(metadata, "description"), "rtdetr");
  config.resize = detr ? ResizeMode::Stretch : ResizeMode::Letterbox;
  config.padding = 114.0f;

  const auto end2end = literal(metadata, "end2end");
  const auto args = literal(metadata, "args");
  const Literal *const nms = args ? args->find("nms") : nullptr;
  const bool suppressed = (end2end && end2end->truth()) || (nms != nullptr && nms->truth());
  if (rotated) {
    // no decoder here knows of angles, but stock ones that read the tensor do
    if (!suppressed) config.tensors["output0"] = {"yolo-v8-obb-out", "yolo-v8-obb-out", true};
  } else if (detr) {
    config.decoder = DecoderKind::Detr;
  } else if (suppressed) {
    config.decoder = DecoderKind::YoloV10;
  } else if (end2end && end2end->kind == Literal::Kind::Bool) {
    config.decoder = DecoderKind::YoloV8;
  }
  // older versions do not say end2end: the shapes have to tell
}

bool looksLikeId(const std::string &value) {
  return !value.empty() && value.size() <= kMaxIdBytes && std::all_of(value.begin(), value.end(), [](char c) {
    return g_ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

void readTensorIds(const Metadata &metadata, ModelConfig &config) {
  for (const auto &[key, value] : metadata) {
    const auto known = std::find(std::begin(kExportersKeys), std::end(kExportersKeys), key);
    if (known == std::end(kExportersKeys) && looksLikeId(value)) config.tensors[key].id = value;
  }
}

} // namespace

ModelConfig configFromMetadata(const std::map<std::string, std::string> &metadata) {
  ModelConfig config;
  readNames(metadata, config);
  readSize(metadata, config);
  readKeypoints(metadata, config);
  readTask(metadata, config);
  readTensorIds(metadata, config);
  return config;
}

} // namespace gstzc::infer
