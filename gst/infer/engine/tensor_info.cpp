// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/engine.h"

namespace gstzc::infer {

const char *tensorTypeName(TensorType type) {
  switch (type) {
  case TensorType::Float32: return "float32";
  case TensorType::Float16: return "float16";
  case TensorType::UInt8: return "uint8";
  case TensorType::Int8: return "int8";
  case TensorType::Int32: return "int32";
  case TensorType::Int64: return "int64";
  case TensorType::Other: break;
  }
  return "another type";
}

size_t tensorTypeSize(TensorType type) {
  switch (type) {
  case TensorType::Float32:
  case TensorType::Int32: return 4;
  case TensorType::Float16: return 2;
  case TensorType::UInt8:
  case TensorType::Int8: return 1;
  case TensorType::Int64: return 8;
  case TensorType::Other: break;
  }
  return 0;
}

std::optional<size_t> tensorBytes(TensorType type, const std::vector<int64_t> &dims) {
  size_t bytes = tensorTypeSize(type);
  for (const int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes)) return {};
  return bytes;
}

std::string describeTensor(TensorType type, const std::vector<int64_t> &dims) {
  std::string text = std::string(tensorTypeName(type)) + " [";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ",";
    text += dims[i] < 0 ? "?" : std::to_string(dims[i]);
  }
  return text + "]";
}

std::string TensorInfo::describe() const { return name + " (" + describeTensor(type, dims) + ")"; }

} // namespace gstzc::infer
