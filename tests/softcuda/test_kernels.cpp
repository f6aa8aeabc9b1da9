// SPDX-License-Identifier: LGPL-2.1-or-later
// Kernels of kernels_test.cpp, as one writes them for a device.
#include "softcuda_device.h"

struct Row {
  float *to;
  cudaTextureObject_t from;
  int width;
};

inline void softcuda_fix(Row &row) { softcuda::translate(row.to, sizeof(float) * size_t(row.width)); }

extern "C" __global__ void add_one(unsigned char *bytes, unsigned int count) {
  const unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) bytes[i] += 1;
}

extern "C" __global__ void read_row(Row row) {
  const int x = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (x < row.width) row.to[x] = tex2D<float>(row.from, x + 0.5f, 0.5f);
}

extern "C" __global__ void number_threads(unsigned int *out) {
  const unsigned int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[i] = i;
}

SOFTCUDA_KERNELS(SOFTCUDA_ENTRY(add_one), SOFTCUDA_ENTRY(read_row), SOFTCUDA_ENTRY(number_threads))
