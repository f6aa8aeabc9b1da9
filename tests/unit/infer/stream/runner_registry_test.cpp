// SPDX-License-Identifier: LGPL-2.1-or-later
#include <atomic>
#include <cmath>
#include <future>
#include <new>

#include "gst/infer/stream/options_text.h"
#include "gst/infer/stream/runner.h"
#include "tests/support/scale.h"
#include "tests/unit/infer/stream/queue_helpers.h"
#include "tests/unit/infer/stream/runner_helpers.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace gstzc::test;
using namespace std::chrono_literals;

namespace {

// Loads fake models, or fails; may be held up.
class Loader {
public:
  ModelLoader get() {
    return [this](const ModelOptions &options) -> LoadedModel {
      ++calls;
      file = options.file;
      if (hold.valid()) {
        began.set_value();
        hold.wait();
      }
      if (no_memory) throw std::bad_alloc();
      if (fails) return {nullptr, {LoadFailure::NotFound, {"no such model", ENOENT, ""}}};
      return {fakeModel(1, false).model, {}};
    };
  }
  std::atomic<int> calls = 0;
  std::atomic<bool> fails = false, no_memory = false;
  std::string file;
  std::shared_future<void> hold;
  std::promise<void> began;
};

TEST(RunnerRegistry, TheSameIdIsTheSameRunner) {
  Loader loader;
  const ModelOptions model{.file = "a.onnx"};
  const ModelRunner::Options options{.workers = 2, .batch = 2};
  auto first = acquireRunner("same", model, options, loader.get());
  ASSERT_NE(first.runner, nullptr);
  EXPECT_EQ(loader.file, "a.onnx");
  const auto second = acquireRunner("same", model, options, loader.get());
  EXPECT_EQ(second.runner, first.runner);
  EXPECT_EQ(loader.calls, 1);
  const auto other = acquireRunner("other", model, options, loader.get());
  EXPECT_NE(other.runner, first.runner);
  EXPECT_EQ(loader.calls, 2);
}

TEST(RunnerRegistry, WithoutAnIdNothingIsShared) {
  Loader loader;
  const auto first = acquireRunner("", {}, {}, loader.get());
  const auto second = acquireRunner("", {}, {}, loader.get());
  ASSERT_NE(first.runner, nullptr);
  ASSERT_NE(second.runner, nullptr);
  EXPECT_NE(first.runner, second.runner);
}

TEST(RunnerRegistry, ARunnerLivesAsLongAsItIsUsed) {
  Loader loader;
  auto first = acquireRunner("short", {.file = "a.onnx"}, {}, loader.get());
  std::weak_ptr<ModelRunner> gone = first.runner;
  first.runner.reset();
  EXPECT_TRUE(gone.expired());
  const auto second = acquireRunner("short", {.file = "b.onnx"}, {.workers = 3}, loader.get());
  EXPECT_NE(second.runner, nullptr) << "the options of one that is gone";
  EXPECT_EQ(loader.calls, 2);
}

TEST(RunnerRegistry, OtherOptionsAreAnErrorThatNamesThem) {
  ModelOptions model{.file = "a.onnx"};
  model.user.mean = {1.0f, 2.0f, 3.5f};
  const ModelRunner::Options options{.workers = 2};
  Loader loader;
  const auto first = acquireRunner("options", model, options, loader.get());
  struct {
    const char *name, *theirs, *ours;
    std::function<void(ModelOptions &, ModelRunner::Options &)> change;
  } const rows[] = {
      {"model-file", "\"a.onnx\"", "\"b.onnx\"", [](auto &m, auto &) { m.file = "b.onnx"; }},
      {"modelinfo-file", "none", "\"none\"", [](auto &m, auto &) { m.modelinfo_file = "none"; }},
      {"labels-file", "none", "\"l\\\"\"", [](auto &m, auto &) { m.labels_file = "l\""; }},
      {"execution-provider", "\"auto\"", "\"cuda\"", [](auto &m, auto &) { m.engine.provider = "cuda"; }},
      {"provider-options", "none", "\"device_id\"=\"1\", \"x\"=none",
       [](auto &m, auto &) { m.engine.provider_options = {{"device_id", "1"}, {"x", ""}}; }},
      {"allow-cpu-fallback", "false", "true", [](auto &m, auto &) { m.engine.allow_cpu_fallback = true; }},
      {"onnxruntime-library", "none", "\"x.so\"", [](auto &m, auto &) { m.engine.library = "x.so"; }},
      {"intra-threads", "1", "4", [](auto &m, auto &) { m.engine.intra_threads = 4; }},
      {"dimensions", "none", "\"h\"=320", [](auto &m, auto &) { m.engine.dimensions["h"] = 320; }},
      {"workers", "2", "1", [](auto &, auto &o) { o.workers = 1; }},
      {"batch-size", "1", "4", [](auto &m, auto &o) { m.batch = o.batch = 4; }},
      {"batch-size", "1", "1 (model 2)", [](auto &m, auto &) { m.batch = 2; }},
      {"batch-timeout", "0 µs", "1500 µs", [](auto &, auto &o) { o.batch_timeout = 1500us; }},
      {"input-width", "the model's", "0", [](auto &m, auto &) { m.user.width = 0; }},
      {"input-height", "the model's", "7", [](auto &m, auto &) { m.user.height = 7; }},
      {"tensor layout", "the model's", "NHWC", [](auto &m, auto &) { m.user.layout = TensorLayout::Nhwc; }},
      {"resize-mode", "the model's", "crop", [](auto &m, auto &) { m.user.resize = ResizeMode::Crop; }},
      {"scaling", "the model's", "area", [](auto &m, auto &) { m.user.scaling = Scaling::Area; }},
      {"mean", "1,2,3.5", "1,2,3.50000024",
       [](auto &m, auto &) { m.user.mean = {1.0f, 2.0f, std::nextafter(3.5f, 4.0f)}; }},
      {"scale", "the model's", "1,1,2", [](auto &m, auto &) { m.user.scale = {1.0f, 1.0f, 2.0f}; }},
      {"pad-value", "the model's", "114", [](auto &m, auto &) { m.user.padding = 114.0f; }},
      {"channel-order", "the model's", "rgb", [](auto &m, auto &) { m.user.bgr = false; }},
      {"decoder", "the model's", "yolov8", [](auto &m, auto &) { m.user.decoder = DecoderKind::YoloV8; }},
      {"classes", "the model's", "80", [](auto &m, auto &) { m.user.classes = 80; }},
      {"keypoints", "the model's", "17", [](auto &m, auto &) { m.user.keypoints = 17; }},
      {"values of a keypoint", "the model's", "3", [](auto &m, auto &) { m.user.keypoint_values = 3; }},
      {"labels", "none", "\"cat\", \"dog\"", [](auto &m, auto &) { m.user.labels = {"cat", "dog"}; }},
      {"tensor ids", "none", "\"boxes\"=\"b\" of \"g\" column-major",
       [](auto &m, auto &) { m.user.tensors["boxes"] = {"b", "g", true}; }},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.name);
    ModelOptions other = model;
    ModelRunner::Options other_options = options;
    row.change(other, other_options);
    const auto refused = acquireRunner("options", other, other_options, loader.get());
    EXPECT_EQ(refused.runner, nullptr);
    EXPECT_EQ(refused.failure.kind, LoadFailure::OtherOptions);
    const std::string text = refused.failure.error.message();
    const std::string expected = std::string("model-instance-id options is in use with ") + row.name + " " +
                                 row.theirs + ", not " + row.ours + ". ";
    EXPECT_EQ(text.substr(0, expected.size()), expected);
  }
  EXPECT_EQ(loader.calls, 1);
  EXPECT_EQ(acquireRunner("options", model, options, loader.get()).runner, first.runner);
}

