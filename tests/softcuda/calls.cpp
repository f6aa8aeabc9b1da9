// SPDX-License-Identifier: LGPL-2.1-or-later
// What happens on the way into a function of the driver, and what is reported of it.
#include "tests/softcuda/internal.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace softcuda {
namespace {

thread_local const char *t_function = "";
thread_local bool t_in_host_function = false;
thread_local std::vector<ContextPtr> t_contexts;

struct Misuses {
  std::mutex lock; // its own: misuse is noticed with the state's lock held and without
  uint64_t count = 0;
  std::string list;
};
Misuses &misuses() {
  static Misuses &instance = *new Misuses;
  return instance;
}

constexpr size_t kLongestList = 64 << 10;

} // namespace

const char *currentFunction() { return t_function; }
bool inHostFunction() { return t_in_host_function; }
void setInHostFunction(bool is) { t_in_host_function = is; }
std::vector<ContextPtr> &contextStack() { return t_contexts; }

ContextPtr currentContext() {
  if (t_contexts.empty() || t_contexts.back()->destroyed) return nullptr;
  return t_contexts.back();
}

Call::Call(const char *function, unsigned flags) : outer_(t_function) {
  t_function = function;
  trace("%s", function);
  const CUresult injected = enterFault(function);
  {
    Lock lock(state().lock);
    if (state().ending)
      error = CUDA_ERROR_DEINITIALIZED;
    else if (!state().initialised && !(flags & kBeforeInit))
      error = CUDA_ERROR_NOT_INITIALIZED;
  }
  if (error != CUDA_SUCCESS) return;
  if (t_in_host_function && !(flags & kBeforeInit)) {
    misuse("%s is called in a host function of a stream", function);
    error = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  context = currentContext();
  if (!context && !(flags & kNoContext)) {
    error = t_contexts.empty() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return;
  }
  CUresult failure = injected;
  if (context && !(flags & (kBroken | kNoContext)) && context->sticky != CUDA_SUCCESS)
    failure = CUresult(context->sticky.load());
  (flags & kRelease ? late_ : error) = failure;
}

Call::~Call() { t_function = outer_; }

void misuse(const char *format, ...) {
  char line[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fprintf(stderr, "softcuda: misuse: %s\n", line);
  const char *then = getenv("SOFTCUDA_MISUSE");
  if (then && strcmp(then, "abort") == 0) abort();
  std::lock_guard lock(misuses().lock);
  ++misuses().count;
  if (misuses().list.size() < kLongestList) misuses().list.append(line).append("\n");
}

std::string misuseList(uint64_t *count) {
  std::lock_guard lock(misuses().lock);
  if (count) *count = misuses().count;
  return misuses().list;
}

void forgetMisuses() {
  std::lock_guard lock(misuses().lock);
  misuses().count = 0;
  misuses().list.clear();
}

void trace(const char *format, ...) {
  static const bool wanted = environmentNumber("SOFTCUDA_TRACE", 0) != 0;
  if (!wanted) return;
  char line[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  fprintf(stderr, "softcuda[%d] %s\n", int(gettid()), line);
}

} // namespace softcuda
