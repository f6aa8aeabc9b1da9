// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model.h"

#include <glib.h>

namespace gstzc::infer {
namespace {

std::string number(double value) {
  char text[32];
  g_snprintf(text, sizeof(text), "%g", value);
  return text;
}

std::string channels(const std::array<float, 3> &values) {
  if (values[0] == values[1] && values[1] == values[2]) return number(values[0]);
  return number(values[0]) + ":" + number(values[1]) + ":" + number(values[2]);
}

const char *resizeName(ResizeMode mode) {
  switch (mode) {
  case ResizeMode::Stretch: return "stretched";
  case ResizeMode::Letterbox: return "letterboxed";
  case ResizeMode::LetterboxTopLeft: return "letterboxed at the top left";
  case ResizeMode::Crop: return "cropped";
  }
  return "resized";
}

} // namespace

const std::string &Model::label(int index) const {
  static const std::string none;
  return index >= 0 && static_cast<size_t>(index) < labels.size() ? labels[static_cast<size_t>(index)] : none;
}

std::string describe(const Model &model) {
  const Normalisation &norm = model.preprocess.normalisation;
  const bool padded = model.preprocess.resize != ResizeMode::Stretch && model.preprocess.resize != ResizeMode::Crop;
  std::string text = "model file " + model.file + ": " + model.engine->name() + " on " + model.engine->provider();
  text += std::string(", decoder ") + (model.decoder ? model.decoder->name() : decoderName(DecoderKind::None));
  text += ", input " + model.engine->inputs().front().describe();
  text += " of " + std::to_string(model.plan.width) + "x" + std::to_string(model.plan.height);
  if (model.plan.batch > 1)
    text += (model.plan.open_batch ? ", up to " : ", ") + std::to_string(model.plan.batch) + " pictures a run";
  text += std::string(", ") + resizeName(model.preprocess.resize);
  if (padded) text += " with " + number(norm.padding);
  text += model.preprocess.scaling == Scaling::Area ? ", area" : ", bilinear";
  text += model.plan.channels == 1 ? ", grey" : norm.bgr ? ", BGR" : ", RGB";
  text += ", mean " + channels(norm.mean) + ", scale " + channels(norm.scale);
  text += ", " + std::to_string(model.labels.size()) + " labels";
  return text;
}

} // namespace gstzc::infer
