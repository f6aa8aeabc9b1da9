// SPDX-License-Identifier: LGPL-2.1-or-later
// Functions by their names without a version, and tables of those that have no names.
#include "tests/softcuda/internal.h"

#include <dlfcn.h>

using namespace softcuda;

namespace {

void *symbol(const std::string &name) {
  static void *library = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void *>(&cuInit), &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  }();
  return library ? dlsym(library, name.c_str()) : nullptr;
}

CUresult lookUp(const char *name, void **function, int *status) {
  constexpr int kFound = 0, kNotFound = 1; // CUdriverProcAddressQueryResult
  NEED(name && function);
  *function = nullptr;
  for (const char *suffix : {"_v2", ""})
    if (!*function) *function = symbol(std::string(name) + suffix);
  if (status) *status = *function ? kFound : kNotFound;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

} // namespace

SOFTCUDA_API cuGetProcAddress(const char *name, void **function, int /*version*/, cuuint64_t /*flags*/) {
  ENTER(kNoContext | kBeforeInit);
  return lookUp(name, function, nullptr);
}

SOFTCUDA_API cuGetProcAddress_v2(const char *name, void **function, int /*version*/, cuuint64_t /*flags*/,
                                 int *status) {
  ENTER(kNoContext | kBeforeInit);
  return lookUp(name, function, status);
}

// Tables that NVIDIA's own libraries have functions from, found by an identifier that no document names. There are none
// here; a caller that finds no function of this name calls it all the same.
SOFTCUDA_API cuGetExportTable(const void **table, const CUuuid *id) {
  ENTER(kNoContext | kBeforeInit);
  NEED(table && id);
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}
