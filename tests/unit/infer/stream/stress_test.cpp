// SPDX-License-Identifier: LGPL-2.1-or-later
// Queue and runner with all their threads at once, in random order. What has to hold whatever the order: each work
// leaves once, frames in their order, each picture is finished once, and everything ends.
#include <array>
#include <atomic>
#include <future>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "gst/infer/stream/frame_queue.h"
#include "gst/infer/stream/runner.h"
#include "tests/support/scale.h"
#include "tests/unit/infer/stream/queue_helpers.h"
#include "tests/unit/infer/stream/runner_helpers.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

class RandomWork;

// Threads that do the works in random order.
class Workers {
public:
  Workers(FrameQueue &queue, int threads) : queue_(queue) {
    for (int i = 0; i < threads; ++i) threads_.push_back(std::async(std::launch::async, [this, i] { work(i); }));
  }
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    for (auto &thread : threads_) thread.get();
  }
  void add(std::shared_ptr<RandomWork> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    changed_.notify_one();
  }

private:
  void work(int seed);
  FrameQueue &queue_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<RandomWork>> waiting_;
  std::vector<std::future<void>> threads_;
  bool over_ = false;
};

class RandomWork : public FrameQueue::Work, public std::enable_shared_from_this<RandomWork> {
public:
  explicit RandomWork(Workers &workers) : workers_(workers) {}
  void start(const FrameQueue::FenceEnd &end) override {
    EXPECT_EQ(left, 0) << "started after it left";
    EXPECT_TRUE(!end.result || end.result->outcome != FenceOutcome::Cancelled);
    EXPECT_FALSE(inside_.exchange(true));
    inside_ = false; // before another thread may cause the next start
    workers_.add(shared_from_this());
  }
  bool giveUp() override {
    State idle = State::Idle;
    return state.compare_exchange_strong(idle, State::GivenUp);
  }
  void abandoned() override { EXPECT_EQ(++left, 1); }

  enum class State { Idle, Working, GivenUp };
  std::atomic<State> state = State::Idle;
  std::atomic<int> left = 0; // popped or abandoned
  int rounds_left = 2;       // the worker's

private:
  Workers &workers_;
  std::atomic<bool> inside_ = false;
};

void Workers::work(int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  Producer producer;
  while (true) {
    std::shared_ptr<RandomWork> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
      if (over_) return;
      std::swap(waiting_[random() % waiting_.size()], waiting_.back());
      work = std::move(waiting_.back());
      waiting_.pop_back();
    }
    auto idle = RandomWork::State::Idle;
    if (!work->state.compare_exchange_strong(idle, RandomWork::State::Working) && idle == RandomWork::State::GivenUp)
      continue;
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    if (work->rounds_left > 0 && random() % 4 == 0) {
      --work->rounds_left;
      producer = {};
      if (random() % 2 == 0) producer.finish();
      queue_.waitAgain(work.get(), producer.fences(), std::chrono::milliseconds(random() % 3));
      producer.finish();
    } else {
      queue_.done(work.get());
    }
  }
}

