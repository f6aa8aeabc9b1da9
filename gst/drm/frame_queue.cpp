// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/frame_queue.h"

#include <algorithm>

namespace gstzc {

using namespace std::chrono_literals;

WaitingFrame WaitingFrame::of(std::shared_ptr<DisplayFrame> frame, bool newest_wins, std::function<void()> ended) {
  WaitingFrame waiting;
  waiting.since = Clock::now();
  waiting.deadline = waiting.since + frame->fence_timeout;
  waiting.newest_wins = newest_wins;
  if (!frame->fence_error && !frame->fences.empty()) {
    auto fences = FenceWait::start(std::move(frame->fences), waiting.deadline, std::move(ended));
    frame->fences.clear();
    if (fences)
      waiting.fences = fences.take();
    else
      frame->fence_error = fences.error();
  }
  waiting.waited = waiting.fences && !waiting.fences->result();
  waiting.frame = std::move(frame);
  return waiting;
}

bool WaitingFrame::ready() const {
  if (frame->fence_error) return false;
  if (!fences) return true;
  const auto result = fences->result();
  return result && result->outcome == FenceOutcome::Signalled;
}

FrameQueue::Clock::time_point FrameQueue::lastDeadline() const {
  auto last = Clock::now();
  for (const WaitingFrame &waiting : frames_)
    if (!waiting.settled()) last = std::max(last, waiting.deadline);
  return last;
}

void FrameQueue::add(WaitingFrame waiting) {
  if (owed_) {
    inheritState(waiting.frame->state, *owed_);
    owed_.reset();
  }
  counters_.fence_waits += waiting.waited;
  frames_.push_back(std::move(waiting));
}

void FrameQueue::makeRoom(Gone &gone) {
  dropOvertaken(gone);
  const size_t most = std::max<size_t>(limit_, 1);
  // never the first one: its fence is the next to signal
  while (frames_.size() > most) drop(frames_.size() > 2 ? frames_.size() - 2 : 1, gone);
}

WaitingFrame FrameQueue::takeNext() {
  WaitingFrame next = std::move(frames_.front());
  frames_.erase(frames_.begin());
  return next;
}

void FrameQueue::drop(size_t index, Gone &gone) {
  WaitingFrame waiting = std::move(frames_[index]);
  frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(index));
  ++counters_.dropped;
  ScreenState &state = waiting.frame->state;
  if (index < frames_.size()) {
    inheritState(frames_[index].frame->state, state);
  } else {
    if (owed_) inheritState(state, *owed_);
    owed_ = state;
    if (!owed_->planes.empty()) owed_->planes.erase(owed_->planes.begin()); // the frame itself
  }
  gone.push_back(std::move(waiting));
}

void FrameQueue::dropAll(Gone &gone) {
  while (!frames_.empty()) drop(0, gone);
}

void FrameQueue::dropAllButLast(Gone &gone) {
  while (frames_.size() > 1) drop(0, gone);
}

void FrameQueue::dropOvertaken(Gone &gone) {
  for (size_t i = frames_.size(); i-- > 1;)
    if (frames_[i].newest_wins && frames_[i].ready()) {
      while (i-- > 0) drop(0, gone);
      return;
    }
}

FenceVerdict FrameQueue::judge(WaitingFrame &waiting, const Result<FenceResult> &result,
                               const std::function<bool(const ScreenState &)> &overrules) {
  DisplayFrame &frame = *waiting.frame;
  const bool timed_out = result && result->outcome == FenceOutcome::TimedOut;
  FenceVerdict verdict = result ? judgeFence(*result, frame.on_fence_error, frame.fence_timeout)
                                : judgeFence(result.error(), frame.on_fence_error);
  const bool pending = timed_out || !result; // for all that is known
  if (verdict.fate == FrameFate::Pass && pending && !overrules(frame.state))
    verdict = {FrameFate::Drop,
               {verdict.error.what, verdict.error.code,
                "It is dropped: this display would wait for its fences, as it takes no IN_FENCE_FD"}};
  waiting.bad = verdict.fate != FrameFate::Use;
  waiting.pending = pending;
  if (timed_out)
    ++counters_.fence_timeouts;
  else if (waiting.bad)
    ++counters_.fence_errors;
  const auto since = static_cast<uint64_t>(waiting.since.time_since_epoch() / 1ns);
  if (waiting.waited && result && result->time_ns > since) counters_.fence_wait_ns += result->time_ns - since;
  return verdict;
}

std::optional<Error> FrameQueue::settle(Ended &ended, const std::function<bool(const ScreenState &)> &overrules) {
  std::optional<Error> error;
  for (size_t i = 0; i < frames_.size() && !error;) {
    WaitingFrame &waiting = frames_[i];
    std::optional<Result<FenceResult>> result;
    if (waiting.frame->fence_error)
      result = *waiting.frame->fence_error;
    else if (waiting.fences)
      if (const auto over = waiting.fences->result()) result = *over;
    if (!result) {
      ++i;
      continue;
    }
    const FenceVerdict verdict = judge(waiting, *result, overrules);
    ended.fences.push_back(std::move(waiting.fences));
    waiting.frame->fence_error.reset();
    if (verdict.fate == FrameFate::Fail) error = verdict.error;
    if (verdict.fate != FrameFate::Use) ended.bad.emplace_back(waiting.frame, verdict);
    if (verdict.fate == FrameFate::Drop || verdict.fate == FrameFate::Fail)
      drop(i, ended.frames);
    else
      ++i;
  }
  dropOvertaken(ended.frames);
  return error;
}

} // namespace gstzc
