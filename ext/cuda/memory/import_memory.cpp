// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/memory/import_memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <string>
#include <utility>

#include "ext/cuda/memory/device_map.h"
#include "ext/cuda/sync/wait_points.h"

GST_DEBUG_CATEGORY_STATIC(gst_zc_import_memory_debug);
#define GST_CAT_DEFAULT gst_zc_import_memory_debug

struct GstZcCudaAllocator {
  GstCudaAllocator parent;
};
struct GstZcCudaAllocatorClass {
  GstCudaAllocatorClass parent_class;
};

GType gst_zc_cuda_allocator_get_type();
G_DEFINE_TYPE(GstZcCudaAllocator, gst_zc_cuda_allocator, GST_TYPE_CUDA_ALLOCATOR)

namespace gstzc::cuda {
namespace {

// What each memory of ours is, as the user data of gst-cuda's wrapped memory.
struct Record {
  ContextPtr context;
  std::shared_ptr<DeviceImport> import; // null: `own`
  DeviceMemory own;
  std::shared_ptr<void> owner; // of somebody else's memory
  std::function<void()> released;
  Retire retire;
  PixelPlanes planes;
  CUdeviceptr pointer = 0;
  bool watched = false; // marked though it was ready

  std::mutex mutex;         // of what follows
  bool had_address = false; // somebody else on the device has
  // the CPU's view
  PinnedMemory staging;
  bool staged = false; // `staging` has what the device has
  bool newer = false;  // `staging` has what the device has not
  bool blank = false;  // nobody has written yet: there is nothing to download
};

GstMemoryMapFunction upstream_map;
GstMemoryUnmapFullFunction upstream_unmap;
GstMemoryCopyFunction upstream_copy;

Record *recordOf(GstMemory *memory) {
  return static_cast<Record *>(gst_cuda_memory_get_user_data(GST_CUDA_MEMORY_CAST(memory)));
}

CUstream streamOf(GstMemory *memory) {
  return gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)));
}

// A pointer on the device or the host.
struct Place {
  CUdeviceptr device = 0;
  void *host = nullptr;
};

// Enqueues the copy of all planes; both sides have the same layout. Sleeps until it is done: no fence that travels with
// the buffer says when that is.
Status copyPlanes(const Record &record, CUstream stream, const Place &from, const Place &to) {
  const Driver &driver = record.context->driver;
  ContextScope scope(*record.context);
  if (auto current = scope.status(); !current) return current;
  Status copied = Nothing{};
  for (guint p = 0; p < record.planes.n && copied; ++p) {
    const PixelPlane &plane = record.planes.planes[p];
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = from.host != nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.srcHost = from.host != nullptr ? static_cast<guint8 *>(from.host) + plane.offset : nullptr;
    copy.srcDevice = from.host != nullptr ? 0 : from.device + plane.offset;
    copy.dstMemoryType = to.host != nullptr ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy.dstHost = to.host != nullptr ? static_cast<guint8 *>(to.host) + plane.offset : nullptr;
    copy.dstDevice = to.host != nullptr ? 0 : to.device + plane.offset;
    copy.srcPitch = copy.dstPitch = plane.pitch;
    copy.WidthInBytes = plane.row_bytes;
    copy.Height = plane.rows;
    copied = driver.check(driver.cuMemcpy2DAsync(&copy, stream), "cuMemcpy2DAsync of plane " + std::to_string(p));
  }
  // also after an error: what was enqueued uses both sides
  const Status done = waitPoint("map-copied") ? driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize")
                                              : Status(Nothing{});
  if (!done && waitPoint("map-failed")) driver.cuCtxSynchronize(); // an error does not say that the device is done
  return copied ? done : copied;
}

// ---- the CPU's view ----

bool download(GstMemory *memory, Record *record) {
  if (!record->staging) {
    auto staging = allocPinned(record->context, memory->maxsize);
    if (!staging) {
      GST_ERROR("%s", staging.error().message().c_str());
      return false;
    }
    record->staging = staging.take();
  }
  if (record->staged || record->newer || record->blank) return true;
  const Status done = copyPlanes(*record, streamOf(memory), {record->pointer, nullptr}, {0, record->staging.get()});
  if (!done) {
    GST_ERROR("%s", done.error().message().c_str());
    return false;
  }
  GST_MINI_OBJECT_FLAG_UNSET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
  record->staged = true;
  return true;
}

