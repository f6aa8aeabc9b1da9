// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/stream_gate.h"

#include <cerrno>
#include <mutex>
#include <thread>

#include "ext/cuda/sync/hold_book.h"
#include "ext/cuda/sync/pinned_words.h"
#include "ext/cuda/sync/wait_points.h"

namespace gstzc::cuda {
namespace {

// How long the device may take to notice that a word has passed everything: far more than it needs.
constexpr std::chrono::milliseconds kLongestDrain{100};

class WordGate final : public StreamGate {
public:
  WordGate(ContextPtr context, FencePoller &poller, Stream waiting, Event event, PinnedWord word, uint32_t first)
      : context_(std::move(context)), poller_(poller), waiting_(std::move(waiting)), event_(std::move(event)),
        word_(std::move(word)),
        book_(std::make_shared<HoldBook>(first, [this](uint32_t ticket) { word_.store(ticket); })) {}

  ~WordGate() override {
    book_->keepOpen(true);
    book_->waitUntilEmpty();
    if (waitPoint("word-drained") && !drained()) word_.abandon();
  }

  const char *name() const override { return "stream-wait-value"; }

  // Whether the device can do it.
  Status probe() { return enqueueWait(word_.load()); }

  Status hold(CUstream work, std::vector<Fence> fences, Clock::time_point deadline, Ended ended) override {
    const std::lock_guard serial(serial_); // tickets are enqueued in their order
    auto begun = book_->begin(std::move(fences), deadline, std::move(ended), poller_);
    if (!begun) return begun.error();
    const HoldBook::HoldPtr hold = begun.take();
    if (!hold) return Nothing{};
    auto status = enqueue(work, hold->ticket);
    if (status)
      book_->commit(hold);
    else
      book_->drop(hold);
    return status;
  }

  void open() override { book_->open(); }
  void keepOpen(bool on) override { book_->keepOpen(on); }
  size_t pending() const override { return book_->pending(); }

private:
  Status enqueueWait(uint32_t ticket) const {
    ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return current;
    const Driver &driver = context_->driver;
    return driver.check(driver.cuStreamWaitValue32(waiting_.get(), word_.address(), ticket, CU_STREAM_WAIT_VALUE_GEQ),
                        "cuStreamWaitValue32");
  }

  // One event does for all: who waits for it waits for what was recorded last when he asked. It also shows CUDA the
  // order, which it does not see in the word.
  Status enqueue(CUstream work, uint32_t ticket) const {
    if (waitPoint("word-gate-wait"))
      if (auto status = enqueueWait(ticket); !status) return status;
    ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return current;
    const Driver &driver = context_->driver;
    if (auto status = driver.check(driver.cuEventRecord(event_.get(), waiting_.get()), "cuEventRecord"); !status)
      return status;
    if (!waitPoint("gate-to-work")) return Nothing{};
    return driver.check(driver.cuStreamWaitEvent(work, event_.get(), 0), "cuStreamWaitEvent");
  }

  // All its waits have passed: does the device know? A lost one never will.
  bool drained() const {
    for (const auto end = Clock::now() + kLongestDrain; Clock::now() < end;) {
      {
        ContextScope scope(*context_);
        if (scope.status() && context_->driver.cuStreamQuery(waiting_.get()) == CUDA_SUCCESS) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  const ContextPtr context_;
  FencePoller &poller_;
  const Stream waiting_;
  const Event event_;
  PinnedWord word_;
  std::mutex serial_;
  const std::shared_ptr<HoldBook> book_;
};

} // namespace

Result<std::unique_ptr<StreamGate>> makeWordGate(ContextPtr context, FencePoller &poller, uint32_t first) {
  const Error unable{"cuStreamWaitValue32 on this device", ENOSYS,
                     "Its stream memory operations are missing: a newer driver may have them"};
  if (context->driver.cuStreamWaitValue32 == nullptr) return unable;
  auto waiting = newStream(context);
  if (!waiting) return waiting.error();
  auto event = newEvent(context);
  if (!event) return event.error();
  auto word = PinnedWord::take(context, first);
  if (!word) return word.error();
  auto gate = std::make_unique<WordGate>(context, poller, waiting.take(), event.take(), word.take(), first);
  if (auto able = gate->probe(); !able) {
    if (able.error().code == ENOSYS) return unable;
    return able.error();
  }
  return std::unique_ptr<StreamGate>(std::move(gate));
}

std::unique_ptr<StreamGate> makeStreamGate(ContextPtr context, FencePoller &poller) {
  auto gate = makeWordGate(std::move(context), poller);
  return gate ? gate.take() : makeHostGate(poller);
}

} // namespace gstzc::cuda
