// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/kernels/kernel_images.h"

namespace gstzc::cuda {
namespace {

constexpr char kSource[] =
#include "ext/cuda/kernels/kernel_source.inc"
    ;

alignas(16) constexpr unsigned char kPrebuilt[] = {
#include "ext/cuda/kernels/kernel_fatbin.inc"
    0}; // where there is nothing else

} // namespace

std::span<const unsigned char> prebuiltKernels() { return {kPrebuilt, sizeof kPrebuilt - 1}; }

std::string_view kernelSource() { return {kSource, sizeof kSource - 1}; }

} // namespace gstzc::cuda
