// SPDX-License-Identifier: LGPL-2.1-or-later
// Displays, devices, strings: one device, which is the CUDA device, and one display of it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/softcuda/egl/state.h"

namespace softegl {

thread_local EGLint last_error = EGL_SUCCESS;

namespace {

char display_body, device_body;

const char *const kClientExtensions[] = {"EGL_EXT_client_extensions",  "EGL_EXT_platform_base",
                                         "EGL_KHR_platform_base",      "EGL_EXT_platform_device",
                                         "EGL_EXT_device_base",        "EGL_EXT_device_query",
                                         "EGL_EXT_device_enumeration", "EGL_MESA_platform_surfaceless"};
const char *const kDisplayExtensions[] = {"EGL_KHR_image_base",
                                          "EGL_EXT_image_dma_buf_import",
                                          "EGL_EXT_image_dma_buf_import_modifiers",
                                          "EGL_KHR_fence_sync",
                                          "EGL_KHR_wait_sync",
                                          "EGL_ANDROID_native_fence_sync",
                                          "EGL_KHR_no_config_context",
                                          "EGL_KHR_surfaceless_context"};
const char *const kDeviceExtensions[] = {"EGL_NV_device_cuda"};

template <size_t N> const char *listed(const char *const (&names)[N]) {
  static thread_local std::string text;
  text.clear();
  for (const char *name : names)
    if (!hidden(name)) text += (text.empty() ? "" : " ") + std::string(name);
  return text.c_str();
}

std::set<std::string> split(const char *text) {
  std::set<std::string> parts;
  const std::string all = text ? text : "";
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    parts.insert(all.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

struct LeakCheck {
  ~LeakCheck() {
    if (!softcuda::leakCheckWanted()) return;
    const std::lock_guard guard(state().lock);
    for (const auto &entry : state().images) fprintf(stderr, "softegl: leaked image %p\n", entry.first);
    for (const auto &entry : state().syncs) fprintf(stderr, "softegl: leaked sync %p\n", entry.first);
    if (!state().images.empty() || !state().syncs.empty() || state().misuses > 0) _exit(99);
  }
} leak_check;

} // namespace

const EGLDisplay kDisplay = &display_body;
const EGLDeviceEXT kDevice = &device_body;

State::State() : refused(split(getenv("SOFTEGL_REFUSE"))), without(split(getenv("SOFTEGL_WITHOUT"))) {}

State &state() {
  static State *const all = new State; // never destroyed: others may still call while the process ends
  return *all;
}

void misuse(const std::string &what) {
  fprintf(stderr, "softegl: misuse: %s\n", what.c_str());
  state().misuses++;
}

bool refused(const char *what) {
  const std::lock_guard guard(state().lock);
  return state().refused.contains(what);
}

bool hidden(const char *what) {
  const std::lock_guard guard(state().lock);
  return state().without.contains(what);
}

bool usable(EGLDisplay display) {
  if (display != kDisplay) return fail(EGL_BAD_DISPLAY);
  return state().initialized ? true : fail(EGL_NOT_INITIALIZED);
}

void *newHandle() { return reinterpret_cast<void *>(state().next_handle += 16); }

} // namespace softegl

using namespace softegl;

SOFTEGL_API EGLint EGLAPIENTRY eglGetError(void) { return std::exchange(last_error, EGL_SUCCESS); }

SOFTEGL_API EGLDisplay EGLAPIENTRY eglGetPlatformDisplay(EGLenum platform, void *native, const EGLAttrib *attributes) {
  if (refused("display")) return fail(EGL_BAD_PARAMETER, EGL_NO_DISPLAY);
  if (attributes && attributes[0] != EGL_NONE) return fail(EGL_BAD_ATTRIBUTE, EGL_NO_DISPLAY);
  const bool device = platform == EGL_PLATFORM_DEVICE_EXT && native == kDevice;
  const bool surfaceless = platform == EGL_PLATFORM_SURFACELESS_MESA && native == EGL_DEFAULT_DISPLAY;
  if (device && !hidden("EGL_EXT_platform_device")) return kDisplay;
  if (surfaceless && !hidden("EGL_MESA_platform_surfaceless")) return kDisplay;
  return fail(EGL_BAD_PARAMETER, EGL_NO_DISPLAY);
}

SOFTEGL_API EGLDisplay EGLAPIENTRY eglGetPlatformDisplayEXT(EGLenum platform, void *native, const EGLint *attributes) {
  if (attributes && attributes[0] != EGL_NONE) return fail(EGL_BAD_ATTRIBUTE, EGL_NO_DISPLAY);
  return eglGetPlatformDisplay(platform, native, nullptr);
}

// without a window system there is no default display
SOFTEGL_API EGLDisplay EGLAPIENTRY eglGetDisplay(EGLNativeDisplayType) { return EGL_NO_DISPLAY; }

SOFTEGL_API EGLBoolean EGLAPIENTRY eglInitialize(EGLDisplay display, EGLint *major, EGLint *minor) {
  if (display != kDisplay) return fail(EGL_BAD_DISPLAY);
  if (refused("initialize")) return fail(EGL_NOT_INITIALIZED);
  const std::lock_guard guard(state().lock);
  state().initialized = true;
  if (major) *major = 1;
  if (minor) *minor = 5;
  return EGL_TRUE;
}

// All users of a display share it: images stay for whom did not terminate it.
SOFTEGL_API EGLBoolean EGLAPIENTRY eglTerminate(EGLDisplay display) {
  if (display != kDisplay) return fail(EGL_BAD_DISPLAY);
  const std::lock_guard guard(state().lock);
  if (!state().images.empty() || !state().syncs.empty()) misuse("eglTerminate while images or syncs of it live");
  state().initialized = false;
  return EGL_TRUE;
}

SOFTEGL_API const char *EGLAPIENTRY eglQueryString(EGLDisplay display, EGLint name) {
  if (display == EGL_NO_DISPLAY) {
    if (name == EGL_EXTENSIONS) return listed(kClientExtensions);
    if (name == EGL_VERSION) return "1.5 softegl";
    return fail<const char *>(EGL_BAD_DISPLAY, nullptr);
  }
  {
    const std::lock_guard guard(state().lock);
    if (!usable(display)) return nullptr;
  }
  switch (name) {
  case EGL_EXTENSIONS: return listed(kDisplayExtensions);
  case EGL_VERSION: return "1.5 softegl";
  case EGL_VENDOR: return "softegl";
  case EGL_CLIENT_APIS: return "OpenGL_ES";
  default: return fail<const char *>(EGL_BAD_PARAMETER, nullptr);
  }
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglQueryDevicesEXT(EGLint room, EGLDeviceEXT *devices, EGLint *count) {
  if (!count || (devices && room <= 0)) return fail(EGL_BAD_PARAMETER);
  *count = 1;
  if (devices) devices[0] = kDevice;
  return EGL_TRUE;
}

SOFTEGL_API const char *EGLAPIENTRY eglQueryDeviceStringEXT(EGLDeviceEXT device, EGLint name) {
  if (device != kDevice) return fail<const char *>(EGL_BAD_DEVICE_EXT, nullptr);
  return name == EGL_EXTENSIONS ? listed(kDeviceExtensions) : fail<const char *>(EGL_BAD_PARAMETER, nullptr);
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglQueryDeviceAttribEXT(EGLDeviceEXT device, EGLint attribute, EGLAttrib *value) {
  if (device != kDevice) return fail(EGL_BAD_DEVICE_EXT);
  if (attribute != EGL_CUDA_DEVICE_NV || !value || hidden("EGL_NV_device_cuda")) return fail(EGL_BAD_ATTRIBUTE);
  const char *ordinal = getenv("SOFTEGL_CUDA_DEVICE"); // of a machine with several
  *value = ordinal ? atoi(ordinal) : 0;
  return EGL_TRUE;
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglQueryDisplayAttribEXT(EGLDisplay display, EGLint attribute, EGLAttrib *value) {
  const std::lock_guard guard(state().lock);
  if (!usable(display)) return EGL_FALSE;
  if (attribute != EGL_DEVICE_EXT || !value) return fail(EGL_BAD_ATTRIBUTE);
  *value = reinterpret_cast<EGLAttrib>(kDevice);
  return EGL_TRUE;
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglReleaseThread(void) {
  last_error = EGL_SUCCESS;
  return EGL_TRUE;
}

SOFTEGL_API void softegl_refuse(const char *what) {
  const std::lock_guard guard(state().lock);
  state().refused = split(what);
}

SOFTEGL_API void softegl_without(const char *what) {
  const std::lock_guard guard(state().lock);
  state().without = split(what);
}

SOFTEGL_API uint64_t softegl_misuses(void) {
  const std::lock_guard guard(state().lock);
  return state().misuses;
}

SOFTEGL_API void softegl_forget_misuses(void) {
  const std::lock_guard guard(state().lock);
  state().misuses = 0;
}

SOFTEGL_API uint64_t softegl_live(void) {
  const std::lock_guard guard(state().lock);
  return state().images.size() + state().syncs.size();
}
