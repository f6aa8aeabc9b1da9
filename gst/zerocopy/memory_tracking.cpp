// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/memory_tracking.h"

#include <memory>
#include <mutex>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/core/import_cache.h"

namespace gstzc {
namespace {

GQuark quark() {
  static const GQuark q = g_quark_from_static_string("gst-zc-tracked-buffer");
  return q;
}

void gone(gpointer data) {
  const std::unique_ptr<BufferId> id(static_cast<BufferId *>(data));
  ImportCache::process().bufferGone(*id);
}

} // namespace

Result<BufferId> trackMemory(GstMemory *memory) {
  while (memory->parent != nullptr) memory = memory->parent;
  if (!gst_is_dmabuf_memory(memory))
    return Error{"a memory of type " + std::string(memory->allocator->mem_type) + ", which is no dma-buf", 0, ""};
  // Asked anew each time: a descriptor that its owner closed too early may be another file's by now.
  auto id = bufferId(gst_dmabuf_memory_get_fd(memory));
  if (id) trackMemory(memory, *id);
  return id;
}

void trackMemory(GstMemory *memory, const BufferId &id) {
  while (memory->parent != nullptr) memory = memory->parent;
  static std::mutex mutex; // the record is read and replaced as one
  const auto object = GST_MINI_OBJECT_CAST(memory);
  const auto isKnown = [&] {
    const auto *known = static_cast<const BufferId *>(gst_mini_object_get_qdata(object, quark()));
    return known != nullptr && *known == id;
  };
  {
    const std::lock_guard lock(mutex);
    if (isKnown()) return;
  }
  // without the lock, which every frame of the process takes: the cache may destroy imports
  ImportCache::process().bufferAppeared(id);
  gpointer superfluous = new BufferId(id);
  {
    const std::lock_guard lock(mutex);
    if (!isKnown()) { // else another thread was first
      gpointer before = gst_mini_object_steal_qdata(object, quark());
      gst_mini_object_set_qdata(object, quark(), superfluous, gone);
      superfluous = before;
    }
  }
  if (superfluous != nullptr) gone(superfluous);
}

} // namespace gstzc
