// SPDX-License-Identifier: LGPL-2.1-or-later
// The process's one state, what is left over at its end, and how the process is left.
#include "tests/softcuda/internal.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace softcuda {
namespace {

constexpr int kLeakStatus = 99;
const pid_t g_process = getpid();

// After everything that a process does when it ends: all others have had their turn to free what they have.
__attribute__((destructor)) void end() {
  if (getpid() != g_process) return; // a fork has none of the threads, and what it leaves is the parent's
  const int leak_check = environmentNumber("SOFTCUDA_LEAKCHECK", 0);
  uint64_t leaks = 0, misuses = 0;
  std::string list;
  if (leak_check) {
    leaks = liveObjects(nullptr, &list);
    if (leak_check > 1) leaks += liveObjects("context", &list);
    misuseList(&misuses);
    fprintf(stderr, "%ssoftcuda: leak check: %ju left, %ju misuses\n", list.c_str(), uintmax_t(leaks),
            uintmax_t(misuses));
  }
  endQueues();
  if (leaks == 0 && misuses == 0) return;
  fflush(nullptr);
  _exit(kLeakStatus);
}

} // namespace

State &state() {
  static State &instance = *new State;
  return instance;
}

int environmentNumber(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

} // namespace softcuda
