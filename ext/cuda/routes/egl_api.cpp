// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/egl_api.h"

#include <dlfcn.h>

#include <array>
#include <cerrno>
#include <string_view>

#include <drm_fourcc.h>

#include "gst/zerocopy/core/drm_format.h"

namespace gstzc::cuda {
namespace {

bool listed(const char *extensions, std::string_view name) {
  if (extensions == nullptr) return false;
  std::string_view rest(extensions);
  while (!rest.empty()) {
    const size_t end = rest.find(' ');
    if (rest.substr(0, end) == name) return true;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return false;
}

// Initialises the display and sees whether it can import dma-bufs.
Result<EglDisplayChoice> tryDisplay(const EglApi &egl, EGLDisplay display, const std::string &name) {
  if (display == EGL_NO_DISPLAY) {
    Error none = egl.error("EGL display " + name);
    if (none.what.ends_with("EGL_SUCCESS")) none = {"there is no EGL display " + name, ENODEV, ""};
    return none;
  }
  EGLint major = 0, minor = 0;
  if (!egl.eglInitialize(display, &major, &minor)) return egl.error("eglInitialize of the display " + name);
  const char *extensions = egl.eglQueryString(display, EGL_EXTENSIONS);
  if (!listed(extensions, "EGL_EXT_image_dma_buf_import")) {
    const char *vendor = egl.eglQueryString(display, EGL_VENDOR);
    return Error{"the EGL display " + name + " (" + (vendor != nullptr ? vendor : "unknown vendor") +
                     ") has no EGL_EXT_image_dma_buf_import",
                 EOPNOTSUPP, ""};
  }
  EglDisplayChoice choice{display, name, false};
  choice.modifiers = listed(extensions, "EGL_EXT_image_dma_buf_import_modifiers");
  return choice;
}

struct DeviceSearch {
  std::vector<EGLDeviceEXT> devices;
  EGLDeviceEXT device = nullptr; // of the CUDA device asked for
  std::string name;
  bool told = false; // some device said which CUDA device it is
};

DeviceSearch searchDevices(const EglApi &egl, int ordinal) {
  DeviceSearch search;
  if (egl.eglQueryDevicesEXT == nullptr || egl.eglQueryDeviceAttribEXT == nullptr) return search;
  std::array<EGLDeviceEXT, 32> devices = {};
  EGLint count = 0;
  if (!egl.eglQueryDevicesEXT(static_cast<EGLint>(devices.size()), devices.data(), &count)) return search;
  search.devices.assign(devices.begin(), devices.begin() + count);
  for (EGLint i = 0; i < count; ++i) {
    EGLAttrib cuda = -1;
    if (!egl.eglQueryDeviceAttribEXT(devices[i], EGL_CUDA_DEVICE_NV, &cuda)) {
      egl.eglGetError(); // one that is no CUDA device
      continue;
    }
    search.told = true;
    if (cuda == ordinal) {
      search.device = devices[i];
      search.name = "device " + std::to_string(i) + " (CUDA device " + std::to_string(ordinal) + ")";
      break;
    }
  }
  return search;
}

// What the display says of a format, for whoever was refused.
std::string whatIsTaken(const EglApi &egl, const EglDisplayChoice &display, const ImportSource &source) {
  if (!display.modifiers || egl.eglQueryDmaBufModifiersEXT == nullptr) return "";
  std::array<EGLuint64KHR, 64> modifiers = {};
  EGLint count = 0;
  const bool known =
      egl.eglQueryDmaBufModifiersEXT(display.handle, static_cast<EGLint>(source.fourcc),
                                     static_cast<EGLint>(modifiers.size()), modifiers.data(), nullptr, &count);
  if (!known) {
    egl.eglGetError();
    return "The display " + display.name + " does not know this format";
  }
  std::string text = "The display " + display.name + " takes it with the modifiers";
  if (count == 0) text += " of its own choice only";
  for (EGLint i = 0; i < count; ++i) text += (i == 0 ? " " : ", ") + modifierName(modifiers[i]);
  return text;
}

} // namespace

const char *eglErrorName(EGLint error) {
  switch (error) {
#define NAME(e) \
  case e: return #e
    NAME(EGL_SUCCESS);
    NAME(EGL_NOT_INITIALIZED);
    NAME(EGL_BAD_ACCESS);
    NAME(EGL_BAD_ALLOC);
    NAME(EGL_BAD_ATTRIBUTE);
    NAME(EGL_BAD_CONFIG);
    NAME(EGL_BAD_CONTEXT);
    NAME(EGL_BAD_CURRENT_SURFACE);
    NAME(EGL_BAD_DISPLAY);
    NAME(EGL_BAD_MATCH);
    NAME(EGL_BAD_NATIVE_PIXMAP);
    NAME(EGL_BAD_NATIVE_WINDOW);
    NAME(EGL_BAD_PARAMETER);
    NAME(EGL_BAD_SURFACE);
    NAME(EGL_CONTEXT_LOST);
    NAME(EGL_BAD_DEVICE_EXT);
#undef NAME
  default: return "an unknown EGL error";
  }
}

Error EglApi::error(const std::string &what, const std::string &remedy) const {
  const EGLint code = eglGetError();
  int nearest = EIO;
  switch (code) {
  case EGL_BAD_ALLOC: nearest = ENOMEM; break;
  case EGL_BAD_ACCESS: nearest = EACCES; break;
  case EGL_BAD_MATCH:
  case EGL_BAD_ATTRIBUTE:
  case EGL_BAD_PARAMETER: nearest = EOPNOTSUPP; break;
  case EGL_CONTEXT_LOST: nearest = ENODEV; break;
  default: break;
  }
  return {what + ": " + eglErrorName(code), nearest, remedy};
}

Result<EglApi> EglApi::load(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); // never closed: displays and drivers stay
  if (handle == nullptr) {
    const char *why = dlerror();
    return Error{std::string("opening EGL: ") + (why != nullptr ? why : library), ENOENT,
                 "Install the driver's libEGL (package libegl1)"};
  }
  EglApi egl;
#define LOOK_UP(name, type)                                \
  egl.name = reinterpret_cast<type>(dlsym(handle, #name)); \
  if (egl.name == nullptr) return Error{std::string(library) + " lacks " #name, ENOSYS, ""};
  GSTZC_EGL_CORE(LOOK_UP)
#undef LOOK_UP
#define LOOK_UP(name, type) egl.name = reinterpret_cast<type>(egl.eglGetProcAddress(#name));
  GSTZC_EGL_EXTENSIONS(LOOK_UP)
#undef LOOK_UP
  if (egl.eglCreateImageKHR == nullptr || egl.eglDestroyImageKHR == nullptr)
    return Error{std::string(library) + " has no EGL_KHR_image_base", ENOSYS, ""};
  return egl;
}

Result<const EglApi *> EglApi::get() {
  static const auto loaded = new Result<EglApi>(load("libEGL.so.1")); // never destroyed, as images may outlive main()
  if (!*loaded) return loaded->error();
  return &loaded->value();
}

Result<std::vector<EglDisplayChoice>> findEglDisplays(const EglApi &egl, int ordinal) {
  const char *client = egl.eglQueryString(EGL_NO_DISPLAY, EGL_EXTENSIONS);
  const bool platforms = egl.eglGetPlatformDisplayEXT != nullptr;
  DeviceSearch search;
  if (listed(client, "EGL_EXT_device_base") || listed(client, "EGL_EXT_device_enumeration"))
    search = searchDevices(egl, ordinal);
  if (search.device != nullptr) {
    if (!platforms || !listed(client, "EGL_EXT_platform_device"))
      return Error{"EGL has no EGL_EXT_platform_device for a display of its " + search.name, EOPNOTSUPP, ""};
    auto display =
        tryDisplay(egl, egl.eglGetPlatformDisplayEXT(EGL_PLATFORM_DEVICE_EXT, search.device, nullptr), search.name);
    if (!display) return display.error();
    return std::vector<EglDisplayChoice>{display.take()};
  }
  if (search.told)
    return Error{"EGL has no display for CUDA device " + std::to_string(ordinal) + ", only for others", ENODEV, ""};

  // Nobody tells: registering an image will show whether the display is the device's.
  std::vector<EglDisplayChoice> found;
  std::string refused;
  const auto consider = [&](EGLDisplay handle, const std::string &name) {
    for (const EglDisplayChoice &known : found)
      if (known.handle == handle) return;
    auto display = tryDisplay(egl, handle, name);
    if (display)
      found.push_back(display.take());
    else
      refused += (refused.empty() ? "" : "; ") + display.error().what;
  };
  if (platforms && listed(client, "EGL_MESA_platform_surfaceless"))
    consider(egl.eglGetPlatformDisplayEXT(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr), "surfaceless");
  consider(egl.eglGetDisplay(EGL_DEFAULT_DISPLAY), "default");
  if (platforms && listed(client, "EGL_EXT_platform_device"))
    for (size_t i = 0; i < search.devices.size(); ++i)
      consider(egl.eglGetPlatformDisplayEXT(EGL_PLATFORM_DEVICE_EXT, search.devices[i], nullptr),
               "device " + std::to_string(i));
  if (found.empty()) return Error{refused, EOPNOTSUPP, ""};
  return found;
}

Result<EglImage> EglImage::create(const EglApi &egl, const EglDisplayChoice &display, const ImportSource &source) {
  const bool explicit_modifier = source.modifier != DRM_FORMAT_MOD_INVALID;
  if (!display.modifiers && explicit_modifier && source.modifier != DRM_FORMAT_MOD_LINEAR)
    return Error{"the EGL display " + display.name + " imports no modifiers: it has no " +
                     "EGL_EXT_image_dma_buf_import_modifiers",
                 EOPNOTSUPP, ""};
  static constexpr EGLint kNames[][5] = {
      {EGL_DMA_BUF_PLANE0_FD_EXT, EGL_DMA_BUF_PLANE0_OFFSET_EXT, EGL_DMA_BUF_PLANE0_PITCH_EXT,
       EGL_DMA_BUF_PLANE0_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE0_MODIFIER_HI_EXT},
      {EGL_DMA_BUF_PLANE1_FD_EXT, EGL_DMA_BUF_PLANE1_OFFSET_EXT, EGL_DMA_BUF_PLANE1_PITCH_EXT,
       EGL_DMA_BUF_PLANE1_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE1_MODIFIER_HI_EXT},
      {EGL_DMA_BUF_PLANE2_FD_EXT, EGL_DMA_BUF_PLANE2_OFFSET_EXT, EGL_DMA_BUF_PLANE2_PITCH_EXT,
       EGL_DMA_BUF_PLANE2_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE2_MODIFIER_HI_EXT},
      {EGL_DMA_BUF_PLANE3_FD_EXT, EGL_DMA_BUF_PLANE3_OFFSET_EXT, EGL_DMA_BUF_PLANE3_PITCH_EXT,
       EGL_DMA_BUF_PLANE3_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE3_MODIFIER_HI_EXT},
  };
  const unsigned most = display.modifiers ? 4 : 3; // the fourth came with the modifiers
  if (source.n_planes == 0 || source.n_planes > most)
    return Error{"EGL imports 1 to " + std::to_string(most) + " planes, not " + std::to_string(source.n_planes),
                 EOPNOTSUPP, ""};

  std::vector<EGLint> attributes = {EGL_WIDTH,
                                    static_cast<EGLint>(source.width),
                                    EGL_HEIGHT,
                                    static_cast<EGLint>(source.height),
                                    EGL_LINUX_DRM_FOURCC_EXT,
                                    static_cast<EGLint>(source.fourcc)};
  for (unsigned i = 0; i < source.n_planes; ++i) {
    const ImportPlane &plane = source.planes[i];
    if (plane.offset > INT32_MAX || plane.pitch > INT32_MAX)
      return Error{"plane " + std::to_string(i) + " lies further in than EGL can say", EOPNOTSUPP, ""};
    const EGLint values[] = {source.fd, static_cast<EGLint>(plane.offset), static_cast<EGLint>(plane.pitch),
                             static_cast<EGLint>(source.modifier & 0xffffffffu),
                             static_cast<EGLint>(source.modifier >> 32)};
    const unsigned said = display.modifiers && explicit_modifier ? 5 : 3;
    for (unsigned k = 0; k < said; ++k) attributes.insert(attributes.end(), {kNames[i][k], values[k]});
  }
  attributes.push_back(EGL_NONE);

  const auto make = [&] {
    return egl.eglCreateImageKHR(display.handle, EGL_NO_CONTEXT, EGL_LINUX_DMA_BUF_EXT, nullptr, attributes.data());
  };
  EGLImageKHR image = make();
  if (image == EGL_NO_IMAGE_KHR) {
    const EGLint code = egl.eglGetError();
    // Somebody else who had the same display has terminated it.
    if (code == EGL_NOT_INITIALIZED && egl.eglInitialize(display.handle, nullptr, nullptr)) image = make();
    if (image == EGL_NO_IMAGE_KHR)
      return Error{"eglCreateImageKHR of a " + std::to_string(source.width) + "x" + std::to_string(source.height) +
                       " dma-buf in " + gstzc::describe(DrmFormat{source.fourcc, source.modifier}) +
                       " on the display " + display.name + ": " + eglErrorName(code),
                   code == EGL_BAD_ALLOC ? ENOMEM : EOPNOTSUPP, whatIsTaken(egl, display, source)};
  }
  return EglImage(egl, display.handle, image);
}

} // namespace gstzc::cuda
