// SPDX-License-Identifier: LGPL-2.1-or-later
// Syncs of native fences, and the table of functions.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include "tests/softcuda/egl/state.h"

namespace softegl {

Sync::~Sync() {
  if (fd >= 0) close(fd);
}

namespace {

// The descriptor is taken if that succeeds, as the extension says.
template <typename T> EGLSync create(EGLDisplay display, EGLenum type, const T *list) {
  {
    const std::lock_guard guard(state().lock);
    if (!usable(display)) return EGL_NO_SYNC;
  }
  if (refused("sync")) return fail(EGL_BAD_ALLOC, EGL_NO_SYNC);
  if (type != EGL_SYNC_NATIVE_FENCE_ANDROID || hidden("EGL_ANDROID_native_fence_sync"))
    return fail(EGL_BAD_ATTRIBUTE, EGL_NO_SYNC);
  int fd = EGL_NO_NATIVE_FENCE_FD_ANDROID;
  for (; list && list[0] != EGL_NONE; list += 2) {
    if (list[0] != EGL_SYNC_NATIVE_FENCE_FD_ANDROID) return fail(EGL_BAD_ATTRIBUTE, EGL_NO_SYNC);
    fd = static_cast<int>(list[1]);
  }
  if (fd == EGL_NO_NATIVE_FENCE_FD_ANDROID)
    return fail(EGL_BAD_MATCH, EGL_NO_SYNC); // of a current context: there is none
  if (!softcuda::isOpen(fd)) return fail(EGL_BAD_ATTRIBUTE, EGL_NO_SYNC);
  const std::lock_guard guard(state().lock);
  void *const handle = newHandle();
  auto sync = std::make_shared<Sync>();
  sync->fd = fd;
  state().syncs[handle] = std::move(sync);
  return handle;
}

std::shared_ptr<Sync> find(EGLDisplay display, EGLSync handle) {
  const std::lock_guard guard(state().lock);
  if (!usable(display)) return nullptr;
  const auto found = state().syncs.find(handle);
  if (found != state().syncs.end()) return found->second;
  if (state().gone.contains(handle)) misuse("a destroyed EGLSync was used");
  return fail<std::shared_ptr<Sync>>(EGL_BAD_PARAMETER, nullptr);
}

} // namespace
} // namespace softegl

using namespace softegl;

SOFTEGL_API EGLSyncKHR EGLAPIENTRY eglCreateSyncKHR(EGLDisplay display, EGLenum type, const EGLint *attributes) {
  return create(display, type, attributes);
}

SOFTEGL_API EGLSync EGLAPIENTRY eglCreateSync(EGLDisplay display, EGLenum type, const EGLAttrib *attributes) {
  return create(display, type, attributes);
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglDestroySync(EGLDisplay display, EGLSync handle) {
  const std::lock_guard guard(state().lock);
  if (!usable(display)) return EGL_FALSE;
  if (state().syncs.erase(handle) == 0) {
    if (state().gone.contains(handle)) misuse("an EGLSync was destroyed twice");
    return fail(EGL_BAD_PARAMETER);
  }
  state().gone.insert(handle);
  return EGL_TRUE;
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglDestroySyncKHR(EGLDisplay display, EGLSyncKHR handle) {
  return eglDestroySync(display, handle);
}

SOFTEGL_API EGLint EGLAPIENTRY eglClientWaitSync(EGLDisplay display, EGLSync handle, EGLint, EGLTime timeout) {
  const std::shared_ptr<Sync> sync = find(display, handle);
  if (!sync) return EGL_FALSE;
  pollfd wanted{.fd = sync->fd, .events = POLLIN, .revents = 0};
  const uint64_t ms = timeout / 1000000;
  const int patience = timeout == EGL_FOREVER ? -1 : ms > INT_MAX ? INT_MAX : static_cast<int>(ms);
  return poll(&wanted, 1, patience) > 0 ? EGL_CONDITION_SATISFIED : EGL_TIMEOUT_EXPIRED;
}

SOFTEGL_API EGLint EGLAPIENTRY eglClientWaitSyncKHR(EGLDisplay display, EGLSyncKHR handle, EGLint flags,
                                                    EGLTimeKHR timeout) {
  return eglClientWaitSync(display, handle, flags, timeout);
}

SOFTEGL_API EGLint EGLAPIENTRY eglDupNativeFenceFDANDROID(EGLDisplay display, EGLSyncKHR handle) {
  const std::shared_ptr<Sync> sync = find(display, handle);
  return sync ? fcntl(sync->fd, F_DUPFD_CLOEXEC, 3) : EGL_NO_NATIVE_FENCE_FD_ANDROID;
}

SOFTEGL_API int softegl_sync_fd(void *handle) { return eglDupNativeFenceFDANDROID(kDisplay, handle); }

SOFTEGL_API __eglMustCastToProperFunctionPointerType EGLAPIENTRY eglGetProcAddress(const char *name) {
  using Function = __eglMustCastToProperFunctionPointerType;
#define SOFTEGL_ENTRY(function) {#function, reinterpret_cast<Function>(&function)}
  static const std::map<std::string, Function> functions = {
      SOFTEGL_ENTRY(eglGetError),
      SOFTEGL_ENTRY(eglGetPlatformDisplay),
      SOFTEGL_ENTRY(eglGetPlatformDisplayEXT),
      SOFTEGL_ENTRY(eglInitialize),
      SOFTEGL_ENTRY(eglTerminate),
      SOFTEGL_ENTRY(eglQueryString),
      SOFTEGL_ENTRY(eglQueryDevicesEXT),
      SOFTEGL_ENTRY(eglQueryDeviceStringEXT),
      SOFTEGL_ENTRY(eglQueryDeviceAttribEXT),
      SOFTEGL_ENTRY(eglQueryDisplayAttribEXT),
      SOFTEGL_ENTRY(eglReleaseThread),
      SOFTEGL_ENTRY(eglCreateImage),
      SOFTEGL_ENTRY(eglCreateImageKHR),
      SOFTEGL_ENTRY(eglDestroyImage),
      SOFTEGL_ENTRY(eglDestroyImageKHR),
      SOFTEGL_ENTRY(eglQueryDmaBufFormatsEXT),
      SOFTEGL_ENTRY(eglQueryDmaBufModifiersEXT),
      SOFTEGL_ENTRY(eglCreateSync),
      SOFTEGL_ENTRY(eglCreateSyncKHR),
      SOFTEGL_ENTRY(eglDestroySync),
      SOFTEGL_ENTRY(eglDestroySyncKHR),
      SOFTEGL_ENTRY(eglClientWaitSync),
      SOFTEGL_ENTRY(eglClientWaitSyncKHR),
      SOFTEGL_ENTRY(eglDupNativeFenceFDANDROID),
  };
#undef SOFTEGL_ENTRY
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}
