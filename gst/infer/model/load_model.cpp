// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <span>

#include "gst/infer/engine/not_a_number.h"
#include "gst/infer/model/model.h"
#include "gst/infer/model/model_log.h"
#include "gst/infer/model/tensor_tags.h"

#define GST_CAT_DEFAULT modelLog()

namespace gstzc::infer {
namespace {

// Of one output. A model that declares more is broken; better said than tried.
constexpr int64_t kMaxOutputElements = int64_t{1} << 28;

void apply(PreprocessOptions &options, const ModelConfig &config) {
  if (config.resize) options.resize = *config.resize;
  if (config.scaling) options.scaling = *config.scaling;
  if (config.mean) options.normalisation.mean = *config.mean;
  if (config.scale) options.normalisation.scale = *config.scale;
  if (config.padding) options.normalisation.padding = *config.padding;
  if (config.bgr) options.normalisation.bgr = *config.bgr;
}

// What a tensor of whole numbers takes as it is; a range of 0..1 that a family is trained with would leave two values.
void setWholeNumbers(Normalisation &normalisation, TensorType type) {
  if (type != TensorType::UInt8 && type != TensorType::Int8) return;
  normalisation.mean.fill(type == TensorType::Int8 ? 128.0f : 0.0f);
  normalisation.scale.fill(1.0f);
}

// More elements than an output may have.
bool isHuge(const TensorInfo &output) {
  int64_t count = 1;
  for (const int64_t dim : output.dims) {
    if (dim <= 0) continue;
    if (dim > kMaxOutputElements / count) return true;
    count *= dim;
  }
  return false;
}

// The numbers of the first picture are 0..1 and 1 together.
bool isProbabilities(const TensorView &view) {
  if (view.type != TensorType::Float32 || view.space != MemorySpace::Host || view.data == nullptr) return false;
  if (view.dims.size() < 2 || view.dims[0] < 1) return false;
  const size_t count = view.bytes / sizeof(float) / static_cast<size_t>(view.dims[0]);
  double sum = 0;
  for (const float value : std::span(static_cast<const float *>(view.data), count)) {
    if (!(value >= 0 && value <= 1)) return false;
    sum += value;
  }
  return std::abs(sum - 1) < 1e-3;
}

class Loader {
public:
  Loader(const ModelOptions &options, const OpenEngine &open, Cancellation &cancel)
      : options_(options), open_(open), cancel_(cancel) {}

  LoadedModel load() {
    if (auto done = steps(); !done) return {nullptr, {failure_, done.error()}};
    GST_INFO("%s", describe(*model_).c_str());
    return {std::move(model_), {}};
  }

private:
  Status steps() {
    model_->file = options_.file;
    for (auto step : {&Loader::openEngine, &Loader::readSources, &Loader::planPictures, &Loader::fixDimensions,
                      &Loader::runOnce, &Loader::chooseDecoder, &Loader::chooseLabels}) {
      if (cancel_.cancelled()) return Error{"model file " + options_.file + ": loading was ended", ECANCELED, ""};
      if (auto done = (this->*step)(); !done) return done;
    }
    preparePictures();
    tagOutputs();
    model_->known = known_;
    return Nothing{};
  }

  Error named(Error error) const {
    error.what = "model file " + options_.file + ": " + error.what;
    return error;
  }

  const TensorInfo &input() const { return model_->engine->inputs().front(); }
  const std::vector<TensorInfo> &outputs() const { return model_->engine->outputs(); }

  Status openWith(const EngineOptions &options) {
    LoadResult opened = open_(options);
    if (!opened.engine) {
      failure_ = opened.failure.kind;
      return opened.failure.error;
    }
    model_->engine = std::move(opened.engine);
    return Nothing{};
  }
  Status openEngine() { return openWith(options_.engine); }

  Status readSources() {
    metadata_ = model_->engine->metadata();
    from_metadata_ = configFromMetadata(metadata_);
    modelinfo_ = options_.modelinfo_file.empty() ? modelInfoBeside(options_.file) : options_.modelinfo_file;
    ModelConfig from_file;
    if (!modelinfo_.empty()) {
      auto read = configFromModelInfo(modelinfo_);
      if (!read) return unreadable(read.error());
      from_file = read.take();
      if (auto fits = checkModelInfo(from_file.claims, modelinfo_, options_.file, model_->engine->inputs(), outputs());
          !fits)
        return fits;
    }
    stated_ = merge(from_file, options_.user);
    known_ = merge(from_metadata_, stated_);
    if (options_.labels_file.empty()) return Nothing{};
    auto labels = readLabels(options_.labels_file);
    if (!labels) return unreadable(labels.error());
    labels_ = labels.take();
    return Nothing{};
  }

