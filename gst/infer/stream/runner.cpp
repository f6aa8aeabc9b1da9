// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/stream/runner.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include <pthread.h>

#include "gst/infer/stream/batch.h"

namespace gstzc::infer {
namespace {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

constexpr std::chrono::microseconds kLongestTimeout = std::chrono::hours(24); // a deadline has to be a point in time

Error cancelled() { return {"the picture was not run through the model", ECANCELED, ""}; }

Error outOfMemory(const char *what) { return {what, ENOMEM, "Use fewer workers or a smaller batch-size"}; }

} // namespace

class ModelRunner::Core {
public:
  Core(std::shared_ptr<const Model> model, const Options &options, const ModelOptions &loaded_with)
      : options_(options), model_(std::move(model)), loaded_with_(loaded_with) {
    options_.batch_timeout = std::clamp(options_.batch_timeout, std::chrono::microseconds{0}, kLongestTimeout);
  }

  void work(); // a thread's whole life
  void stop();
  void cannotWork(Error why) {
    const std::lock_guard lock(mutex_);
    no_threads_ = std::move(why);
  }

  std::shared_ptr<const Model> model() const {
    const std::lock_guard lock(mutex_);
    return model_;
  }
  ModelOptions modelOptions() const {
    const std::lock_guard lock(mutex_);
    return loaded_with_;
  }
  void setModel(std::shared_ptr<const Model> model, const ModelOptions &loaded_with) {
    const std::lock_guard lock(mutex_);
    model_.swap(model); // the old one may go, when the lock is gone
    loaded_with_ = loaded_with;
  }
  void submit(std::shared_ptr<const Model> model, std::shared_ptr<Picture> picture);
  void dropUnwanted();
  void hurry();
  size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return line_.size();
  }

private:
  struct Waiting {
    std::shared_ptr<const Model> model;
    std::shared_ptr<Picture> picture;
    Clock::time_point since;
  };
  struct Member { // of a batch
    std::shared_ptr<Picture> picture;
    Picture::Times times;
  };
  struct Batch {
    std::shared_ptr<const Model> model; // null: the runner is going
    std::vector<Member> members, unwanted;
  };
  // What one worker is doing.
  struct Run {
    Cancellation cancel;
    std::vector<const Picture *> pictures; // that wait for its end; under mutex_
    Scratch scratch;
    std::condition_variable wake;
    bool woken = false; // and not awake yet; under mutex_
  };

  Batch take(Run &run);
  Run *toWake();
  void process(Batch &batch, Run &run);
  struct Elsewhere {
    const void *data = nullptr;
    MemorySpace space = MemorySpace::Host;
    bool on_stream = false;
  };
  void fill(Batch &batch, Run &run, int size, std::byte *tensor, Elsewhere &elsewhere);
  void forget(Run &run, const Picture *picture);
  static void finishCancelled(std::vector<Member> members);

  mutable std::mutex mutex_;
  std::condition_variable batch_; // the worker that waits for its batch to fill
  Options options_;
  std::shared_ptr<const Model> model_;
  ModelOptions loaded_with_;
  std::deque<Waiting> line_;
  std::vector<Run *> runs_;
  std::vector<Run *> idle_; // asleep with nothing to do, the last one to fall asleep last; those about to wake included
  bool collecting_ = false; // a worker waits for batch_; what comes belongs to it first
  bool hurried_ = false;
  bool stopping_ = false;
  std::optional<Error> no_threads_;
};

// --- the line

void ModelRunner::Core::submit(std::shared_ptr<const Model> model, std::shared_ptr<Picture> picture) {
  Lock lock(mutex_);
  if (no_threads_) {
    const Error why = *no_threads_;
    lock.unlock();
    picture->finished(why, {});
    return;
  }
  line_.push_back({std::move(model), std::move(picture), Clock::now()});
  hurried_ = false;
  if (!collecting_) {
    Run *const sleeper = toWake();
    lock.unlock();                                      // or who wakes would wait for it
    if (sleeper != nullptr) sleeper->wake.notify_one(); // it lives: the runner does while somebody calls it
    return;
  }
  const Model &first = *line_.front().model;
  const bool full = line_.size() >= static_cast<size_t>(batchLimit(first.plan, options_.batch));
  if (full || line_.back().model.get() != &first) batch_.notify_one();
}

// With the lock held: the worker that fell asleep last, whose memory is the likeliest to lie in a cache still; null
// where all are awake.
ModelRunner::Core::Run *ModelRunner::Core::toWake() {
  const auto last = std::find_if(idle_.rbegin(), idle_.rend(), [](const Run *run) { return !run->woken; });
  if (last == idle_.rend()) return nullptr;
  (*last)->woken = true;
  return *last;
}

void ModelRunner::Core::hurry() {
  const std::lock_guard lock(mutex_);
  hurried_ = true;
  batch_.notify_one();
}

