// SPDX-License-Identifier: LGPL-2.1-or-later
// Memory that is a dma-buf by its type and an eventfd by its descriptor: it polls as busy or idle as a test says, on
// machines without dma-bufs.
#pragma once

#include <cstdint>
#include <memory>

#include <gst/allocators/allocators.h>
#include <gst/gst.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace gstzc::test {

namespace event_memory_detail {

inline GstMemory *alloc(GstAllocator *allocator, gsize size, GstAllocationParams *) {
  return gst_dmabuf_allocator_alloc(allocator, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), size);
}
inline void classInit(gpointer klass, gpointer) { GST_ALLOCATOR_CLASS(klass)->alloc = alloc; }
inline void init(GTypeInstance *instance, gpointer) {
  GST_OBJECT_FLAG_UNSET(instance, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}
inline GType type() {
  static const GType registered = [] {
    GTypeQuery parent;
    g_type_query(GST_TYPE_DMABUF_ALLOCATOR, &parent);
    return g_type_register_static_simple(GST_TYPE_DMABUF_ALLOCATOR, "GstZcTestEventAllocator", parent.class_size,
                                         classInit, parent.instance_size, init, static_cast<GTypeFlags>(0));
  }();
  return registered;
}

} // namespace event_memory_detail

// (transfer full). `mem_type` null: that of dma-bufs.
inline GstAllocator *newEventAllocator(const char *mem_type = nullptr) {
  auto *allocator = GST_ALLOCATOR_CAST(g_object_new(event_memory_detail::type(), nullptr));
  gst_object_ref_sink(allocator);
  if (mem_type != nullptr) allocator->mem_type = mem_type;
  return allocator;
}

inline int eventOf(GstBuffer *buffer) { return gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(buffer, 0)); }

// As a dma-buf with a reader: readable or not, it may not be written
inline void setBusy(int event) {
  const uint64_t full = UINT64_MAX - 1;
  [[maybe_unused]] const auto n = write(event, &full, sizeof full);
}

inline void setIdle(int event) {
  uint64_t count;
  [[maybe_unused]] const auto n = read(event, &count, sizeof count);
}

} // namespace gstzc::test