  Error unreadable(const Error &error) {
    if (error.code == ENOENT || error.code == ENOTDIR) failure_ = LoadFailure::NotFound;
    if (error.code == EACCES || error.code == EPERM) failure_ = LoadFailure::NoAccess;
    return error;
  }

  Result<InputPlan> planWith(const ModelConfig &config) const {
    return planInput(model_->engine->inputs(),
                     {config.width.value_or(0), config.height.value_or(0), options_.batch, config.layout});
  }

  Status planPictures() {
    auto plan = planWith(known_);
    if (!plan && !stated_.width && !stated_.height && known_.width) {
      // the graph may have been changed after the exporter wrote the size
      ModelConfig without = known_;
      without.width = without.height = std::nullopt;
      if (auto other = planWith(without)) {
        GST_DEBUG("model file %s: its metadata have another picture size than %s", options_.file.c_str(),
                  input().describe().c_str());
        known_ = without;
        plan = other;
      }
    }
    if (!plan) {
      Error error = named(plan.error());
      if (!modelinfo_.empty()) error.what += " (with what modelinfo file " + modelinfo_ + " says of it)";
      return error;
    }
    model_->plan = *plan;
    return Nothing{};
  }

  // Opens the engine again where the picture's size was open, so that it knows the shapes of its outputs.
  Status fixDimensions() {
    const TensorInfo &info = input();
    if (info.dim_names.size() != info.dims.size()) return Nothing{};
    const std::vector<int64_t> dims = model_->plan.dims();
    EngineOptions options = options_.engine;
    std::map<std::string, int64_t> fixed;
    for (size_t i = 1; i < info.dims.size() && i < dims.size(); ++i) {
      const std::string &name = info.dim_names[i];
      // one name for two different dimensions says nothing, and that of the batch has to stay open
      if (info.dims[i] >= 0 || name.empty() || name == info.dim_names[0] || options.dimensions.contains(name)) continue;
      if (const auto [other, is_new] = fixed.try_emplace(name, dims[i]); !is_new && other->second != dims[i])
        return Nothing{};
    }
    if (fixed.empty()) return Nothing{};
    options.dimensions.insert(fixed.begin(), fixed.end());
    model_->engine.reset(); // two of a large one may not fit
    size_is_wished_ = true;
    if (auto opened = openWith(options); !opened) return sizeMayBeWrong(opened.error());
    const InputPlan before = model_->plan;
    if (auto planned = planPictures(); !planned) return planned;
    if (model_->plan.dims() != before.dims())
      return named({"input " + input().describe() + " became another one with a picture of " +
                        std::to_string(before.width) + "x" + std::to_string(before.height),
                    0, "Export the model with a fixed picture size"});
    return Nothing{};
  }

  Status runOnce() {
    if (outputs().empty())
      return named({"the model has no outputs", 0, "Export it with the outputs of its last layers"});
    const int batch = model_->plan.batch;
    for (const TensorInfo &output : outputs()) {
      if (isHuge(output))
        return named(
            {"output " + output.describe() + " has more than " + std::to_string(kMaxOutputElements) + " elements", 0,
             "Export the model with smaller outputs or a smaller picture"});
      if (batch > 1 && !ofBatch(output.dims, batch)) return noBatch(output);
    }

    std::vector<float> picture; // floats for their alignment
    const size_t bytes = model_->plan.bytes() * static_cast<size_t>(batch);
    picture.resize((bytes + sizeof(float) - 1) / sizeof(float));
    const TensorView view = {model_->plan.type, model_->plan.dims(batch), picture.data(), bytes, MemorySpace::Host};
    auto ran = model_->engine->run({&view, 1}, cancel_);
    if (!ran) {
      Error error = ran.error();
      error.what = "a first run, with an empty picture for input " + input().describe() + ", failed: " + error.what;
      if (error.remedy.empty()) error.remedy = "Check the model with the tools that it was exported with";
      return named(error);
    }
    first_run_ = ran.take();
    if (first_run_.tensors.size() != outputs().size())
      return named({"a first run gave " + std::to_string(first_run_.tensors.size()) + " tensors for " +
                        std::to_string(outputs().size()) + " outputs",
                    0, "The model is broken: export it again"});
    measured_ = outputs();
    for (size_t i = 0; i < measured_.size(); ++i)
      if (auto compared = compare(measured_[i], first_run_.tensors[i]); !compared) return compared;
    if (firstNotANumber(first_run_)) lookAgain(view);
    return Nothing{};
  }

