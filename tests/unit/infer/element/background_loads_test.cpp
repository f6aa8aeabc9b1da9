// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/background_loads.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include <gtest/gtest.h>

using namespace gstzc::infer;
using namespace std::chrono_literals;

namespace {

// A load that goes on until it is told to end, and some time after that.
std::thread obedient(BackgroundLoads &loads, std::atomic<bool> &ended, const char *says = nullptr) {
  std::promise<void> entered;
  auto begun = entered.get_future();
  std::thread thread([&loads, &ended, says, entered = std::move(entered)]() mutable {
    auto entry = loads.enter();
    entered.set_value();
    while (!entry.cancellation()->cancelled()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
    if (says != nullptr) std::fprintf(stderr, "%s\n", says);
    ended = true;
  });
  begun.wait();
  return thread;
}

TEST(BackgroundLoads, AreToldToEndAndWaitedFor) {
  BackgroundLoads loads;
  EXPECT_TRUE(loads.end(0ms)) << "there are none";
  std::atomic<bool> ended[2] = {};
  std::thread threads[] = {obedient(loads, ended[0]), obedient(loads, ended[1])};
  EXPECT_TRUE(loads.end(30s));
  EXPECT_TRUE(ended[0] && ended[1]);
  for (auto &thread : threads) thread.join();
}

TEST(BackgroundLoads, OfOthersGoOn) {
  BackgroundLoads loads, others;
  std::atomic<bool> ended = false;
  std::thread thread = obedient(others, ended);
  EXPECT_TRUE(loads.end(30s));
  EXPECT_FALSE(ended);
  EXPECT_TRUE(others.end(30s));
  thread.join();
}

TEST(BackgroundLoads, OneThatDoesNotEndIsGivenUp) {
  BackgroundLoads loads;
  BackgroundLoads::Entry entry = loads.enter();
  EXPECT_FALSE(loads.end(1ms));
  EXPECT_TRUE(entry.cancellation()->cancelled());
  entry = {};
  EXPECT_EQ(entry.cancellation(), nullptr);
  EXPECT_TRUE(loads.end(30s));
}

// Else the library's destructors would run under the load's feet.
TEST(BackgroundLoadsDeathTest, LeavingTheProcessWaitsForThem) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static BackgroundLoads loads;
        static std::atomic<bool> ended = false;
        obedient(loads, ended, "the load has ended").detach();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "the load has ended");
}

} // namespace
