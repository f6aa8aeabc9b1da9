// SPDX-License-Identifier: LGPL-2.1-or-later
// External semaphores.
#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop.h"

namespace softcuda {
namespace {

struct ExternalSemaphore : Object {
  static constexpr Kind kKind = Kind::ExternalSemaphore;
  using Object::Object;
  TakenDescriptor taken;
  std::shared_ptr<SharedSemaphore> shared;
};
using SemaphorePtr = std::shared_ptr<ExternalSemaphore>;

struct Step {
  std::shared_ptr<SharedSemaphore> semaphore;
  uint64_t value;
};

// The handles as objects, which nobody may destroy before the operation is over, and what it does with each.
template <typename Parameters>
CUresult collect(const CUexternalSemaphore *handles, const Parameters *parameters, unsigned count, Operation *operation,
                 std::vector<Step> *steps) {
  NEED(handles && parameters && count > 0);
  for (unsigned i = 0; i < count; i++) {
    const SemaphorePtr semaphore = find<ExternalSemaphore>(handles[i]);
    if (!semaphore) return CUDA_ERROR_INVALID_HANDLE;
    NEED(parameters[i].flags == 0);
    operation->uses.push_back(semaphore);
    steps->push_back({semaphore->shared, parameters[i].params.fence.value});
  }
  return CUDA_SUCCESS;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

SOFTCUDA_API cuImportExternalSemaphore(CUexternalSemaphore *out,
                                       const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *description) {
  ENTER();
  NEED(out && description && description->flags == 0);
  Opaque wanted = Opaque::No;
  switch (description->type) {
  case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD: wanted = Opaque::Binary; break;
  case CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD: wanted = Opaque::Timeline; break;
  default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (wanted == Opaque::Timeline && !profile().opaque_semaphores) return CUDA_ERROR_NOT_SUPPORTED;
  // a sync_file, an eventfd, a semaphore of the other kind
  if (opaqueKind(description->handle.fd) != wanted) return CUDA_ERROR_INVALID_HANDLE;
  auto semaphore = std::make_shared<ExternalSemaphore>(Kind::ExternalSemaphore, call.context);
  semaphore->shared = SharedSemaphore::open(description->handle.fd);
  if (!semaphore->shared) return CUDA_ERROR_INVALID_HANDLE;
  if (!semaphore->taken.take(description->handle.fd, "cuImportExternalSemaphore")) return CUDA_ERROR_UNKNOWN;
  add(semaphore);
  *out = handleOf<CUexternalSemaphore>(semaphore);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuDestroyExternalSemaphore(CUexternalSemaphore handle) {
  ENTER(kRelease);
  return call.released(take<ExternalSemaphore>(handle, false) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

SOFTCUDA_API cuSignalExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
                                             const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *parameters,
                                             unsigned int count, CUstream stream) {
  ENTER();
  Operation operation;
  operation.name = __func__;
  std::vector<Step> steps;
  TRY(collect(semaphores, parameters, count, &operation, &steps));
  operation.run = [steps] {
    for (const Step &step : steps)
      if (!step.semaphore->signal(step.value))
        misuse("cuSignalExternalSemaphoresAsync: a semaphore at %llu was signalled with %llu",
               static_cast<unsigned long long>(step.semaphore->value()), static_cast<unsigned long long>(step.value));
    return CUDA_SUCCESS;
  };
  return submit(stream, std::move(operation));
}

SOFTCUDA_API cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *semaphores,
                                           const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *parameters, unsigned int count,
                                           CUstream stream) {
  ENTER();
  Operation operation;
  operation.name = __func__;
  std::vector<Step> steps;
  TRY(collect(semaphores, parameters, count, &operation, &steps));
  const ContextPtr context = contextOfStream(stream);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  operation.run = [steps, context] {
    for (const Step &step : steps)
      waitUntil(context, [&step] { return step.semaphore->wait(step.value, std::chrono::nanoseconds(0)); });
    return CUDA_SUCCESS;
  };
  return submit(stream, std::move(operation));
}
