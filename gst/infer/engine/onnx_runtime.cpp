// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_runtime.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <streambuf>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <gst/gst.h>

namespace gstzc::infer {
namespace {

constexpr uint32_t kOldestApi = 14;   // has every call that onnx_engine.cpp makes
constexpr uint32_t kNewestMinor = 60; // how far names like libonnxruntime.so.1.21 are tried

GstDebugCategory *category() {
  static GstDebugCategory *const category =
      _gst_debug_category_new("fenceinfer-onnx", 0, "messages of the ONNX Runtime library");
  return category;
}

void ORT_API_CALL log(void *, OrtLoggingLevel severity, const char *group, const char *, const char *where,
                      const char *message) {
  // what the library calls a warning is mostly about how a model was exported: nothing the user of a pipeline asked for
  const GstDebugLevel level = severity >= ORT_LOGGING_LEVEL_ERROR     ? GST_LEVEL_WARNING
                              : severity == ORT_LOGGING_LEVEL_WARNING ? GST_LEVEL_INFO
                                                                      : GST_LEVEL_DEBUG;
  GST_CAT_LEVEL_LOG(category(), level, nullptr, "%s: %s (%s)", group, message, where);
}

// "1.21.0" -> 21. Asking an older library for a newer table makes it print to standard error, so it is not asked.
uint32_t minorVersion(const std::string &version) {
  const size_t dot = version.find('.');
  return dot == std::string::npos ? 0 : static_cast<uint32_t>(std::strtoul(version.c_str() + dot + 1, nullptr, 10));
}

// A stream buffer in front of another: whole lines that start with `prefix` are kept back, everything else goes to the
// other. They are not logged from in here: a log function of the application may write to the same stream. Safe for
// writers in several threads, which the stream's own buffer is too.
class LineFilter : public std::streambuf {
public:
  explicit LineFilter(std::string prefix) : prefix_(std::move(prefix)) {}

  void start(std::streambuf *sink) {
    std::lock_guard lock(mutex_);
    sink_ = sink;
  }

  // Passes on what is held back of a line that might still have become a filtered one; gives the filtered ones.
  std::vector<std::string> finish() {
    std::lock_guard lock(mutex_);
    if (state_ == State::Undecided) sink_->sputn(line_.data(), static_cast<std::streamsize>(line_.size()));
    line_.clear();
    return std::exchange(dropped_, {});
  }

protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char text = traits_type::to_char_type(c);
    std::lock_guard lock(mutex_);
    put(text);
    return c;
  }
  std::streamsize xsputn(const char *text, std::streamsize n) override {
    std::lock_guard lock(mutex_);
    for (std::streamsize i = 0; i < n; ++i) put(text[i]);
    return n;
  }
  int sync() override {
    std::lock_guard lock(mutex_);
    return sink_->pubsync();
  }

private:
  enum class State { Undecided, Passing, Dropping };

  void put(char c) {
    // each of those messages ends its line itself and is followed by an empty one
    if (std::exchange(after_dropped_, false) && c == '\n') return;
    if (state_ == State::Passing)
      sink_->sputc(c);
    else
      line_ += c;
    if (state_ == State::Undecided) {
      if (prefix_.compare(0, line_.size(), line_) != 0) {
        state_ = State::Passing;
        sink_->sputn(line_.data(), static_cast<std::streamsize>(line_.size()));
      } else if (line_.size() == prefix_.size()) {
        state_ = State::Dropping;
      }
    }
    if (c != '\n') return;
    after_dropped_ = state_ == State::Dropping;
    if (after_dropped_) {
      line_.pop_back();
      dropped_.push_back(line_);
    }
    line_.clear();
    state_ = State::Undecided;
  }

