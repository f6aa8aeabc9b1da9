// SPDX-License-Identifier: LGPL-2.1-or-later
// Streams execute: a queue is a FIFO with a thread of its own.
#include "tests/softcuda/internal.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <list>
#include <thread>

namespace softcuda {

struct Queue {
  struct Entry {
    Operation operation;
    MarkPtr mark;
    CUresult fault; // injected
  };
  std::weak_ptr<Context> context;
  std::deque<Entry> entries;
  bool ordered = false; // with the default stream
  bool busy = false, closed = false, finished = false;
  MarkPtr last;
  std::thread thread;

  void run(const ContextPtr &of);
  void execute(Lock &lock, Context &of);
};

namespace {

constexpr std::chrono::seconds kEndPatience(5);
constexpr std::chrono::microseconds kFirstLook(20), kLongestLook(200);

std::list<QueuePtr> &allQueues() { // those with a thread
  static auto &instance = *new std::list<QueuePtr>;
  return instance;
}

bool over(const Context &context) { return context.sticky != CUDA_SUCCESS || context.destroyed || state().ending; }

void joinFinished(Lock &lock) {
  std::list<QueuePtr> finished;
  for (auto at = allQueues().begin(); at != allQueues().end();) {
    const auto here = at++;
    if ((*here)->finished) finished.splice(finished.end(), allQueues(), here);
  }
  lock.unlock();
  for (const QueuePtr &queue : finished) queue->thread.join(); // at its last instructions
  lock.lock();
}

QueuePtr perThreadQueue(Lock &lock, Context &context) {
  static std::atomic<uint64_t> threads{0};
  static thread_local const uint64_t id = ++threads;
  QueuePtr &queue = context.per_thread[id];
  if (!queue) {
    lock.unlock();
    QueuePtr made = newQueue(context.shared_from_this(), true);
    lock.lock();
    queue = std::move(made);
  }
  return queue;
}

} // namespace

void Queue::execute(Lock &lock, Context &of) {
  Entry entry = std::move(entries.front());
  entries.pop_front();
  busy = true;
  const auto given_up = [&] { return over(of); };
  state().changed.wait(lock, [&] {
    return given_up() || std::all_of(entry.operation.after.begin(), entry.operation.after.end(),
                                     [](const MarkPtr &mark) { return mark->done; });
  });
  if (const unsigned delay = delayMicroseconds(); delay > 0)
    state().changed.wait_for(lock, std::chrono::microseconds(delay),
                             [&] { return given_up() || delayMicroseconds() == 0; });
  if (!given_up()) {
    CUresult result = entry.fault;
    if (result == CUDA_SUCCESS) {
      lock.unlock();
      result = entry.operation.run();
      lock.lock();
    }
    if (result != CUDA_SUCCESS) {
      trace("%s fails on the device: %d", entry.operation.name, int(result));
      makeSticky(lock, of, result);
    }
  }
  for (const ObjectPtr &used : entry.operation.uses) --used->users;
  entry.mark->done = true;
  entry.mark->at = Clock::now();
  busy = false;
  state().changed.notify_all();
  lock.unlock();
  entry = Entry(); // may unmap memory
  lock.lock();
}

void Queue::run(const ContextPtr &of) {
  Lock lock(state().lock);
  for (;;) {
    state().changed.wait(lock, [&] { return closed || state().ending || !entries.empty(); });
    if (entries.empty()) break;
    execute(lock, *of);
  }
  finished = true;
  state().changed.notify_all();
}

QueuePtr newQueue(const ContextPtr &context, bool ordered) {
  auto queue = std::make_shared<Queue>();
  queue->context = context;
  queue->ordered = ordered;
  Lock lock(state().lock);
  joinFinished(lock);
  queue->thread = std::thread([queue = queue.get(), context] { queue->run(context); });
  allQueues().push_back(queue);
  return queue;
}

void closeQueue(Lock &, Queue &queue) {
  queue.closed = true;
  state().changed.notify_all();
}

bool idle(Lock &, const Queue &queue) { return queue.entries.empty() && !queue.busy; }

MarkPtr lastMark(Lock &, const Queue &queue) { return queue.last; }

std::vector<MarkPtr> orderedMarks(Lock &lock, const Context &context) {
  std::vector<MarkPtr> marks;
  for (const QueuePtr &queue : queuesOf(lock, context))
    if (queue->ordered && queue->last) marks.push_back(queue->last);
  return marks;
}

std::vector<QueuePtr> queuesOf(Lock &, const Context &context) {
  std::vector<QueuePtr> queues;
  for (const QueuePtr &queue : allQueues())
    if (queue->context.lock().get() == &context) queues.push_back(queue);
  return queues;
}

void endQueues() {
  Lock lock(state().lock);
  state().ending = true;
  state().changed.notify_all();
  const auto all_finished = [] {
    return std::all_of(allQueues().begin(), allQueues().end(), [](const QueuePtr &queue) { return queue->finished; });
  };
  if (!state().changed.wait_for(lock, kEndPatience, all_finished)) {
    fprintf(stderr, "softcuda: an operation does not end; the process ends without it\n");
    for (const QueuePtr &queue : allQueues())
      if (!queue->finished) queue->thread.detach();
    allQueues().remove_if([](const QueuePtr &queue) { return !queue->thread.joinable(); });
  }
  joinFinished(lock);
}

void complete(const MarkPtr &mark) {
  Lock lock(state().lock);
  mark->done = true;
  mark->at = Clock::now();
  state().changed.notify_all();
}

void makeSticky(Lock &, Context &context, CUresult error) {
  int none = CUDA_SUCCESS;
  context.sticky.compare_exchange_strong(none, error); // the first one stays
  state().changed.notify_all();
}

void makeSticky(Context &context, CUresult error) {
  Lock lock(state().lock);
  makeSticky(lock, context, error);
}

ContextPtr contextOfStream(CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) return currentContext();
  const auto found = find<Stream>(stream);
  return found ? found->context : nullptr;
}

