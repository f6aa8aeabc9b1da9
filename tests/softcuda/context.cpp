// SPDX-License-Identifier: LGPL-2.1-or-later
// Contexts: of the caller, and the one primary context that each device has.
#include "tests/softcuda/internal.h"

#include <algorithm>

using namespace softcuda;

namespace {

constexpr std::chrono::seconds kDrainPatience(10);

struct Primary {
  ContextPtr context;
  unsigned references = 0, flags = 0;
};
std::map<int, Primary> &primaries() { // with g_primary_lock
  static auto &instance = *new std::map<int, Primary>;
  return instance;
}
std::mutex g_primary_lock;

bool isDevice(CUdevice device) { return device >= 0 && device < deviceCount(); }

CUresult create(CUdevice device, unsigned flags, ContextPtr *out) {
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  {
    Lock lock(state().lock);
    if (const auto lost = state().lost.find(device); lost != state().lost.end()) return CUresult(lost->second);
  }
  auto context = std::make_shared<Context>(device);
  context->flags = flags;
  context->default_queue = newQueue(context, false);
  add(context);
  *out = std::move(context);
  return CUDA_SUCCESS;
}

// With all that is enqueued done; what still belongs to it is gone, and reported.
void destroy(const ContextPtr &context) {
  std::vector<ObjectPtr> left; // destroyed without the lock
  Lock lock(state().lock);
  const auto drained = [&] {
    const std::vector<QueuePtr> queues = queuesOf(lock, *context);
    return state().ending ||
           std::all_of(queues.begin(), queues.end(), [&](const QueuePtr &q) { return idle(lock, *q); });
  };
  if (!state().changed.wait_for(lock, kDrainPatience, drained))
    misuse("a context is destroyed with work that does not end");
  context->destroyed = true;
  for (const QueuePtr &queue : queuesOf(lock, *context)) closeQueue(lock, *queue);
  left = takeAllOf(lock, context.get());
  for (const ObjectPtr &object : left) {
    if (!object->counted) continue;
    misuse("a context is destroyed with a %s of %s in it", kindName(object->kind), object->made_by);
  }
  for (const auto &[handle, object] : state().objects)
    if (object->kind == Kind::Context) std::erase(static_cast<Context &>(*object).peers, context.get());
}

} // namespace

SOFTCUDA_API cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device) {
  ENTER(kNoContext);
  NEED(out);
  ContextPtr context;
  TRY(create(device, flags, &context));
  contextStack().push_back(context);
  *out = handleOf<CUcontext>(context);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxDestroy_v2(CUcontext handle) {
  ENTER(kNoContext | kRelease);
  NEED(handle);
  const auto found = find<Context>(handle);
  if (!found || found->primary) return CUDA_ERROR_INVALID_CONTEXT;
  const auto context = take<Context>(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  destroy(context);
  if (!contextStack().empty() && contextStack().back() == context) contextStack().pop_back();
  return call.released();
}

SOFTCUDA_API cuCtxPushCurrent_v2(CUcontext handle) {
  ENTER(kNoContext);
  const auto context = find<Context>(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  contextStack().push_back(context);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxPopCurrent_v2(CUcontext *out) {
  ENTER(kNoContext | kRelease); // a caller has no way to try again
  if (contextStack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = handleOf<CUcontext>(contextStack().back());
  contextStack().pop_back();
  return call.released();
}

SOFTCUDA_API cuCtxSetCurrent(CUcontext handle) {
  ENTER(kNoContext);
  const auto context = find<Context>(handle);
  if (handle && !context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!contextStack().empty()) contextStack().pop_back();
  if (context) contextStack().push_back(context);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxGetCurrent(CUcontext *out) {
  ENTER(kNoContext);
  NEED(out);
  *out = call.context ? handleOf<CUcontext>(call.context) : nullptr;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxGetDevice(CUdevice *device) {
  ENTER(kBroken);
  NEED(device);
  *device = call.context->device;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxGetFlags(unsigned *flags) {
  ENTER(kBroken);
  NEED(flags);
  *flags = call.context->flags;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxGetApiVersion(CUcontext handle, unsigned *version) {
  ENTER(kNoContext);
  NEED(version);
  if (handle && !find<Context>(handle)) return CUDA_ERROR_INVALID_CONTEXT;
  *version = 3020; // of contexts that cuCtxCreate_v2 makes
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxSynchronize(void) {
  ENTER();
  std::vector<MarkPtr> marks;
  {
    Lock lock(state().lock);
    for (const QueuePtr &queue : queuesOf(lock, *call.context)) marks.push_back(lastMark(lock, *queue));
  }
  for (const MarkPtr &mark : marks) TRY(wait(call.context, mark));
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER(kBroken);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxGetLimit(size_t *value, CUlimit limit) {
  ENTER();
  NEED(value && unsigned(limit) < std::size(call.context->limits));
  *value = call.context->limits[limit];
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER();
  NEED(unsigned(limit) < std::size(call.context->limits));
  call.context->limits[limit] = value;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxEnablePeerAccess(CUcontext handle, unsigned flags) {
  ENTER();
  NEED(flags == 0);
  const auto peer = find<Context>(handle);
  if (!peer || peer == call.context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!peersCanAccess(call.context->device, peer->device)) return CUDA_ERROR_INVALID_DEVICE;
  Lock lock(state().lock);
  auto &peers = call.context->peers;
  if (std::find(peers.begin(), peers.end(), peer.get()) != peers.end()) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  peers.push_back(peer.get());
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuCtxDisablePeerAccess(CUcontext handle) {
  ENTER(kRelease);
  const auto peer = find<Context>(handle);
  if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
  Lock lock(state().lock);
  return std::erase(call.context->peers, peer.get()) > 0 ? call.released() : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

SOFTCUDA_API cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
  ENTER(kNoContext);
  NEED(out);
  std::lock_guard guard(g_primary_lock);
  Primary &primary = primaries()[device];
  if (primary.references == 0) {
    TRY(create(device, primary.flags, &primary.context));
    primary.context->primary = true;
  }
  ++primary.references;
  *out = handleOf<CUcontext>(primary.context);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER(kNoContext | kRelease);
  ContextPtr last;
  {
    std::lock_guard guard(g_primary_lock);
    Primary &primary = primaries()[device];
    if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.references == 0) last = std::move(primary.context);
  }
  if (last && take<Context>(handleOf<void *>(last))) destroy(last);
  return call.released();
}

SOFTCUDA_API cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  ENTER(kNoContext);
  NEED(flags && active);
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard guard(g_primary_lock);
  *flags = primaries()[device].flags;
  *active = primaries()[device].references > 0;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  ENTER(kNoContext);
  if (!isDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard guard(g_primary_lock);
  primaries()[device].flags = flags;
  return CUDA_SUCCESS;
}