  std::streambuf *sink_ = nullptr;
  const std::string prefix_; // without a newline
  std::mutex mutex_;
  State state_ = State::Undecided;
  bool after_dropped_ = false;
  std::string line_; // of the line so far, unless it is passing
  std::vector<std::string> dropped_;
};

struct Library {
  void *handle = nullptr;
  std::string name;
};

Result<Library> openLibrary() {
  const char *chosen = std::getenv("GSTZC_ONNXRUNTIME");
  if (chosen != nullptr && *chosen != '\0') {
    void *handle = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return Library{handle, chosen};
    const char *why = dlerror();
    return Error{std::string("cannot open the ONNX Runtime library named by GSTZC_ONNXRUNTIME: ") +
                     (why != nullptr ? why : chosen),
                 0, "Correct the variable, or unset it and install the package libonnxruntime1.21 (Debian 13)"};
  }
  std::vector<std::string> names = {"libonnxruntime.so.1", "libonnxruntime.so"};
  for (uint32_t n = kNewestMinor; n >= kOldestApi; --n) names.push_back("libonnxruntime.so.1." + std::to_string(n));
  for (const std::string &name : names) {
    void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return Library{handle, name};
    (void)dlerror();
  }
  return Error{"the ONNX Runtime library (libonnxruntime.so.1 and versioned names) was not found", 0,
               "Install it (Debian 13: apt install libonnxruntime1.21) or name the file in the environment variable "
               "GSTZC_ONNXRUNTIME"};
}

Result<OnnxRuntime> open() {
  auto library = openLibrary();
  if (!library) return library.error();
  OnnxRuntime runtime;
  runtime.library = library->name;
  const auto base = reinterpret_cast<const OrtApiBase *(*)()>(dlsym(library->handle, "OrtGetApiBase"));
  if (base == nullptr)
    return Error{library->name + " has no OrtGetApiBase: it is not ONNX Runtime", 0,
                 "Correct the environment variable GSTZC_ONNXRUNTIME"};
  runtime.version = base()->GetVersionString();
  const uint32_t newest = std::min<uint32_t>(ORT_API_VERSION, minorVersion(runtime.version));
  for (uint32_t n = newest; n >= kOldestApi && runtime.api == nullptr; --n) {
    runtime.api = base()->GetApi(n);
    runtime.api_version = n;
  }
  if (runtime.api == nullptr)
    return Error{library->name + " is ONNX Runtime " + runtime.version, 0,
                 "Version 1." + std::to_string(kOldestApi) + " or newer is needed"};
  OrtStatus *status =
      runtime.api->CreateEnvWithCustomLogger(log, nullptr, ORT_LOGGING_LEVEL_WARNING, "fenceinfer", &runtime.env);
  if (status != nullptr) return runtime.error(status, "creating the ONNX Runtime environment");
  GST_CAT_LEVEL_LOG(category(), GST_LEVEL_INFO, nullptr, "ONNX Runtime %s from %s, API %u", runtime.version.c_str(),
                    runtime.library.c_str(), runtime.api_version);
  return runtime;
}

} // namespace

Result<const OnnxRuntime *> OnnxRuntime::get() {
  // Never closed and never freed: the library's threads and static objects outlive every element.
  static std::mutex mutex;
  static const OnnxRuntime *runtime = nullptr;
  std::lock_guard lock(mutex);
  if (runtime == nullptr) {
    auto opened = open();
    if (!opened) return opened.error();
    runtime = new OnnxRuntime(opened.take());
  }
  return runtime;
}

Error OnnxRuntime::error(OrtStatus *status, const std::string &what) const {
  Error error{what + ": " + api->GetErrorMessage(status), 0, ""};
  api->ReleaseStatus(status);
  return error;
}

void quietFirstSession(const std::function<bool()> &create) {
  static std::mutex mutex;
  static bool over = false;
  // Never freed, so that a thread that is just writing through it cannot lose it.
  static LineFilter *const filter = new LineFilter("Schema error");
  std::unique_lock lock(mutex);
  std::streambuf *const before = std::cerr.rdbuf();
  if (over || before == nullptr) {
    lock.unlock();
    create();
    return;
  }
  filter->start(before);
  std::cerr.rdbuf(filter);
  over = create();                                          // a file that is no model fails before the library writes
  if (std::cerr.rdbuf() == filter) std::cerr.rdbuf(before); // else somebody else's buffer is in front of ours now
  const std::vector<std::string> dropped = filter->finish();
  lock.unlock();
  for (const std::string &line : dropped) GST_CAT_LEVEL_LOG(category(), GST_LEVEL_TRACE, nullptr, "%s", line.c_str());
  if (!dropped.empty())
    GST_CAT_LEVEL_LOG(category(), GST_LEVEL_DEBUG, nullptr, "%zu lines \"Schema error\" of the first session left out",
                      dropped.size());
}

} // namespace gstzc::infer
