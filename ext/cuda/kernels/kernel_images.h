// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernels as the plugin carries them.
#pragma once

#include <span>
#include <string_view>

namespace gstzc::cuda {

// Machine code for several generations of devices and PTX for later ones; empty where the build had no nvcc.
std::span<const unsigned char> prebuiltKernels();

// The same as one text of CUDA C++ that includes nothing; zero-terminated.
std::string_view kernelSource();

constexpr char kPreprocessKernel[] = "gstzc_preprocess";

} // namespace gstzc::cuda
