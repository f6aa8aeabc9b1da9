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
  if (!id) return id;
  const auto object = GST_MINI_OBJECT_CAST(memory);
  gpointer before = nullptr;
  {
    static std::mutex mutex; // the record is read and replaced as one
    const std::lock_guard lock(mutex);
    const auto *known = static_cast<const BufferId *>(gst_mini_object_get_qdata(object, quark()));
    if (known != nullptr && *known == *id) return id;
    ImportCache::process().bufferAppeared(*id);
    before = gst_mini_object_steal_qdata(object, quark());
    gst_mini_object_set_qdata(object, quark(), new BufferId(*id), gone);
  }
  if (before != nullptr) gone(before);
  return id;
}

} // namespace gstzc
