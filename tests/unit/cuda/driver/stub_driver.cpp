// SPDX-License-Identifier: LGPL-2.1-or-later
// A library with the functions that are required of libcuda, all of which give one answer; built with one of them
// renamed it lacks that.
#include "ext/cuda/driver/driver.h"

#define GSTZC_STUB(name, symbol) GSTZC_STUB_OF(name, symbol) // renamed ones are renamed here
#define GSTZC_STUB_OF(name, symbol)                                                          \
  extern "C" __attribute__((visibility("default"))) CUresult stub_##name() __asm__(#symbol); \
  CUresult stub_##name() { return static_cast<CUresult>(GSTZC_STUB_ANSWER); }
GSTZC_CUDA_REQUIRED(GSTZC_STUB)