void ModelRunner::Core::dropUnwanted() {
  std::vector<Member> dropped;
  std::vector<std::shared_ptr<const Model>> models; // may go with their last picture: not with the lock held
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    std::erase_if(line_, [&](Waiting &waiting) {
      if (waiting.picture->wanted()) return false;
      dropped.push_back({std::move(waiting.picture), {.wait = now - waiting.since}});
      models.push_back(std::move(waiting.model));
      return true;
    });
    for (Run *run : runs_) {
      const bool wanted = std::any_of(run->pictures.begin(), run->pictures.end(), [](auto *p) { return p->wanted(); });
      if (!run->pictures.empty() && !wanted) run->cancel.cancel();
    }
  }
  finishCancelled(std::move(dropped));
}

void ModelRunner::Core::stop() {
  std::deque<Waiting> left;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    left.swap(line_);
    for (Run *run : runs_) run->cancel.cancel();
    for (Run *run : idle_) run->wake.notify_one();
    batch_.notify_all();
  }
  const auto now = Clock::now();
  for (const Waiting &waiting : left) waiting.picture->finished(cancelled(), {.wait = now - waiting.since});
}

void ModelRunner::Core::finishCancelled(std::vector<Member> members) {
  for (const Member &member : members) member.picture->finished(cancelled(), member.times);
}

// --- workers

void ModelRunner::Core::work() {
  Run run;
  {
    const std::lock_guard lock(mutex_);
    runs_.push_back(&run);
    idle_.reserve(runs_.size());
  }
  for (Batch batch = take(run); batch.model != nullptr; batch = take(run)) {
    finishCancelled(std::move(batch.unwanted));
    if (!batch.members.empty()) process(batch, run);
    batch = {}; // the last reference to a picture, a model or the runner may go with it
  }
  const std::lock_guard lock(mutex_);
  std::erase(runs_, &run);
}

ModelRunner::Core::Batch ModelRunner::Core::take(Run &run) {
  Lock lock(mutex_);
  size_t count = 0;
  while (true) {
    if (stopping_) return {};
    if (line_.empty() || collecting_) {
      idle_.push_back(&run);
      run.wake.wait(lock);
      std::erase(idle_, &run);
      run.woken = false;
      continue;
    }
    const Waiting &first = line_.front();
    const auto limit = static_cast<size_t>(batchLimit(first.model->plan, options_.batch));
    const auto other =
        std::find_if(line_.begin(), line_.end(), [&](const Waiting &waiting) { return waiting.model != first.model; });
    const auto same = static_cast<size_t>(other - line_.begin());
    count = std::min(same, limit);
    const bool waits = options_.batch_timeout.count() > 0 && !hurried_;
    const auto deadline = first.since + options_.batch_timeout;
    if (waits && count < limit && other == line_.end() && Clock::now() < deadline) {
      collecting_ = true;
      batch_.wait_until(lock, deadline);
      collecting_ = false;
      continue;
    }
    // what runs as many pictures however few there are has to be filled up
    if (!waits && first.model->plan.open_batch) count = std::min(count, fairShare(line_.size(), idle_.size() + 1));
    break;
  }
  Batch batch;
  batch.model = line_.front().model;
  const auto now = Clock::now();
  while (batch.members.size() < count && !line_.empty() && line_.front().model == batch.model) {
    Waiting &next = line_.front();
    auto &where = next.picture->wanted() ? batch.members : batch.unwanted;
    where.push_back({std::move(next.picture), {.wait = now - next.since}});
    line_.pop_front();
  }
  run.cancel.reset();
  for (const Member &member : batch.members) run.pictures.push_back(member.picture.get());
  if (options_.batch_timeout.count() > 0 && !line_.empty()) // what came while a batch was collected told nobody
    if (Run *const sleeper = toWake(); sleeper != nullptr) sleeper->wake.notify_one();
  return batch;
}

// Without the lock: nobody may ask this picture any more whether it is wanted.
void ModelRunner::Core::forget(Run &run, const Picture *picture) {
  const std::lock_guard lock(mutex_);
  std::erase(run.pictures, picture);
}

// Writes the members' pictures one behind the other to `tensor`; those that cannot be, or not yet, leave the batch.
void ModelRunner::Core::fill(Batch &batch, Run &run, int size, std::byte *tensor, Elsewhere &elsewhere) {
  const size_t bytes = batch.model->plan.bytes();
  size_t filled = 0;
  for (Member &member : batch.members) {
    const auto start = Clock::now();
    Result<Picture::Filled> result = Picture::Filled::NotYet;
    try {
      result = member.picture->fill(tensor + filled * bytes, size == 1 ? &elsewhere.data : nullptr);
    } catch (const std::bad_alloc &) {
      result = outOfMemory("prepare a picture for the model");
    }
    member.times.fill = Clock::now() - start;
    const bool on_stream = result && *result == Picture::Filled::OnStream;
    const bool on_device = on_stream || (result && *result == Picture::Filled::OnDevice);
    if (result && (on_device || *result == Picture::Filled::Elsewhere) && (size != 1 || elsewhere.data == nullptr))
      result = Error{"a picture lies elsewhere, but not where", EINVAL, ""};
    if (result && *result == Picture::Filled::Yes) elsewhere.data = nullptr;
    if (on_device) elsewhere.space = MemorySpace::Device;
    elsewhere.on_stream = on_stream;
    if (result && *result != Picture::Filled::NotYet) {
      std::swap(batch.members[filled++], member); // in front are those that were filled
      continue;
    }
    forget(run, member.picture.get());
    if (!result) member.picture->finished(result.error(), member.times);
  }
  batch.members.resize(filled);
}