bool upload(GstMemory *memory, Record *record) {
  if (!record->newer) return true;
  const Status done = copyPlanes(*record, streamOf(memory), {0, record->staging.get()}, {record->pointer, nullptr});
  if (!done) {
    GST_ERROR("%s", done.error().message().c_str());
    return false;
  }
  record->newer = false;
  record->staged = true;
  return true;
}

gpointer map(GstMemory *memory, gsize maxsize, GstMapFlags flags) {
  Record *record = recordOf(memory);
  if (record == nullptr) return upstream_map(memory, maxsize, flags);
  const bool writes = (flags & GST_MAP_WRITE) != 0;
  const std::lock_guard lock(record->mutex);
  if ((flags & GST_MAP_CUDA) != 0) {
    if (!upload(memory, record)) return nullptr;
    if (writes) record->staged = record->blank = record->watched = false;
    if (!DeviceMap::beingMade()) record->had_address = true;
    return upstream_map(memory, maxsize, flags); // it knows from this that the memory was used on the device
  }
  if (!download(memory, record)) return nullptr;
  if (writes) {
    record->newer = true;
    record->blank = false;
  }
  return record->staging.get();
}

void unmap(GstMemory *memory, GstMapInfo *info) {
  Record *record = recordOf(memory);
  if (record == nullptr) return upstream_unmap(memory, info);
  if ((info->flags & GST_MAP_WRITE) == 0) return;
  const std::lock_guard lock(record->mutex);
  if ((info->flags & GST_MAP_CUDA) != 0)
    record->staged = false;
  else
    record->newer = true;
}

// ---- copies ----

GstMemory *copy(GstMemory *memory, gssize offset, gssize size) {
  Record *record = recordOf(memory);
  // a part becomes system memory, through the CPU's view
  const bool whole = offset == 0 && (size == -1 || static_cast<gsize>(size) == memory->size);
  if (record == nullptr || !whole) return upstream_copy(memory, offset, size);
  auto *cuda = GST_CUDA_MEMORY_CAST(memory);
  auto made = newCudaMemory(cuda->context, gst_cuda_memory_get_stream(cuda), cuda->info, record->retire);
  if (!made) {
    GST_ERROR("%s", made.error().message().c_str());
    return nullptr;
  }
  Status done = Error{"map CUDA memory", 0, ""};
  if (const DeviceMap source(memory); source) // brings what the CPU wrote to the device
    done = copyPlanes(*record, streamOf(memory), {record->pointer, nullptr}, {recordOf(*made)->pointer, nullptr});
  if (!done) {
    GST_ERROR("%s", done.error().message().c_str());
    gst_memory_unref(*made);
    return nullptr;
  }
  recordOf(*made)->blank = false;
  return *made;
}

// ---- the end ----

gboolean dispose(GstMiniObject *object) {
  auto *memory = GST_MEMORY_CAST(object);
  Record *record = recordOf(memory);
  if (!record->retire) return TRUE;
  const Retire retire = std::exchange(record->retire, {});
  const bool kept_to_it = GST_MINI_OBJECT_FLAG_IS_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
  gst_memory_ref(memory);
  retire(record->had_address && !kept_to_it ? Readers::Anywhere : Readers::OnTheStream, [memory] {
    GST_MINI_OBJECT_FLAG_UNSET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC); // the device is done
    gst_memory_unref(memory);
  });
  return FALSE;
}

void freeMemory(GstAllocator *allocator, GstMemory *memory) {
  std::unique_ptr<Record> record(recordOf(memory));
  // it makes the context current: what we destroy wants none
  GST_ALLOCATOR_CLASS(gst_zc_cuda_allocator_parent_class)->free(allocator, memory);
  if (!record) return;
  const std::function<void()> released = std::move(record->released);
  record.reset();
  if (released) released();
}

void notOurs(gpointer) {} // told that somebody else frees the pointer, gst-cuda does not

Result<GstMemory *> wrap(GstCudaContext *context, GstCudaStream *stream, const GstVideoInfo &info,
                         std::unique_ptr<Record> record) {
  for (guint p = 0; p < record->planes.n; ++p)
    if (record->planes.planes[p].end() > info.size)
      return Error{"plane " + std::to_string(p) + " of a frame ends at byte " +
                       std::to_string(record->planes.planes[p].end()) + " of " + std::to_string(info.size),
                   EINVAL, ""};
  if (stream != nullptr && stream->context != context) return Error{"a stream of another CUDA context", EINVAL, ""};
  GstMemory *memory = gst_cuda_allocator_alloc_wrapped(GST_CUDA_ALLOCATOR_CAST(importAllocator()), context, stream,
                                                       &info, record->pointer, record.get(), notOurs);
  if (memory == nullptr) return Error{"wrap CUDA memory", EINVAL, ""};
  GST_MINI_OBJECT_CAST(memory)->dispose = dispose;
  record.release();
  return memory;
}

