// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/hold_book.h"

#include <cerrno>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/fence_events.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

std::vector<Fence> one(const EventSource &event) {
  std::vector<Fence> fences;
  fences.push_back(event.fence());
  return fences;
}

class HoldBookTest : public testing::Test {
protected:
  HoldBook::HoldPtr begin(HoldBook &book, const EventSource &event, int name) {
    auto hold = book.begin(one(event), notSoon(), record.as(name), poller);
    EXPECT_TRUE(hold);
    EXPECT_TRUE(*hold) << "it is pending";
    return hold ? hold.take() : nullptr;
  }
  std::shared_ptr<HoldBook> newBook(uint32_t first = 0) {
    return std::make_shared<HoldBook>(first, [this](uint32_t ticket) {
      const std::lock_guard lock(mutex);
      passed.push_back(ticket);
    });
  }
  std::vector<uint32_t> passedUpTo(uint32_t ticket) { // waits for that ticket
    for (int i = 0; i < 30000; ++i) {
      {
        const std::lock_guard lock(mutex);
        if (!passed.empty() && passed.back() == ticket) return passed;
      }
      std::this_thread::sleep_for(1ms);
    }
    ADD_FAILURE() << "ticket " << ticket << " has not passed";
    return passed;
  }

  FencePoller poller;
  Record record;
  std::mutex mutex;
  std::vector<uint32_t> passed;
};

TEST_F(HoldBookTest, NothingIsHeldForFencesThatAreOver) {
  auto book = newBook();
  EventSource over;
  over.signal();
  auto hold = book->begin(one(over), notSoon(), record.as(1), poller);
  ASSERT_TRUE(hold);
  EXPECT_EQ(*hold, nullptr);
  ASSERT_EQ(record.size(), 1u);
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Signalled);
  auto none = book->begin({}, notSoon(), {}, poller);
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  EXPECT_TRUE(passed.empty());
}

TEST_F(HoldBookTest, PassesInTheOrderOfTheTicketsWhateverTheFences) {
  auto book = newBook();
  EventSource a, b, c;
  const auto first = begin(*book, a, 1), second = begin(*book, b, 2), third = begin(*book, c, 3);
  for (const auto &hold : {first, second, third}) book->commit(hold);
  EXPECT_EQ(book->pending(), 3u);
  c.signal();
  ASSERT_TRUE(record.reaches(1));
  b.signal();
  ASSERT_TRUE(record.reaches(2));
  EXPECT_EQ(book->pending(), 1u);
  {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(passed.empty()) << "the first is still held";
  }
  a.signal();
  EXPECT_EQ(passedUpTo(third->ticket), std::vector<uint32_t>{third->ticket}) << "at once, in one step";
  EXPECT_EQ(record.ended()[0].first, 3);
  EXPECT_EQ(record.ended()[1].first, 2);
}

TEST_F(HoldBookTest, TicketsWrapAround) {
  auto book = newBook(0xfffffffe);
  EventSource a, b, c;
  const auto first = begin(*book, a, 1), second = begin(*book, b, 2), third = begin(*book, c, 3);
  EXPECT_EQ(first->ticket, 0xffffffffu);
  EXPECT_EQ(second->ticket, 0u);
  EXPECT_EQ(third->ticket, 1u);
  for (const auto &hold : {first, second, third}) book->commit(hold);
  a.signal();
  EXPECT_EQ(passedUpTo(0xffffffff), std::vector<uint32_t>{0xffffffff});
  c.signal();
  b.signal();
  EXPECT_EQ(passedUpTo(1).back(), 1u);
}

TEST_F(HoldBookTest, NobodyIsToldAndNothingPassesBeforeItIsEnqueued) {
  auto book = newBook();
  EventSource a;
  const auto hold = begin(*book, a, 1);
  a.signal();
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(record.size(), 0u);
  book->open();
  EXPECT_EQ(record.size(), 0u);
  book->commit(hold);
  ASSERT_EQ(record.size(), 1u);
  EXPECT_EQ(record.ended()[0].second.outcome, FenceOutcome::Signalled) << "not Cancelled: it was over";
  EXPECT_EQ(passedUpTo(hold->ticket).size(), 1u);
}

