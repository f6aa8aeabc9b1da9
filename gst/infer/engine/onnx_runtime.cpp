// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include <dlfcn.h>
#include <sys/stat.h>

#include "gst/infer/engine/onnx_text.h"

namespace gstzc::infer {
namespace {

constexpr uint32_t kOldestApi = 14;   // has every call that onnx_*.cpp make, but for what they ask api_version for
constexpr uint32_t kNewestMinor = 60; // how far names like libonnxruntime.so.1.21 are tried

thread_local std::string *last_error = nullptr; // where a LoggedError of this thread keeps it

void ORT_API_CALL log(void *, OrtLoggingLevel severity, const char *group, const char *, const char *where,
                      const char *message) {
  // what the library calls a warning is mostly about how a model was exported: nothing the user of a pipeline asked for
  const GstDebugLevel level = severity >= ORT_LOGGING_LEVEL_ERROR     ? GST_LEVEL_WARNING
                              : severity == ORT_LOGGING_LEVEL_WARNING ? GST_LEVEL_INFO
                                                                      : GST_LEVEL_DEBUG;
  if (severity >= ORT_LOGGING_LEVEL_ERROR && last_error != nullptr) *last_error = shortMessage(message);
  GST_CAT_LEVEL_LOG(onnxDebugCategory(), level, nullptr, "%s: %s (%s)", group, message, where);
}

// "1.21.0" -> 21. Asking an older library for a newer table makes it print to standard error, so it is not asked.
uint32_t minorVersion(const std::string &version) {
  const size_t dot = version.find('.');
  return dot == std::string::npos ? 0 : static_cast<uint32_t>(std::strtoul(version.c_str() + dot + 1, nullptr, 10));
}

struct Library {
  void *handle = nullptr;
  std::string name;
};

// A file that is named. A FIFO would block the loader.
Result<Library> openNamed(const std::string &name, const std::string &named_by) {
  const std::string what = "cannot open the ONNX Runtime library named by " + named_by + ": ";
  const std::string remedy = "Correct the name, or leave it out and install the package libonnxruntime1.21 (Debian 13)";
  struct stat st = {};
  if (name.find('/') != std::string::npos && stat(name.c_str(), &st) == 0 && !S_ISREG(st.st_mode))
    return Error{what + name + " is no regular file", 0, remedy};
  void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return Library{handle, name};
  const char *why = dlerror(); // has the name in it, mostly
  const std::string said = why != nullptr ? why : "no reason given";
  return Error{what + (said.find(name) == std::string::npos ? name + ": " : "") + said, 0, remedy};
}

// The loader takes a name for any library that calls itself so, wherever it was opened from. One that was opened by its
// file is not what a search finds, as long as there is another.
Result<Library> search(const std::map<void *, const OnnxRuntime *> &opened) {
  std::vector<std::string> names = {"libonnxruntime.so.1", "libonnxruntime.so"};
  for (uint32_t n = kNewestMinor; n >= kOldestApi; --n) names.push_back("libonnxruntime.so.1." + std::to_string(n));
  for (const bool any : {false, true})
    for (const std::string &name : names) {
      void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr)
        (void)dlerror();
      else if (any || !opened.contains(handle))
        return Library{handle, name};
      else
        dlclose(handle);
    }
  return Error{"the ONNX Runtime library (libonnxruntime.so.1 and versioned names) was not found", 0,
               "Install it (Debian 13: apt install libonnxruntime1.21) or name the file in the property "
               "onnxruntime-library or the environment variable GSTZC_ONNXRUNTIME"};
}

Result<OnnxRuntime> start(const Library &library) {
  OnnxRuntime runtime;
  runtime.library = library.name;
  const auto base = reinterpret_cast<const OrtApiBase *(*)()>(dlsym(library.handle, "OrtGetApiBase"));
  if (base == nullptr)
    return Error{library.name + " has no OrtGetApiBase: it is not ONNX Runtime", 0,
                 "Correct the property onnxruntime-library or the environment variable GSTZC_ONNXRUNTIME"};
  runtime.version = base()->GetVersionString();
  const uint32_t newest = std::min<uint32_t>(ORT_API_VERSION, minorVersion(runtime.version));
  for (uint32_t n = newest; n >= kOldestApi && runtime.api == nullptr; --n) {
    runtime.api = base()->GetApi(n);
    runtime.api_version = n;
  }
  if (runtime.api == nullptr)
    return Error{library.name + " is ONNX Runtime " + runtime.version, 0,
                 "Version 1." + std::to_string(kOldestApi) + " or newer is needed"};
  OrtStatus *status =
      runtime.api->CreateEnvWithCustomLogger(log, nullptr, ORT_LOGGING_LEVEL_WARNING, "fenceinfer", &runtime.env);
  if (status != nullptr) {
    Error error = runtime.error(status, "starting " + runtime.describe());
    error.remedy = "Builds that share the system's onnx library do not work side by side: use one of them in a process";
    return error;
  }
  GST_CAT_LEVEL_LOG(onnxDebugCategory(), GST_LEVEL_INFO, nullptr, "ONNX Runtime %s from %s, API %u",
                    runtime.version.c_str(), runtime.library.c_str(), runtime.api_version);
  return runtime;
}

} // namespace

GstDebugCategory *onnxDebugCategory() {
  static GstDebugCategory *const category =
      _gst_debug_category_new("fenceinfer-onnx", 0, "messages of the ONNX Runtime library");
  return category;
}

LoggedError::LoggedError() : before_(last_error) { last_error = &text_; }
LoggedError::~LoggedError() { last_error = before_; }

Result<const OnnxRuntime *> OnnxRuntime::get(const std::string &library) {
  // Never closed and never freed: the libraries' threads and static objects outlive every element.
  static std::mutex mutex;
  static auto &by_name = *new std::map<std::string, const OnnxRuntime *>;
  static auto &by_handle = *new std::map<void *, const OnnxRuntime *>; // one file may have several names

  std::string name = library, named_by = "the property onnxruntime-library";
  if (const char *chosen = std::getenv("GSTZC_ONNXRUNTIME"); name.empty() && chosen != nullptr) {
    name = chosen;
    named_by = "GSTZC_ONNXRUNTIME";
  }
  std::lock_guard lock(mutex);
  if (const auto known = by_name.find(name); known != by_name.end()) return known->second;
  auto opened = name.empty() ? search(by_handle) : openNamed(name, named_by);
  if (!opened) return opened.error();
  const OnnxRuntime *&runtime = by_handle[opened->handle];
  if (runtime == nullptr) {
    auto started = start(*opened);
    if (!started) {
      by_handle.erase(opened->handle);
      dlclose(opened->handle);
      return started.error();
    }
    runtime = new OnnxRuntime(started.take());
  }
  by_name[name] = runtime;
  return runtime;
}

Error OnnxRuntime::error(OrtStatus *status, const std::string &what) const {
  Error error{what + ": " + shortMessage(api->GetErrorMessage(status)), 0, ""};
  api->ReleaseStatus(status);
  return error;
}

} // namespace gstzc::infer
