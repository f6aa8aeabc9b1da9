// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/softcuda/internal.h"

using namespace softcuda;

namespace {

bool isDefault(CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY; }

CUresult create(CUstream *out, unsigned flags, int priority, const ContextPtr &context) {
  NEED(out && flags <= CU_STREAM_NON_BLOCKING);
  auto stream = std::make_shared<Stream>(Kind::Stream, context);
  stream->queue = newQueue(context, !(flags & CU_STREAM_NON_BLOCKING));
  stream->flags = flags;
  stream->priority = priority;
  add(stream);
  *out = handleOf<CUstream>(stream);
  return CUDA_SUCCESS;
}

// The mark after which a stream is as far as it is now; an operation that does nothing where the default stream's order
// with others matters.
CUresult markOf(CUstream handle, const char *function, ContextPtr *context, MarkPtr *mark) {
  if (isDefault(handle) || handle == CU_STREAM_PER_THREAD) {
    *context = currentContext();
    return submit(handle, {function, [] { return CUDA_SUCCESS; }, {}, {}}, mark);
  }
  const auto stream = find<Stream>(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *context = stream->context;
  Lock lock(state().lock);
  *mark = lastMark(lock, *stream->queue);
  return CUDA_SUCCESS;
}

bool holds(uint32_t word, uint32_t value, unsigned condition) {
  switch (condition) {
  case CU_STREAM_WAIT_VALUE_EQ: return word == value;
  case CU_STREAM_WAIT_VALUE_AND: return (word & value) != 0;
  case CU_STREAM_WAIT_VALUE_NOR: return ~(word | value) != 0;
  default: return int32_t(word - value) >= 0; // cyclic
  }
}

} // namespace

SOFTCUDA_API cuStreamCreate(CUstream *out, unsigned flags) {
  ENTER();
  return create(out, flags, 0, call.context);
}

SOFTCUDA_API cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  ENTER();
  return create(out, flags, priority, call.context);
}

// Returns at once: what is enqueued is done all the same.
SOFTCUDA_API cuStreamDestroy_v2(CUstream handle) {
  ENTER(kRelease);
  if (isDefault(handle) || handle == CU_STREAM_PER_THREAD) return CUDA_ERROR_INVALID_HANDLE;
  const auto stream = take<Stream>(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  Lock lock(state().lock);
  closeQueue(lock, *stream->queue);
  return call.released();
}

SOFTCUDA_API cuStreamGetFlags(CUstream handle, unsigned *flags) {
  ENTER();
  NEED(flags);
  *flags = 0;
  if (isDefault(handle) || handle == CU_STREAM_PER_THREAD) return CUDA_SUCCESS;
  const auto stream = find<Stream>(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuStreamGetPriority(CUstream handle, int *priority) {
  ENTER();
  NEED(priority);
  *priority = 0;
  if (isDefault(handle) || handle == CU_STREAM_PER_THREAD) return CUDA_SUCCESS;
  const auto stream = find<Stream>(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuStreamGetCtx(CUstream handle, CUcontext *context) {
  ENTER();
  NEED(context);
  const ContextPtr found = contextOfStream(handle);
  if (!found) return CUDA_ERROR_INVALID_HANDLE;
  *context = handleOf<CUcontext>(found);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuStreamQuery(CUstream handle) {
  ENTER();
  ContextPtr context = call.context;
  MarkPtr mark;
  if (isDefault(handle)) {
    Lock lock(state().lock);
    std::vector<MarkPtr> marks = orderedMarks(lock, *context); // what the default stream would wait for
    marks.push_back(lastMark(lock, *context->default_queue));
    for (const MarkPtr &before : marks)
      if (before && !before->done) return CUDA_ERROR_NOT_READY;
    return CUDA_SUCCESS;
  }
  TRY(markOf(handle, __func__, &context, &mark));
  if (context->sticky != CUDA_SUCCESS) return CUresult(context->sticky.load());
  Lock lock(state().lock);
  return !mark || mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SOFTCUDA_API cuStreamSynchronize(CUstream handle) {
  ENTER();
  ContextPtr context;
  MarkPtr mark;
  TRY(markOf(handle, __func__, &context, &mark));
  return wait(context, mark);
}

// What the event stands for is settled now: a later record does not move it.
SOFTCUDA_API cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned flags) {
  ENTER();
  NEED(flags <= 1); // CU_EVENT_WAIT_EXTERNAL
  const auto event = find<Event>(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  MarkPtr mark;
  {
    Lock lock(state().lock);
    mark = event->mark;
  }
  return submit(stream, {__func__, [] { return CUDA_SUCCESS; }, {}, {mark}});
}

SOFTCUDA_API cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  ENTER();
  NEED(address % sizeof(cuuint32_t) == 0);
  const ContextPtr context = contextOfStream(stream);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  AllocationPtr memory;
  char *host;
  TRY(resolve(context.get(), address, sizeof value, &memory, &host));
  const auto look = [host, value, condition = flags & 3] {
    return holds(__atomic_load_n(reinterpret_cast<uint32_t *>(host), __ATOMIC_ACQUIRE), value, condition);
  };
  const auto run = [context, look] {
    waitUntil(context, look);
    return CUDA_SUCCESS;
  };
  return submit(stream, {__func__, run, {memory}, {}});
}

SOFTCUDA_API cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned) {
  ENTER();
  NEED(address % sizeof(cuuint32_t) == 0);
  const ContextPtr context = contextOfStream(stream);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  AllocationPtr memory;
  char *host;
  TRY(resolve(context.get(), address, sizeof value, &memory, &host, true));
  const auto run = [host, value] {
    __atomic_store_n(reinterpret_cast<uint32_t *>(host), value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
  };
  return submit(stream, {__func__, run, {memory}, {}});
}

SOFTCUDA_API cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  ENTER();
  NEED(function);
  const auto run = [function, data] {
    setInHostFunction(true);
    function(data);
    setInHostFunction(false);
    return CUDA_SUCCESS;
  };
  return submit(stream, {__func__, run, {}, {}});
}