TEST(InferStress, FramesAreDoneAndFlushedInAnyOrder) {
  FrameQueue queue;
  queue.setCapacity(5);
  queue.start();
  Workers workers(queue, 3);
  std::atomic<bool> over = false;
  std::atomic<int> popped = 0;
  std::vector<std::shared_ptr<RandomWork>> works; // the pushing thread's, until that has ended
  auto pushing = std::async(std::launch::async, [&] {
    std::mt19937 random(1);
    std::array<Producer, 4> producers;
    for (guint64 n = 0; !over; ++n) {
      Producer &producer = producers[n % producers.size()];
      producer.finish();
      producer = {};
      if (n % 2 == 0) producer.finish();
      GstFlowReturn flow = GST_FLOW_OK;
      switch (random() % 8) {
      case 0: flow = queue.pushBuffer(numbered(n)); break;
      case 1: {
        GstCaps *caps = gst_caps_new_empty_simple("video/x-raw");
        flow = queue.pushEvent(gst_event_new_caps(caps));
        gst_caps_unref(caps);
        break;
      }
      case 2: {
        GstSegment segment;
        gst_segment_init(&segment, GST_FORMAT_TIME);
        flow = queue.pushEvent(gst_event_new_segment(&segment));
        break;
      }
      case 3: {
        GstQuery *query = gst_query_new_drain();
        queue.pushQuery(query);
        gst_query_unref(query);
        break;
      }
      default:
        works.push_back(std::make_shared<RandomWork>(workers));
        flow = queue.pushBuffer(numbered(n), works.back(), random() % 3 == 0 ? FrameFences{} : producer.fences(), 2ms);
      }
      if (flow != GST_FLOW_OK) std::this_thread::sleep_for(50us);
    }
  });
  auto popping = std::async(std::launch::async, [&] {
    guint64 last = 0;
    while (!over) {
      auto item = queue.pop();
      if (!item) {
        std::this_thread::sleep_for(50us);
        continue;
      }
      if (GST_IS_QUERY(item->object)) {
        queue.answered(true);
        continue;
      }
      if (GST_IS_BUFFER(item->object)) {
        const guint64 n = GST_BUFFER_OFFSET(item->object);
        EXPECT_GE(n, last) << "overtook";
        last = n;
        const int before = item->work ? static_cast<RandomWork &>(*item->work).left++ : 0;
        EXPECT_EQ(before, 0) << "it left twice";
        queue.finishedBuffer();
        ++popped;
      }
      gst_mini_object_unref(item->object);
    }
  });
  std::mt19937 random(2);
  for (int i = 0; i < rounds(2000); ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    switch (random() % 6) {
    case 0: queue.endSegment(); break;
    case 1: queue.setWhenFull(FrameQueue::WhenFull::DropOldest); break;
    case 2: queue.setWhenFull(FrameQueue::WhenFull::DropNewest); break;
    case 3: queue.setWhenFull(FrameQueue::WhenFull::Block); break;
    case 4:
      queue.setFlow(random() % 2 == 0 ? GST_FLOW_NOT_LINKED : GST_FLOW_ERROR);
      if (queue.restart()) break;
      [[fallthrough]];
    default:
      queue.setFlushing();
      for (GstEvent *event : queue.clear().events) gst_event_unref(event);
      queue.start();
    }
  }
  over = true;
  queue.setFlushing();
  ASSERT_TRUE(finishes(pushing));
  ASSERT_TRUE(finishes(popping));
  for (GstEvent *event : queue.clear().events) gst_event_unref(event);
  EXPECT_GT(popped, 0);
  EXPECT_EQ(queue.waiting(), 0u);
  for (const auto &work : works) EXPECT_EQ(work->left, 1) << "it neither came out nor was abandoned";
  EXPECT_EQ(FencePoller::process().counters().pending, 0u);
}

// A leaky queue in front of slow workers: what is missing was counted, and marked where it is missing.
TEST(InferStress, EveryGapIsMarked) {
  for (const auto policy : {FrameQueue::WhenFull::DropOldest, FrameQueue::WhenFull::DropNewest}) {
    FrameQueue queue;
    queue.setCapacity(3);
    queue.setWhenFull(policy);
    queue.start();
    Workers workers(queue, 2);
    const int count = rounds(5000);
    guint64 came = 0;
    auto popping = std::async(std::launch::async, [&] {
      guint64 next = 0;
      for (auto item = queue.pop(); item; item = queue.pop()) {
        const bool end = GST_IS_EVENT(item->object);
        if (!end) {
          const guint64 n = GST_BUFFER_OFFSET(item->object);
          EXPECT_GE(n, next);
          EXPECT_EQ(item->discont, n != next) << n;
          next = n + 1;
          ++came;
          queue.finishedBuffer();
        }
        gst_mini_object_unref(item->object);
        if (end) return;
      }
    });
    std::mt19937 random(3);
    for (int n = 0; n < count; ++n) {
      if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      EXPECT_EQ(queue.pushBuffer(numbered(static_cast<guint64>(n)), std::make_shared<RandomWork>(workers),
                                 FrameFences{}, 2ms),
                GST_FLOW_OK);
    }
    EXPECT_EQ(queue.pushEvent(gst_event_new_eos()), GST_FLOW_OK);
    ASSERT_TRUE(finishes(popping));
    EXPECT_EQ(came + queue.counts().dropped, static_cast<guint64>(count));
  }
}

