// SPDX-License-Identifier: LGPL-2.1-or-later
// What of our kernels travels with the plugin. Needs no driver and runs none of them.
#include "ext/cuda/kernels/kernel_images.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "ext/cuda/kernels/nvrtc.h"

namespace gstzc::cuda {
namespace {

template <typename T> T at(std::span<const unsigned char> bytes, size_t offset) {
  T value{};
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

struct Contents {
  std::set<uint32_t> machine_code, ptx; // compute capabilities
};

// A fatbin is a header and entries, each with a header that says how long both are, of what kind it is and for which
// device.
Contents contentsOf(std::span<const unsigned char> fatbin) {
  Contents contents;
  EXPECT_EQ(at<uint32_t>(fatbin, 0), 0xba55ed50u);
  const size_t header = at<uint16_t>(fatbin, 6);
  const uint64_t end = header + at<uint64_t>(fatbin, 8);
  EXPECT_LE(end, fatbin.size());
  for (size_t entry = header; entry + 32 < end;) {
    const auto kind = at<uint16_t>(fatbin, entry);
    const uint64_t length = at<uint32_t>(fatbin, entry + 4) + at<uint64_t>(fatbin, entry + 8);
    (kind == 1 ? contents.ptx : contents.machine_code).insert(at<uint32_t>(fatbin, entry + 28));
    if (length == 0) break;
    entry += length;
  }
  return contents;
}

TEST(PrebuiltKernels, AreThereForEachListedDevice) {
  const auto fatbin = prebuiltKernels();
  if (fatbin.empty()) GTEST_SKIP() << "built without nvcc: no prebuilt kernels";
  const Contents contents = contentsOf(fatbin);
  std::set<uint32_t> wanted;
  for (const char *list = GSTZC_PREBUILT_TARGETS; *list != '\0';) {
    char *end = nullptr;
    wanted.insert(static_cast<uint32_t>(std::strtoul(list, &end, 10)));
    list = *end == ',' ? end + 1 : end;
  }
  EXPECT_EQ(contents.machine_code, wanted);
  EXPECT_EQ(contents.ptx, std::set{*wanted.rbegin()});
}

// A complete toolkit knows all of them.
TEST(PrebuiltKernels, AreForTuringToBlackwell) {
  if (prebuiltKernels().empty()) GTEST_SKIP() << "built without nvcc: no prebuilt kernels";
  const std::set<uint32_t> all = {75, 80, 86, 87, 89, 90, 100, 110, 120};
  const Contents contents = contentsOf(prebuiltKernels());
  if (!contents.machine_code.contains(110)) GTEST_SKIP() << "this nvcc is older than 13.0";
  EXPECT_EQ(contents.machine_code, all);
  EXPECT_EQ(contents.ptx, std::set<uint32_t>{120});
}

TEST(KernelSource, IsOneTextWithoutHeaders) {
  const std::string_view source = kernelSource();
  EXPECT_EQ(source.data()[source.size()], '\0');
  EXPECT_EQ(source.find("#include \""), std::string_view::npos);
  EXPECT_EQ(source.find("#pragma once"), std::string_view::npos);
  EXPECT_NE(source.find(std::string("void ") + kPreprocessKernel + "("), std::string_view::npos);
  // the arithmetic that the CPU's kernels have
  EXPECT_NE(source.find("#line 1 \"gst/infer/preprocess/pixel.inl.h\""), std::string_view::npos);
  EXPECT_NE(source.find("channelValue("), std::string_view::npos);
}

// NVIDIA's own library; it compiles where there is no GPU, too.
class RealNvrtc : public testing::Test {
protected:
  static void SetUpTestSuite() {
    for (const char *const name : {"libnvrtc.so.13", "libnvrtc.so.12", GSTZC_CUDA_HOME "/lib64/libnvrtc.so",
                                   GSTZC_CUDA_HOME "/lib/libnvrtc.so"}) {
      auto opened = Nvrtc::open(name);
      if (opened) {
        nvrtc_ = opened.take();
        break;
      }
    }
  }
  static void TearDownTestSuite() { nvrtc_.reset(); }
  void SetUp() override {
    if (!nvrtc_) GTEST_SKIP() << "there is no libnvrtc";
  }
  static inline std::unique_ptr<const Nvrtc> nvrtc_;
};

TEST_F(RealNvrtc, CompilesTheKernelsForDevicesThatItKnows) {
  for (const int capability : {75, 86, 87, 90, 120}) {
    auto image = nvrtc_->compile(kernelSource(), "preprocess.cu", capability);
    ASSERT_TRUE(image.ok()) << image.error().message();
    if (image->target == "sm_" + std::to_string(capability)) {
      EXPECT_EQ(image->data.substr(0, 4), "\177ELF") << capability;
    } else {
      EXPECT_TRUE(image->target.starts_with("compute_")) << image->target; // an older library
    }
    EXPECT_NE(image->data.find(kPreprocessKernel), std::string::npos) << capability;
  }
}

TEST_F(RealNvrtc, GivesPtxForALaterDevice) {
  auto image = nvrtc_->compile(kernelSource(), "preprocess.cu", 999);
  ASSERT_TRUE(image.ok()) << image.error().message();
  EXPECT_TRUE(image->target.starts_with("compute_")) << image->target;
  EXPECT_NE(image->data.find(".target sm_"), std::string::npos);
  EXPECT_NE(image->data.find(std::string(".entry ") + kPreprocessKernel), std::string::npos);
}

// Explicit fused multiply-adds, and no others: else devices would round differently from the CPU.
TEST_F(RealNvrtc, FusesNothingByItself) {
  const std::string source = "extern \"C\" __global__ void f(float *a) { *a = a[1] * a[2] + a[3]; }";
  auto image = nvrtc_->compile(source, "f.cu", 999);
  ASSERT_TRUE(image.ok()) << image.error().message();
  EXPECT_EQ(image->data.find("fma."), std::string::npos) << image->data;
}

TEST_F(RealNvrtc, SaysWhatItDoesNotUnderstand) {
  auto image = nvrtc_->compile("__global__ void f() { nonsense; }", "f.cu", 87);
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().what.find("f.cu(1): error"), std::string::npos) << image.error().what;
  EXPECT_NE(image.error().what.find("nonsense"), std::string::npos) << image.error().what;
}

TEST(Nvrtc, NamesALibraryThatIsNotThere) {
  auto opened = Nvrtc::open("libnvrtc-that-nobody-has.so");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, ENOENT);
  EXPECT_NE(opened.error().message().find("libnvrtc-that-nobody-has.so"), std::string::npos);
}

TEST(Nvrtc, NamesTheFunctionThatALibraryLacks) {
  auto opened = Nvrtc::open("libdl.so.2");
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message().find("nvrtcVersion"), std::string::npos) << opened.error().message();
}

} // namespace
} // namespace gstzc::cuda
