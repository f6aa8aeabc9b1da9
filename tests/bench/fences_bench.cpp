// SPDX-License-Identifier: LGPL-2.1-or-later
// What waiting through FencePoller costs, against the least that waiting in one thread can be: epoll_wait() on the same
// eventfds. Both are measured by turns in one run, with the same signalling thread and as many fences pending. Ends
// with status 1 if a descriptor leaked.
#include <atomic>
#include <cerrno>
#include <memory>
#include <random>
#include <thread>

#include <gst/gst.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "tests/bench/measure.h"
#include "tests/bench/stuck_branch.h"
#include "tests/support/open_fds.h"

namespace gstzc::bench {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kOne = 1;
constexpr uint64_t kPauseNs = 20'000; // between two fences, so that the waiting thread sleeps again
constexpr auto kNever = 600s;

// While it lives, threads that are made run on the `nth` processor that this one may use, and so does this one: the
// threads that are compared wait on the same processor, the one that signals is on another.
class OnProcessor {
public:
  explicit OnProcessor(int nth) {
    sched_getaffinity(0, sizeof before_, &before_);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_) || nth-- > 0) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
  }
  ~OnProcessor() { sched_setaffinity(0, sizeof before_, &before_); }
  OnProcessor(const OnProcessor &) = delete;
  OnProcessor &operator=(const OnProcessor &) = delete;

private:
  cpu_set_t before_;
};
constexpr int kSignals = 0, kWaits = 1;

// A fence, and when its end was seen.
struct Slot {
  UniqueFd fd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<uint64_t> seen_ns = 0;

  void signal() const { [[maybe_unused]] const auto n = write(fd.get(), &kOne, sizeof kOne); }
  void reset() {
    uint64_t count;
    [[maybe_unused]] const auto n = read(fd.get(), &count, sizeof count);
    seen_ns = 0;
  }
};
using Slots = std::vector<std::unique_ptr<Slot>>;

class Waiter {
public:
  virtual ~Waiter() = default;
  virtual void watch(Slot &slot) = 0;
};

class PollerWaiter : public Waiter {
public:
  PollerWaiter() {
    const OnProcessor on(kWaits); // the poller's thread starts with its first wait
    const UniqueFd fd(eventfd(0, EFD_CLOEXEC));
    auto id = poller_.watch({Fence::Kind::Event, UniqueFd::duplicate(fd.get()), {}}, FencePoller::Clock::now() + kNever,
                            [](const FenceResult &) {});
    if (!id || !poller_.cancel(*id)) std::abort();
  }
  void watch(Slot &slot) override {
    auto id =
        poller_.watch({Fence::Kind::Event, UniqueFd::duplicate(slot.fd.get()), {}}, FencePoller::Clock::now() + kNever,
                      [&slot](const FenceResult &) { slot.seen_ns = clockNs(); });
    if (!id) std::abort();
  }

private:
  FencePoller poller_;
};

class BareWaiter : public Waiter {
public:
  BareWaiter() {
    const OnProcessor on(kWaits);
    add(stop_.get(), nullptr);
    thread_ = std::thread([this] { run(); });
  }
  ~BareWaiter() override {
    [[maybe_unused]] const auto n = write(stop_.get(), &kOne, sizeof kOne);
    thread_.join();
  }
  void watch(Slot &slot) override { add(slot.fd.get(), &slot); }

private:
  void add(int fd, Slot *slot) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.ptr = slot;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) std::abort();
  }
  void run() {
    epoll_event events[64];
    for (;;) {
      const int n = epoll_wait(epoll_.get(), events, 64, -1);
      for (int i = 0; i < n; ++i) {
        auto *const slot = static_cast<Slot *>(events[i].data.ptr);
        if (slot == nullptr) return;
        const int fd = slot->fd.get();
        slot->seen_ns = clockNs();
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
      }
    }
  }

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)}, stop_{eventfd(0, EFD_CLOEXEC)};
  std::thread thread_;
};

uint64_t whenSeen(const Slot &slot) {
  for (;;) {
    if (const uint64_t at = slot.seen_ns.load()) return at;
    std::this_thread::yield();
  }
}

void watchAll(Waiter &waiter, Slots &slots) {
  for (auto &slot : slots) {
    slot->reset();
    waiter.watch(*slot);
  }
}

// One by one in any order: ns from just before each signal to the callback.
std::vector<double> latencies(Waiter &waiter, Slots &slots, std::mt19937 &random) {
  std::shuffle(slots.begin(), slots.end(), random);
  watchAll(waiter, slots);
  std::vector<double> result;
  for (auto &slot : slots) {
    for (const uint64_t from = clockNs(); clockNs() - from < kPauseNs;) {
    }
    const uint64_t at = clockNs();
    slot->signal();
    result.push_back(static_cast<double>(whenSeen(*slot) - at));
  }
  return result;
}

// All at once: ns a fence, from the first signal to the last callback.
double burst(Waiter &waiter, Slots &slots) {
  watchAll(waiter, slots);
  const uint64_t from = clockNs();
  for (auto &slot : slots) slot->signal();
  uint64_t last = 0;
  for (auto &slot : slots) last = std::max(last, whenSeen(*slot));
  return static_cast<double>(last - from) / static_cast<double>(slots.size());
}

