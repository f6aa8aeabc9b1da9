// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzcfencemeta
 * @title: GstZcFenceMeta
 * @short_description: When a buffer's contents are there
 * @see_also: #GstZcDeviceEvent
 *
 * A producer that hands a buffer on before its device has finished writing says with this metadata when it will have.
 * A consumer waits for that, and for the fences that the kernel keeps with a dma-buf, before it touches the buffer.
 *
 * Never add a fence that may stay pending: consumers give up at their deadline and drop the frame, but the devices that
 * were told of the fence wait for it without one.
 *
 * Since: 0.1
 */
#include "gst/zerocopy/gstzcfencemeta.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>

#include <gst/allocators/allocators.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/fence_meta.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/set_gerror.h"

using gstzc::Access;
using gstzc::Error;
using gstzc::SyncFile;
using gstzc::UniqueFd;

namespace {

// copies of a buffer share the descriptor, so that no copy can fail to get it
using SharedFence = std::shared_ptr<const SyncFile>;

SharedFence *shared(const GstZcFenceMeta *meta) { return static_cast<SharedFence *>(meta->fence); }

gboolean meta_init(GstMeta *meta, gpointer, GstBuffer *) {
  auto *self = reinterpret_cast<GstZcFenceMeta *>(meta);
  self->fence = nullptr;
  self->event = nullptr;
  self->sequence = 0;
  return TRUE;
}

void meta_free(GstMeta *meta, GstBuffer *) {
  auto *self = reinterpret_cast<GstZcFenceMeta *>(meta);
  delete shared(self);
  self->fence = nullptr;
  g_clear_pointer(&self->event, gst_zc_device_event_unref);
}

GstZcFenceMeta *add_meta(GstBuffer *buffer, SharedFence fence, GstZcDeviceEvent *event, guint64 sequence) {
  auto *self = reinterpret_cast<GstZcFenceMeta *>(gst_buffer_add_meta(buffer, GST_ZC_FENCE_META_INFO, nullptr));
  if (self == nullptr) return nullptr;
  if (fence) self->fence = new SharedFence(std::move(fence));
  if (event != nullptr) self->event = gst_zc_device_event_ref(event);
  self->sequence = sequence;
  return self;
}

gboolean meta_transform(GstBuffer *to, GstMeta *meta, GstBuffer *, GQuark type, gpointer) {
  if (!GST_META_TRANSFORM_IS_COPY(type)) return FALSE;
  const auto *self = reinterpret_cast<const GstZcFenceMeta *>(meta);
  return add_meta(to, self->fence != nullptr ? *shared(self) : nullptr, self->event, self->sequence) != nullptr;
}

bool is_access(GstZcFenceAccess access) {
  return access >= GST_ZC_FENCE_ACCESS_READ && access <= GST_ZC_FENCE_ACCESS_READ_WRITE;
}

Access to_core(GstZcFenceAccess access) { return static_cast<Access>(access); }

// What is left of it in whole milliseconds, rounded up so that it is never cut to nothing; a day at most.
std::chrono::milliseconds to_milliseconds(GstClockTime timeout) {
  constexpr GstClockTime kDay = 24 * 60 * 60 * GST_SECOND;
  return std::chrono::milliseconds((std::min(timeout, kDay) + GST_MSECOND - 1) / GST_MSECOND);
}

} // namespace

namespace gstzc {

const SyncFile *fenceOf(const GstZcFenceMeta *meta) { return meta->fence != nullptr ? shared(meta)->get() : nullptr; }

ExplicitFences explicitFences(GstBuffer *buffer) {
  ExplicitFences fences;
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_ZC_FENCE_META_API_TYPE)) {
    const auto *self = reinterpret_cast<const GstZcFenceMeta *>(meta);
    if (const SyncFile *fence = fenceOf(self)) fences.sync.push_back(fence);
    if (self->event != nullptr) fences.events.push_back(self->event);
  }
  return fences;
}

