// SPDX-License-Identifier: LGPL-2.1-or-later
// As much of CUDA C++ as our kernels use, for a compiler of the host: the threads of a grid run one after another. No
// shared memory, no barriers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__

struct DeviceIndex {
  unsigned x = 0, y = 0, z = 0;
};
inline thread_local DeviceIndex threadIdx, blockIdx, blockDim, gridDim;

// As IEEE 754 has them, and so the device.
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline uint32_t __float_as_uint(float v) { return std::bit_cast<uint32_t>(v); }
inline int __float2int_rn(float v) { return static_cast<int>(std::nearbyint(v)); }

// Calls `thread` for each thread of the grid.
template <class Thread> void runGrid(const unsigned grid[3], const unsigned block[3], Thread thread) {
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < block[2]; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < block[1]; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x) thread();
}
