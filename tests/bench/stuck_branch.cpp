// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/bench/stuck_branch.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gst/gst.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/bench/measure.h"
#include "tests/support/face_models.h"
#include "tests/support/temp_dir.h"

namespace gstzc::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kPairs = 10;
constexpr int kWarmUp = 50, kGroup = 20, kGroups = 40; // frames, frames, groups of frames
constexpr auto kDeviceTime = 1ms;                      // from handing a frame on to its end in the device
constexpr guint kStuckTimeoutMs = 100;                 // each frame of the stuck branch holds its place so long
constexpr double kAllowed = 0.05;

// A device that finishes what it was given some time later, in order; or never.
class Device {
public:
  explicit Device(bool stuck) : stuck_(stuck), thread_([this] { run(); }) {}
  ~Device() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // The event of the work that starts now.
  GstZcDeviceEvent *start() {
    UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    UniqueFd consumers = UniqueFd::duplicate(fd.get());
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(consumers.get(), nullptr);
    if (event == nullptr) return nullptr;
    [[maybe_unused]] const int owned = consumers.release();
    const std::lock_guard lock(mutex_);
    work_.emplace_back(Clock::now() + kDeviceTime, std::move(fd));
    if (stuck_ && work_.size() > 64) work_.pop_front(); // nobody waits for that any more
    changed_.notify_all();
    return event;
  }

private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || (!stuck_ && !work_.empty()); });
      if (stopping_) return;
      auto [due, fd] = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      std::this_thread::sleep_until(due);
      const uint64_t one = 1;
      [[maybe_unused]] const auto n = write(fd.get(), &one, sizeof one);
      lock.lock();
    }
  }

  const bool stuck_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Clock::time_point, UniqueFd>> work_;
  bool stopping_ = false;
  std::thread thread_;
};

// A producer that hands frames on before its device is done with them, fenceinfer, and the times at which frames leave.
class Branch {
public:
  Branch(const std::string &model, bool stuck) : device_(stuck) {
    const std::string line =
        "appsrc name=source block=true max-buffers=1 max-bytes=0 format=time "
        "caps=video/x-raw,format=RGB,width=128,height=128,framerate=0/1 ! fenceinfer max-in-flight=4 "
        "on-fence-error=drop fence-timeout=" +
        std::to_string(stuck ? kStuckTimeoutMs : 10'000) + " model-file=\"" + model +
        "\" ! fakesink name=sink sync=false async=false";
    GError *error = nullptr;
    pipeline_ = gst_parse_launch(line.c_str(), &error);
    if (error != nullptr) {
      std::fprintf(stderr, "the pipeline of the benchmark: %s\n", error->message);
      g_clear_error(&error);
      gst_clear_object(&pipeline_);
      return;
    }
    GstElement *sink = gst_bin_get_by_name(GST_BIN(pipeline_), "sink");
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER,
        [](GstPad *, GstPadProbeInfo *, gpointer self) {
          static_cast<Branch *>(self)->left();
          return GST_PAD_PROBE_OK;
        },
        this, nullptr);
    gst_object_unref(pad);
    gst_object_unref(sink);
    source_ = gst_bin_get_by_name(GST_BIN(pipeline_), "source");
    if (gst_element_set_state(pipeline_, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE) return;
    pushing_ = std::thread([this] { push(); });
  }
  ~Branch() {
    stopping_ = true;
    if (pipeline_ != nullptr) gst_element_set_state(pipeline_, GST_STATE_NULL);
    if (pushing_.joinable()) pushing_.join();
    gst_clear_object(&source_);
    gst_clear_object(&pipeline_);
  }
  Branch(const Branch &) = delete;
  Branch &operator=(const Branch &) = delete;

  bool isRunning() const { return pushing_.joinable(); }

  // ns a frame once it runs: the median of groups of frames, so that a moment in which the machine was busy with
  // something else does not count. 0 if it does not come to that in 60 s.
  double frameTime() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 60s, [this] { return group_ends_.size() > kGroups; })) return 0;
    std::vector<double> times;
    for (size_t i = 1; i < group_ends_.size(); ++i)
      times.push_back(static_cast<double>(group_ends_[i] - group_ends_[i - 1]) / kGroup);
    return median(times);
  }

private:
  void push() {
    GstMemory *memory = gst_allocator_alloc(nullptr, 128 * 128 * 3, nullptr);
    for (guint64 n = 0; !stopping_; ++n) {
      GstBuffer *buffer = gst_buffer_new();
      gst_buffer_append_memory(buffer, gst_memory_ref(memory));
      if (GstZcDeviceEvent *event = device_.start(); event != nullptr) {
        gst_buffer_add_zc_event_meta(buffer, event, n);
        gst_zc_device_event_unref(event);
      }
      GstFlowReturn flow = GST_FLOW_OK;
      g_signal_emit_by_name(source_, "push-buffer", buffer, &flow);
      gst_buffer_unref(buffer);
      if (flow != GST_FLOW_OK) break;
    }
    gst_memory_unref(memory);
  }
  void left() {
    const std::lock_guard lock(mutex_);
    if (++count_ < kWarmUp || (count_ - kWarmUp) % kGroup != 0 || group_ends_.size() > kGroups) return;
    group_ends_.push_back(clockNs());
    if (group_ends_.size() > kGroups) changed_.notify_all();
  }

  Device device_;
  GstElement *pipeline_ = nullptr, *source_ = nullptr;
  std::atomic<bool> stopping_ = false;
  std::thread pushing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  std::vector<uint64_t> group_ends_;
};

// ns a frame; 0 if it did not run
double run(const std::string &model, bool with_stuck_branch) {
  std::unique_ptr<Branch> stuck;
  if (with_stuck_branch) {
    stuck = std::make_unique<Branch>(model, true);
    std::this_thread::sleep_for(50ms); // its queue is full
    if (!stuck->isRunning()) return 0;
  }
  Branch measured(model, false);
  return measured.isRunning() ? measured.frameTime() : 0;
}

} // namespace

bool measureStuckBranch() {
  test::TempDir dir;
  const std::string model = dir.file("faces.onnx");
  test::constantFaces(128, {{0, 60, 60, 32, 24}}, 3.0f).save(model);

  std::vector<double> alone, beside, ratios, chance;
  for (int i = 0; i < kPairs; ++i) {
    // both orders as often, so that what drifts counts for neither
    const bool first = i % 2 == 0;
    const double b1 = first ? run(model, true) : 0;
    const double a1 = run(model, false);
    const double b2 = first ? 0 : run(model, true);
    const double a2 = run(model, false);
    const double b = b1 + b2;
    if (a1 <= 0 || a2 <= 0 || b <= 0) {
      std::fprintf(stderr, "a branch of the benchmark did not run\n");
      return false;
    }
    alone.push_back(a1);
    beside.push_back(b);
    ratios.push_back(b / a1);
    chance.push_back(a2 / a1);
  }
  // what two equal runs differ by: the middle half of it
  const double spread = quantile(chance, 0.75) - quantile(chance, 0.25);
  report({"frame time beside a stuck branch", median(beside) / 1000, "us", median(beside) / median(alone),
          "the same without the stuck branch; the spread is of pairs without it", spread,
          1 + std::max(kAllowed, spread)});
  report({"frame time without, again", median(chance) * median(alone) / 1000, "us", median(chance),
          "itself: how far the ratio is from 1 by chance", spread});
  return true;
}

} // namespace gstzc::bench