struct KnownContext {
  std::weak_ptr<const CudaContext> context;
};

} // namespace

ContextPtr contextOf(GstCudaContext *context) {
  static const GQuark quark = g_quark_from_static_string("gst-zc-cuda-context");
  static std::mutex mutex;
  const auto driver = Driver::get();
  if (context == nullptr || !driver) return nullptr;
  const std::lock_guard lock(mutex);
  auto *known = static_cast<KnownContext *>(g_object_get_qdata(G_OBJECT(context), quark));
  if (known == nullptr) {
    known = new KnownContext;
    g_object_set_qdata_full(G_OBJECT(context), quark, known, [](gpointer k) { delete static_cast<KnownContext *>(k); });
  }
  if (ContextPtr same = known->context.lock()) return same;
  guint device = 0; // an ordinal, as which CUDA's device handles come
  g_object_get(context, "cuda-device-id", &device, nullptr);
  const auto made = std::make_shared<const CudaContext>(
      **driver, static_cast<CUcontext>(gst_cuda_context_get_handle(context)), static_cast<CUdevice>(device),
      std::shared_ptr<void>(gst_object_ref(context), gst_object_unref));
  known->context = made;
  return made;
}

PixelPlanes pixelPlanes(const GstVideoInfo &info) {
  PixelPlanes result;
  const GstVideoFormatInfo *format = info.finfo;
  result.n = GST_VIDEO_INFO_N_PLANES(&info);
  bool pixels = result.n > 0 && !GST_VIDEO_FORMAT_INFO_IS_TILED(format) && !GST_VIDEO_FORMAT_INFO_HAS_PALETTE(format);
  for (guint p = 0; p < result.n && pixels; ++p) {
    PixelPlane &plane = result.planes[p];
    plane.offset = GST_VIDEO_INFO_PLANE_OFFSET(&info, p);
    plane.pitch = static_cast<gsize>(GST_VIDEO_INFO_PLANE_STRIDE(&info, p));
    for (guint c = 0; c < GST_VIDEO_FORMAT_INFO_N_COMPONENTS(format); ++c) {
      if (GST_VIDEO_FORMAT_INFO_PLANE(format, c) != p) continue;
      plane.row_bytes = std::max(plane.row_bytes, static_cast<gsize>(GST_VIDEO_INFO_COMP_WIDTH(&info, c)) *
                                                      static_cast<gsize>(GST_VIDEO_INFO_COMP_PSTRIDE(&info, c)));
      plane.rows = std::max(plane.rows, static_cast<gsize>(GST_VIDEO_INFO_COMP_HEIGHT(&info, c)));
    }
    if (plane.row_bytes == 0) plane.row_bytes = plane.pitch; // pixels that share bytes
    pixels = plane.rows > 0 && plane.row_bytes <= plane.pitch;
  }
  if (!pixels) {
    result = {};
    result.n = 1;
    result.planes[0] = {0, info.size, info.size, 1};
  }
  return result;
}

GstAllocator *importAllocator() {
  static GstAllocator *const allocator = [] {
    gst_cuda_memory_init_once();
    auto *made = GST_ALLOCATOR_CAST(g_object_new(gst_zc_cuda_allocator_get_type(), nullptr));
    gst_object_ref_sink(made);
    GST_OBJECT_FLAG_SET(made, GST_OBJECT_FLAG_MAY_BE_LEAKED);
    return made;
  }();
  return allocator;
}

Result<GstMemory *> wrapImport(GstCudaContext *context, GstCudaStream *stream, const GstVideoInfo &info,
                               std::shared_ptr<DeviceImport> import, std::function<void()> released, Retire retire) {
  auto record = std::make_unique<Record>();
  record->context = contextOf(context);
  if (!record->context) return Driver::get().error();
  if (info.size > import->size)
    return Error{"a frame of " + std::to_string(info.size) + " bytes in an import of " + std::to_string(import->size),
                 EINVAL, ""};
  record->pointer = import->pointer;
  record->planes = pixelPlanes(info);
  record->import = std::move(import);
  record->released = std::move(released);
  record->retire = std::move(retire);
  auto memory = wrap(context, stream, info, std::move(record));
  if (memory)
    GST_MINI_OBJECT_FLAG_SET(*memory, static_cast<guint>(GST_MEMORY_FLAG_READONLY) | GST_MEMORY_FLAG_NO_SHARE);
  return memory;
}

