/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Allocators of dma-bufs: udmabuf over a memfd, dma-heaps, and plain memfds for tests. Plain C. */
#pragma once

#include <gst/allocators/allocators.h>
#include <gst/gst.h>

#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/gstzcprelude.h"

G_BEGIN_DECLS

/**
 * GstZcMemorySource:
 * @GST_ZC_MEMORY_SOURCE_AUTO: udmabuf; the dma-heap where udmabuf is missing or refuses the size
 * @GST_ZC_MEMORY_SOURCE_UDMABUF: `/dev/udmabuf` over a sealed memfd
 * @GST_ZC_MEMORY_SOURCE_DMA_HEAP: `/dev/dma_heap/<name>`
 * @GST_ZC_MEMORY_SOURCE_MEMFD: a plain memfd. Not a dma-buf, although its memories are of the type of one: for tests on
 *   machines without the devices
 *
 * Where memory comes from.
 *
 * Since: 0.1
 */
typedef enum {
  GST_ZC_MEMORY_SOURCE_AUTO,
  GST_ZC_MEMORY_SOURCE_UDMABUF,
  GST_ZC_MEMORY_SOURCE_DMA_HEAP,
  GST_ZC_MEMORY_SOURCE_MEMFD,
} GstZcMemorySource;

/**
 * GstZcMemoryTraits:
 * @GST_ZC_MEMORY_TRAIT_CONTIGUOUS: physically contiguous, so that a device without an IOMMU can use it
 * @GST_ZC_MEMORY_TRAIT_CACHED: CPU accesses go through the caches
 *
 * What is promised of a memory. A missing trait means "not promised".
 *
 * Since: 0.1
 */
typedef enum {
  GST_ZC_MEMORY_TRAIT_CONTIGUOUS = 1 << 0,
  GST_ZC_MEMORY_TRAIT_CACHED = 1 << 1,
} GstZcMemoryTraits;

#define GST_TYPE_ZC_MEMORY_SOURCE (gst_zc_memory_source_get_type())
#define GST_TYPE_ZC_ALLOCATOR (gst_zc_allocator_get_type())
#define GST_ZC_ALLOCATOR(obj) (G_TYPE_CHECK_INSTANCE_CAST((obj), GST_TYPE_ZC_ALLOCATOR, GstZcAllocator))
#define GST_IS_ZC_ALLOCATOR(obj) (G_TYPE_CHECK_INSTANCE_TYPE((obj), GST_TYPE_ZC_ALLOCATOR))

typedef struct _GstZcAllocator GstZcAllocator;
typedef struct _GstZcAllocatorClass GstZcAllocatorClass;

/**
 * GstZcAllocator:
 *
 * A #GstDmaBufAllocator that implements gst_allocator_alloc(). Memories are zeroed, have exactly the size that was
 * asked for, a maxsize of whole pages, and stay mapped between CPU accesses.
 *
 * Since: 0.1
 */

GSTZC_API GType gst_zc_memory_source_get_type(void);
GSTZC_API GType gst_zc_allocator_get_type(void);

GSTZC_API GstAllocator *gst_zc_allocator_new(GstZcMemorySource source, const gchar *heap_name, GError **error);
GSTZC_API GstAllocator *gst_zc_allocator_new_full(GstZcMemorySource source, const gchar *heap_name,
                                                  GstZcMemoryNeed need, GError **error);
GSTZC_API GstZcMemorySource gst_zc_allocator_get_source(GstZcAllocator *self);
GSTZC_API GstZcMemoryNeed gst_zc_allocator_get_need(GstZcAllocator *self);
GSTZC_API GstMemory *gst_zc_allocator_try_alloc(GstZcAllocator *self, gsize size, const GstAllocationParams *params,
                                                GError **error);

GSTZC_API gboolean gst_is_zc_memory(GstMemory *memory);
GSTZC_API GstZcMemorySource gst_zc_memory_get_source(GstMemory *memory);
GSTZC_API GstZcMemoryTraits gst_zc_memory_get_traits(GstMemory *memory);
GSTZC_API gint gst_zc_memory_get_numa_node(GstMemory *memory);
GSTZC_API gint gst_zc_memory_get_memfd(GstMemory *memory, guint64 *offset);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(GstZcAllocator, gst_object_unref)

G_END_DECLS
