// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/contiguity.h"

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace gstzc::lab {
namespace {

constexpr const char *kReserved = "/proc/sys/vm/nr_hugepages";

unsigned reserved() {
  unsigned n = 0;
  std::ifstream(kReserved) >> n;
  return n;
}

void setReserved(unsigned count) { std::ofstream(kReserved) << count; }

} // namespace

Result<HugePages> HugePages::reserve(unsigned count) {
  setReserved(count);
  if (reserved() < count) { // make room
    std::ofstream("/proc/sys/vm/drop_caches") << 3;
    std::ofstream("/proc/sys/vm/compact_memory") << 1;
    setReserved(count);
  }
  if (reserved() < count)
    return Error{std::to_string(count) + " huge pages: " + std::to_string(reserved()) + " could be reserved", ENOMEM,
                 ""};
  return HugePages();
}

HugePages::~HugePages() {
  if (owned_) setReserved(0);
}

Result<FragmentedMemory> FragmentedMemory::create(size_t megabytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = megabytes << 20;
  UniqueFd file(memfd_create("fragments", MFD_CLOEXEC));
  if (!file.isValid() || fallocate(file.get(), 0, 0, static_cast<off_t>(size)) != 0)
    return Error{"memory to fragment", errno, ""};
  for (size_t at = 0; at < size; at += 2 * page)
    if (fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                  static_cast<off_t>(page)) != 0)
      return Error{"a hole in a memfd", errno, ""};
  return FragmentedMemory(std::move(file));
}

Result<bool> isContiguous(int memfd, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  struct stat st = {};
  if (fstat(memfd, &st) != 0) return Error{"size of a memfd", errno, ""};
  const auto size = static_cast<size_t>(st.st_size); // all of it: parts of huge pages cannot be unmapped
  void *mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, memfd, 0);
  if (mapped == MAP_FAILED) return Error{"map a memfd", errno, ""};
  const UniqueFd map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  bool contiguous = map.isValid();
  uint64_t first = 0;
  int code = map.isValid() ? 0 : errno;
  for (size_t i = 0; contiguous && i * page < bytes; ++i) {
    uint64_t entry = 0;
    const auto at = static_cast<off_t>((reinterpret_cast<uintptr_t>(mapped) / page + i) * sizeof entry);
    if (pread(map.get(), &entry, sizeof entry, at) != sizeof entry) {
      code = errno;
      break;
    }
    const uint64_t frame = entry & ((uint64_t{1} << 55) - 1); // 0 without the right to know
    if (frame == 0) {
      code = EPERM;
      break;
    }
    if (i == 0) first = frame;
    contiguous = frame == first + i;
  }
  munmap(mapped, size);
  if (code != 0) return Error{"look up physical addresses", code, ""};
  return contiguous;
}

} // namespace gstzc::lab
