// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/stream_gate.h"

#include <cerrno>
#include <memory>
#include <mutex>
#include <thread>

#include "ext/cuda/sync/behind.h"
#include "ext/cuda/sync/hold_book.h"
#include "ext/cuda/sync/pinned_words.h"
#include "ext/cuda/sync/wait_points.h"

namespace gstzc::cuda {
namespace {

// How long the device may take to notice that a word has passed everything: far more than it needs. A machine that has
// other things to do may take longer, but nobody is to wait for that.
constexpr std::chrono::milliseconds kLongestDrain{100}, kLongestBehind{10000};

// What the device looks at.
struct Waiting {
  ContextPtr context;
  Stream stream;
  Event event;
  PinnedWord word;

  // All waits have passed: does the device know? What it says last, which is an error where it is lost.
  CUresult drained(std::chrono::milliseconds patience) const {
    const auto end = StreamGate::Clock::now() + patience;
    CUresult said = CUDA_ERROR_UNKNOWN;
    do {
      {
        ContextScope scope(*context);
        if (scope.status()) said = context->driver.cuStreamQuery(stream.get());
        if (said == CUDA_SUCCESS) break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (StreamGate::Clock::now() < end);
    return said;
  }
};

class WordGate final : public StreamGate {
public:
  WordGate(ContextPtr context, FencePoller &poller, Stream stream, Event event, PinnedWord word, uint32_t first)
      : poller_(poller), waiting_{std::move(context), std::move(stream), std::move(event), std::move(word)},
        book_(std::make_shared<HoldBook>(first, [this](uint32_t ticket) { waiting_.word.store(ticket); })) {}

  ~WordGate() override {
    book_->keepOpen(true);
    book_->waitUntilEmpty();
    if (!waitPoint("word-drained")) return;
    const CUresult said = waiting_.drained(kLongestDrain);
    if (said == CUDA_ERROR_NOT_READY)
      callBehind([left = std::make_shared<Waiting>(std::move(waiting_))] {
        if (left->drained(kLongestBehind) != CUDA_SUCCESS) left->word.abandon();
      });
    else if (said != CUDA_SUCCESS)
      waiting_.word.abandon();
  }

  const char *name() const override { return "stream-wait-value"; }

  // Whether the device can do it.
  Status probe() { return enqueueWait(waiting_.word.load()); }

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
    ContextScope scope(*waiting_.context);
    if (auto current = scope.status(); !current) return current;
    const Driver &driver = waiting_.context->driver;
    return driver.check(
        driver.cuStreamWaitValue32(waiting_.stream.get(), waiting_.word.address(), ticket, CU_STREAM_WAIT_VALUE_GEQ),
        "cuStreamWaitValue32");
  }

  // One event does for all: who waits for it waits for what was recorded last when he asked. It also shows CUDA the
  // order, which it does not see in the word.
  Status enqueue(CUstream work, uint32_t ticket) const {
    if (waitPoint("word-gate-wait"))
      if (auto status = enqueueWait(ticket); !status) return status;
    ContextScope scope(*waiting_.context);
    if (auto current = scope.status(); !current) return current;
    const Driver &driver = waiting_.context->driver;
    if (auto status = driver.check(driver.cuEventRecord(waiting_.event.get(), waiting_.stream.get()), "cuEventRecord");
        !status)
      return status;
    if (!waitPoint("gate-to-work")) return Nothing{};
    return driver.check(driver.cuStreamWaitEvent(work, waiting_.event.get(), 0), "cuStreamWaitEvent");
  }

  FencePoller &poller_;
  Waiting waiting_;
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