Result<Fence> fenceOf(GstZcDeviceEvent *event) {
  const std::string name = std::string("the frame's event of kind ") + gst_zc_device_event_get_kind(event);
  Fence fence;
  const int status = gst_zc_device_event_get_status(event);
  if (status < 0) {
    // it has failed, after which it need not be able to give a descriptor
    fence.fd = UniqueFd(eventfd(1, EFD_CLOEXEC));
    if (!fence.fd.isValid()) return Error{name, errno, ""};
    fence.status = [status] { return -status; };
    return fence;
  }
  const int fd = gst_zc_device_event_make_fd(event);
  if (fd < 0) return Error{"get a descriptor of " + name, -fd, ""};
  fence.fd = UniqueFd(fd);
  const std::shared_ptr<GstZcDeviceEvent> held(gst_zc_device_event_ref(event), gst_zc_device_event_unref);
  fence.status = [held] {
    const int now = gst_zc_device_event_get_status(held.get());
    if (now == 0) return EPROTO; // its descriptor says that it is over: one of the two is wrong
    return now < 0 ? -now : 0;
  };
  return fence;
}

} // namespace gstzc

GType gst_zc_fence_meta_api_get_type(void) {
  static gsize type = 0;
  // Of the memory itself, whatever part of it a buffer holds: kept by copies that share it, dropped by elements and
  // copies that write other memory. GST_META_TAG_MEMORY_STR would drop it from parts, which need it as much.
  static const gchar *tags[] = {GST_META_TAG_MEMORY_REFERENCE_STR, nullptr};
  if (g_once_init_enter(&type)) g_once_init_leave(&type, gst_meta_api_type_register("GstZcFenceMetaAPI", tags));
  return type;
}

const GstMetaInfo *gst_zc_fence_meta_get_info(void) {
  static const GstMetaInfo *info = nullptr;
  if (g_once_init_enter(&info))
    g_once_init_leave(&info, gst_meta_register(GST_ZC_FENCE_META_API_TYPE, "GstZcFenceMeta", sizeof(GstZcFenceMeta),
                                               meta_init, meta_free, meta_transform));
  return info;
}

/**
 * gst_zc_fence_meta_dup_fd:
 * @self: a #GstZcFenceMeta
 *
 * Returns: a duplicate of the sync_file, which the caller closes; -1 if there is none, a negative errno below -1 if
 *   the process has no descriptor left
 *
 * Since: 0.1
 */
gint gst_zc_fence_meta_dup_fd(GstZcFenceMeta *self) {
  g_return_val_if_fail(self != nullptr, -1);
  const SyncFile *fence = gstzc::fenceOf(self);
  if (fence == nullptr) return -1;
  UniqueFd fd = UniqueFd::duplicate(fence->fd());
  return fd.isValid() ? fd.release() : -errno;
}

/**
 * gst_zc_fence_meta_get_event:
 * @self: a #GstZcFenceMeta
 *
 * Returns: (transfer none) (nullable): the event, or %NULL if there is none
 *
 * Since: 0.1
 */
GstZcDeviceEvent *gst_zc_fence_meta_get_event(GstZcFenceMeta *self) {
  g_return_val_if_fail(self != nullptr, nullptr);
  return self->event;
}

/**
 * gst_zc_fence_meta_get_sequence:
 * @self: a #GstZcFenceMeta
 *
 * Returns: the producer's number for the frame
 *
 * Since: 0.1
 */
guint64 gst_zc_fence_meta_get_sequence(GstZcFenceMeta *self) {
  g_return_val_if_fail(self != nullptr, 0);
  return self->sequence;
}

/**
 * gst_buffer_add_zc_fence_meta:
 * @buffer: a writable #GstBuffer
 * @fence_fd: a sync_file that signals when the buffer's contents are there; -1: they are there, and
 *   only @sequence is said. If this succeeds the buffer owns it, and the number is no longer valid; else it is still
 * the caller's
 * @sequence: the producer's number for the frame, for statistics and logs; its meaning is the producer's
 * @error: (nullable): return location for an error
 *
 * Adds a fence to those that the buffer has: consumers wait for all.
 *
 * Returns: (transfer none) (nullable): the meta, or %NULL if @fence_fd is closed or is no sync_file
 *
 * Since: 0.1
 */
