// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzcallocator
 * @title: GstZcAllocator
 * @short_description: Allocators of dma-bufs
 * @see_also: #GstDmaBufAllocator, #GstZcPool
 *
 * Memory that a CPU producer writes and that displays, cameras and GPUs can import: udmabufs, buffers of dma-heaps and,
 * as an explicit mode for tests, plain memfds.
 *
 * Since: 0.1
 */
#include "gst/zerocopy/gstzcallocator.h"

#include <cerrno>
#include <memory>
#include <optional>

#include <gio/gio.h>

#include "gst/zerocopy/core/dma_alloc.h"

GST_DEBUG_CATEGORY_STATIC(gst_zc_allocator_debug);
#define GST_CAT_DEFAULT gst_zc_allocator_debug

struct _GstZcAllocator {
  GstDmaBufAllocator parent;
  struct GstZcAllocatorPrivate *priv;
};

struct _GstZcAllocatorClass {
  GstDmaBufAllocatorClass parent_class;
};

struct GstZcAllocatorPrivate {
  std::optional<gstzc::DmaAllocator> dma; // set before the allocator is seen by anybody, then constant
};

namespace {

// Kept beside each memory. Sub-memories have none: their parent's counts.
struct MemoryRecord {
  gstzc::DmaSource source;
  bool contiguous, cached;
  gstzc::UniqueFd memfd;
  guint64 memfd_offset;
};

GQuark record_quark() {
  static GQuark quark = g_quark_from_static_string("gst-zc-memory-record");
  return quark;
}

const MemoryRecord *get_record(GstMemory *memory) {
  while (memory->parent != nullptr) memory = memory->parent;
  return static_cast<MemoryRecord *>(gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(memory), record_quark()));
}

// The name of GStreamer's own GstUdmabufAllocator (1.28), whose memories are udmabufs over a memfd that it closed
constexpr const char *kUpstreamUdmabuf = "udmabuf";

void free_record(gpointer record) { delete static_cast<MemoryRecord *>(record); }

gstzc::DmaSource to_core(GstZcMemorySource source) {
  switch (source) {
  case GST_ZC_MEMORY_SOURCE_UDMABUF: return gstzc::DmaSource::Udmabuf;
  case GST_ZC_MEMORY_SOURCE_DMA_HEAP: return gstzc::DmaSource::DmaHeap;
  case GST_ZC_MEMORY_SOURCE_MEMFD: return gstzc::DmaSource::Memfd;
  case GST_ZC_MEMORY_SOURCE_AUTO: break;
  }
  return gstzc::DmaSource::Auto;
}

GstZcMemorySource from_core(gstzc::DmaSource source) {
  switch (source) {
  case gstzc::DmaSource::Udmabuf: return GST_ZC_MEMORY_SOURCE_UDMABUF;
  case gstzc::DmaSource::DmaHeap: return GST_ZC_MEMORY_SOURCE_DMA_HEAP;
  case gstzc::DmaSource::Memfd: return GST_ZC_MEMORY_SOURCE_MEMFD;
  case gstzc::DmaSource::Auto: break;
  }
  return GST_ZC_MEMORY_SOURCE_AUTO;
}

void set_error(GError **error, GstResourceError fallback, const gstzc::Error &cause) {
  GstResourceError code = fallback;
  if (cause.code == ENOSPC || cause.code == ENOMEM) code = GST_RESOURCE_ERROR_NO_SPACE_LEFT;
  g_set_error_literal(error, GST_RESOURCE_ERROR, code, cause.message().c_str());
}

} // namespace

GType gst_zc_memory_source_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {GST_ZC_MEMORY_SOURCE_AUTO, "udmabuf, else the dma-heap", "auto"},
      {GST_ZC_MEMORY_SOURCE_UDMABUF, "/dev/udmabuf over a memfd", "udmabuf"},
      {GST_ZC_MEMORY_SOURCE_DMA_HEAP, "/dev/dma_heap/<heap-name>", "dma-heap"},
      {GST_ZC_MEMORY_SOURCE_MEMFD, "plain memfds, which are no dma-bufs: for tests only", "memfd"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type)) g_once_init_leave(&type, g_enum_register_static("GstZcMemorySource", values));
  return type;
}