struct Samples {
  std::vector<double> all;
  std::vector<std::vector<double>> parts; // of one tenth of the run each

  void add(const std::vector<double> &more, size_t part) {
    all.insert(all.end(), more.begin(), more.end());
    if (parts.size() <= part) parts.resize(part + 1);
    parts[part].insert(parts[part].end(), more.begin(), more.end());
  }
};

// How far the ratios of the parts are apart: the middle half of them.
double spreadOf(const Samples &a, const Samples &b, double share) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.parts.size(), b.parts.size()); ++i)
    ratios.push_back(quantile(a.parts[i], share) / quantile(b.parts[i], share));
  return quantile(ratios, 0.75) - quantile(ratios, 0.25);
}

void compare(const std::string &name, const Samples &samples, const Samples &base, double share, const char *against,
             double limit = 0) {
  const double value = quantile(samples.all, share);
  report({name, value / 1000, "us", value / quantile(base.all, share), against, spreadOf(samples, base, share), limit});
}

constexpr const char *kBare = "a bare epoll_wait() loop on the same eventfds";

// `fences` of each kind, `pending` at a time.
void measureLatency(size_t fences, size_t pending) {
  Slots slots;
  for (size_t i = 0; i < pending; ++i) slots.push_back(std::make_unique<Slot>());
  std::mt19937 random(1);
  Samples poller, bare, again;
  const size_t blocks = std::max<size_t>(fences / pending, 10);
  {
    PollerWaiter p;
    BareWaiter b;
    const OnProcessor on(kSignals);
    latencies(p, slots, random); // threads start
    latencies(b, slots, random);
    for (size_t i = 0; i < blocks; ++i) {
      const size_t part = i * 10 / blocks;
      const bool first = i % 2 == 0;
      if (first) poller.add(latencies(p, slots, random), part);
      bare.add(latencies(b, slots, random), part);
      if (!first) poller.add(latencies(p, slots, random), part);
      again.add(latencies(b, slots, random), part);
    }
  }
  const std::string suffix = ", " + std::to_string(pending) + " pending";
  compare("signal to callback p50" + suffix, poller, bare, 0.50, kBare);
  compare("signal to callback p99" + suffix, poller, bare, 0.99, kBare, 2.0);
  compare("bare loop p99" + suffix, again, bare, 0.99, "itself: how far the ratio is from 1 by chance");
}

void measureBursts(size_t rounds, size_t pending) {
  Slots slots;
  for (size_t i = 0; i < pending; ++i) slots.push_back(std::make_unique<Slot>());
  Samples poller, bare;
  {
    PollerWaiter p;
    BareWaiter b;
    const OnProcessor on(kSignals);
    for (size_t i = 0; i < rounds; ++i) {
      const size_t part = i * 10 / rounds;
      if (i % 2 == 0) poller.add({burst(p, slots)}, part);
      bare.add({burst(b, slots)}, part);
      if (i % 2 != 0) poller.add({burst(p, slots)}, part);
    }
  }
  const double ns = median(poller.all);
  report({"burst of " + std::to_string(pending) + ", time a fence", ns / 1000, "us", ns / median(bare.all), kBare,
          spreadOf(poller, bare, 0.5)});
}

// CPU time of the process while 1000 fences are pending and none signals, against the same without any.
void measureIdle() {
  const auto used = [] {
    const uint64_t from = clockNs(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(2s);
    return static_cast<double>(clockNs(CLOCK_PROCESS_CPUTIME_ID) - from) / 1000;
  };
  Slots slots;
  for (size_t i = 0; i < 1000; ++i) slots.push_back(std::make_unique<Slot>());
  std::vector<double> with, without;
  for (int i = 0; i < 3; ++i) {
    without.push_back(used());
    PollerWaiter poller;
    watchAll(poller, slots);
    std::this_thread::sleep_for(50ms); // the thread has come to rest
    with.push_back(used());
  }
  std::vector<double> ratios;
  for (size_t i = 0; i < with.size(); ++i) ratios.push_back(with[i] / without[i]);
  report({"CPU in 2 s, 1000 pending", median(with), "us", median(with) / median(without),
          "the process without a fence, asleep", quantile(ratios, 1) - quantile(ratios, 0)});
}

} // namespace
} // namespace gstzc::bench

// bench-fences [latency|bursts|idle|stuck]: all of them, or one.
int main(int argc, char **argv) {
  using namespace gstzc::bench;
  gst_init(&argc, &argv);
  const std::string only = argc > 1 ? argv[1] : "";
  const auto wanted = [&](const char *part) { return only.empty() || only == part; };
  const size_t before = gstzc::test::openFds();
  if (wanted("latency")) {
    measureLatency(100'000, 64);
    measureLatency(100'000, 1000);
  }
  if (wanted("bursts")) measureBursts(200, 1000);
  if (wanted("idle")) measureIdle();
  const size_t after = gstzc::test::openFds();
  if (after != before) {
    std::fprintf(stderr, "%zu descriptors before, %zu after\n", before, after);
    return 1;
  }
  return !wanted("stuck") || measureStuckBranch() ? 0 : 1;
}
