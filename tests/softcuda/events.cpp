// SPDX-License-Identifier: LGPL-2.1-or-later
// An event stands for the mark of its last record; a record replaces the mark, it does not reset it.
#include "tests/softcuda/internal.h"

using namespace softcuda;

namespace {

MarkPtr markOf(const Event &event) {
  Lock lock(state().lock);
  return event.mark;
}

} // namespace

SOFTCUDA_API cuEventCreate(CUevent *out, unsigned flags) {
  ENTER();
  NEED(out);
  auto event = std::make_shared<Event>(Kind::Event, call.context);
  event->flags = flags;
  add(event);
  *out = handleOf<CUevent>(event);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuEventDestroy_v2(CUevent handle) {
  ENTER(kRelease);
  return take<Event>(handle) ? call.released() : CUDA_ERROR_INVALID_HANDLE;
}

SOFTCUDA_API cuEventRecord(CUevent handle, CUstream stream) {
  ENTER();
  const auto event = find<Event>(handle);
  if (!event || !event->recordable || contextOfStream(stream) != event->context) return CUDA_ERROR_INVALID_HANDLE;
  MarkPtr mark;
  TRY(submit(stream, {__func__, [] { return CUDA_SUCCESS; }, {}, {}}, &mark));
  Lock lock(state().lock);
  event->mark = mark;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned) { return cuEventRecord(handle, stream); }

// One that was never recorded counts as done.
SOFTCUDA_API cuEventQuery(CUevent handle) {
  ENTER();
  const auto event = find<Event>(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (event->context && event->context->sticky != CUDA_SUCCESS) return CUresult(event->context->sticky.load());
  Lock lock(state().lock);
  return !event->mark || event->mark->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SOFTCUDA_API cuEventSynchronize(CUevent handle) {
  ENTER();
  const auto event = find<Event>(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  return wait(event->context ? event->context : call.context, markOf(*event));
}

SOFTCUDA_API cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
  ENTER();
  NEED(milliseconds);
  const auto first = find<Event>(from), second = find<Event>(to);
  if (!first || !second || (first->flags & CU_EVENT_DISABLE_TIMING) || (second->flags & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  Lock lock(state().lock);
  if (!first->mark || !second->mark) return CUDA_ERROR_INVALID_HANDLE;
  if (!first->mark->done || !second->mark->done) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(second->mark->at - first->mark->at).count();
  return CUDA_SUCCESS;
}