GstZcFenceMeta *gst_buffer_add_zc_fence_meta(GstBuffer *buffer, gint fence_fd, guint64 sequence, GError **error) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer) && gst_buffer_is_writable(buffer), nullptr);
  g_return_val_if_fail(fence_fd >= -1, nullptr);
  g_return_val_if_fail(error == nullptr || *error == nullptr, nullptr);
  SharedFence fence;
  if (fence_fd >= 0) {
    auto own = SyncFile::duplicateOf(fence_fd);
    if (!own) {
      gstzc::setGError(error, own.error());
      return nullptr;
    }
    fence = std::make_shared<SyncFile>(own.take());
  }
  GstZcFenceMeta *self = add_meta(buffer, std::move(fence), nullptr, sequence);
  if (self != nullptr) UniqueFd taken(fence_fd);
  return self;
}

/**
 * gst_buffer_add_zc_event_meta:
 * @buffer: a writable #GstBuffer
 * @event: (transfer none): done when the buffer's contents are there
 * @sequence: as for gst_buffer_add_zc_fence_meta()
 *
 * Adds an event to the fences that the buffer has: consumers wait for all.
 *
 * Returns: (transfer none): the meta
 *
 * Since: 0.1
 */
GstZcFenceMeta *gst_buffer_add_zc_event_meta(GstBuffer *buffer, GstZcDeviceEvent *event, guint64 sequence) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer) && gst_buffer_is_writable(buffer), nullptr);
  g_return_val_if_fail(event != nullptr, nullptr);
  return add_meta(buffer, nullptr, event, sequence);
}

/**
 * gst_buffer_get_zc_fence_meta:
 * @buffer: a #GstBuffer
 *
 * For all metas of the buffer use gst_buffer_iterate_meta_filtered() with %GST_ZC_FENCE_META_API_TYPE.
 *
 * Returns: (transfer none) (nullable): the meta that was added first, or %NULL without one
 *
 * Since: 0.1
 */
GstZcFenceMeta *gst_buffer_get_zc_fence_meta(GstBuffer *buffer) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer), nullptr);
  return reinterpret_cast<GstZcFenceMeta *>(gst_buffer_get_meta(buffer, GST_ZC_FENCE_META_API_TYPE));
}

/**
 * gst_buffer_get_zc_ready_fence:
 * @buffer: a #GstBuffer
 * @access: what shall be done with its contents
 * @fd: (out): -1: nothing is pending. Else a new sync_file, which the caller closes, that signals when the contents may
 *   be used
 * @error: (nullable): return location for an error
 *
 * All fences that the buffer has at this moment as one: those of its #GstZcFenceMeta and those that the kernel keeps
 * with the dma-bufs of its planes. For those who can give a sync_file to a device or a poll loop. That it is readable
 * does not say that the contents are good: ask gst_zc_fence_fd_get_status().
 *
 * Returns: %FALSE, and -1 in @fd, if there is no such sync_file: a fence has failed already (its errno is in the
 *   message); or an event, or a dma-buf of an old kernel, is pending, for which no sync_file can stand
 *   (%GST_RESOURCE_ERROR_BUSY): gst_buffer_wait_zc_fences() waits for those as well
 *
 * Since: 0.1
 */
gboolean gst_buffer_get_zc_ready_fence(GstBuffer *buffer, GstZcFenceAccess access, gint *fd, GError **error) {
  g_return_val_if_fail(fd != nullptr, FALSE);
  *fd = -1;
  g_return_val_if_fail(GST_IS_BUFFER(buffer), FALSE);
  g_return_val_if_fail(is_access(access), FALSE);
  g_return_val_if_fail(error == nullptr || *error == nullptr, FALSE);
  auto fences = gstzc::frameFences(buffer, to_core(access));
  if (!fences) {
    gstzc::setGError(error, fences.error());
    return FALSE;
  }
  bool pending = false;
  std::optional<gstzc::FenceResult> failed;
  for (const gstzc::Fence &other : fences->others) { // where a sync_file has failed, it is among them
    const auto over = gstzc::fenceNow(other);
    if (!over)
      pending = true;
    else if (over->error != 0)
      failed = over;
  }
  if (failed || pending) {
    gstzc::setGError(error, failed ? gstzc::fenceError(*failed, {})
                                   : Error{"a fence of the frame for which no sync_file can stand is pending", EBUSY,
                                           "gst_buffer_wait_zc_fences() waits for it"});
    return FALSE;
  }
  *fd = fences->sync.release().release();
  return TRUE;
}