  // An empty picture may give what no picture does: a model that divides by a picture's own deviation divides by zero.
  // So another one is shown, whose pixels differ.
  void lookAgain(const TensorView &view) {
    const size_t size = std::max<size_t>(tensorTypeSize(view.type), 1);
    auto *const bytes = static_cast<uint8_t *>(view.data);
    uint32_t noise = 1;
    for (size_t i = 0; i + size <= view.bytes; i += size) {
      noise = noise * 1664525u + 1013904223u;
      const uint8_t value = static_cast<uint8_t>(noise >> 25); // 0..127
      const float number = static_cast<float>(value) / 128.0f;
      if (view.type == TensorType::Float32)
        std::memcpy(bytes + i, &number, sizeof number);
      else if (view.type == TensorType::Float16)
        bytes[i + 1] = static_cast<uint8_t>(0x30 + value / 16); // 0.125..0.9: sign and exponent
      else
        bytes[i] = value;
    }
    const auto ran = model_->engine->run({&view, 1}, cancel_);
    if (!ran) return; // frames will tell
    if (const auto output = firstNotANumber(*ran); output && *output < outputs().size())
      model_->not_numbers = outputs()[*output].describe();
  }

  // Open dimensions are part of any batch.
  static bool ofBatch(const std::vector<int64_t> &dims, int batch) {
    return !dims.empty() && (dims[0] < 0 || dims[0] == batch);
  }

  Error noBatch(const TensorInfo &output) const {
    return named({"output " + output.describe() + " is not one for each of the " + std::to_string(model_->plan.batch) +
                      " pictures of input " + input().describe(),
                  0,
                  model_->plan.open_batch
                      ? "Use batch-size=1, or export the model so that its outputs have the batch too"
                      : "Export the model with a batch of 1, or so that its outputs have the batch too"});
  }

  // What came against what the file declares; open dimensions but the first, which is the batch's, become what came.
  Status compare(TensorInfo &declared, const TensorView &came) {
    TensorInfo real = declared;
    real.type = came.type;
    real.dims = came.dims;
    bool same = came.type == declared.type && came.dims.size() == declared.dims.size();
    for (size_t i = 0; same && i < came.dims.size(); ++i)
      same = declared.dims[i] < 0 || declared.dims[i] == came.dims[i];
    if (!same)
      return named({"output " + declared.describe() + " came as " + real.describe() + " from a first run", 0,
                    "The model's file is wrong about it: export it again"});
    if (model_->plan.batch > 1 && !ofBatch(came.dims, model_->plan.batch)) return noBatch(real);
    for (size_t i = 1; i < came.dims.size(); ++i) declared.dims[i] = came.dims[i];
    return Nothing{};
  }

  // As decoders see them, which get the outputs of one picture.
  std::vector<TensorInfo> ofOnePicture(std::vector<TensorInfo> infos) const {
    if (model_->plan.batch > 1)
      for (TensorInfo &info : infos) info.dims[0] = 1;
    return infos;
  }

  Status chooseDecoder() {
    const auto count = [](const std::optional<int> &value) { return value.value_or(0); };
    const auto kind = [](const ModelConfig &config) { return config.decoder.value_or(DecoderKind::Auto); };
    const int labels = static_cast<int>(std::min<size_t>(labels_.size(), 1 << 20));
    std::vector<DecoderWishes> wishes;
    wishes.push_back({kind(known_), known_.classes ? *known_.classes : labels, count(known_.keypoints),
                      count(known_.keypoint_values)});
    // a model must not fail for what it says about itself: first without its decoder, then without its numbers
    wishes.push_back(wishes.back());
    wishes.back().kind = kind(stated_);
    // nobody here decodes turned boxes; without their numbers they look like upright ones with a class more
    if (const auto task = metadata_.find("task"); task == metadata_.end() || task->second != "obb")
      wishes.push_back(
          {kind(stated_), count(stated_.classes), count(stated_.keypoints), count(stated_.keypoint_values)});

    Error error;
    for (const DecoderWishes &wish : wishes) {
      if (wish.kind == DecoderKind::None) return Nothing{};
      // shapes that came are tried only where those declared are not enough: how many objects there are may be open
      for (const auto &infos : {ofOnePicture(outputs()), ofOnePicture(measured_)}) {
        auto made = makeDecoder(wish, model_->plan, infos);
        if (made) {
          model_->decoder = made.take();
          if (known_.decoder && std::string(decoderName(*known_.decoder)) != model_->decoder->name())
            known_.decoder = stated_.decoder;
          return Nothing{};
        }
        if (&wish == &wishes[1]) error = made.error(); // of what the user says and all that is known
      }
    }
    return sizeMayBeWrong(named(error));
  }

