// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/gbm/gbm_library.h"

#include <string>
#include <type_traits>

#include <dlfcn.h>

namespace gstzc {

Result<GbmLibrary> GbmLibrary::open(const char *name) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char *why = dlerror();
    return Error{std::string("the buffer library libgbm cannot be opened: ") +
                     (why != nullptr ? why : "no reason given"),
                 0, "Install libgbm.so.1 (Debian: libgbm1), or the one of the GPU's vendor"};
  }
  GbmLibrary library;
  std::string missing;
  const auto find = [&](auto &function, const char *symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
    if (function == nullptr && missing.empty()) missing = symbol;
  };
  find(library.create_device, "gbm_create_device");
  find(library.device_destroy, "gbm_device_destroy");
  find(library.device_get_backend_name, "gbm_device_get_backend_name");
  find(library.bo_create_with_modifiers2, "gbm_bo_create_with_modifiers2");
  find(library.bo_destroy, "gbm_bo_destroy");
  find(library.bo_get_modifier, "gbm_bo_get_modifier");
  find(library.bo_get_plane_count, "gbm_bo_get_plane_count");
  find(library.bo_get_fd_for_plane, "gbm_bo_get_fd_for_plane");
  find(library.bo_get_stride_for_plane, "gbm_bo_get_stride_for_plane");
  find(library.bo_get_offset, "gbm_bo_get_offset");
  if (missing.empty()) return library;
  dlclose(handle);
  return Error{std::string("the buffer library ") + name + " has no " + missing, 0,
               "Install a libgbm of Mesa 21.3 or newer, or the GPU vendor's newest"};
}

const Result<GbmLibrary> &GbmLibrary::get() {
  static const Result<GbmLibrary> library = open("libgbm.so.1");
  return library;
}

} // namespace gstzc
