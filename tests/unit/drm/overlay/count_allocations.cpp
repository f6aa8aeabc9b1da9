// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/drm/overlay/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
thread_local unsigned uncounted = 0;
}

gstzc::testdata::Uncounted::Uncounted() { ++uncounted; }
gstzc::testdata::Uncounted::~Uncounted() { --uncounted; }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) // these have their own

std::optional<uint64_t> gstzc::testdata::allocationsSoFar() { return std::nullopt; }

#else

namespace {
std::atomic<uint64_t> allocations = 0;
}

void *operator new(size_t size) {
  if (uncounted == 0) ++allocations;
  if (void *memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

std::optional<uint64_t> gstzc::testdata::allocationsSoFar() { return allocations; }

#endif
