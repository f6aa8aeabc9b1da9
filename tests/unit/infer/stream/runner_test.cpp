// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/runner.h"

#include <algorithm>
#include <new>

#include "tests/unit/infer/stream/runner_helpers.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

using Pictures = std::vector<std::shared_ptr<FakePicture>>;

class Runner : public testing::Test {
protected:
  void make(const ModelRunner::Options &options, int batch = 1, bool open_batch = false) {
    fake_ = fakeModel(batch, open_batch);
    runner_ = std::make_unique<ModelRunner>(fake_.model, options);
  }
  void submit(const std::shared_ptr<FakePicture> &picture) { runner_->submit(fake_.model, picture); }
  std::shared_ptr<FakePicture> submit(float number) {
    auto picture = std::make_shared<FakePicture>(number);
    submit(picture);
    return picture;
  }
  Pictures submit(std::initializer_list<float> numbers) {
    Pictures pictures;
    for (const float number : numbers) pictures.push_back(submit(number));
    return pictures;
  }
  // One worker is kept in a run, so that what comes now waits together.
  std::shared_ptr<FakePicture> block(float number = 1000) {
    fake_.engine->close();
    const size_t before = fake_.engine->seen().size();
    auto picture = submit(number);
    EXPECT_TRUE(fake_.engine->began(before + 1));
    return picture;
  }
  static void expectResults(const Pictures &pictures) {
    for (const auto &picture : pictures) {
      ASSERT_TRUE(picture->ends());
      ASSERT_TRUE(picture->result().ok()) << picture->result().error().message();
      EXPECT_EQ(picture->output(0), 2 * picture->values()[0]);
      EXPECT_EQ(picture->output(1, 0), picture->values()[0]);
      EXPECT_EQ(picture->output(1, 1), picture->values()[1]);
      const Outputs &outputs = *picture->result();
      EXPECT_EQ(outputs.tensors[0].dims, (std::vector<int64_t>{1, 1}));
      EXPECT_EQ(outputs.tensors[0].bytes, 4u);
      EXPECT_EQ(outputs.tensors[1].dims, (std::vector<int64_t>{1, 1, 1, 2}));
      EXPECT_EQ(outputs.tensors[1].bytes, 8u);
      EXPECT_NE(outputs.owner, nullptr);
    }
  }
  std::vector<float> numbers(size_t run) const { return fake_.engine->seen().at(run).numbers; }

  FakeModel fake_;
  std::unique_ptr<ModelRunner> runner_;
};

