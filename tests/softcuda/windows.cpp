// SPDX-License-Identifier: LGPL-2.1-or-later
// Addresses of the device: reserved, never accessible, so that the host faults where it would on a discrete GPU. What
// was freed stays reserved as long as there is room: an address that is used after it was freed is then nobody's.
#include "tests/softcuda/internal.h"

#include <algorithm>
#include <deque>
#include <sys/mman.h>
#include <unistd.h>

namespace softcuda {
namespace {

constexpr size_t kLargestChunk = size_t(64) << 30, kSmallestChunk = size_t(64) << 20;
constexpr size_t kMostReserved = size_t(256) << 30; // then freed addresses are given out again
constexpr size_t kAlignment = 2 << 20;              // as far as a device's allocations are apart at least

struct Range {
  uintptr_t from, to;
};

struct Windows {
  std::mutex lock;
  std::deque<Range> chunks; // the last one is being used
  uintptr_t next = 0;
  size_t reserved = 0;
  std::map<size_t, std::deque<uintptr_t>> freed; // by size, the oldest first

  bool grow(size_t bytes);
};
Windows &windows() {
  static Windows &instance = *new Windows;
  return instance;
}

size_t roundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

bool Windows::grow(size_t bytes) {
  for (size_t chunk = kLargestChunk; chunk >= kSmallestChunk; chunk /= 4) {
    const size_t length = std::max(chunk, roundUp(bytes + kAlignment, kAlignment));
    void *at = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) continue; // a sanitizer or a limit leaves less room
    const auto from = reinterpret_cast<uintptr_t>(at);
    chunks.push_back({from, from + length});
    next = from;
    reserved += length;
    return true;
  }
  return false;
}

} // namespace

size_t pageUp(size_t bytes) {
  static const size_t page = size_t(sysconf(_SC_PAGESIZE));
  return roundUp(bytes, page);
}

uintptr_t reserveWindow(size_t bytes, size_t alignment) {
  Windows &all = windows();
  std::lock_guard lock(all.lock);
  if (bytes == 0 || bytes > kMostReserved) return 0;
  alignment = std::max(alignment, kAlignment);
  const size_t length = roundUp(bytes + 1, kAlignment); // a gap between two
  const auto fits = [&] {
    return !all.chunks.empty() && roundUp(all.next, alignment) + length <= all.chunks.back().to;
  };
  if (!fits() && all.reserved >= kMostReserved) {
    std::deque<uintptr_t> &old = all.freed[length];
    for (auto at = old.begin(); at != old.end(); ++at) {
      if (*at % alignment != 0) continue;
      const uintptr_t address = *at;
      old.erase(at);
      return address;
    }
  }
  if (!fits() && !all.grow(length + alignment)) return 0;
  const uintptr_t address = roundUp(all.next, alignment);
  all.next = address + length;
  return address;
}

void returnWindow(uintptr_t address, size_t bytes) {
  std::lock_guard lock(windows().lock);
  windows().freed[roundUp(bytes + 1, kAlignment)].push_back(address);
}

bool inWindow(const void *host) {
  const auto address = reinterpret_cast<uintptr_t>(host);
  std::lock_guard lock(windows().lock);
  return std::any_of(windows().chunks.begin(), windows().chunks.end(),
                     [address](const Range &chunk) { return address >= chunk.from && address < chunk.to; });
}

} // namespace softcuda