#define gst_zc_allocator_parent_class parent_class
G_DEFINE_TYPE_WITH_CODE(GstZcAllocator, gst_zc_allocator, GST_TYPE_DMABUF_ALLOCATOR,
                        GST_DEBUG_CATEGORY_INIT(gst_zc_allocator_debug, "zcallocator", 0, "dma-buf allocation"))

static GstMemory *gst_zc_allocator_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params) {
  GError *error = nullptr;
  GstMemory *memory = gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), size, params, &error);
  if (memory == nullptr) {
    GST_ERROR_OBJECT(allocator, "%s", error->message);
    g_clear_error(&error);
  }
  return memory;
}

static void gst_zc_allocator_finalize(GObject *object) {
  delete GST_ZC_ALLOCATOR(object)->priv;
  G_OBJECT_CLASS(parent_class)->finalize(object);
}

static void gst_zc_allocator_class_init(GstZcAllocatorClass *klass) {
  G_OBJECT_CLASS(klass)->finalize = gst_zc_allocator_finalize;
  GST_ALLOCATOR_CLASS(klass)->alloc = gst_zc_allocator_alloc;
}

static void gst_zc_allocator_init(GstZcAllocator *self) {
  self->priv = new GstZcAllocatorPrivate;
  // unlike its parent it can allocate: copies of its memories are dma-bufs again
  GST_OBJECT_FLAG_UNSET(self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

/**
 * gst_zc_allocator_new:
 * @source: where memory comes from
 * @heap_name: (nullable): a name in `/dev/dma_heap`, %NULL for "system"; used for
 *   %GST_ZC_MEMORY_SOURCE_DMA_HEAP and %GST_ZC_MEMORY_SOURCE_AUTO
 * @error: (nullable): return location for an error
 *
 * Opens the device nodes and keeps them open as long as the allocator or one of its memories lives. A node that is
 * missing or may not be opened is told in @error with its errno and the remedy.
 *
 * Returns: (transfer full) (nullable): the allocator
 *
 * Since: 0.1
 */
GstAllocator *gst_zc_allocator_new(GstZcMemorySource source, const gchar *heap_name, GError **error) {
  return gst_zc_allocator_new_full(source, heap_name, GST_ZC_MEMORY_NEED_ANY, error);
}

/**
 * gst_zc_allocator_new_full:
 * @source: where memory comes from
 * @heap_name: (nullable): as for gst_zc_allocator_new()
 * @need: what the devices that will use the memory can deal with
 * @error: (nullable): return location for an error
 *
 * Like gst_zc_allocator_new(), for memory that meets a need. With %GST_ZC_MEMORY_NEED_CONTIGUOUS memory comes from a
 * dma-heap that promises it by its name (or that the user named, unless it is the system heap), or from a huge page
 * that is large enough. An allocation that cannot be contiguous fails and says what was tried.
 *
 * Returns: (transfer full) (nullable): the allocator
 *
 * Since: 0.1
 */
GstAllocator *gst_zc_allocator_new_full(GstZcMemorySource source, const gchar *heap_name, GstZcMemoryNeed need,
                                        GError **error) {
  g_return_val_if_fail(source >= GST_ZC_MEMORY_SOURCE_AUTO && source <= GST_ZC_MEMORY_SOURCE_MEMFD, nullptr);
  g_return_val_if_fail(need == GST_ZC_MEMORY_NEED_ANY || need == GST_ZC_MEMORY_NEED_CONTIGUOUS, nullptr);
  auto dma = gstzc::DmaAllocator::open(to_core(source), heap_name != nullptr ? heap_name : "system",
                                       need == GST_ZC_MEMORY_NEED_CONTIGUOUS ? gstzc::MemoryNeed::Contiguous
                                                                             : gstzc::MemoryNeed::Any);
  if (!dma) {
    GstResourceError code = GST_RESOURCE_ERROR_NOT_FOUND;
    if (dma.error().code == EACCES || dma.error().code == EPERM) code = GST_RESOURCE_ERROR_NOT_AUTHORIZED;
    set_error(error, code, dma.error());
    return nullptr;
  }
  auto *self = static_cast<GstZcAllocator *>(g_object_new(GST_TYPE_ZC_ALLOCATOR, nullptr));
  gst_object_ref_sink(self);
  self->priv->dma.emplace(dma.take());
  if (source == GST_ZC_MEMORY_SOURCE_MEMFD) {
    // the parent's brackets for CPU access are ioctls of dma-bufs
    GST_ALLOCATOR_CAST(self)->mem_map_full = nullptr;
    GST_ALLOCATOR_CAST(self)->mem_unmap_full = nullptr;
  }
  return GST_ALLOCATOR_CAST(self);
}

/**
 * gst_zc_allocator_get_source:
 * @self: a #GstZcAllocator
 *
 * Returns: the source it was made with; for what a memory of an automatic allocator really is see
 *   gst_zc_memory_get_source()
 *
 * Since: 0.1
 */
GstZcMemorySource gst_zc_allocator_get_source(GstZcAllocator *self) {
  g_return_val_if_fail(GST_IS_ZC_ALLOCATOR(self), GST_ZC_MEMORY_SOURCE_AUTO);
  return from_core(self->priv->dma->source());
}

/**
 * gst_zc_allocator_get_need:
 * @self: a #GstZcAllocator
 *
 * Returns: the need that all of its memories meet
 *
 * Since: 0.1
 */
GstZcMemoryNeed gst_zc_allocator_get_need(GstZcAllocator *self) {
  g_return_val_if_fail(GST_IS_ZC_ALLOCATOR(self), GST_ZC_MEMORY_NEED_ANY);
  return self->priv->dma->need() == gstzc::MemoryNeed::Contiguous ? GST_ZC_MEMORY_NEED_CONTIGUOUS
                                                                  : GST_ZC_MEMORY_NEED_ANY;
}

/**
 * gst_zc_allocator_try_alloc:
 * @self: a #GstZcAllocator
 * @size: bytes, at least 1
 * @params: (nullable): prefix and padding are honoured, align up to the page size
 * @error: (nullable): return location for an error
 *
 * Like gst_allocator_alloc(), but says why it failed.
 *
 * Returns: (transfer full) (nullable): a zeroed memory, for which gst_is_dmabuf_memory() holds
 *
 * Since: 0.1
 */
GstMemory *gst_zc_allocator_try_alloc(GstZcAllocator *self, gsize size, const GstAllocationParams *params,
                                      GError **error) {
  g_return_val_if_fail(GST_IS_ZC_ALLOCATOR(self), nullptr);
  GstAllocationParams defaults;
  gst_allocation_params_init(&defaults);
  if (params == nullptr) params = &defaults;

  const gsize page = static_cast<gsize>(sysconf(_SC_PAGESIZE));
  if (params->align >= page || (params->align & (params->align + 1)) != 0) {
    set_error(
        error, GST_RESOURCE_ERROR_SETTINGS,
        {"alignment mask " + std::to_string(params->align) + " for a dma-buf, which begins at a page", EINVAL, ""});
    return nullptr;
  }
  // the payload has to be aligned as well as the start of the memory
  gsize prefix = 0, total = 0;
  const bool fits = g_size_checked_add(&prefix, params->prefix, params->align);
  prefix &= ~params->align;
  if (!fits || !g_size_checked_add(&total, prefix, size) || !g_size_checked_add(&total, total, params->padding)) {
    set_error(error, GST_RESOURCE_ERROR_SETTINGS, {"allocation of " + std::to_string(size) + " bytes", EINVAL, ""});
    return nullptr;
  }
  auto buffer = self->priv->dma->alloc(total);
  if (!buffer) {
    set_error(error, GST_RESOURCE_ERROR_FAILED, buffer.error());
    return nullptr;
  }

  auto record = std::make_unique<MemoryRecord>();
  record->source = buffer->source;
  record->contiguous = buffer->contiguous;
  record->cached = buffer->cached;
  record->memfd = std::move(buffer->memfd);
  record->memfd_offset = buffer->memfd_offset;

  // Stays mapped, readable and writable, after the first access: mapping a frame anew for each access costs page faults
  // for all of it.
  GstMemory *memory = gst_dmabuf_allocator_alloc_with_flags(GST_ALLOCATOR_CAST(self), buffer->fd.release(),
                                                            buffer->size, GST_FD_MEMORY_FLAG_KEEP_MAPPED);
  gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), record_quark(), record.release(), free_record);
  memory->align = params->align;
  memory->offset = prefix;
  memory->size = size;
  GstMapInfo map;
  if (!gst_memory_map(memory, &map, GST_MAP_READWRITE)) {
    gst_memory_unref(memory);
    set_error(
        error, GST_RESOURCE_ERROR_FAILED,
        {"mapping a new dma-buf of " + std::to_string(total) + " bytes", 0, "The process may be out of address space"});
    return nullptr;
  }
  gst_memory_unmap(memory, &map);
  return memory;
}