TEST_F(Runner, RunsPicturesInTheOrderTheyCame) {
  make({});
  const auto first = block(1);
  const Pictures later = submit({2, 3, 4});
  EXPECT_EQ(runner_->waiting(), 3u);
  fake_.engine->open();
  expectResults({first});
  expectResults(later);
  EXPECT_EQ(runner_->waiting(), 0u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(numbers(i), std::vector<float>{static_cast<float>(i + 1)});
  EXPECT_EQ(fake_.engine->seen()[0].dims, (std::vector<int64_t>{1, 1, 1, 2}));
}

TEST_F(Runner, SaysWhereTheTimeWent) {
  make({});
  const auto first = block(1);
  const auto second = std::make_shared<FakePicture>(2.0f);
  second->at_fill = [](const void **) {
    std::this_thread::sleep_for(20ms);
    return std::nullopt;
  };
  submit(second);
  std::this_thread::sleep_for(50ms);
  fake_.engine->open();
  expectResults({first, second});
  EXPECT_GE(first->times().run, 50ms);
  EXPECT_GE(second->times().wait, 50ms);
  EXPECT_GE(second->times().fill, 20ms);
  EXPECT_EQ(second->times().batch, 1);
}

TEST_F(Runner, WorkersRunSideBySide) {
  make({.workers = 3});
  fake_.engine->close();
  const Pictures pictures = submit({1, 2, 3, 4});
  EXPECT_TRUE(fake_.engine->began(3));
  EXPECT_EQ(runner_->waiting(), 1u);
  fake_.engine->open();
  expectResults(pictures);
  EXPECT_EQ(fake_.engine->most(), 3);
}

TEST_F(Runner, TakesWhatWaitsAsABatch) {
  make({.workers = 1, .batch = 4}, 8, true);
  const auto first = block();
  const Pictures pictures = submit({1, 2, 3, 4, 5});
  fake_.engine->open();
  expectResults(pictures);
  EXPECT_EQ(numbers(1), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(fake_.engine->seen()[1].dims, (std::vector<int64_t>{4, 1, 1, 2}));
  EXPECT_EQ(numbers(2), (std::vector<float>{5})) << "an open batch is as long as its pictures are many";
  EXPECT_EQ(pictures[0]->times().batch, 4);
  EXPECT_EQ(pictures[4]->times().batch, 1);
}

TEST_F(Runner, TheModelMayTakeFewerThanTheUserWants) {
  make({.workers = 1, .batch = 100}, 2, true);
  const auto first = block();
  const Pictures pictures = submit({1, 2, 3});
  fake_.engine->open();
  expectResults(pictures);
  EXPECT_EQ(numbers(1), (std::vector<float>{1, 2}));
}

TEST_F(Runner, AFixedBatchIsFilledWithTheLastPicture) {
  make({.workers = 1, .batch = 4}, 4, false);
  const auto first = block(1);
  EXPECT_EQ(numbers(0), (std::vector<float>{1, 1, 1, 1}));
  const Pictures pictures = submit({2, 3, 4});
  fake_.engine->open();
  expectResults({first});
  expectResults(pictures);
  EXPECT_EQ(numbers(1), (std::vector<float>{2, 3, 4, 4}));
  EXPECT_EQ(pictures[0]->times().batch, 3);
  for (const auto &picture : pictures) EXPECT_FALSE(picture->mayLieElsewhere()) << "a run takes several pictures";
}

// Four pictures for two free workers: two for each, where a run takes as many as there are. A worker collects them;
// what a test cannot see is whether the other one is free already, so it may need several attempts.
TEST_F(Runner, ABatchLeavesOtherWorkersTheirShare) {
  const std::vector<std::vector<float>> shared = {{1, 2}, {3, 4}};
  bool seen = false;
  for (int attempt = 0; attempt < 20 && !seen; ++attempt) {
    make({.workers = 2, .batch = 8, .batch_timeout = 20s}, 8, true);
    const Pictures pictures = submit({1, 2, 3, 4});
    std::this_thread::sleep_for(20ms);
    fake_.engine->close();
    runner_->hurry();
    ASSERT_TRUE(fake_.engine->began(1));
    if (numbers(0).size() < 4) {
      ASSERT_TRUE(fake_.engine->began(2)) << "the rest waits for the first worker";
    }
    seen = fake_.engine->seen().size() == 2;
    fake_.engine->open();
    expectResults(pictures);
  }
  EXPECT_TRUE(seen);
  auto runs = fake_.engine->seen();
  std::sort(runs.begin(), runs.end(), [](const SeenRun &a, const SeenRun &b) { return a.numbers < b.numbers; });
  ASSERT_EQ(runs.size(), 2u);
  for (const size_t i : {0, 1}) EXPECT_EQ(runs[i].numbers, shared[i]);
}

TEST_F(Runner, AFixedBatchIsNotShared) {
  make({.workers = 2, .batch = 8, .batch_timeout = 20s}, 8, false);
  const Pictures pictures = submit({1, 2, 3, 4});
  std::this_thread::sleep_for(20ms);
  runner_->hurry();
  expectResults(pictures);
  EXPECT_EQ(numbers(0), (std::vector<float>{1, 2, 3, 4, 4, 4, 4, 4}));
}

TEST_F(Runner, ABatchWaitsForOthers) {
  make({.workers = 2, .batch = 3, .batch_timeout = 20s}, 3, true);
  const auto first = submit(1);
  const auto second = submit(2);
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(fake_.engine->seen().empty());
  EXPECT_EQ(runner_->waiting(), 2u);
  const auto third = submit(3);
  expectResults({first, second, third});
  EXPECT_EQ(numbers(0), (std::vector<float>{1, 2, 3}));
  EXPECT_GE(first->times().wait, 100ms);
}

TEST_F(Runner, ABatchWaitsNoLongerThanItsTime) {
  make({.workers = 1, .batch = 3, .batch_timeout = 600ms}, 3, true);
  const auto before = std::chrono::steady_clock::now();
  const auto first = submit(1);
  std::this_thread::sleep_for(30ms);
  const auto second = submit(2);
  expectResults({first, second});
  EXPECT_GE(std::chrono::steady_clock::now() - before, 600ms);
  EXPECT_EQ(numbers(0), (std::vector<float>{1, 2}));
  EXPECT_GE(first->times().wait, 600ms);
  EXPECT_LT(second->times().wait, first->times().wait);
}

// The time runs while no worker is free: what has waited long enough does not wait again.
TEST_F(Runner, TheTimeOfABatchRunsFromItsFirstPicture) {
  make({.workers = 1, .batch = 3, .batch_timeout = 20s}, 3, true);
  fake_.engine->close();
  const Pictures blocking = submit({1, 2, 3});
  ASSERT_TRUE(fake_.engine->began(1));
  const Pictures full = submit({4, 5, 6});
  const auto left = submit(7);
  fake_.engine->open();
  expectResults(full);
  EXPECT_EQ(numbers(1), (std::vector<float>{4, 5, 6}));
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(left->isFinished());
  runner_->hurry();
  expectResults({left});
}

TEST_F(Runner, WhatCameForAFullBatchGoesToAnotherWorker) {
  make({.workers = 2, .batch = 2, .batch_timeout = 20s}, 2, true);
  fake_.engine->close();
  const Pictures pictures = submit({1, 2, 3, 4});
  EXPECT_TRUE(fake_.engine->began(2)) << "the second batch waits for the first worker";
  fake_.engine->open();
  expectResults(pictures);
}

TEST_F(Runner, WhatCameForSeveralBatchesGoesToAsManyWorkers) {
  make({.workers = 3, .batch = 2, .batch_timeout = 1h}, 2, true);
  for (size_t round = 0; round < 10; ++round) { // who wakes first is chance
    fake_.engine->close();
    Pictures pictures = submit({1});
    std::this_thread::sleep_for(5ms); // one has it and waits for more, the others sleep, most probably
    for (const auto &picture : submit({2, 3, 4, 5, 6})) pictures.push_back(picture);
    EXPECT_TRUE(fake_.engine->began(3 * (round + 1))) << "a worker sleeps while pictures wait";
    fake_.engine->open();
    expectResults(pictures);
  }
}

TEST_F(Runner, HurryEndsTheWaitUntilTheNextPicture) {
  make({.workers = 1, .batch = 3, .batch_timeout = 20s}, 3, true);
  runner_->hurry(); // nothing waits: forgotten with the next
  const auto first = submit(1);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(first->isFinished());
  runner_->hurry();
  expectResults({first});
  const auto second = submit(2);
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(second->isFinished());
  runner_->hurry();
  expectResults({second});
}

TEST_F(Runner, PicturesOfAnotherModelEndABatch) {
  make({.workers = 1, .batch = 4, .batch_timeout = 20s}, 4, true);
  const FakeModel other = fakeModel(4, true);
  runner_->setModel(other.model, {.file = "other.onnx"});
  EXPECT_EQ(runner_->model(), other.model);
  EXPECT_EQ(runner_->modelOptions().file, "other.onnx");
  const Pictures old_ones = submit({1, 2});
  const auto new_one = std::make_shared<FakePicture>(3.0f);
  runner_->submit(runner_->model(), new_one);
  expectResults(old_ones);
  EXPECT_EQ(numbers(0), (std::vector<float>{1, 2}));
  runner_->hurry();
  expectResults({new_one});
  ASSERT_EQ(other.engine->seen().size(), 1u);
  EXPECT_EQ(other.engine->seen()[0].numbers, (std::vector<float>{3}));
}

TEST_F(Runner, APictureThatCannotBeFilledFailsAlone) {
  make({.workers = 1, .batch = 4}, 4, true);
  const auto first = block();
  Pictures pictures;
  for (int i = 0; i < 4; ++i) pictures.push_back(std::make_shared<FakePicture>(static_cast<float>(i + 1)));
  pictures[0]->at_fill = [](const void **) { return Error{"map the frame", EIO, ""}; };
  pictures[2]->at_fill = [](const void **) -> std::optional<Result<Picture::Filled>> { throw std::bad_alloc(); };
  for (const auto &picture : pictures) submit(picture);
  fake_.engine->open();
  expectResults({pictures[1], pictures[3]});
  EXPECT_EQ(numbers(1), (std::vector<float>{2, 4}));
  EXPECT_EQ(pictures[1]->times().batch, 2);
  ASSERT_TRUE(pictures[0]->ends());
  EXPECT_EQ(pictures[0]->errorCode(), EIO);
  ASSERT_TRUE(pictures[2]->ends());
  EXPECT_EQ(pictures[2]->errorCode(), ENOMEM);
}

TEST_F(Runner, AFixedBatchIsFilledWithTheLastThatCouldBe) {
  make({.workers = 1, .batch = 3}, 3, false);
  const auto first = block();
  Pictures pictures;
  for (int i = 0; i < 3; ++i) pictures.push_back(std::make_shared<FakePicture>(static_cast<float>(i + 1)));
  pictures[2]->at_fill = [](const void **) { return Error{"map the frame", EIO, ""}; };
  for (const auto &picture : pictures) submit(picture);
  fake_.engine->open();
  expectResults({pictures[0], pictures[1]});
  EXPECT_EQ(numbers(1), (std::vector<float>{1, 2, 2}));
}

TEST_F(Runner, NothingRunsWhereNoPictureCouldBeFilled) {
  make({});
  const auto picture = std::make_shared<FakePicture>(1.0f);
  picture->at_fill = [](const void **) { return Error{"map the frame", EIO, ""}; };
  submit(picture);
  ASSERT_TRUE(picture->ends());
  EXPECT_EQ(picture->errorCode(), EIO);
  expectResults({submit(2)});
  EXPECT_EQ(fake_.engine->seen().size(), 1u);
}

TEST_F(Runner, APictureThatIsNotReadyIsForgottenUntilItComesAgain) {
  make({});
  const auto picture = std::make_shared<FakePicture>(1.0f);
  std::atomic<int> asked = 0;
  picture->at_fill = [&](const void **) -> std::optional<Result<Picture::Filled>> {
    if (++asked == 1) return Picture::Filled::NotYet;
    return std::nullopt;
  };
  submit(picture);
  expectResults({submit(2)});
  EXPECT_FALSE(picture->isFinished());
  submit(picture);
  expectResults({picture});
  EXPECT_EQ(asked, 2);
}

// It comes again before fill() has returned.
TEST_F(Runner, APictureMayBeSubmittedFromItsOwnFill) {
  make({.workers = 2});
  const auto picture = std::make_shared<FakePicture>(1.0f);
  std::atomic<int> asked = 0;
  picture->at_fill = [&](const void **) -> std::optional<Result<Picture::Filled>> {
    if (++asked > 1) return std::nullopt;
    submit(picture);
    return Picture::Filled::NotYet;
  };
  submit(picture);
  expectResults({picture});
  EXPECT_EQ(fake_.engine->seen().size(), 1u);
}

TEST_F(Runner, OnePictureAloneMayLieElsewhere) {
  for (const bool open_batch : {false, true}) {
    make({.workers = 1, .batch = open_batch ? 4 : 1}, open_batch ? 4 : 1, open_batch);
    const auto picture = std::make_shared<FakePicture>(5.0f);
    picture->at_fill = [&](const void **elsewhere) {
      *elsewhere = picture->values();
      return Picture::Filled::Elsewhere;
    };
    submit(picture);
    expectResults({picture});
    EXPECT_EQ(fake_.engine->seen()[0].data, picture->values()) << "the picture was copied";
    EXPECT_TRUE(picture->mayLieElsewhere());
    runner_.reset();
  }
}

TEST_F(Runner, PicturesOfABatchAreWrittenToOnePlace) {
  make({.workers = 1, .batch = 2}, 2, true);
  const auto first = block();
  const Pictures pictures = submit({1, 2});
  fake_.engine->open();
  expectResults(pictures);
  for (const auto &picture : pictures) EXPECT_FALSE(picture->mayLieElsewhere());
  EXPECT_EQ(static_cast<float *>(pictures[1]->tensor()) - static_cast<float *>(pictures[0]->tensor()), 2);
  EXPECT_EQ(fake_.engine->seen()[1].data, pictures[0]->tensor());
}

TEST_F(Runner, APictureThatLiesNowhereIsAnError) {
  make({});
  const auto picture = std::make_shared<FakePicture>(1.0f);
  picture->at_fill = [](const void **) { return Picture::Filled::Elsewhere; };
  submit(picture);
  ASSERT_TRUE(picture->ends());
  EXPECT_EQ(picture->errorCode(), EINVAL);
  EXPECT_TRUE(fake_.engine->seen().empty());
}

// Memory that a worker has it keeps.
TEST_F(Runner, TheTensorsMemoryIsAlignedAndKept) {
  make({});
  const Pictures pictures = {submit(1)};
  expectResults(pictures);
  const auto second = submit(2);
  expectResults({second});
  EXPECT_EQ(pictures[0]->tensor(), second->tensor());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second->tensor()) % 64, 0u);
}

