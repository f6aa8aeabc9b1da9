// SPDX-License-Identifier: LGPL-2.1-or-later
// EGL's half of the route egl-image: a display for a device, and images over dma-bufs. Nothing of it needs CUDA. No
// context is made current: displays and images belong to no thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#define EGL_NO_X11
#define EGL_NO_PLATFORM_SPECIFIC_TYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>

#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// What the library exports, and what only eglGetProcAddress() knows: null where it does not.
#define GSTZC_EGL_CORE(F)                              \
  F(eglGetProcAddress, decltype(&::eglGetProcAddress)) \
  F(eglGetError, decltype(&::eglGetError))             \
  F(eglQueryString, decltype(&::eglQueryString))       \
  F(eglGetDisplay, decltype(&::eglGetDisplay))         \
  F(eglInitialize, decltype(&::eglInitialize))

#define GSTZC_EGL_EXTENSIONS(F)                                \
  F(eglQueryDevicesEXT, PFNEGLQUERYDEVICESEXTPROC)             \
  F(eglQueryDeviceAttribEXT, PFNEGLQUERYDEVICEATTRIBEXTPROC)   \
  F(eglGetPlatformDisplayEXT, PFNEGLGETPLATFORMDISPLAYEXTPROC) \
  F(eglCreateImageKHR, PFNEGLCREATEIMAGEKHRPROC)               \
  F(eglDestroyImageKHR, PFNEGLDESTROYIMAGEKHRPROC)             \
  F(eglQueryDmaBufModifiersEXT, PFNEGLQUERYDMABUFMODIFIERSEXTPROC)

struct EglApi {
#define GSTZC_EGL_MEMBER(name, type) type name = nullptr;
  GSTZC_EGL_CORE(GSTZC_EGL_MEMBER)
  GSTZC_EGL_EXTENSIONS(GSTZC_EGL_MEMBER)
#undef GSTZC_EGL_MEMBER

  // The process's; never unloaded. The outcome of the first call stays.
  static Result<const EglApi *> get();
  static Result<EglApi> load(const char *library); // ENOENT: it is not there; ENOSYS: it lacks what is needed

  Error error(const std::string &what, const std::string &remedy = "") const; // with the name of this thread's error
};
const char *eglErrorName(EGLint error); // "EGL_BAD_MATCH"

// A display that is initialised and imports dma-bufs. It is never terminated: EGL hands the same one to all of the
// process who ask for it, and terminating would take it from the others.
struct EglDisplayChoice {
  EGLDisplay handle = EGL_NO_DISPLAY;
  std::string name;       // "device 0 (CUDA device 0)", "surfaceless", "default"
  bool modifiers = false; // EGL_EXT_image_dma_buf_import_modifiers
};

// The one display of the CUDA device `ordinal` where EGL tells which that is; else all that might be it, to be tried in
// order. Errors say why each was ruled out.
Result<std::vector<EglDisplayChoice>> findEglDisplays(const EglApi &egl, int ordinal);

// Move-only owner of an image.
class EglImage {
public:
  // One image with all planes. Errors: EOPNOTSUPP with what the display takes instead.
  static Result<EglImage> create(const EglApi &egl, const EglDisplayChoice &display, const ImportSource &source);

  EglImage(EglImage &&other) noexcept
      : egl_(other.egl_), display_(other.display_), handle_(std::exchange(other.handle_, EGL_NO_IMAGE_KHR)) {}
  EglImage &operator=(EglImage &&) = delete;
  ~EglImage() {
    if (handle_ != EGL_NO_IMAGE_KHR) egl_.eglDestroyImageKHR(display_, handle_);
  }
  EGLImageKHR get() const { return handle_; }

private:
  EglImage(const EglApi &egl, EGLDisplay display, EGLImageKHR handle) : egl_(egl), display_(display), handle_(handle) {}
  const EglApi &egl_;
  const EGLDisplay display_;
  EGLImageKHR handle_;
};

} // namespace gstzc::cuda