/**
 * gst_is_zc_memory:
 * @memory: a #GstMemory
 *
 * Returns: %TRUE if a #GstZcAllocator made it, or the memory it is a part of
 *
 * Since: 0.1
 */
gboolean gst_is_zc_memory(GstMemory *memory) {
  g_return_val_if_fail(memory != nullptr, FALSE);
  return GST_IS_ZC_ALLOCATOR(memory->allocator) && get_record(memory) != nullptr;
}

/**
 * gst_zc_memory_get_source:
 * @memory: a memory for which gst_is_zc_memory() holds
 *
 * Returns: what the memory really is; never %GST_ZC_MEMORY_SOURCE_AUTO
 *
 * Since: 0.1
 */
GstZcMemorySource gst_zc_memory_get_source(GstMemory *memory) {
  g_return_val_if_fail(gst_is_zc_memory(memory), GST_ZC_MEMORY_SOURCE_AUTO);
  return from_core(get_record(memory)->source);
}

/**
 * gst_zc_memory_get_traits:
 * @memory: a #GstMemory
 *
 * Returns: what is promised of it; nothing of memory that neither a #GstZcAllocator made nor GStreamer's
 *   GstUdmabufAllocator (since 1.28)
 *
 * Since: 0.1
 */
GstZcMemoryTraits gst_zc_memory_get_traits(GstMemory *memory) {
  g_return_val_if_fail(memory != nullptr, static_cast<GstZcMemoryTraits>(0));
  if (!gst_is_zc_memory(memory)) {
    const bool udmabuf = GST_IS_DMABUF_ALLOCATOR(memory->allocator) && gst_memory_is_type(memory, kUpstreamUdmabuf);
    return udmabuf ? GST_ZC_MEMORY_TRAIT_CACHED : static_cast<GstZcMemoryTraits>(0);
  }
  const MemoryRecord *record = get_record(memory);
  return static_cast<GstZcMemoryTraits>((record->contiguous ? GST_ZC_MEMORY_TRAIT_CONTIGUOUS : 0) |
                                        (record->cached ? GST_ZC_MEMORY_TRAIT_CACHED : 0));
}

