// SPDX-License-Identifier: LGPL-2.1-or-later
// What ONNX Runtime's execution providers are called: by users, in the library's list and by its append calls.
#pragma once

#include <string>
#include <vector>

namespace gstzc::infer {

struct ProviderName {
  std::string name;        // "cuda": as users write it and Engine::provider() gives it
  std::string registered;  // "CUDAExecutionProvider": as GetAvailableProviders() lists it
  std::string appended;    // "XNNPACK": as SessionOptionsAppendExecutionProvider() takes it, which minds capitals
  bool accelerator = true; // a device of its own: who asks for it does not mean the CPU
};

// From any of the three names, whatever their capitals. A provider that is not known here is taken by its own name,
// with or without "ExecutionProvider" behind it.
ProviderName providerNamed(const std::string &name);

// Whether two names are of the same provider.
bool sameProvider(const std::string &a, const std::string &b);

// "dnnl, xnnpack, cpu" of the names that a library lists.
std::string listProviders(const std::vector<std::string> &registered);

} // namespace gstzc::infer
