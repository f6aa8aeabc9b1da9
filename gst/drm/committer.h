// SPDX-License-Identifier: LGPL-2.1-or-later
// The thread that brings frames to the screen.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "gst/drm/screen_state.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {

// One frame on its way to the screen and off it again.
struct DisplayFrame {
  ScreenState state;
  // Let go when the next frame has taken its place on screen: the frame's memory, and the black picture below it, which
  // only the first commit of a plan speaks of.
  std::shared_ptr<void> keep;
  std::shared_ptr<Framebuffer> background;
  uint64_t pts = 0;  // ns, or GST_CLOCK_TIME_NONE
  BufferId identity; // of the first plane's memory
};

// The kernel's side of a commit; a test puts another one in its place.
class CommitPort {
public:
  virtual ~CommitPort() = default;
  // Non-blocking. 0 and a descriptor that becomes readable when the frame is on screen, or errno.
  virtual int commit(const ScreenState &state, UniqueFd *flipped) = 0;
  // When that was, CLOCK_MONOTONIC ns. Below 0: it ended in an error, as a negative errno.
  virtual int64_t flipTime(int flipped) = 0;
};

// Commits of a device. The flip is told by the commit's out-fence, whose signal is the flip event itself with the same
// time stamp: an event in the device's file would go to whoever reads that file first, and where the application gave
// us its descriptor that may be the application.
class KmsCommitPort : public CommitPort {
public:
  KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output)
      : device_(std::move(device)), snapshot_(snapshot), output_(output) {}
  int commit(const ScreenState &state, UniqueFd *flipped) override;
  int64_t flipTime(int flipped) override;

private:
  std::shared_ptr<KmsDevice> device_;
  const KmsSnapshot snapshot_;
  const Output output_;
};

// Three frames at most: the one on screen, the one that is committed and waits for its flip, and the newest one that
// waits in user space. A frame is let go when the flip that replaced it has happened. Thread safe.
class Committer {
public:
  struct Limits {
    std::chrono::milliseconds flip{5000};  // from a commit to its flip
    std::chrono::milliseconds busy{10000}; // how long the kernel may go on saying EBUSY to one frame
    std::chrono::milliseconds retry{2};    // between attempts while it does
  };
  // Called on the committer's thread, without locks. flip_ns: CLOCK_MONOTONIC, never before the commit.
  struct Events {
    std::function<void(const DisplayFrame &, uint64_t flip_ns)> flipped;
    std::function<void(const Error &)> failed; // once; afterwards every submit() fails
  };
  struct Counters {
    uint64_t commits = 0, shown = 0, dropped = 0, busy_retries = 0;
  };
  enum class Submitted { Accepted, Interrupted };

  Committer(std::unique_ptr<CommitPort> port, Limits limits, Events events);
  ~Committer(); // lets all frames go: switch the screen to something else before
  Committer(const Committer &) = delete;
  Committer &operator=(const Committer &) = delete;

  // `wait`: until the place of the newest frame is free; else the frame that waits there is dropped and counted.
  Result<Submitted> submit(std::shared_ptr<DisplayFrame> frame, bool wait);
  // Until the last frame submitted is on screen. Interrupted by interrupt().
  Result<Submitted> drain();
  // While set, nothing waits: submit(…, true) and drain() return Interrupted.
  void interrupt(bool on);
  // Ends the thread. The frames on screen and in flight stay held.
  void stop();

  Counters counters() const;

private:
  using Clock = std::chrono::steady_clock; // CLOCK_MONOTONIC, as the kernel's flip times
  void run();
  void commitPending(std::unique_lock<std::mutex> &lock);
  void finishFlip(std::unique_lock<std::mutex> &lock);
  void fail(std::unique_lock<std::mutex> &lock, Error error);
  void wake();

  const std::unique_ptr<CommitPort> port_;
  const Limits limits_;
  const Events events_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<DisplayFrame> shown_, in_flight_, pending_;
  bool committing_ = false; // pending_ is in the hands of the thread
  UniqueFd flip_;
  Clock::time_point committed_at_, flip_deadline_, retry_at_;
  std::optional<Clock::time_point> busy_since_;
  std::optional<Error> failed_;
  bool stopping_ = false, interrupted_ = false;
  Counters counters_;
  UniqueFd wake_;
  std::thread thread_;
};

} // namespace gstzc