// A model that was swapped is what others have to ask for.
TEST(RunnerRegistry, TheOptionsAreThoseOfThePresentModel) {
  Loader loader;
  const auto first = acquireRunner("swap", {.file = "a.onnx"}, {}, loader.get());
  first.runner->setModel(fakeModel(1, false).model, {.file = "b.onnx"});
  EXPECT_EQ(acquireRunner("swap", {.file = "a.onnx"}, {}, loader.get()).runner, nullptr);
  EXPECT_EQ(acquireRunner("swap", {.file = "b.onnx"}, {}, loader.get()).runner, first.runner);
}

TEST(RunnerRegistry, AFailureIsNotRemembered) {
  Loader loader;
  for (const std::string id : {"failing", ""}) {
    loader.fails = true;
    const auto failed = acquireRunner(id, {}, {}, loader.get());
    EXPECT_EQ(failed.runner, nullptr);
    EXPECT_EQ(failed.failure.kind, LoadFailure::NotFound);
    EXPECT_EQ(failed.failure.error.code, ENOENT);
    loader.fails = false;
    loader.no_memory = true;
    EXPECT_EQ(acquireRunner(id, {}, {}, loader.get()).failure.error.code, ENOMEM);
    loader.no_memory = false;
    EXPECT_NE(acquireRunner(id, {}, {}, loader.get()).runner, nullptr);
  }
}