TEST_F(HoldBookTest, ADroppedHoldPassesWithoutAWord) {
  auto book = newBook();
  EventSource a, b;
  const auto first = begin(*book, a, 1), second = begin(*book, b, 2);
  book->commit(first);
  book->drop(second);
  EXPECT_EQ(poller.counters().pending, 1u) << "its fences are not watched any more";
  b.signal();
  a.signal();
  EXPECT_EQ(passedUpTo(second->ticket).back(), second->ticket);
  EXPECT_EQ(record.size(), 1u);
  EXPECT_EQ(record.ended()[0].first, 1);
}

TEST_F(HoldBookTest, IsToldBeforeItPasses) {
  auto book = newBook();
  EventSource a;
  std::atomic<bool> early = false, told = false;
  auto hold = book->begin(
      one(a), notSoon(),
      [&](const FenceResult &) {
        std::this_thread::sleep_for(20ms);
        const std::lock_guard lock(mutex);
        early = !passed.empty();
        told = true;
      },
      poller);
  ASSERT_TRUE(hold && *hold);
  book->commit(*hold);
  a.signal();
  passedUpTo((*hold)->ticket);
  EXPECT_TRUE(told);
  EXPECT_FALSE(early);
}

TEST_F(HoldBookTest, OpenPassesWhatWaitsNow) {
  auto book = newBook();
  EventSource a, b, c;
  const auto first = begin(*book, a, 1), second = begin(*book, b, 2);
  book->commit(first);
  book->commit(second);
  book->open();
  EXPECT_EQ(passedUpTo(second->ticket).back(), second->ticket);
  ASSERT_EQ(record.size(), 2u);
  for (const auto &[name, result] : record.ended()) {
    EXPECT_EQ(result.outcome, FenceOutcome::Cancelled) << name;
    EXPECT_EQ(result.error, ECANCELED) << name;
  }
  EXPECT_EQ(poller.counters().pending, 0u);
  const auto third = begin(*book, c, 3);
  book->commit(third);
  EXPECT_EQ(book->pending(), 1u) << "what comes later waits";
  c.signal();
  passedUpTo(third->ticket);
  ASSERT_TRUE(record.reaches(3));
  EXPECT_EQ(record.ended()[2].second.outcome, FenceOutcome::Signalled);
}

TEST_F(HoldBookTest, KeptOpenItHoldsNothing) {
  auto book = newBook();
  EventSource a, b, over;
  over.signal();
  const auto first = begin(*book, a, 1);
  book->commit(first);
  book->keepOpen(true);
  passedUpTo(first->ticket);
  auto second = book->begin(one(b), notSoon(), record.as(2), poller);
  ASSERT_TRUE(second);
  EXPECT_EQ(*second, nullptr);
  auto third = book->begin(one(over), notSoon(), record.as(3), poller);
  ASSERT_EQ(record.size(), 3u);
  EXPECT_EQ(record.ended()[1].second.outcome, FenceOutcome::Cancelled);
  EXPECT_EQ(record.ended()[2].second.outcome, FenceOutcome::Signalled) << "what is over is no loss";
  book->keepOpen(false);
  const auto fourth = begin(*book, b, 4);
  book->drop(fourth);
}

TEST_F(HoldBookTest, OpenAndSignalsAtTheSameTimeTellOnce) {
  for (int i = 0; i < 200; ++i) {
    auto book = newBook(static_cast<uint32_t>(i) * 2);
    EventSource a, b;
    Record told;
    auto x = book->begin(one(a), notSoon(), told.as(1), poller), y = book->begin(one(b), notSoon(), told.as(2), poller);
    ASSERT_TRUE(x && *x && y && *y);
    book->commit(*x);
    std::thread opener([&] { book->open(); });
    b.signal();
    a.signal();
    book->commit(*y);
    opener.join();
    book->open();
    book->waitUntilEmpty();
    ASSERT_EQ(told.size(), 2u) << i;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(passed.back(), (*y)->ticket);
  }
}

} // namespace
