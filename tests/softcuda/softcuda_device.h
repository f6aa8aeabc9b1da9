// SPDX-License-Identifier: LGPL-2.1-or-later
// As much of CUDA's device language as lets g++ compile a plain kernel for the stand-in: the threads of a grid run one
// after another, so there is neither shared memory nor __syncthreads. A file of kernels ends with
//   SOFTCUDA_KERNELS(SOFTCUDA_ENTRY(first), SOFTCUDA_ENTRY(second))
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include "softcuda_kernel.h"

#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __constant__ const
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

#define SOFTCUDA_VECTORS(T, name)                                    \
  struct name##1 { T x; };                                           \
  struct name##2 { T x, y; };                                        \
  struct name##3 { T x, y, z; };                                     \
  struct name##4 { T x, y, z, w; };                                  \
  inline name##1 make_##name##1(T x) { return {x}; }                 \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SOFTCUDA_VECTORS(unsigned char, uchar)
SOFTCUDA_VECTORS(unsigned short, ushort)
SOFTCUDA_VECTORS(int, int)
SOFTCUDA_VECTORS(unsigned int, uint)
SOFTCUDA_VECTORS(float, float)
#undef SOFTCUDA_VECTORS

struct dim3 {
  unsigned int x = 1, y = 1, z = 1;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

using std::max;
using std::min;
inline int __float2int_rz(float value) { return int(value); }
inline int __float2int_rn(float value) { return int(std::nearbyint(value)); }
inline float __int2float_rn(int value) { return float(value); }
inline float __int2float_rz(int value) { return float(value); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __saturatef(float value) { return value < 0 ? 0 : value > 1 ? 1 : value; }
template <typename T> T __ldg(const T *at) { return *at; }

using cudaTextureObject_t = unsigned long long;

namespace softcuda {

struct IllegalAddress {};

inline thread_local const softcuda_launch *running = nullptr;

// An address of the device in an argument of a kernel, made one of the host.
template <typename T> void translate(T *&pointer, size_t bytes = 1) {
  if (!pointer) return;
  void *host = running->pointer(reinterpret_cast<uint64_t>(pointer), bytes);
  if (!host) throw IllegalAddress{};
  pointer = static_cast<T *>(host);
}

// A structure that holds addresses has a function `void softcuda_fix(S &)` beside it, which translates them.
template <typename T> void fix(T &value) {
  if constexpr (std::is_pointer_v<T>)
    translate(value);
  else if constexpr (requires { softcuda_fix(value); })
    softcuda_fix(value);
}

template <auto Kernel> struct Grid;
template <typename... A, void (*Kernel)(A...)> struct Grid<Kernel> {
  static constexpr size_t sizes[] = {sizeof(A)..., 0};

  template <size_t... I>
  static void all(const softcuda_launch *launch, void *const *parameters, std::index_sequence<I...>) {
    (fix(*static_cast<std::remove_cv_t<A> *>(parameters[I])), ...);
    gridDim = {launch->grid[0], launch->grid[1], launch->grid[2]};
    blockDim = {launch->block[0], launch->block[1], launch->block[2]};
    dim3 &block = blockIdx, &thread = threadIdx;
    for (block.z = 0; block.z < gridDim.z; ++block.z)
      for (block.y = 0; block.y < gridDim.y; ++block.y)
        for (block.x = 0; block.x < gridDim.x; ++block.x)
          for (thread.z = 0; thread.z < blockDim.z; ++thread.z)
            for (thread.y = 0; thread.y < blockDim.y; ++thread.y)
              for (thread.x = 0; thread.x < blockDim.x; ++thread.x)
                Kernel(*static_cast<std::remove_cv_t<A> *>(parameters[I])...);
  }
  static void run(const softcuda_launch *launch, void *const *parameters) {
    running = launch;
    all(launch, parameters, std::index_sequence_for<A...>{});
  }
  static constexpr softcuda_kernel entry(const char *name) { return {name, run, sizeof...(A), sizes}; }
};

// One texel as a share of the format's range; CUarray_format and CUaddress_mode have these numbers.
inline float texel(const softcuda_texture &texture, long x, long y, int channel) {
  constexpr int kWrap = 0, kClamp = 1, kMirror = 2, kBytes = 1, kShorts = 2, kWords = 3;
  const auto into = [](long at, long size, int mode) {
    if (mode == kWrap) return ((at % size) + size) % size;
    if (mode == kMirror) {
      at = ((at % (2 * size)) + 2 * size) % (2 * size);
      return at < size ? at : 2 * size - 1 - at;
    }
    return mode == kClamp ? std::clamp(at, 0l, size - 1) : at < 0 || at >= size ? -1l : at;
  };
  x = into(x, long(texture.width), texture.address_mode[0]);
  y = into(y, long(texture.height), texture.address_mode[1]);
  if (x < 0 || y < 0) return texture.border[channel];
  const unsigned char *row = texture.data + size_t(y) * texture.pitch;
  const size_t at = size_t(x) * size_t(texture.channels) + size_t(channel);
  const bool whole = texture.as_integer;
  switch (texture.format) {
  case kBytes: return whole ? row[at] : row[at] / 255.f;
  case kShorts: return reinterpret_cast<const unsigned short *>(row)[at] / (whole ? 1.f : 65535.f);
  case kWords: return float(reinterpret_cast<const unsigned int *>(row)[at]);
  default: return reinterpret_cast<const float *>(row)[at];
  }
}

inline float sample(const softcuda_texture &texture, float x, float y, int channel) {
  if (!__atomic_load_n(&texture.live, __ATOMIC_ACQUIRE)) throw IllegalAddress{};
  if (channel >= texture.channels) return 0;
  if (texture.normalized) x *= float(texture.width), y *= float(texture.height);
  if (!texture.linear) return texel(texture, long(std::floor(x)), long(std::floor(y)), channel);
  constexpr float kFraction = 256; // a device interpolates with 8 bits of it
  const float left = std::floor(x - .5f), top = std::floor(y - .5f);
  const float right_share = std::round((x - .5f - left) * kFraction) / kFraction;
  const float lower_share = std::round((y - .5f - top) * kFraction) / kFraction;
  const auto row = [&](long at) {
    const long column = long(left);
    return (1 - right_share) * texel(texture, column, at, channel) +
           right_share * texel(texture, column + 1, at, channel);
  };
  return (1 - lower_share) * row(long(top)) + lower_share * row(long(top) + 1);
}

template <typename T> struct Component {
  using type = T;
};
template <typename T>
  requires requires(T value) { value.x; }
struct Component<T> {
  using type = decltype(T::x);
};

} // namespace softcuda

template <typename T> T tex2D(cudaTextureObject_t object, float x, float y) {
  using C = typename softcuda::Component<T>::type;
  const auto &texture = *reinterpret_cast<const softcuda_texture *>(object);
  T value{};
  C components[sizeof(T) / sizeof(C)];
  for (size_t i = 0; i < std::size(components); ++i) components[i] = C(softcuda::sample(texture, x, y, int(i)));
  memcpy(&value, components, sizeof value);
  return value;
}

#define SOFTCUDA_ENTRY(kernel) softcuda::Grid<kernel>::entry(#kernel)
#define SOFTCUDA_KERNELS(...) \
  extern "C" __attribute__((visibility("default"))) const softcuda_kernel softcuda_kernels[] = {__VA_ARGS__, {}};