Result<GstMemory *> newCudaMemory(GstCudaContext *context, GstCudaStream *stream, const GstVideoInfo &info,
                                  Retire retire) {
  auto record = std::make_unique<Record>();
  record->context = contextOf(context);
  if (!record->context) return Driver::get().error();
  auto device = allocDevice(record->context, info.size);
  if (!device) return device.error();
  record->own = device.take();
  record->pointer = record->own.get();
  record->blank = true;
  record->planes = pixelPlanes(info);
  record->retire = std::move(retire);
  return wrap(context, stream, info, std::move(record));
}

Result<GstMemory *> wrapTensor(GstCudaContext *context, GstCudaStream *stream, CUdeviceptr pointer, gsize bytes,
                               std::shared_ptr<void> owner, Retire retire) {
  GstVideoInfo info; // one row: the interface knows pictures only
  if (bytes == 0 || bytes > G_MAXINT ||
      !gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, static_cast<guint>(bytes), 1))
    return Error{"a tensor of " + std::to_string(bytes) + " bytes as CUDA memory", EINVAL, ""};
  info.stride[0] = static_cast<gint>(bytes);
  info.size = bytes;
  auto record = std::make_unique<Record>();
  record->context = contextOf(context);
  if (!record->context) return Driver::get().error();
  record->pointer = pointer;
  record->planes = pixelPlanes(info);
  record->owner = std::move(owner);
  record->retire = std::move(retire);
  auto memory = wrap(context, stream, info, std::move(record));
  if (memory) {
    GST_MINI_OBJECT_FLAG_SET(*memory, static_cast<guint>(GST_MEMORY_FLAG_READONLY));
    GST_MINI_OBJECT_FLAG_SET(*memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
  }
  return memory;
}

static Record *ourRecordOf(GstMemory *memory) {
  const bool ours =
      memory != nullptr && G_TYPE_CHECK_INSTANCE_TYPE(memory->allocator, gst_zc_cuda_allocator_get_type());
  return ours ? recordOf(memory) : nullptr;
}

void watchReaders(GstMemory *memory) {
  Record *record = ourRecordOf(memory);
  if (record == nullptr || GST_MINI_OBJECT_FLAG_IS_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC)) return;
  record->watched = true;
  GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
}

bool needsSync(GstMemory *memory) {
  if (!GST_MINI_OBJECT_FLAG_IS_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC)) return false;
  const Record *record = ourRecordOf(memory);
  return record == nullptr || !record->watched;
}

std::shared_ptr<DeviceImport> importOf(GstMemory *memory) {
  const Record *record = ourRecordOf(memory);
  return record != nullptr ? record->import : nullptr;
}

static GQuark frameQuark() {
  static const GQuark quark = g_quark_from_static_string("gstzc-cuda-frame");
  return quark;
}

void setFrameOf(GstMemory *memory, GstBuffer *frame) {
  gst_mini_object_set_qdata(GST_MINI_OBJECT_CAST(memory), frameQuark(), gst_buffer_ref(frame),
                            reinterpret_cast<GDestroyNotify>(gst_buffer_unref));
}

GstBuffer *frameOf(GstMemory *memory) {
  return static_cast<GstBuffer *>(gst_mini_object_get_qdata(GST_MINI_OBJECT_CAST(memory), frameQuark()));
}

} // namespace gstzc::cuda

static void gst_zc_cuda_allocator_class_init(GstZcCudaAllocatorClass *klass) {
  GST_DEBUG_CATEGORY_INIT(gst_zc_import_memory_debug, "zccudamemory", 0, "CUDA memory over dma-bufs");
  GST_ALLOCATOR_CLASS(klass)->free = gstzc::cuda::freeMemory;
}

static void gst_zc_cuda_allocator_init(GstZcCudaAllocator *self) {
  auto *allocator = GST_ALLOCATOR_CAST(self);
  gstzc::cuda::upstream_map = allocator->mem_map;
  gstzc::cuda::upstream_unmap = allocator->mem_unmap_full;
  gstzc::cuda::upstream_copy = allocator->mem_copy;
  allocator->mem_map = gstzc::cuda::map;
  allocator->mem_unmap_full = gstzc::cuda::unmap;
  allocator->mem_copy = gstzc::cuda::copy;
}
