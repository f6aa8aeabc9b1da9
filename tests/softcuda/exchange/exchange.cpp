// SPDX-License-Identifier: LGPL-2.1-or-later
#include "exchange.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace softcuda {
namespace {

constexpr std::pair<Opaque, const char *> kNames[] = {{Opaque::Memory, "softcuda-memory"},
                                                      {Opaque::DedicatedMemory, "softcuda-dedicated-memory"},
                                                      {Opaque::MesaMemory, "llvmpipe memory fd"},
                                                      {Opaque::Timeline, "softcuda-timeline-semaphore"},
                                                      {Opaque::Binary, "softcuda-binary-semaphore"}};

const char *environment(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : nullptr;
}

size_t pageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

} // namespace

Opaque opaqueKind(int fd) {
  char link[64], target[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, target, sizeof target - 1);
  if (n < 0) return Opaque::No;
  const std::string path(target, static_cast<size_t>(n));
  for (const auto &[kind, name] : kNames)
    if (path.starts_with(std::string("/memfd:") + name + " ")) return kind;
  return Opaque::No;
}

int createOpaque(Opaque kind, uint64_t bytes) {
  const char *name = nullptr;
  for (const auto &[k, n] : kNames)
    if (k == kind) name = n;
  const int fd = name ? memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING) : (errno = EINVAL, -1);
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

uint64_t sizeOf(int fd) {
  // a dma-buf's size is where its end is; fstat says 0. A duplicate shares the position, which for a dma-buf is
  // nothing.
  struct stat st;
  if (fstat(fd, &st) != 0) return 0;
  if (S_ISREG(st.st_mode) && st.st_size > 0) return static_cast<uint64_t>(st.st_size);
  const off_t end = lseek(fd, 0, SEEK_END);
  lseek(fd, 0, SEEK_SET);
  return end < 0 ? 0 : static_cast<uint64_t>(end);
}

bool mesaMemory(int fd, MesaMemory *memory) {
  return opaqueKind(fd) == Opaque::MesaMemory && pread(fd, memory, sizeof *memory, 0) == sizeof *memory &&
         memory->start < memory->end && memory->end <= sizeOf(fd);
}

bool isOpen(int fd) { return fd >= 0 && fcntl(fd, F_GETFD) >= 0; }

bool sameFile(int a, int b) {
  struct stat x, y;
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

void deviceUuid(uint8_t uuid[16]) {
  memcpy(uuid, "softcuda-device", 16);
  const char *text = environment("SOFTVULKAN_UUID");
  if (!text || strlen(text) != 32) return;
  for (int i = 0; i < 16; i++)
    uuid[i] = static_cast<uint8_t>(strtoul(std::string(text + 2 * i, 2).c_str(), nullptr, 16));
}

std::chrono::microseconds operationDelay() {
  static const char *const text = environment("SOFTCUDA_DELAY_US");
  return std::chrono::microseconds(text ? atol(text) : 0);
}

bool leakCheckWanted() {
  const char *text = environment("SOFTCUDA_LEAKCHECK");
  return text && strcmp(text, "0") != 0;
}

std::unique_ptr<FileView> FileView::create(int fd, uint64_t offset, uint64_t bytes, bool writable, uint64_t right) {
  const uint64_t slack = offset % pageSize();
  const size_t map_size = bytes + slack;
  void *const map = mmap(nullptr, map_size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd,
                         static_cast<off_t>(offset - slack));
  if (map == MAP_FAILED) return nullptr;
  char *const data = static_cast<char *>(map) + slack;
  if (right < offset + bytes) replacePages(data + (right > offset ? right - offset : 0), data + bytes);
  return std::unique_ptr<FileView>(new FileView(map, map_size, data, bytes));
}

FileView::~FileView() { munmap(map_, map_size_); }

void replacePages(char *from, char *end) {
  const size_t page = pageSize();
  char *const first = from + (page - reinterpret_cast<uintptr_t>(from) % page) % page;
  if (first >= end) return;
  const size_t size = static_cast<size_t>(end - first);
  if (mmap(first, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) abort();
  memset(first, 0x5a, size);
}

uint64_t parseImportFault(const std::string &faults, const std::string &kind) {
  for (size_t at = 0; at < faults.size();) {
    const size_t end = std::min(faults.find(',', at), faults.size());
    const std::string one = faults.substr(at, end - at);
    at = end + 1;
    if (!one.starts_with(kind + ":")) continue;
    char *unit = nullptr;
    uint64_t bytes = strtoull(one.c_str() + kind.size() + 1, &unit, 10);
    if (*unit == 'K') bytes <<= 10;
    if (*unit == 'M') bytes <<= 20;
    return bytes;
  }
  return FileView::kAllRight;
}

uint64_t importFaultOfProcess(const char *kind) {
  using Ask = uint64_t (*)(const char *);
  if (void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    const auto ask = reinterpret_cast<Ask>(dlsym(library, "softcuda_import_fault"));
    dlclose(library);
    if (ask) return ask(kind);
  }
  const char *faults = environment("SOFTCUDA_IMPORT_FAULT");
  return parseImportFault(faults ? faults : "", kind);
}

} // namespace softcuda