TEST_F(Runner, AFailedRunIsEveryPicturesError) {
  make({.workers = 1, .batch = 2}, 2, true);
  fake_.engine->special = [](const SeenRun &run) -> Result<Outputs> {
    if (run.numbers[0] == 3) throw std::bad_alloc();
    return Error{"run the model", EPROTO, ""};
  };
  const auto first = block();
  const Pictures pictures = submit({1, 2, 3, 4});
  fake_.engine->open();
  for (const auto &picture : pictures) ASSERT_TRUE(picture->ends());
  EXPECT_EQ(pictures[0]->errorCode(), EPROTO);
  EXPECT_EQ(pictures[1]->errorCode(), EPROTO);
  EXPECT_EQ(pictures[2]->errorCode(), ENOMEM);
  EXPECT_EQ(pictures[3]->errorCode(), ENOMEM);
}

TEST_F(Runner, AnOutputWithoutTheBatchIsAnError) {
  make({.workers = 1, .batch = 2}, 2, true);
  fake_.engine->special = [](const SeenRun &run) -> Result<Outputs> {
    auto memory = std::make_shared<std::vector<float>>(10);
    Outputs outputs;
    outputs.tensors.push_back({TensorType::Float32, {static_cast<int64_t>(run.numbers.size()), 1}, memory->data(), 8});
    outputs.tensors.push_back({TensorType::Float32, {5, 2}, memory->data(), 40});
    outputs.owner = memory;
    return outputs;
  };
  const auto alone = block();
  const Pictures pictures = submit({1, 2});
  fake_.engine->open();
  for (const auto &picture : pictures) {
    ASSERT_TRUE(picture->ends());
    ASSERT_FALSE(picture->result().ok());
    const std::string text = picture->result().error().message();
    EXPECT_NE(text.find("copy (float32 [5,2])"), std::string::npos) << text;
  }
  ASSERT_TRUE(alone->ends());
  ASSERT_TRUE(alone->result().ok()) << "the outputs of one picture alone are its own whatever their shape";
  EXPECT_EQ(alone->result()->tensors[1].dims, (std::vector<int64_t>{5, 2}));
}

