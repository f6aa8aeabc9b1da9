// SPDX-License-Identifier: LGPL-2.1-or-later
// The pixels of an import as the device sees them.
#pragma once

#include <cstdint>
#include <vector>

#include "ext/cuda/routes/route.h"
#include "tests/unit/cuda/support/device_test.h"

namespace gstzc::cuda::test {

// Rows without gaps, plane after plane, after a refresh on the stream; empty on failure. Asks the driver itself for all
// but the refresh.
inline std::vector<uint8_t> readBack(const ContextPtr &context, CUstream stream, DeviceImport &import) {
  const Driver &driver = **Driver::get();
  std::vector<uint8_t> bytes;
  size_t size = 0;
  for (unsigned i = 0; i < import.n_planes; ++i) size += size_t{import.planes[i].row_bytes} * import.planes[i].rows;
  const ContextScope scope(*context);
  if (auto refreshed = import.refresh(stream); !refreshed) {
    ADD_FAILURE() << refreshed.error().message();
    return bytes;
  }
  bytes.resize(size);
  size_t at = 0;
  bool good = true;
  for (unsigned i = 0; i < import.n_planes; ++i) {
    const ImportPlane &plane = import.planes[i];
    EXPECT_LE(plane.offset + uint64_t{plane.pitch} * (plane.rows - 1) + plane.row_bytes, import.size);
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = import.pointer + plane.offset;
    copy.srcPitch = plane.pitch;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = bytes.data() + at;
    copy.dstPitch = copy.WidthInBytes = plane.row_bytes;
    copy.Height = plane.rows;
    good = good && driver.cuMemcpy2DAsync(&copy, stream) == CUDA_SUCCESS;
    at += size_t{plane.row_bytes} * plane.rows;
  }
  good = driver.cuStreamSynchronize(stream) == CUDA_SUCCESS && good;
  EXPECT_TRUE(good);
  return good ? bytes : std::vector<uint8_t>();
}

} // namespace gstzc::cuda::test
