// SPDX-License-Identifier: LGPL-2.1-or-later
#include "exchange.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>
#include <new>

namespace softcuda {

struct SharedSemaphore::Page {
  static constexpr uint32_t kMagic = 0x73656d61;
  uint32_t magic = kMagic, timeline = 0;
  std::atomic<uint32_t> changes = 0; // what waiters sleep on
  std::atomic<uint64_t> value = 0;
};

std::shared_ptr<SharedSemaphore> SharedSemaphore::create(bool timeline, uint64_t value) {
  const int fd = createOpaque(timeline ? Opaque::Timeline : Opaque::Binary, sizeof(Page));
  if (fd < 0) return nullptr;
  void *const map = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    close(fd);
    return nullptr;
  }
  Page *const page = new (map) Page;
  page->timeline = timeline;
  page->value = value;
  return std::shared_ptr<SharedSemaphore>(new SharedSemaphore(fd, page));
}

std::shared_ptr<SharedSemaphore> SharedSemaphore::open(int fd) {
  const Opaque kind = opaqueKind(fd);
  if (kind != Opaque::Timeline && kind != Opaque::Binary) return nullptr;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return nullptr;
  void *const map = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
  if (map == MAP_FAILED || static_cast<Page *>(map)->magic != Page::kMagic) {
    if (map != MAP_FAILED) munmap(map, sizeof(Page));
    close(own);
    return nullptr;
  }
  return std::shared_ptr<SharedSemaphore>(new SharedSemaphore(own, static_cast<Page *>(map)));
}

SharedSemaphore::~SharedSemaphore() {
  munmap(page_, sizeof(Page));
  close(fd_);
}

bool SharedSemaphore::timeline() const { return page_->timeline != 0; }
uint64_t SharedSemaphore::value() const { return page_->value.load(std::memory_order_acquire); }
int SharedSemaphore::duplicate() const { return fcntl(fd_, F_DUPFD_CLOEXEC, 3); }

bool SharedSemaphore::signal(uint64_t value) {
  if (!timeline()) value = 1;
  uint64_t old = page_->value.load(std::memory_order_relaxed);
  do {
    if (value <= old) return false;
  } while (!page_->value.compare_exchange_weak(old, value, std::memory_order_acq_rel));
  page_->changes.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &page_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return true;
}

bool SharedSemaphore::take(uint64_t value) {
  if (timeline()) return this->value() >= value;
  uint64_t signalled = 1;
  return page_->value.compare_exchange_strong(signalled, 0, std::memory_order_acq_rel);
}

bool SharedSemaphore::wait(uint64_t value, std::chrono::nanoseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const uint32_t seen = page_->changes.load(std::memory_order_acquire);
    if (take(value)) return true;
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    const timespec wait{.tv_sec = left.count() / 1000000000, .tv_nsec = left.count() % 1000000000};
    syscall(SYS_futex, &page_->changes, FUTEX_WAIT, seen, &wait, nullptr, 0);
  }
}

} // namespace softcuda
