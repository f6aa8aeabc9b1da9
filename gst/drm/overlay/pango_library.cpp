// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/pango_library.h"

#include <dlfcn.h>

namespace gstzc {
namespace {

Result<PangoLibrary> open() {
  // brings libpango and libcairo with it
  void *handle = dlopen("libpangocairo-1.0.so.0", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char *why = dlerror();
    return Error{std::string("the text library Pango cannot be opened: ") + (why != nullptr ? why : "no reason given"),
                 0, "Install libpangocairo-1.0.so.0 (Debian: libpangocairo-1.0-0)"};
  }
  PangoLibrary library = {};
  const char *missing = nullptr;
#define X(name)                                                             \
  library.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name)); \
  if (library.name == nullptr) missing = #name;
  GSTZC_PANGO_FUNCTIONS(X)
#undef X
  if (missing != nullptr)
    return Error{std::string("the text library Pango has no ") + missing, 0, "Install Pango 1.44 or newer"};
  return library;
}

} // namespace

const Result<PangoLibrary> &PangoLibrary::get() {
  static const Result<PangoLibrary> library = open();
  return library;
}

} // namespace gstzc
