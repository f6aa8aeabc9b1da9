// SPDX-License-Identifier: LGPL-2.1-or-later
// The preprocessing on a device: a thread for each pixel of the tensor. All arithmetic is in the headers of
// gst/infer/preprocess, which the CPU's kernels and the tests compile, too.
#include "gst/infer/preprocess/pixel_layout.h"

namespace gstzc::infer {

__device__ __forceinline__ float mulAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float limited(float v, float low, float high) { return fminf(fmaxf(v, low), high); }
__device__ __forceinline__ uint32_t bitsOf(float v) { return __float_as_uint(v); }
__device__ __forceinline__ int32_t toNearest(float v) { return __float2int_rn(v); }

#define GSTZC_PIXEL __device__ __forceinline__
#include "gst/infer/preprocess/pixel.inl.h"
#include "gst/infer/preprocess/taps.inl.h"
#include "gst/infer/preprocess/pixel_at.inl.h"
#undef GSTZC_PIXEL

} // namespace gstzc::infer

// One picture into `tensor`, the address of its first number.
extern "C" __global__ void gstzc_preprocess(const __grid_constant__ gstzc::infer::PixelPlan plan,
                                            const __grid_constant__ gstzc::infer::PixelPlanes planes,
                                            unsigned long long tensor) {
  const int x = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int y = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (x < plan.width && y < plan.height)
    gstzc::infer::makePixel(plan, planes, reinterpret_cast<unsigned char *>(tensor), x, y);
}
