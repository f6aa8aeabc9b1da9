// SPDX-License-Identifier: LGPL-2.1-or-later
// What a .modelinfo file says of tensors against those that the model has.
#include "gst/infer/model/model_config.h"

#include <algorithm>
#include <iterator>

namespace gstzc::infer {
namespace {

std::string dimsText(const std::vector<int64_t> &dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
  return text;
}

std::string namesOf(const std::vector<TensorInfo> &tensors) {
  std::string text;
  for (const TensorInfo &tensor : tensors) text += (text.empty() ? "" : ", ") + tensor.name;
  return text.empty() ? "none" : text;
}

const TensorInfo *named(const std::vector<TensorInfo> &tensors, const std::string &name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto &info) { return info.name == name; });
  return found != tensors.end() ? &*found : nullptr;
}

// Types without a name of ours cannot be told apart, but are none of those that have one.
bool sameType(const std::string &said, TensorType type) {
  if (type != TensorType::Other) return said == tensorTypeName(type);
  constexpr TensorType known[] = {TensorType::Float32, TensorType::Float16, TensorType::UInt8,
                                  TensorType::Int8,    TensorType::Int32,   TensorType::Int64};
  return std::none_of(std::begin(known), std::end(known), [&](TensorType t) { return said == tensorTypeName(t); });
}

// What either leaves open contradicts nothing.
bool sameDims(const std::vector<int64_t> &said, const std::vector<int64_t> &has) {
  return std::equal(said.begin(), said.end(), has.begin(), has.end(),
                    [](int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; });
}

} // namespace

Status checkModelInfo(const std::vector<TensorClaim> &claims, const std::string &path, const std::string &model_file,
                      const std::vector<TensorInfo> &inputs, const std::vector<TensorInfo> &outputs) {
  for (const TensorClaim &claim : claims) {
    const std::string section = "modelinfo file " + path + ", section [" + claim.name + "]: ";
    const TensorInfo *const input = named(inputs, claim.name), *const output = named(outputs, claim.name);
    const TensorInfo *const tensor = claim.input.value_or(input != nullptr) ? input : output;
    const auto contradicts = [&](const std::string &said, const std::string &as) {
      return Error{section + said + " contradicts model file " + model_file + ", which has " + as, 0,
                   "Correct the modelinfo file, or use the one that belongs to the model"};
    };
    if (input == nullptr && output == nullptr)
      return Error{section + "model file " + model_file + " has no tensor of this name", 0,
                   "A section has the name of a tensor: inputs " + namesOf(inputs) + "; outputs " + namesOf(outputs)};
    if (tensor == nullptr)
      return contradicts(*claim.input ? "dir=input" : "dir=output",
                         *claim.input ? "it as an output" : "it as an input");
    if (!claim.type.empty() && !sameType(claim.type, tensor->type))
      return contradicts("type=" + claim.type, tensor->describe());
    auto reversed = claim.dims;
    std::reverse(reversed.begin(), reversed.end());
    if (!claim.dims.empty() && !sameDims(claim.dims, tensor->dims) &&
        !(claim.column_major && sameDims(reversed, tensor->dims)))
      return contradicts("dims=" + dimsText(claim.dims), tensor->describe());
  }
  return Nothing{};
}

} // namespace gstzc::infer
