// SPDX-License-Identifier: LGPL-2.1-or-later
// Four streams, each fed by a thread of its own through one gate, frames whose fences end in any order: no frame is
// read before it is there, and each is released once.
#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ext/cuda/sync/cuda_event.h"
#include "ext/cuda/sync/retire_queue.h"
#include "ext/cuda/sync/stream_gate.h"
#include "tests/support/fence_events.h"
#include "tests/support/scale.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/signal.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

constexpr int kStreams = 4, kSlots = 8;

enum class Kind { Over, Pending, Failed, Never };

// A buffer of a pool: its picture is a number.
struct Slot {
  explicit Slot(const ContextPtr &context) : work(context) {}
  Work work;
  Signal fence;
  uint32_t picture = 0;
  Kind kind = Kind::Over;
};

// Producers of all streams: finishes one of the pictures that are due, whichever.
class Producer {
public:
  Producer() : thread_([this] { run(); }) {}
  ~Producer() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  void add(Slot *slot) {
    const std::lock_guard lock(mutex_);
    due_.push_back(slot);
    changed_.notify_all();
  }

private:
  void run() {
    std::mt19937 random(1);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !due_.empty(); });
      if (due_.empty()) return;
      std::swap(due_[random() % due_.size()], due_.back());
      Slot *slot = due_.back();
      due_.pop_back();
      slot->work.setSource(slot->picture);
      const Signal done = slot->fence; // with it the slot is somebody else's
      done.signal();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot *> due_;
  bool stopping_ = false;
  std::thread thread_;
};

class SyncStress : public DeviceTest {
protected:
  void feed(int seed, int frames);

  FencePoller poller;
  std::unique_ptr<StreamGate> gate;
  std::unique_ptr<RetireQueue> queue;
  std::shared_ptr<cuda::EventSource> events;
  std::unique_ptr<Producer> producer;
  std::atomic<int> told = 0, wrong = 0, released = 0;
};

void SyncStress::feed(int seed, int frames) {
  std::mt19937 random(static_cast<unsigned>(seed));
  const Stream own = need(newStream(context));
  std::vector<std::unique_ptr<Slot>> slots;
  std::mutex mutex;
  std::condition_variable returned;
  std::vector<Slot *> free;
  for (int i = 0; i < kSlots; ++i) {
    slots.push_back(std::make_unique<Slot>(context));
    free.push_back(slots.back().get());
  }
  for (int frame = 1; frame <= frames; ++frame) {
    Slot *slot;
    {
      std::unique_lock lock(mutex);
      ASSERT_TRUE(returned.wait_for(lock, kPatience, [&] { return !free.empty(); })) << "frame " << frame;
      slot = free.back();
      free.pop_back();
    }
    slot->fence = Signal();
    slot->picture = static_cast<uint32_t>(frame);
    const unsigned dice = random() % 50;
    slot->kind = dice == 0 ? Kind::Never : dice < 5 ? Kind::Failed : dice < 15 ? Kind::Over : Kind::Pending;
    if (slot->kind == Kind::Over) {
      slot->work.setSource(slot->picture);
      slot->fence.signal();
    }
    const auto failure = std::make_shared<std::atomic<int>>(0);
    std::vector<Fence> fences;
    fences.push_back(slot->fence.fence(slot->kind == Kind::Failed ? [] { return EIO; } : std::function<int()>()));
    const auto deadline = slot->kind == Kind::Never ? in(1ms) : notSoon();
    ASSERT_TRUE(gate->hold(own.get(), std::move(fences), deadline, [this, failure](const FenceResult &result) {
      *failure = result.error;
      ++told;
    }));
    slot->work.enqueue(own.get());
    auto event = events->record(own.get(), failure);
    ASSERT_TRUE(event);
    queue->retire(own.get(), [&, slot, done = *event] {
      const int expected = slot->kind == Kind::Failed ? -EIO : slot->kind == Kind::Never ? -ETIMEDOUT : 1;
      if (gst_zc_device_event_get_status(done) != expected) ++wrong;
      gst_zc_device_event_unref(done);
      if (slot->kind != Kind::Never && slot->work.result() != slot->picture) ++wrong;
      ++released;
      const std::lock_guard lock(mutex);
      free.push_back(slot);
      returned.notify_all();
    });
    if (slot->kind == Kind::Pending || slot->kind == Kind::Failed) producer->add(slot);
  }
  std::unique_lock lock(mutex);
  ASSERT_TRUE(returned.wait_for(lock, kPatience, [&] { return free.size() == slots.size(); }));
}

TEST_F(SyncStress, FramesInAnyOrderOnFourStreams) {
  const int frames = rounds(2000);
  gate = need(makeWordGate(context, poller, 0xffffffff - static_cast<uint32_t>(frames)));
  queue = need(RetireQueue::create(context));
  events = need(cuda::EventSource::create(context));
  producer = std::make_unique<Producer>();
  std::vector<std::thread> threads;
  for (int i = 0; i < kStreams; ++i) threads.emplace_back([this, i, frames] { feed(i, frames); });
  for (auto &thread : threads) thread.join();
  EXPECT_TRUE(queue->drain(kPatience));
  EXPECT_EQ(released, kStreams * frames);
  EXPECT_EQ(told, kStreams * frames);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(gate->pending(), 0u);
}

TEST_F(SyncStress, OpenedAndEndedWhileFramesWait) {
  queue = need(RetireQueue::create(context));
  for (int round = 0; round < rounds(100); ++round) {
    gate = need(makeWordGate(context, poller));
    std::vector<Signal> fences(6);
    Record ended;
    std::thread opener([&] { gate->open(); });
    std::thread signaller([&] {
      for (const auto &fence : fences) fence.signal();
    });
    for (size_t i = 0; i < fences.size(); ++i) {
      std::vector<Fence> one;
      one.push_back(fences[i].fence());
      ASSERT_TRUE(gate->hold(stream.get(), std::move(one), notSoon(), ended.as(static_cast<int>(i))));
      queue->retire(stream.get(), [this] { ++released; });
    }
    opener.join();
    gate.reset();
    signaller.join();
    EXPECT_EQ(ended.size(), fences.size()) << round;
    ASSERT_TRUE(queue->drain(kPatience)) << round;
  }
  EXPECT_EQ(released, 6 * rounds(100));
}

} // namespace