/**
 * gst_zc_memory_get_numa_node:
 * @memory: a memory for which gst_is_zc_memory() holds
 *
 * Returns: the NUMA node on which its first page lies; -1 where the kernel does not say, which is the case for
 * dma-heaps
 *
 * Since: 0.1
 */
gint gst_zc_memory_get_numa_node(GstMemory *memory) {
  g_return_val_if_fail(gst_is_zc_memory(memory), -1);
  const MemoryRecord *record = get_record(memory);
  return record->memfd.isValid() ? gstzc::numaNode(record->memfd.get(), record->memfd_offset) : -1;
}

/**
 * gst_zc_memory_get_memfd:
 * @memory: a memory for which gst_is_zc_memory() holds
 * @offset: (out) (optional): where the pages of the dma-buf begin in the memfd, in bytes; the memory's own offset in
 * the dma-buf comes on top
 *
 * The memfd under a udmabuf: the same pages as ordinary file pages, which (unlike a mapping of the dma-buf) other
 * interfaces can pin.
 *
 * Returns: the descriptor, owned by the memory, or -1 where there is none (dma-heaps)
 *
 * Since: 0.1
 */
gint gst_zc_memory_get_memfd(GstMemory *memory, guint64 *offset) {
  g_return_val_if_fail(gst_is_zc_memory(memory), -1);
  const MemoryRecord *record = get_record(memory);
  if (offset != nullptr) *offset = record->memfd_offset;
  return record->memfd.get();
}
