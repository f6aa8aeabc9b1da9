// SPDX-License-Identifier: LGPL-2.1-or-later
// A commit of a CRTC's queue: what goes into it, and what the kernel says to it.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gst/drm/commit_merge.h"
#include "gst/drm/crtc_queue.h"
#include "gst/drm/flip_statistics.h"

namespace gstzc {

// What the plane of the frame itself waits for; -1: whatever its memory has pending.
int CrtcQueue::inFence(const WaitingFrame &waiting) const {
  const DisplayFrame &frame = *waiting.frame;
  if (refuses_fences_ || frame.farewell || frame.state.planes.empty() ||
      !port_->takesInFence(frame.state.planes[0].plane))
    return -1;
  return frame.in_fence.isValid() && !waiting.bad ? frame.in_fence.get() : port_->signalledFence();
}

// The next frame of each sink that has one.
void CrtcQueue::take() {
  for (Lane *lane : lanes_) {
    if (!isNext(*lane) || (apart_ && !taken_.empty())) continue;
    taken_.push_back({lane, lane->waiting.takeNext()});
    ++lane->in_hand;
    lane->flushed = false;
    ScreenState &state = taken_.back().waiting.frame->state;
    if (restore_due_ && lane->whole) inheritState(state, *lane->whole);
    if (!state.planes.empty()) state.planes[0].in_fence = inFence(taken_.back().waiting);
  }
}

const ScreenState &CrtcQueue::stateOfTaken() {
  if (lanes_.size() == 1) return taken_[0].waiting.frame->state;
  next_.clear();
  rest_.clear();
  for (const Taken &t : taken_) next_.push_back(&t.waiting.frame->state);
  for (const Lane *lane : lanes_) {
    if (std::any_of(taken_.begin(), taken_.end(), [&](const Taken &t) { return t.lane == lane; })) continue;
    if (lane->shown) rest_.push_back(&lane->shown->state);
    if (restore_due_ && lane->shown && lane->whole) rest_.push_back(&*lane->whole);
  }
  mergeStates(merged_, next_, rest_, restore_due_);
  return merged_;
}

void CrtcQueue::commit(Lock &lock) {
  if (restore_due_) port_->forget();
  take();
  const ScreenState &state = stateOfTaken();
  ++hands_;
  flipped_ = false; // of nothing that is in flight
  lock.unlock();

  const bool fenced =
      std::any_of(state.planes.begin(), state.planes.end(), [](const PlaneUse &use) { return use.in_fence >= 0; });
  // without a fence of ours the kernel would wait for one that may never come
  const auto waits_forever = [this](bool with) {
    return std::any_of(taken_.begin(), taken_.end(), [&](const Taken &t) {
      const auto &planes = t.waiting.frame->state.planes;
      return t.waiting.pending && (!with || planes.empty() || planes[0].in_fence < 0);
    });
  };
  UniqueFd flip;
  const auto at = Clock::now();
  bool hopeless = waits_forever(true);
  int rc = hopeless ? EPERM : port_->commit(state, &flip);
  int refusal = 0;
  if (!hopeless && fenced && (rc == EPERM || rc == EINVAL)) {
    const int with = rc;
    hopeless = waits_forever(false);
    if (!hopeless) {
      for (Taken &t : taken_)
        if (!t.waiting.frame->state.planes.empty()) t.waiting.frame->state.planes[0].in_fence = -1;
      for (PlaneUse &use : merged_.planes) use.in_fence = -1;
      rc = port_->commit(state, &flip);
    }
    if (hopeless || rc == 0) refusal = with;
  }

  const auto news = port_->news();
  lock.lock();
  for (Taken &t : taken_) --t.lane->in_hand;
  if (refusal != 0) {
    refuses_fences_ = true;
    for (Lane *lane : lanes_) lane->counters.in_fence_refused = 1;
  }
  if (rc == 0)
    accepted(std::move(flip), at, fenced && refusal == 0);
  else
    refused(lock, rc, hopeless);
  taken_.clear();
  merged_.clear();
  --hands_;
  if (in_flight_ && isAwaited()) watchFlip(lock);
  tell();
  if (news) note(lock, *news);
  if (refusal != 0)
    note(lock, std::string("the display's driver refuses IN_FENCE_FD (") + strerror(refusal) +
                   "): frames are still waited for before they are committed, but the driver waits for their memory "
                   "too");
}

// The flip of a commit made at `at` is expected at the next vertical blank; what follows has until the one after that.
// Half of that time is left to whoever is slow.
std::optional<CrtcQueue::Clock::time_point> CrtcQueue::timeForNext(Clock::time_point at) const {
  uint64_t refresh = UINT64_MAX;
  bool mode = false; // after which blanks come at other times
  for (const Taken &t : taken_) {
    const DisplayFrame &frame = *t.waiting.frame;
    refresh = std::min(refresh, frame.untimed ? 0 : frame.refresh);
    mode = mode || frame.state.mode;
  }
  const auto now = static_cast<uint64_t>(at.time_since_epoch() / std::chrono::nanoseconds(1));
  if (refresh == 0 || refresh == UINT64_MAX || mode || last_flip_ns_ == 0 || last_flip_ns_ > now) return {};
  return at + std::chrono::nanoseconds(nextBlank(last_flip_ns_, now, refresh) + refresh / 2 - now);
}

void CrtcQueue::accepted(UniqueFd flip, Clock::time_point at, bool fenced) {
  busy_since_.reset();
  restore_due_ = false;
  commit_by_ = timeForNext(at);
  for (Taken &t : taken_) {
    Lane &lane = *t.lane;
    lane.counters.commits += !t.waiting.frame->farewell;
    ScreenState &state = t.waiting.frame->state;
    lane.counters.in_fences += fenced && !state.planes.empty() && state.planes[0].in_fence >= 0;
    if (state.mode) {
      lane.whole = state;
      if (!lane.whole->planes.empty()) lane.whole->planes.erase(lane.whole->planes.begin()); // the frame itself
    }
    lane.in_flight = std::move(t.waiting.frame);
    lane.in_flight->in_fence.reset();
    if (!state.planes.empty()) state.planes[0].in_fence = -1; // it was for this commit
    flight_.push_back(&lane);
  }
  // those that had to wait come first the next time
  if (apart_ && lanes_.size() > 1) std::rotate(lanes_.begin(), lanes_.begin() + 1, lanes_.end());
  in_flight_ = true;
  watched_ = false;
  disturbed_ = std::exchange(first_, false);
  flip_ = std::move(flip);
  committed_at_ = at;
  flip_deadline_ = Clock::now() + limits_.flip;
}

void CrtcQueue::refused(Lock &lock, int rc, bool hopeless) {
  Gone gone;
  gone.swap(spare_);
  bool all_flushed = true;
  const bool several = taken_.size() > 1;
  for (Taken &t : taken_) {
    Lane &lane = *t.lane;
    const bool drop = (hopeless && t.waiting.pending) || lane.flushed || lane.stopped;
    all_flushed = all_flushed && drop;
    lane.waiting.putBack(std::move(t.waiting));
    if (drop)
      lane.waiting.dropNext(gone);
    else
      lane.waiting.dropOvertaken(gone);
  }
  const auto now = Clock::now();
  const auto failTaken = [&](const Error &error) {
    for (size_t i = 0; i < taken_.size(); ++i) fail(lock, *taken_[i].lane, error);
  };
  // Somebody else's commit on this CRTC is under way, e.g. a writeback job of the application that lent us its file:
  // nothing tells us when it ends, so look again soon.
  if (!busy_since_) busy_since_ = now;
  if (hopeless || (rc == EBUSY && all_flushed)) {
    busy_since_.reset();
  } else if (rc == EBUSY && now - *busy_since_ < limits_.busy) {
    for (Taken &t : taken_) ++t.lane->counters.busy_retries;
    retry_at_ = now + limits_.retry;
  } else if (rc == EBUSY) {
    failTaken(Error{"another user of this device kept the output busy for " +
                        std::to_string(limits_.busy.count() / 1000) + " s",
                    rc, "Let commits on a shared descriptor end in time"});
  } else if (rc == EACCES && limits_.regain.count() > 0) {
    busy_since_.reset();
    loseMaster(lock);
  } else if (rc == EACCES || rc == EPERM) {
    failTaken(Error{"commit a frame", rc, "The display was given to another process (a switch of virtual terminals?)"});
  } else if (several) {
    busy_since_.reset();
    apart_ = true; // whose is refused alone is the one that fails
  } else {
    failTaken(Error{"commit a frame", rc, "The display refused a frame it had accepted in a test"});
  }
  if (!gone.empty()) {
    lock.unlock();
    gone.clear();
    lock.lock();
  }
  spare_.swap(gone);
}

} // namespace gstzc
