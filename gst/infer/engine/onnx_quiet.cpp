// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/engine/onnx_runtime.h"

#include <iostream>
#include <mutex>
#include <set>
#include <streambuf>
#include <utility>
#include <vector>

namespace gstzc::infer {
namespace {

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

// What makes the library look at its operators, which models without any node that it computes do not: y = Relu(x) of
// one number. An ONNX file by hand: ir_version 8, operator set 13, the graph "g".
constexpr unsigned char kSmallest[] = {
    0x08, 8,  0x42, 2, 0x10, 13,                                             // versions
    0x3a, 43,                                                                // graph
    0x0a, 12, 0x0a, 1, 'x',  0x12, 1, 'y',  0x22, 4,    'R', 'e',  'l', 'u', // node
    0x12, 1,  'g',                                                           // name
    0x5a, 11, 0x0a, 1, 'x',  0x12, 6, 0x0a, 4,    0x08, 1,   0x12, 0,        // input: float32, no dimensions
    0x62, 11, 0x0a, 1, 'y',  0x12, 6, 0x0a, 4,    0x08, 1,   0x12, 0};       // output

// Whether it went well does not matter: what it is for has happened by then.
void createSmallest(const OnnxRuntime &runtime) {
  const OrtApi &api = *runtime.api;
  OrtSessionOptions *options = nullptr;
  OrtSession *session = nullptr;
  OrtStatus *status = api.CreateSessionOptions(&options);
  if (status == nullptr) status = api.SetIntraOpNumThreads(options, 1); // or it would start some
  if (status == nullptr)
    status = api.CreateSessionFromArray(runtime.env, kSmallest, sizeof kSmallest, options, &session);
  if (status != nullptr) {
    GST_CAT_LEVEL_LOG(onnxDebugCategory(), GST_LEVEL_INFO, nullptr, "the smallest model: %s",
                      api.GetErrorMessage(status));
    api.ReleaseStatus(status);
  }
  if (session != nullptr) api.ReleaseSession(session);
  if (options != nullptr) api.ReleaseSessionOptions(options);
}

} // namespace

void quietFirstSession(const OnnxRuntime &runtime) {
  static std::mutex mutex;                                // the stream is one for all libraries
  static auto &over = *new std::set<const OnnxRuntime *>; // that have had their first session
  // Never freed, so that a thread that is just writing through it cannot lose it.
  static LineFilter *const filter = new LineFilter("Schema error");
  std::unique_lock lock(mutex);
  std::streambuf *const before = std::cerr.rdbuf();
  if (!over.insert(&runtime).second || before == nullptr) return;
  filter->start(before);
  std::cerr.rdbuf(filter);
  createSmallest(runtime);
  if (std::cerr.rdbuf() == filter) std::cerr.rdbuf(before); // else somebody else's buffer is in front of ours now
  const std::vector<std::string> dropped = filter->finish();
  lock.unlock();
  for (const std::string &line : dropped)
    GST_CAT_LEVEL_LOG(onnxDebugCategory(), GST_LEVEL_TRACE, nullptr, "%s", line.c_str());
  if (!dropped.empty())
    GST_CAT_LEVEL_LOG(onnxDebugCategory(), GST_LEVEL_DEBUG, nullptr,
                      "%zu lines \"Schema error\" of the first session left out", dropped.size());
}

} // namespace gstzc::infer
