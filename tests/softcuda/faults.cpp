// SPDX-License-Identifier: LGPL-2.1-or-later
// Counters of calls, failures on request, delays, and the functions of softcuda.h that control them.
#include "tests/softcuda/internal.h"

#include <cstdlib>
#include <list>

#define SOFTCUDA_CONTROL extern "C" __attribute__((visibility("default")))

namespace softcuda {
namespace {

struct Fault {
  std::string function;
  unsigned calls_left; // until it strikes; 0: at every call
  CUresult error;
  bool on_device;
};

struct Faults {
  std::mutex lock;
  std::map<std::string, uint64_t, std::less<>> calls;
  std::list<Fault> pending;
  std::atomic<unsigned> delay_us{0};

  Faults() { readEnvironment(); }
  void readEnvironment() {
    delay_us = unsigned(environmentNumber("SOFTCUDA_DELAY_US", 0));
    pending.clear();
    if (const char *text = getenv("SOFTCUDA_FAIL")) parse(text);
  }
  void parse(const std::string &text);
  CUresult strike(const char *function, bool on_device);
};

// "cuMemAlloc_v2:2=CUDA_ERROR_OUT_OF_MEMORY;cuLaunchKernel!=700": the number is 1 where it is left out, and "!" lets
// the operation fail instead of the call.
void Faults::parse(const std::string &text) {
  for (size_t from = 0; from < text.size();) {
    const size_t to = std::min(text.find(';', from), text.size());
    const std::string entry = text.substr(from, to - from);
    from = to + 1;
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    std::string name = entry.substr(0, equals);
    unsigned nth = 1;
    if (const size_t colon = name.find(':'); colon != std::string::npos) {
      nth = unsigned(strtoul(name.c_str() + colon + 1, nullptr, 10));
      name.resize(colon);
    }
    const bool on_device = !name.empty() && name.back() == '!';
    if (on_device) name.pop_back();
    pending.push_back({name, nth, errorByName(entry.substr(equals + 1)), on_device});
  }
}

CUresult Faults::strike(const char *function, bool on_device) {
  CUresult error = CUDA_SUCCESS;
  for (auto at = pending.begin(); at != pending.end();) {
    if (at->on_device != on_device || at->function != function) {
      ++at;
    } else if (at->calls_left == 0) {
      error = at->error;
      ++at;
    } else if (--at->calls_left == 0) {
      error = at->error;
      at = pending.erase(at);
    } else {
      ++at;
    }
  }
  return error;
}

Faults &faults() {
  static Faults &instance = *new Faults;
  return instance;
}

const char *keep(std::string text) {
  static thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

} // namespace

CUresult enterFault(const char *function) {
  std::lock_guard lock(faults().lock);
  ++faults().calls[function];
  return faults().strike(function, false);
}

CUresult deviceFault(const char *function) {
  std::lock_guard lock(faults().lock);
  return faults().strike(function, true);
}

unsigned delayMicroseconds() { return faults().delay_us; }

} // namespace softcuda

using namespace softcuda;

SOFTCUDA_CONTROL void softcuda_fail(const char *name, unsigned nth, int error) {
  std::lock_guard lock(faults().lock);
  faults().pending.push_back({name, nth, CUresult(error), false});
}

SOFTCUDA_CONTROL void softcuda_fail_on_device(const char *name, unsigned nth, int error) {
  std::lock_guard lock(faults().lock);
  faults().pending.push_back({name, nth, CUresult(error), true});
}

SOFTCUDA_CONTROL void softcuda_set_delay_us(unsigned microseconds) {
  Lock lock(state().lock);
  faults().delay_us = microseconds;
  state().changed.notify_all(); // 0 ends those that are running
}

SOFTCUDA_CONTROL uint64_t softcuda_calls(const char *name) {
  std::lock_guard lock(faults().lock);
  if (name) {
    const auto at = faults().calls.find(name);
    return at == faults().calls.end() ? 0 : at->second;
  }
  uint64_t sum = 0;
  for (const auto &[function, count] : faults().calls) sum += count;
  return sum;
}

SOFTCUDA_CONTROL const char *softcuda_call_names(void) {
  std::lock_guard lock(faults().lock);
  std::string names;
  for (const auto &[function, count] : faults().calls) names += function + "\n";
  return keep(std::move(names));
}

SOFTCUDA_CONTROL uint64_t softcuda_live(const char *kind) { return liveObjects(kind, nullptr); }

SOFTCUDA_CONTROL const char *softcuda_live_list(void) {
  std::string list;
  liveObjects(nullptr, &list);
  return keep(std::move(list));
}

SOFTCUDA_CONTROL uint64_t softcuda_misuses(void) {
  uint64_t count;
  misuseList(&count);
  return count;
}

SOFTCUDA_CONTROL const char *softcuda_misuse_list(void) { return keep(misuseList(nullptr)); }

SOFTCUDA_CONTROL void softcuda_device_lost(int device, int error) {
  Lock lock(state().lock);
  state().lost[device] = error;
  for (const auto &[handle, object] : state().objects) {
    if (object->kind != Kind::Context) continue;
    auto &context = static_cast<Context &>(*object);
    if (context.device == device) makeSticky(lock, context, CUresult(error));
  }
}

SOFTCUDA_CONTROL void softcuda_reset(void) {
  {
    std::lock_guard lock(faults().lock);
    faults().calls.clear();
    faults().readEnvironment();
  }
  forgetMisuses();
  Lock lock(state().lock);
  state().lost.clear();
}

SOFTCUDA_CONTROL void *softcuda_ptr(uint64_t device, size_t bytes) {
  char *host = nullptr;
  return resolve(nullptr, device, bytes, nullptr, &host) == CUDA_SUCCESS ? host : nullptr;
}