CUresult submit(CUstream handle, Operation operation, MarkPtr *mark) {
  ContextPtr context = currentContext();
  std::shared_ptr<Stream> stream;
  const bool by_default = handle == nullptr || handle == CU_STREAM_LEGACY;
  if (!by_default && handle != CU_STREAM_PER_THREAD) {
    stream = find<Stream>(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    context = stream->context;
  }
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->sticky != CUDA_SUCCESS) return CUresult(context->sticky.load());
  const CUresult fault = deviceFault(operation.name);

  Lock lock(state().lock);
  if (context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  QueuePtr queue = by_default ? context->default_queue : stream ? stream->queue : perThreadQueue(lock, *context);
  // The legacy default stream waits for all streams that order themselves with it, and they for it.
  if (by_default) {
    const std::vector<MarkPtr> before = orderedMarks(lock, *context);
    operation.after.insert(operation.after.end(), before.begin(), before.end());
  } else if (queue->ordered) {
    operation.after.push_back(context->default_queue->last);
  }
  std::erase_if(operation.after, [](const MarkPtr &before) { return !before || before->done; });
  for (const ObjectPtr &used : operation.uses) {
    ++used->users;
    used->used_by = operation.name;
  }
  queue->last = std::make_shared<Mark>();
  if (mark) *mark = queue->last;
  queue->entries.push_back({std::move(operation), queue->last, fault});
  state().changed.notify_all();
  return CUDA_SUCCESS;
}

CUresult wait(const ContextPtr &context, const MarkPtr &mark) {
  Lock lock(state().lock);
  state().changed.wait(lock, [&] { return !mark || mark->done || over(*context); });
  return CUresult(context->sticky.load());
}

CUresult submitAndWait(Operation operation) {
  MarkPtr mark;
  const ContextPtr context = currentContext();
  TRY(submit(nullptr, std::move(operation), &mark));
  return wait(context, mark);
}

bool waitUntil(const ContextPtr &context, const std::function<bool()> &ready) {
  for (auto pause = kFirstLook; !ready(); pause = std::min(pause * 2, kLongestLook)) {
    Lock lock(state().lock);
    if (over(*context)) return false;
    state().changed.wait_for(lock, pause);
    if (over(*context)) return false;
  }
  return true;
}

} // namespace softcuda
