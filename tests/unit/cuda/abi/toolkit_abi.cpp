// SPDX-License-Identifier: LGPL-2.1-or-later
// Compiled against the headers of NVIDIA's toolkit.
#include <cuda.h>

#include "tests/unit/cuda/abi/abi_entries.inc"

#ifndef CUDA_VERSION
#error "this is not the toolkit's cuda.h"
#endif

gstzc::test::AbiEntries gstzc::test::toolkitAbi() {
  AbiEntries entries;
#include "tests/unit/cuda/abi/cuda_table.inc"
  return entries;
}
