// SPDX-License-Identifier: LGPL-2.1-or-later
// Compiled against the headers of NVIDIA's toolkit, and those of EGL and OpenGL.
#include <cudaEGL.h>
#include <cudaGL.h>

#include "tests/unit/cuda/abi/abi_entries.inc"

gstzc::test::AbiEntries gstzc::test::toolkitEglAbi() {
  AbiEntries entries;
#include "tests/unit/cuda/abi/cuda_egl_table.inc"
  return entries;
}