TEST_F(Runner, WaitingPicturesThatNobodyWantsAreTakenOut) {
  make({});
  const auto first = block(1);
  const Pictures pictures = submit({2, 3, 4});
  pictures[0]->unwant();
  pictures[2]->unwant();
  runner_->dropUnwanted();
  EXPECT_EQ(runner_->waiting(), 1u);
  for (const size_t i : {0, 2}) {
    EXPECT_TRUE(pictures[i]->isFinished());
    EXPECT_EQ(pictures[i]->errorCode(), ECANCELED);
  }
  fake_.engine->open();
  expectResults({first, pictures[1]});
  EXPECT_EQ(fake_.engine->seen().size(), 2u);
}

TEST_F(Runner, AWorkerTakesNoPictureThatNobodyWants) {
  make({});
  const auto first = block(1);
  const Pictures pictures = submit({2, 3});
  pictures[0]->unwant();
  fake_.engine->open();
  expectResults({first, pictures[1]});
  ASSERT_TRUE(pictures[0]->ends());
  EXPECT_EQ(pictures[0]->errorCode(), ECANCELED);
  EXPECT_EQ(fake_.engine->seen().size(), 2u);
}

TEST_F(Runner, ARunThatNobodyWantsIsEnded) {
  make({.workers = 1, .batch = 2}, 2, true);
  const auto first = block(1);
  first->unwant();
  runner_->dropUnwanted();
  ASSERT_TRUE(first->ends());
  EXPECT_EQ(first->errorCode(), ECANCELED);
  EXPECT_EQ(fake_.engine->cancelled(), 1);
  fake_.engine->open();
  expectResults({submit(2)}); // the cancellation was that run's alone
}