/**
 * gst_buffer_wait_zc_fences:
 * @buffer: a #GstBuffer
 * @access: what shall be done with its contents
 * @timeout: how long to wait at most, in nanoseconds; 0 to ask only. There is no waiting for ever:
 *   %GST_CLOCK_TIME_NONE is refused, and beyond a day it counts as a day
 * @error: (nullable): return location for an error
 *
 * Sleeps until the buffer's contents may be used: until all its fences have signalled, those of its #GstZcFenceMeta and
 * those that the kernel keeps with the dma-bufs of its planes. For applications; an element should not sleep in a
 * streaming thread.
 *
 * Returns: %FALSE if the contents must not be used: @timeout passed (%GST_RESOURCE_ERROR_BUSY), or a fence ended in an
 *   error, whose errno is in the message
 *
 * Since: 0.1
 */
gboolean gst_buffer_wait_zc_fences(GstBuffer *buffer, GstZcFenceAccess access, GstClockTime timeout, GError **error) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer), FALSE);
  g_return_val_if_fail(is_access(access), FALSE);
  g_return_val_if_fail(GST_CLOCK_TIME_IS_VALID(timeout), FALSE);
  g_return_val_if_fail(error == nullptr || *error == nullptr, FALSE);
  const auto ready = gstzc::waitForFrame(buffer, to_core(access), to_milliseconds(timeout));
  if (!ready) gstzc::setGError(error, ready.error());
  return ready.ok();
}

/**
 * gst_buffer_import_zc_fence:
 * @buffer: a #GstBuffer whose memories are dma-bufs
 * @fence_fd: a sync_file that signals when the caller's device has finished with the contents; it stays the caller's
 * @access: what the device does with them. %GST_ZC_FENCE_ACCESS_READ: whoever writes later waits for it;
 *   %GST_ZC_FENCE_ACCESS_WRITE: whoever reads, too
 * @error: (nullable): return location for an error
 *
 * Adds a fence to those that the kernel keeps with each dma-buf of the buffer, so that all users wait for it: devices
 * in the kernel, and the pool before it gives the memory out again. The kernel waits without a deadline: never add a
 * fence that may stay pending.
 *
 * Returns: %FALSE if a memory is no dma-buf, if @fence_fd is no sync_file, or on kernels before 6.0. Of several
 * dma-bufs some may have the fence even so
 *
 * Since: 0.1
 */
gboolean gst_buffer_import_zc_fence(GstBuffer *buffer, gint fence_fd, GstZcFenceAccess access, GError **error) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer), FALSE);
  g_return_val_if_fail(is_access(access), FALSE);
  g_return_val_if_fail(error == nullptr || *error == nullptr, FALSE);
  const auto fence = SyncFile::duplicateOf(fence_fd);
  if (!fence) {
    gstzc::setGError(error, fence.error());
    return FALSE;
  }
  const guint n = gst_buffer_n_memory(buffer);
  if (n == 0) {
    gstzc::setGError(error, {"add a fence to a buffer without memory", EINVAL, ""});
    return FALSE;
  }
  for (guint i = 0; i < n; ++i) {
    GstMemory *memory = gst_buffer_peek_memory(buffer, i);
    const auto added = gst_is_dmabuf_memory(memory)
                           ? gstzc::importFence(gst_dmabuf_memory_get_fd(memory), *fence, to_core(access))
                           : gstzc::Status(Error{"it is no dma-buf", EINVAL, ""});
    if (!added) {
      const Error &cause = added.error();
      gstzc::setGError(error,
                       {"memory " + std::to_string(i) + " of the buffer: " + cause.what, cause.code, cause.remedy});
      return FALSE;
    }
  }
  return TRUE;
}

/**
 * gst_zc_fence_fd_get_status:
 * @fd: a sync_file
 *
 * A sync_file that polls as readable is over; only this says how it ended.
 *
 * Returns: 1: it signalled; 0: pending; a negative errno: it ended in that error, or @fd is no sync_file
 *
 * Since: 0.1
 */
gint gst_zc_fence_fd_get_status(gint fd) {
  const gstzc::FenceStatus status = gstzc::syncFileStatus(fd);
  if (status.pending) return 0;
  return status.error == 0 ? 1 : -status.error;
}
