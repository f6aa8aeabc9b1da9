// SPDX-License-Identifier: LGPL-2.1-or-later
// What the stand-ins for libcuda, libvulkan and libEGL hand one another as file descriptors, and the wrong imports that
// they can be told to make. Compiled into each of them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace softcuda {

// What an opaque descriptor is, which its memfd's name says: so it needs no registry, and holds between processes.
enum class Opaque { No, Memory, DedicatedMemory, MesaMemory, Timeline, Binary };
Opaque opaqueKind(int fd);
int createOpaque(Opaque kind, uint64_t bytes); // a new descriptor, close-on-exec; -1: errno
uint64_t sizeOf(int fd);                       // bytes; 0: it has no size
// Of memory that lavapipe exported: in front of it two words say where the file ends and where the memory starts.
struct MesaMemory {
  uint64_t end = 0, start = 0;
};
bool mesaMemory(int fd, MesaMemory *memory);
bool isOpen(int fd);
bool sameFile(int a, int b);

// Of the device that libvulkan shows: libcuda's first one (SOFTVULKAN_UUID: 32 hexadecimal digits of another).
void deviceUuid(uint8_t uuid[16]);

// The delay before each operation of a queue (SOFTCUDA_DELAY_US).
std::chrono::microseconds operationDelay();

// Whether what is left at the end of the process ends it with status 99 (SOFTCUDA_LEAKCHECK).
bool leakCheckWanted();

// A mapping of a part of a file; with the pages past `right` bytes of the file being others, where that is not ~0.
class FileView {
public:
  static constexpr uint64_t kAllRight = ~uint64_t{0};
  static std::unique_ptr<FileView> create(int fd, uint64_t offset, uint64_t bytes, bool writable,
                                          uint64_t right = kAllRight); // null: errno
  ~FileView();
  FileView(const FileView &) = delete;
  FileView &operator=(const FileView &) = delete;
  char *data() const { return data_; } // of byte `offset`
  uint64_t size() const { return size_; }

private:
  FileView(void *map, size_t map_size, char *data, uint64_t size)
      : map_(map), map_size_(map_size), data_(data), size_(size) {}
  void *map_;
  size_t map_size_;
  char *data_;
  uint64_t size_;
};
void replacePages(char *from, char *end); // by anonymous ones of a pattern: whole pages; aborts if it can't

// "dmabuf:2M,egl:64K": kinds of imports that succeed and are right up to so many bytes only. The kinds: dmabuf, opaque
// and register and egl (libcuda's), vulkan (libvulkan's of a dma-buf).
uint64_t parseImportFault(const std::string &faults, const std::string &kind); // FileView::kAllRight: none
// As libcuda has been told by softcuda_set_import_fault(); by SOFTCUDA_IMPORT_FAULT where it is not loaded.
uint64_t importFaultOfProcess(const char *kind);

// A semaphore in a shared page: a timeline of 64 bits, or a binary one.
class SharedSemaphore {
public:
  static std::shared_ptr<SharedSemaphore> create(bool timeline, uint64_t value); // null: errno
  static std::shared_ptr<SharedSemaphore> open(int fd);                          // borrowed; null: it is none
  ~SharedSemaphore();
  SharedSemaphore(const SharedSemaphore &) = delete;
  SharedSemaphore &operator=(const SharedSemaphore &) = delete;

  bool timeline() const;
  uint64_t value() const;
  bool
  signal(uint64_t value); // false: a timeline only grows, and a binary one that is signalled is not signalled again
  // True once the timeline has reached `value`, or the binary one was signalled, which it then is no longer.
  bool wait(uint64_t value, std::chrono::nanoseconds patience);
  int duplicate() const; // a descriptor of it for others; -1: errno

private:
  struct Page;
  SharedSemaphore(int fd, Page *page) : fd_(fd), page_(page) {}
  bool take(uint64_t value);
  int fd_;
  Page *page_;
};

// A picture in tiles: blocks of 64 bytes by 8 rows, one after the other, each row by row. Real block-linear layouts
// shuffle the bytes of a block, too; so much is enough to tell a linear reading from a right one.
constexpr uint32_t kTileBytes = 64, kTileRows = 8;
constexpr uint64_t tiledOffset(uint64_t x, uint64_t y, uint64_t pitch) {
  return (y / kTileRows * (pitch / kTileBytes) + x / kTileBytes) * (kTileBytes * kTileRows) +
         y % kTileRows * kTileBytes + x % kTileBytes;
}
constexpr uint64_t kTiledModifier = (uint64_t{3} << 56) | 0x10 | (uint64_t{6} << 12) | (uint64_t{2} << 20) |
                                    (uint64_t{1} << 22); // DRM_FORMAT_MOD_NVIDIA_BLOCK_LINEAR_2D(0, 1, 2, 6, 0)

} // namespace softcuda