  // Where the model leaves its picture's size open, and takes only some.
  Error sizeMayBeWrong(Error error) const {
    if (size_is_wished_)
      error.remedy += ". Its picture of " + std::to_string(model_->plan.width) + "x" +
                      std::to_string(model_->plan.height) +
                      " is what input-width and input-height ask for: such models often take multiples of 32 only";
    return error;
  }

  Status chooseLabels() {
    const size_t classes = model_->decoder ? static_cast<size_t>(std::max(0, model_->decoder->classes())) : 0;
    if (!labels_.empty() && classes > 0 && labels_.size() != classes) {
      const std::string first = "Line 1 has to be the label of class 0";
      const std::string remedy = labels_.size() == classes + 1   ? first + ": leave out the line for the background"
                                 : labels_.size() + 1 == classes ? first + ": add a line for the background before it"
                                                                 : "Name the labels file that belongs to the model";
      return Error{"labels file " + options_.labels_file + " has " + std::to_string(labels_.size()) +
                       " labels, but model file " + options_.file + " has " + std::to_string(classes) + " classes",
                   0, remedy};
    }
    if (labels_.empty()) labels_ = known_.labels;
    if (labels_.empty() && model_->decoder) labels_ = model_->decoder->defaults().labels;
    if (classes > 0 && !labels_.empty() && labels_.size() != classes)
      GST_DEBUG("model file %s: %zu labels for %zu classes", options_.file.c_str(), labels_.size(), classes);
    model_->labels = std::move(labels_);
    return Nothing{};
  }

  void preparePictures() {
    PreprocessOptions &options = model_->preprocess;
    if (model_->decoder) {
      const FamilyDefaults &family = model_->decoder->defaults();
      options = family.preprocess;
      model_->threshold = family.threshold;
      model_->iou_threshold = family.iou_threshold;
    }
    apply(options, from_metadata_);
    setWholeNumbers(options.normalisation, model_->plan.type);
    apply(options, stated_);
  }

  void tagOutputs() {
    const bool softmaxed = outputs().size() == 1 && isProbabilities(first_run_.tensors[0]);
    model_->tags = defaultTags(model_->decoder.get(), measured_, known_.keypoints.value_or(0), softmaxed);
    std::map<std::string, TensorTag> named_outputs;
    for (size_t i = 0; i < outputs().size(); ++i) {
      const auto said = known_.tensors.find(outputs()[i].name);
      if (said == known_.tensors.end()) continue;
      TensorTag &tag = model_->tags[i];
      // an id without a group, as metadata have it, that the table knows with one
      if (said->second.id != tag.id || !said->second.group_id.empty()) tag = said->second;
      named_outputs.insert(*said);
    }
    known_.tensors = std::move(named_outputs);
  }

  const ModelOptions &options_;
  const OpenEngine &open_;
  Cancellation &cancel_;
  std::shared_ptr<Model> model_ = std::make_shared<Model>();
  LoadFailure failure_ = LoadFailure::BadModel;
  bool size_is_wished_ = false;
  std::map<std::string, std::string> metadata_;
  std::string modelinfo_;                      // file; "" where there is none
  ModelConfig from_metadata_, stated_, known_; // stated: modelinfo file and user; known: all
  std::vector<std::string> labels_;            // of the labels file
  Outputs first_run_;
  std::vector<TensorInfo> measured_; // the outputs as they came
};

} // namespace

LoadedModel loadModelWith(const ModelOptions &options, const OpenEngine &open, Cancellation *cancel) {
  Cancellation never;
  try {
    return Loader(options, open, cancel != nullptr ? *cancel : never).load();
  } catch (const std::bad_alloc &) {
    return {
        nullptr,
        {LoadFailure::BadModel,
         {"model file " + options.file, ENOMEM, "Use a smaller model or batch-size, or give the process more memory"}}};
  }
}

LoadedModel loadModel(const ModelOptions &options, const DeviceStream &stream, Cancellation *cancel) {
  return loadModelWith(
      options, [&](const EngineOptions &engine) { return loadOnnxEngine(options.file, engine, stream); }, cancel);
}

} // namespace gstzc::infer
