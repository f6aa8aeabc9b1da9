// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzcdeviceevent
 * @title: GstZcDeviceEvent
 * @short_description: Fences of a process that the kernel does not know
 * @see_also: #GstZcFenceMeta
 *
 * Since: 0.1
 */
#include "gst/zerocopy/gstzcdeviceevent.h"

#include <cerrno>
#include <memory>

#include <sys/epoll.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/set_gerror.h"

struct _GstZcDeviceEvent {
  gatomicrefcount refs;
  const GstZcDeviceEventFuncs *funcs;
  gpointer data;
};

G_DEFINE_BOXED_TYPE(GstZcDeviceEvent, gst_zc_device_event, gst_zc_device_event_ref, gst_zc_device_event_unref)

namespace {

const gstzc::UniqueFd &eventfd_of(gpointer data) { return *static_cast<gstzc::UniqueFd *>(data); }

gint eventfd_status(gpointer data) {
  const auto now = gstzc::fenceNow(gstzc::Fence::Kind::Event, eventfd_of(data).get());
  if (!now) return 0;
  return now->error == 0 ? 1 : -now->error;
}

gint eventfd_make_fd(gpointer data) {
  gstzc::UniqueFd second = gstzc::UniqueFd::duplicate(eventfd_of(data).get());
  return second.isValid() ? second.release() : -errno;
}

void eventfd_free(gpointer data) { delete static_cast<gstzc::UniqueFd *>(data); }

const GstZcDeviceEventFuncs eventfd_funcs = {
    "eventfd", eventfd_status, eventfd_make_fd, nullptr, eventfd_free, {},
};

// 0, or the errno of trying to wait for it: EBADF of a closed descriptor, EPERM of files that are always ready
int why_not_awaitable(int fd) {
  const gstzc::UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event = {};
  event.events = EPOLLIN;
  return epoll.isValid() && epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

} // namespace

/**
 * gst_zc_device_event_new: (skip)
 * @funcs: (transfer none): the event's functions: static data, of which @kind, @status and @make_fd have to be set
 * @data: (transfer full) (nullable): what they are called with; given to @free with the last reference
 *
 * Returns: (transfer full): an event
 *
 * Since: 0.1
 */
GstZcDeviceEvent *gst_zc_device_event_new(const GstZcDeviceEventFuncs *funcs, gpointer data) {
  g_return_val_if_fail(funcs != nullptr, nullptr);
  g_return_val_if_fail(funcs->kind != nullptr && funcs->status != nullptr && funcs->make_fd != nullptr, nullptr);
  auto *self = new GstZcDeviceEvent{};
  g_atomic_ref_count_init(&self->refs);
  self->funcs = funcs;
  self->data = data;
  return self;
}

/**
 * gst_zc_device_event_new_eventfd:
 * @fd: an eventfd, or another descriptor that becomes readable and stays so. Nobody may read it. The
 *   event owns it if this succeeds; else it is still the caller's
 * @error: (nullable): return location for an error
 *
 * An event that is done once @fd is readable; with its kind "eventfd". For applications that finish a frame in a thread
 * or process of their own: they keep a duplicate and write to it when the frame's pixels are there. It has failed with
 * EPIPE when the descriptor hangs up before (a pipe or socket whose other end is closed; an eventfd never does).
 *
 * Returns: (transfer full) (nullable): an event, or %NULL for a descriptor that is closed or that nobody can wait for,
 *   like a regular file's
 *
 * Since: 0.1
 */
GstZcDeviceEvent *gst_zc_device_event_new_eventfd(gint fd, GError **error) {
  g_return_val_if_fail(error == nullptr || *error == nullptr, nullptr);
  const int code = why_not_awaitable(fd);
  if (code != 0) {
    gstzc::setGError(error, {"descriptor " + std::to_string(fd) + " as an event", code,
                             code == EPERM ? "It is a file of a kind that is always ready; an eventfd is needed" : ""});
    return nullptr;
  }
  return gst_zc_device_event_new(&eventfd_funcs, new gstzc::UniqueFd(fd));
}

/**
 * gst_zc_device_event_ref:
 * @self: a #GstZcDeviceEvent
 *
 * Returns: (transfer full): @self
 *
 * Since: 0.1
 */
GstZcDeviceEvent *gst_zc_device_event_ref(GstZcDeviceEvent *self) {
  g_return_val_if_fail(self != nullptr, nullptr);
  g_atomic_ref_count_inc(&self->refs);
  return self;
}

/**
 * gst_zc_device_event_unref:
 * @self: (transfer full): a #GstZcDeviceEvent
 *
 * Since: 0.1
 */
void gst_zc_device_event_unref(GstZcDeviceEvent *self) {
  g_return_if_fail(self != nullptr);
  if (!g_atomic_ref_count_dec(&self->refs)) return;
  if (self->funcs->free != nullptr) self->funcs->free(self->data);
  delete self;
}

/**
 * gst_zc_device_event_get_kind:
 * @self: a #GstZcDeviceEvent
 *
 * Returns: what it is, e.g. "eventfd"
 *
 * Since: 0.1
 */
const gchar *gst_zc_device_event_get_kind(GstZcDeviceEvent *self) {
  g_return_val_if_fail(self != nullptr, nullptr);
  return self->funcs->kind;
}

/**
 * gst_zc_device_event_get_status:
 * @self: a #GstZcDeviceEvent
 *
 * Returns: 1: it is done; 0: pending; a negative errno: it failed
 *
 * Since: 0.1
 */
gint gst_zc_device_event_get_status(GstZcDeviceEvent *self) {
  g_return_val_if_fail(self != nullptr, -EINVAL);
  return self->funcs->status(self->data);
}

/**
 * gst_zc_device_event_get_native:
 * @self: a #GstZcDeviceEvent
 *
 * The event in terms of its device, for consumers that know its kind. It must not be destroyed or used again.
 *
 * Returns: (transfer none) (nullable): what the kind says, or %NULL
 *
 * Since: 0.1
 */
gpointer gst_zc_device_event_get_native(GstZcDeviceEvent *self) {
  g_return_val_if_fail(self != nullptr, nullptr);
  return self->funcs->native != nullptr ? self->funcs->native(self->data) : nullptr;
}

/**
 * gst_zc_device_event_make_fd:
 * @self: a #GstZcDeviceEvent
 *
 * A descriptor for poll(). It must not be read: others wait for the same event. That it is readable says that the event
 * is over; gst_zc_device_event_get_status() says how it ended.
 *
 * Returns: a new descriptor that the caller closes, or a negative errno
 *
 * Since: 0.1
 */
gint gst_zc_device_event_make_fd(GstZcDeviceEvent *self) {
  g_return_val_if_fail(self != nullptr, -EINVAL);
  return self->funcs->make_fd(self->data);
}
