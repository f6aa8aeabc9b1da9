// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

namespace gstzc::infer {

// What a message of ONNX Runtime says to a user, on one line: without the places in its source code ("/…/file.cc:123
// void onnxruntime::f(int) condition was false."), status prefixes ("[ONNXRuntimeError] : 1 : FAIL :") and stack
// traces, at most some hundred characters of it.
std::string shortMessage(const std::string &message);

} // namespace gstzc::infer