void ModelRunner::Core::process(Batch &batch, Run &run) {
  const Model &model = *batch.model;
  const InputPlan &plan = model.plan;
  // of the run; known to be as many only when all are filled, where the model leaves it open
  int size = plan.open_batch ? static_cast<int>(batch.members.size()) : std::max(plan.batch, 1);
  const size_t bytes = plan.bytes();
  Result<Outputs> result = cancelled();
  std::chrono::nanoseconds took{0};
  size_t total = 0;
  auto tensor = __builtin_mul_overflow(bytes, static_cast<size_t>(size), &total)
                    ? Result<std::byte *>(outOfMemory("prepare a batch of pictures"))
                    : run.scratch.atLeast(total);
  if (!tensor) {
    result = tensor.error();
  } else {
    Elsewhere elsewhere;
    fill(batch, run, size, *tensor, elsewhere);
    const size_t filled = batch.members.size();
    if (filled == 0) return;
    if (plan.open_batch) size = static_cast<int>(filled);
    for (size_t i = filled; i < static_cast<size_t>(size); ++i)
      std::copy_n(*tensor + (filled - 1) * bytes, bytes, *tensor + i * bytes);
    const TensorView input{plan.type, plan.dims(size),
                           elsewhere.data != nullptr ? const_cast<void *>(elsewhere.data)
                                                     : static_cast<void *>(*tensor),
                           bytes * static_cast<size_t>(size), elsewhere.space};
    const auto start = Clock::now();
    try {
      result = elsewhere.on_stream ? model.engine->enqueue({&input, 1}) : model.engine->run({&input, 1}, run.cancel);
    } catch (const std::bad_alloc &) {
      result = outOfMemory("run the model");
    }
    took = Clock::now() - start;
  }
  {
    const std::lock_guard lock(mutex_);
    run.pictures.clear();
  }
  const int pictures = static_cast<int>(batch.members.size());
  auto parts = result ? splitOutputs(*result, model.engine->outputs(), size, pictures)
                      : Result<std::vector<Outputs>>(result.error());
  result = cancelled(); // each picture may let go of its part
  for (size_t i = 0; i < batch.members.size(); ++i) {
    Member &member = batch.members[i];
    member.times.run = took;
    member.times.batch = pictures;
    if (parts)
      member.picture->finished(std::move((*parts)[i]), member.times);
    else
      member.picture->finished(parts.error(), member.times);
  }
}

// --- ModelRunner

ModelRunner::ModelRunner(std::shared_ptr<const Model> model, const Options &options, const ModelOptions &loaded_with)
    : core_(std::make_shared<Core>(std::move(model), options, loaded_with)) {
  // signals are the application's: its handlers run on its threads
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  for (int i = 0; i < std::max(options.workers, 1); ++i) {
    try {
      threads_.emplace_back([core = core_] { core->work(); });
      const std::string name = "fenceinfer:" + std::to_string(i);
      pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
    } catch (const std::system_error &error) { // those that there are do it all
      if (i == 0)
        core_->cannotWork({"start a thread for inference", error.code().value(), "The process may be out of threads"});
      break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ModelRunner::~ModelRunner() {
  core_->stop();
  const bool inside = std::any_of(threads_.begin(), threads_.end(),
                                  [](const std::thread &t) { return t.get_id() == std::this_thread::get_id(); });
  for (std::thread &thread : threads_) {
    if (inside)
      thread.detach(); // one does not wait for itself, nor for another that may wait for this one
    else
      thread.join();
  }
}

std::shared_ptr<const Model> ModelRunner::model() const { return core_->model(); }
ModelOptions ModelRunner::modelOptions() const { return core_->modelOptions(); }
void ModelRunner::setModel(std::shared_ptr<const Model> model, const ModelOptions &loaded_with) {
  core_->setModel(std::move(model), loaded_with);
}
void ModelRunner::submit(std::shared_ptr<const Model> model, std::shared_ptr<Picture> picture) {
  core_->submit(std::move(model), std::move(picture));
}
void ModelRunner::dropUnwanted() { core_->dropUnwanted(); }
void ModelRunner::hurry() { core_->hurry(); }
size_t ModelRunner::waiting() const { return core_->waiting(); }

} // namespace gstzc::infer
