// SPDX-License-Identifier: LGPL-2.1-or-later
// The product's kernels for the stand-in for libcuda: the same source, compiled for the host.
#include <cstdint>
#include <stdexcept>

#include "tests/softcuda/product_kernels/device_language.h"
#include "tests/softcuda/softcuda_kernel.h"

#include "ext/cuda/kernels/preprocess.cu"

namespace {

using gstzc::infer::PixelPlan;
using gstzc::infer::PixelPlanes;

// Exactly what the kernel may touch; that it touches nothing else, the test of the preprocessing shows with guard
// pages.
uint64_t touchable(const softcuda_launch *launch, uint64_t address, uint64_t bytes) {
  void *const at = launch->pointer(address, bytes);
  if (at == nullptr) throw std::runtime_error("the kernel would leave an allocation");
  return reinterpret_cast<uint64_t>(at);
}

void preprocess(const softcuda_launch *launch, void *const *parameters) {
  const PixelPlan &plan = *static_cast<const PixelPlan *>(parameters[0]);
  PixelPlanes planes = *static_cast<const PixelPlanes *>(parameters[1]);
  for (int p = 0; p < plan.planes; ++p)
    if (const uint64_t bytes = planeBytes(plan, p, planes.stride[p]); bytes > 0)
      planes.address[p] = touchable(launch, planes.address[p], bytes);
  const uint64_t tensor = touchable(launch, *static_cast<const unsigned long long *>(parameters[2]), tensorBytes(plan));
  runGrid(launch->grid, launch->block, [&] { gstzc_preprocess(plan, planes, tensor); });
}

constexpr size_t kPreprocessSizes[] = {sizeof(PixelPlan), sizeof(PixelPlanes), sizeof(unsigned long long)};

} // namespace

extern "C" __attribute__((visibility("default"))) const softcuda_kernel softcuda_kernels[] = {
    {"gstzc_preprocess", preprocess, 3, kPreprocessSizes},
    {},
};
