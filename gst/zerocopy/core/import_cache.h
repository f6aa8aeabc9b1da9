// SPDX-License-Identifier: LGPL-2.1-or-later
// What devices made of buffers (mappings, framebuffers, device pointers), kept as long as the buffers come round again.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/export.h"

namespace gstzc {

constexpr unsigned kMaxImportPlanes = 4;

using ImporterId = uint64_t; // one importing device, or other user, of the cache; never 0, never used twice

// All that makes two imports the same: who imports, the memory by its inode, and everything of its layout.
struct ImportKey {
  ImporterId importer = 0;
  unsigned n_planes = 0;
  std::array<BufferId, kMaxImportPlanes> buffers = {};
  std::array<uint64_t, kMaxImportPlanes> offsets = {}; // bytes
  std::array<uint32_t, kMaxImportPlanes> pitches = {}; // bytes
  uint32_t fourcc = 0;                                 // DRM_FORMAT_*, 0 for bytes
  uint64_t modifier = 0;
  uint32_t width = 0, height = 0; // pixels
  uint64_t size = 0;              // bytes, for imports of bytes
  auto operator<=>(const ImportKey &) const = default;
};

// One per process, so that each buffer is imported once for a device whatever elements use it. Thread-safe. An import
// has to keep its buffer's memory alive: then no other buffer can get the identity in its key while it is here. That
// memory is given up as soon as nobody can ask for it again: when one of the key's buffers has no memory left
// (bufferAppeared(), bufferGone()) and `frames` lookups of the importer passed without a hit; when the importer says
// so; or when the importer has more than `entries`, the one unused for longest. What is in use by somebody stays with
// him. Imports are destroyed without the lock.
//
// One buffer of several is enough to make an entry go: a hit needs a memory of each at the same time. The entry stays
// the `frames` lookups in case that there is just no memory for the moment, as with producers that wrap the same
// dma-buf anew for each frame.
class GSTZC_API ImportCache {
public:
  struct Limits {
    // Against producers whose buffers never end, or are never used again; not for those in use, all of which have to
    // fit: past it each frame of a larger pool is a miss. An entry is as large as its buffer at most, which its
    // producer holds anyway.
    size_t entries = 1024;
    uint64_t frames = 32; // as many buffers as a V4L2 queue has, of a producer that wraps each frame anew
  };
  struct Counters {
    uint64_t imports = 0, hits = 0, misses = 0;
    uint64_t expired = 0, displaced = 0, forgotten = 0; // by age, by the bound, by the importer
    uint64_t entries = 0;                               // now
  };

  static ImportCache &process();

  ImportCache();
  ~ImportCache();
  ImportCache(const ImportCache &) = delete;
  ImportCache &operator=(const ImportCache &) = delete;

  ImporterId addImporter(Limits limits);
  ImporterId addImporter() { return addImporter(Limits()); }
  void removeImporter(ImporterId id); // with all its imports

  // Null where there is none. A hit takes one lock and allocates nothing. The type is the importer's own business: T of
  // insert() and find() agree.
  template <typename T> std::shared_ptr<T> find(const ImportKey &key) {
    return std::static_pointer_cast<T>(lookup(key));
  }
  // Returns what is in the cache now: where two threads imported the same at once, the first one's. An importer that
  // was removed gets its import back, and nothing is kept.
  template <typename T> std::shared_ptr<T> insert(const ImportKey &key, std::shared_ptr<T> import) {
    return std::static_pointer_cast<T>(store(key, std::move(import)));
  }
  void forget(ImporterId id);                         // all of it: other caps
  void forget(ImporterId id, const BufferId &buffer); // what was made of this buffer

  // Memories of a buffer that exist, counted by whoever knows of them (memory_tracking.h). A buffer that was never
  // announced counts as gone.
  void bufferAppeared(const BufferId &buffer);
  void bufferGone(const BufferId &buffer);

  Counters counters(ImporterId id) const; // all 0 for an importer that was removed
  size_t buffers() const;                 // that the cache knows of: announced, or in an entry

private:
  std::shared_ptr<void> lookup(const ImportKey &key);
  std::shared_ptr<void> store(const ImportKey &key, std::shared_ptr<void> import);
  class Private;
  const std::unique_ptr<Private> p_;
};

} // namespace gstzc
