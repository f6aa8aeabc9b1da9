// SPDX-License-Identifier: LGPL-2.1-or-later
// ext/cuda/abi against the headers of NVIDIA's toolkit, where they were there when this was built.
#include <gtest/gtest.h>

#include "tests/unit/cuda/abi/abi_entries.h"

using namespace gstzc::test;

namespace {

// Not used where this is built without a toolkit.
[[maybe_unused]] void compare(const AbiEntries &ours, const AbiEntries &toolkit) {
  ASSERT_GT(ours.size(), 10u);
  for (const auto &[what, value] : ours) {
    const auto other = toolkit.find(what);
    ASSERT_NE(other, toolkit.end()) << what;
    EXPECT_EQ(value, other->second) << what;
  }
}

TEST(Abi, IsTheToolkits) {
#ifdef GSTZC_TEST_TOOLKIT
  compare(ourAbi(), toolkitAbi());
#else
  GTEST_SKIP() << "built without the headers of the CUDA toolkit: no cuda.h in CUDA_HOME or /usr/local/cuda";
#endif
}

TEST(Abi, OfEglAndOpenGlIsTheToolkits) {
#ifdef GSTZC_TEST_TOOLKIT_EGL
  compare(ourEglAbi(), toolkitEglAbi());
#else
  GTEST_SKIP() << "built without the toolkit's cudaEGL.h, or without the headers of EGL and OpenGL that it needs";
#endif
}

// Facts that no toolkit is needed for: what the library is called with in a 64-bit process.
TEST(Abi, HasSizesOfA64BitProcess) {
  const AbiEntries ours = ourAbi();
  EXPECT_EQ(ours.at("size of CUdeviceptr"), "8 aligned to 8");
  EXPECT_EQ(ours.at("size of CUDA_MEMCPY2D"), "128 aligned to 8");
  EXPECT_EQ(ours.at("size of CUDA_EXTERNAL_MEMORY_HANDLE_DESC"), "104 aligned to 8");
}

} // namespace
