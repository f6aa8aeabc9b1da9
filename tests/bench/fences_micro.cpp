// SPDX-License-Identifier: LGPL-2.1-or-later
// What the calls around a wait cost, each with the bare system calls that it cannot do without (…/bare): Google
// Benchmark, whose repetitions scripts/bench interleaves.
#include <benchmark/benchmark.h>

#include <gst/allocators/allocators.h>
#include <gst/gst.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc {
namespace {

using namespace std::chrono_literals;

UniqueFd newEvent(unsigned value = 0) { return UniqueFd(eventfd(value, EFD_CLOEXEC | EFD_NONBLOCK)); }

Fence fenceOn(const UniqueFd &fd) { return {Fence::Kind::Event, UniqueFd::duplicate(fd.get()), {}}; }

// A frame of one dma-buf that nobody writes into. A readable eventfd stands in for the dma-buf, which polls as readable
// too.
void frameWithoutPendingFences(benchmark::State &state) {
  GstAllocator *allocator = gst_dmabuf_allocator_new();
  GstBuffer *buffer = gst_buffer_new();
  gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, newEvent(1).release(), 4096));
  for (auto _ : state) {
    auto fences = frameFences(buffer, Access::Read);
    if (!fences || !fences->none()) state.SkipWithError("the frame has fences");
  }
  gst_buffer_unref(buffer);
  gst_object_unref(allocator);
}
BENCHMARK(frameWithoutPendingFences);

void frameWithoutPendingFencesBare(benchmark::State &state) { // one poll()
  const UniqueFd fd = newEvent(1);
  for (auto _ : state) {
    pollfd request = {fd.get(), POLLIN, 0};
    benchmark::DoNotOptimize(poll(&request, 1, 0));
  }
}
BENCHMARK(frameWithoutPendingFencesBare)->Name("frameWithoutPendingFences/bare");

// A wait that is given up, among 1000 others.
void watchAndCancel(benchmark::State &state) {
  FencePoller poller;
  std::vector<UniqueFd> others;
  const auto deadline = FencePoller::Clock::now() + 600s;
  for (int i = 0; i < 1000; ++i) {
    others.push_back(newEvent());
    if (!poller.watch(fenceOn(others.back()), deadline, [](const FenceResult &) {})) std::abort();
  }
  const UniqueFd fd = newEvent();
  for (auto _ : state) {
    auto id = poller.watch(fenceOn(fd), deadline, [](const FenceResult &) {});
    if (!id || !poller.cancel(*id)) state.SkipWithError("not cancelled");
  }
}
BENCHMARK(watchAndCancel);

void watchAndCancelBare(benchmark::State &state) { // a descriptor of its own, added and removed
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC)), fd = newEvent();
  for (auto _ : state) {
    const UniqueFd own = UniqueFd::duplicate(fd.get());
    epoll_event event = {};
    event.events = EPOLLIN;
    epoll_ctl(epoll.get(), EPOLL_CTL_ADD, own.get(), &event);
    epoll_ctl(epoll.get(), EPOLL_CTL_DEL, own.get(), nullptr);
  }
}
BENCHMARK(watchAndCancelBare)->Name("watchAndCancel/bare");

// The usual case of a fast producer: it is done before anybody asks.
void waitForWhatIsOver(benchmark::State &state) {
  const UniqueFd fd = newEvent(1);
  for (auto _ : state) {
    std::vector<Fence> fences;
    fences.push_back(fenceOn(fd));
    auto wait = FenceWait::start(std::move(fences), FencePoller::Clock::now() + 1s, {});
    if (!wait || !(*wait)->result()) state.SkipWithError("not over");
  }
}
BENCHMARK(waitForWhatIsOver);

void waitForWhatIsOverBare(benchmark::State &state) { // a descriptor of its own, one poll()
  const UniqueFd fd = newEvent(1);
  for (auto _ : state) {
    const UniqueFd own = UniqueFd::duplicate(fd.get());
    pollfd request = {own.get(), POLLIN, 0};
    benchmark::DoNotOptimize(poll(&request, 1, 0));
  }
}
BENCHMARK(waitForWhatIsOverBare)->Name("waitForWhatIsOver/bare");

// Start a wait for two fences, and end it before they signal.
void waitForTwoGivenUp(benchmark::State &state) {
  const UniqueFd a = newEvent(), b = newEvent();
  for (auto _ : state) {
    std::vector<Fence> fences;
    fences.push_back(fenceOn(a));
    fences.push_back(fenceOn(b));
    auto wait = FenceWait::start(std::move(fences), FencePoller::Clock::now() + 600s, {});
    if (!wait || (*wait)->result()) state.SkipWithError("not pending");
  }
}
BENCHMARK(waitForTwoGivenUp);

void waitForTwoGivenUpBare(benchmark::State &state) { // for each: looked at, added and removed
  const UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC)), fds[2] = {newEvent(), newEvent()};
  for (auto _ : state) {
    UniqueFd own[2];
    for (int i = 0; i < 2; ++i) {
      own[i] = UniqueFd::duplicate(fds[i].get());
      pollfd request = {own[i].get(), POLLIN, 0};
      benchmark::DoNotOptimize(poll(&request, 1, 0));
      epoll_event event = {};
      event.events = EPOLLIN;
      epoll_ctl(epoll.get(), EPOLL_CTL_ADD, own[i].get(), &event);
    }
    for (const UniqueFd &fd : own) epoll_ctl(epoll.get(), EPOLL_CTL_DEL, fd.get(), nullptr);
  }
}
BENCHMARK(waitForTwoGivenUpBare)->Name("waitForTwoGivenUp/bare");

} // namespace
} // namespace gstzc

int main(int argc, char **argv) {
  gst_init(&argc, &argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