// Several elements share a runner, change the model, lose interest in their pictures, and one of them ends it at last.
TEST(InferStress, PicturesFromManySides) {
  for (int repeat = 0; repeat < rounds(20); ++repeat) {
    const std::array models = {fakeModel(4, true), fakeModel(3, false), fakeModel(1, false)};
    for (const FakeModel &fake : models)
      fake.engine->special = [](const SeenRun &run) -> Result<Outputs> {
        std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(run.numbers[0]) % 7 * 30));
        if (static_cast<int>(run.numbers[0]) % 31 == 0) return Error{"run the model", EIO, ""};
        auto memory = std::make_shared<std::vector<float>>(run.numbers);
        Outputs outputs;
        outputs.tensors.push_back({TensorType::Float32,
                                   {static_cast<int64_t>(memory->size())},
                                   memory->data(),
                                   memory->size() * sizeof(float)});
        outputs.owner = memory;
        return outputs;
      };
    auto runner = std::make_shared<ModelRunner>(
        models[0].model,
        ModelRunner::Options{.workers = 3, .batch = 4, .batch_timeout = repeat % 2 == 0 ? 0us : 300us});
    std::vector<std::future<std::vector<std::shared_ptr<FakePicture>>>> elements;
    for (unsigned element = 0; element < 3; ++element)
      elements.push_back(std::async(std::launch::async, [&models, runner, element, repeat]() mutable {
        std::mt19937 random(element + 10 * static_cast<unsigned>(repeat));
        std::vector<std::shared_ptr<FakePicture>> pictures;
        for (int i = 0; i < 200; ++i) {
          auto picture = std::make_shared<FakePicture>(static_cast<float>(i + 1));
          auto model = runner->model();
          if (random() % 8 == 0) { // not ready at first
            picture->at_fill = [again = std::weak_ptr(runner), self = std::weak_ptr(picture), model,
                                asked = std::make_shared<std::atomic<bool>>(false)](
                                   const void **) -> std::optional<Result<Picture::Filled>> {
              const auto present = again.lock();
              if (asked->exchange(true) || !present) return std::nullopt;
              if (const auto same = self.lock(); same != nullptr) {
                same->submittedAgain();
                present->submit(model, same);
              }
              return Picture::Filled::NotYet;
            };
          } else if (random() % 8 == 0) {
            picture->at_fill = [](const void **) { return Error{"map the frame", EIO, ""}; };
          }
          runner->submit(model, picture);
          pictures.push_back(std::move(picture));
          switch (random() % 16) {
          case 0: runner->setModel(models[random() % models.size()].model, {}); break;
          case 1: runner->hurry(); break;
          case 2:
            for (unsigned k = 0; k < 5; ++k) pictures[random() % pictures.size()]->unwant();
            runner->dropUnwanted();
            break;
          case 3: std::this_thread::sleep_for(std::chrono::microseconds(random() % 500)); break;
          default: break;
          }
        }
        runner.reset(); // the last of the elements ends it, in the middle of runs
        return pictures;
      }));
    runner.reset();
    size_t good = 0;
    for (auto &element : elements)
      for (const auto &picture : element.get()) {
        ASSERT_TRUE(picture->ends());
        if (!picture->result().ok()) continue;
        ++good;
        ASSERT_EQ(picture->result()->tensors.size(), 1u);
        EXPECT_EQ(picture->output(), picture->values()[0]) << "another picture's outputs";
      }
    EXPECT_GT(good, 0u);
  }
}

} // namespace