TEST_F(Runner, ARunThatSomebodyWantsGoesOn) {
  make({.workers = 1, .batch = 2}, 2, true);
  const auto first = block(1);
  const Pictures pictures = submit({2, 3});
  first->unwant();
  runner_->dropUnwanted(); // the first run ends, that of the two begins
  ASSERT_TRUE(fake_.engine->began(2));
  pictures[0]->unwant();
  runner_->dropUnwanted();
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(pictures[1]->isFinished());
  fake_.engine->open();
  expectResults({pictures[1]});
  EXPECT_EQ(fake_.engine->cancelled(), 1);
}

TEST_F(Runner, TheEndFinishesEverything) {
  make({.workers = 2});
  fake_.engine->close();
  const Pictures running = submit({1, 2});
  ASSERT_TRUE(fake_.engine->began(2));
  const Pictures waiting = submit({3, 4, 5});
  runner_.reset();
  for (const Pictures *pictures : {&running, &waiting})
    for (const auto &picture : *pictures) {
      EXPECT_TRUE(picture->isFinished());
      EXPECT_EQ(picture->errorCode(), ECANCELED);
    }
  EXPECT_EQ(fake_.engine->seen().size(), 2u);
}

TEST_F(Runner, TheEndDoesNotWaitForABatch) {
  make({.workers = 2, .batch = 3, .batch_timeout = 20s}, 3, true);
  const auto picture = submit(1);
  runner_.reset();
  EXPECT_TRUE(picture->isFinished());
  EXPECT_EQ(picture->errorCode(), ECANCELED);
}