// Who comes while the model is being loaded gets what the loader gets, or hears at once of other options; another id
// does not wait.
TEST(RunnerRegistry, OneLoadsForAll) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails ? "fails" : "loads");
    Loader loader, unused;
    std::promise<void> go_on;
    loader.fails = fails;
    loader.hold = go_on.get_future().share();
    const auto acquire = [](Loader &with, const char *file) {
      return std::async(std::launch::async,
                        [&with, file] { return acquireRunner("racing", {.file = file}, {}, with.get()); });
    };
    auto first = acquire(loader, "a.onnx");
    loader.began.get_future().wait();
    auto second = acquire(unused, "a.onnx"), third = acquire(unused, "a.onnx");
    EXPECT_TRUE(waits(second));
    auto other = acquire(unused, "b.onnx");
    ASSERT_TRUE(finishes(other));
    EXPECT_EQ(other.get().failure.kind, LoadFailure::OtherOptions);
    EXPECT_EQ(unused.calls, 0);
    EXPECT_NE(acquireRunner("not racing", {}, {}, unused.get()).runner, nullptr);
    go_on.set_value();
    const AcquiredRunner results[] = {first.get(), second.get(), third.get()};
    for (const auto &result : results) {
      EXPECT_EQ(result.runner == nullptr, fails);
      EXPECT_EQ(result.runner, results[0].runner);
      EXPECT_EQ(result.failure.error.code, fails ? ENOENT : 0);
    }
    EXPECT_EQ(loader.calls, 1);
    EXPECT_EQ(unused.calls, 1);
  }
}

// Runners that are let go of while others ask for them: one at a time has the id, and nobody gets one that is going.
TEST(RunnerRegistry, UsersComeAndGo) {
  std::atomic<int> failures = 0;
  std::vector<std::future<void>> users;
  Loader loader;
  const ModelLoader load = [&](const ModelOptions &) -> LoadedModel {
    ++loader.calls;
    return {fakeModel(1, false).model, {}};
  };
  for (int user = 0; user < 4; ++user)
    users.push_back(std::async(std::launch::async, [&] {
      for (int i = 0; i < rounds(200); ++i) {
        auto acquired = acquireRunner("busy", {.file = "a.onnx"}, {}, load);
        if (acquired.runner == nullptr) {
          ++failures;
          continue;
        }
        auto picture = std::make_shared<FakePicture>(1.0f);
        acquired.runner->submit(acquired.runner->model(), picture);
        if (!picture->ends() || !picture->result().ok()) ++failures;
      }
    }));
  for (auto &user : users) user.get();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(loader.calls, 0);
}

} // namespace
