// SPDX-License-Identifier: LGPL-2.1-or-later
// Tensors as ONNX Runtime describes them and as engine.h does. Only onnx_*.cpp include this.
#pragma once

#include <string>
#include <vector>

#include "gst/infer/engine/engine.h"
#include "gst/infer/engine/onnx_runtime.h"

namespace gstzc::infer {

ONNXTensorElementDataType onnxType(TensorType type); // UNDEFINED for Other

// The inputs or the outputs of a session. What is no tensor (a sequence, a map) has TensorType::Other and no
// dimensions.
Result<std::vector<TensorInfo>> readTensors(const OnnxRuntime &runtime, const OrtSession *session, bool inputs);

// A tensor's bytes, without a copy; valid for as long as the value. Null where it is no tensor or of TensorType::Other.
Result<TensorView> viewOf(const OnnxRuntime &runtime, OrtValue *value, const TensorInfo &info);

// The custom map of a session's model.
Result<std::map<std::string, std::string>> readMetadata(const OnnxRuntime &runtime, const OrtSession *session);

} // namespace gstzc::infer
