// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/softcuda/internal.h"

namespace softcuda {

size_t elementSize(CUarray_format format) {
  switch (format) {
  case CU_AD_FORMAT_UNSIGNED_INT8: return 1;
  case CU_AD_FORMAT_UNSIGNED_INT16:
  case CU_AD_FORMAT_HALF: return 2;
  case CU_AD_FORMAT_UNSIGNED_INT32:
  case CU_AD_FORMAT_FLOAT: return 4;
  }
  return 0;
}

} // namespace softcuda
