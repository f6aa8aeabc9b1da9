// SPDX-License-Identifier: LGPL-2.1-or-later
// Control of the stand-ins for libcuda, libEGL and libvulkan, as far as they are that.
#pragma once

#include <cstdint>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/softcuda/egl/softegl.h"
#include "tests/softcuda/softcuda.h"
#include "tests/softcuda/vulkan/softvulkan.h"

namespace gstzc::cuda::test {

// Null where the library is not there, or is the real one.
template <typename F> F *control(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_NOW);
  return handle == nullptr ? nullptr : reinterpret_cast<F *>(dlsym(handle, name));
}
#define GSTZC_CONTROL(library, name) (*::gstzc::cuda::test::control<decltype(::name)>(library, #name))
#define SOFTCUDA(name) GSTZC_CONTROL("libcuda.so.1", name)
#define SOFTEGL(name) GSTZC_CONTROL("libEGL.so.1", name)
#define SOFTVULKAN(name) GSTZC_CONTROL("libvulkan.so.1", name)

} // namespace gstzc::cuda::test