// The last reference to the runner goes in one of its own threads, while another of them is in a run.
TEST_F(Runner, APictureMayHoldTheLastReference) {
  fake_ = fakeModel(1, false);
  std::weak_ptr<const Model> model = fake_.model;
  auto runner = std::make_shared<ModelRunner>(fake_.model, ModelRunner::Options{.workers = 2});
  std::weak_ptr<ModelRunner> gone = runner;
  fake_.engine->close();
  const auto other = std::make_shared<FakePicture>(1.0f), last = std::make_shared<FakePicture>(2.0f),
             waiting = std::make_shared<FakePicture>(3.0f);
  last->at_fill = [](const void **) { return Error{"map the frame", EIO, ""}; };
  std::promise<void> released;
  last->at_end = [held = runner, ready = released.get_future().share()]() mutable {
    ready.wait();
    held.reset();
  };
  runner->submit(fake_.model, other);
  ASSERT_TRUE(fake_.engine->began(1));
  runner->submit(fake_.model, last);
  runner->submit(fake_.model, waiting);
  runner.reset();
  released.set_value();
  ASSERT_TRUE(last->ends());
  EXPECT_TRUE(gone.expired());
  ASSERT_TRUE(waiting->ends());
  EXPECT_EQ(waiting->errorCode(), ECANCELED);
  ASSERT_TRUE(other->ends());
  EXPECT_EQ(other->errorCode(), ECANCELED);
  fake_ = {};
  for (int i = 0; i < 1000 && !model.expired(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(model.expired()) << "a thread still holds the model";
}

} // namespace
