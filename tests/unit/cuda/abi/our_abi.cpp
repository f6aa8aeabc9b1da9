// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cuda.h>
#include <cudaEGL.h>
#include <cudaGL.h>

#include "tests/unit/cuda/abi/abi_entries.inc"

gstzc::test::AbiEntries gstzc::test::ourAbi() {
  AbiEntries entries;
#include "tests/unit/cuda/abi/cuda_table.inc"
  return entries;
}

gstzc::test::AbiEntries gstzc::test::ourEglAbi() {
  AbiEntries entries;
#include "tests/unit/cuda/abi/cuda_egl_table.inc"
  return entries;
}
