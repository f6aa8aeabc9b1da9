// SPDX-License-Identifier: LGPL-2.1-or-later
// EGLImages of dma-bufs on the stand-in for libEGL, and as memory of the device on the one for libcuda.
#include <sys/eventfd.h>

#include <cudaEGL.h>
#include <drm_fourcc.h>

#define EGL_NO_X11
#define EGL_NO_PLATFORM_SPECIFIC_TYPES
#define EGL_EGLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>

#include "tests/softcuda/egl/softegl.h"
#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop_test.h"

namespace gstzc::test {
namespace {

template <typename F> F eglFunction(const char *name) {
  static void *const library = dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F>(library ? dlsym(library, name) : nullptr);
}
#define EGL(name) (eglFunction<decltype(&::name)>(#name))

using Attributes = std::vector<EGLint>;

class EglTest : public InteropTest {
protected:
  void SetUp() override {
    InteropTest::SetUp();
    if (IsSkipped()) return;
    if (!EGL(softegl_image)) GTEST_SKIP() << "libEGL.so.1 is not the stand-in";
    SOFT(set_profile)("orin");
    display_ = EGL(eglGetPlatformDisplay)(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr);
    ASSERT_NE(display_, EGL_NO_DISPLAY);
    ASSERT_TRUE(EGL(eglInitialize)(display_, nullptr, nullptr));
  }
  void TearDown() override {
    if (display_ != EGL_NO_DISPLAY) {
      EGL(softegl_refuse)(nullptr);
      EGL(softegl_without)(nullptr);
      EXPECT_EQ(EGL(softegl_live)(), 0u);
      EXPECT_EQ(EGL(softegl_misuses)(), 0u);
      EXPECT_TRUE(EGL(eglTerminate)(display_));
    }
    InteropTest::TearDown();
  }
  static uint64_t takeEglMisuses() {
    const uint64_t count = EGL(softegl_misuses)();
    EGL(softegl_forget_misuses)();
    return count;
  }
  EGLImage create(Attributes attributes) {
    attributes.push_back(EGL_NONE);
    return EGL(eglCreateImageKHR)(display_, EGL_NO_CONTEXT, EGL_LINUX_DMA_BUF_EXT, nullptr, attributes.data());
  }
  EGLint refusal(Attributes attributes) {
    const EGLImage image = create(std::move(attributes));
    if (image != EGL_NO_IMAGE) {
      EGL(eglDestroyImage)(display_, image);
      return EGL_SUCCESS;
    }
    return EGL(eglGetError)();
  }
  static Attributes nv12(int fd, int width, int height, int pitch) {
    return {EGL_WIDTH,
            width,
            EGL_HEIGHT,
            height,
            EGL_LINUX_DRM_FOURCC_EXT,
            DRM_FORMAT_NV12,
            EGL_DMA_BUF_PLANE0_FD_EXT,
            fd,
            EGL_DMA_BUF_PLANE0_OFFSET_EXT,
            0,
            EGL_DMA_BUF_PLANE0_PITCH_EXT,
            pitch,
            EGL_DMA_BUF_PLANE1_FD_EXT,
            fd,
            EGL_DMA_BUF_PLANE1_OFFSET_EXT,
            pitch * height,
            EGL_DMA_BUF_PLANE1_PITCH_EXT,
            pitch};
  }
  static Attributes with(Attributes list, EGLint name, EGLint value) {
    for (size_t i = 0; i < list.size(); i += 2)
      if (list[i] == name) {
        list[i + 1] = value;
        return list;
      }
    list.insert(list.end(), {name, value});
    return list;
  }
  static Attributes without(Attributes list, EGLint name) {
    for (size_t i = 0; i < list.size(); i += 2)
      if (list[i] == name) {
        list.erase(list.begin() + static_cast<long>(i), list.begin() + static_cast<long>(i) + 2);
        break;
      }
    return list;
  }
  EGLDisplay display_ = EGL_NO_DISPLAY;
};

constexpr int kWidth = 1920, kHeight = 1080, kPitch = 1984;
constexpr size_t kSize = size_t{kPitch} * kHeight * 3 / 2;
constexpr EGLint kModifierLow = static_cast<EGLint>(softcuda::kTiledModifier & 0xffffffff);
constexpr EGLint kModifierHigh = static_cast<EGLint>(softcuda::kTiledModifier >> 32);

TEST_F(EglTest, TellsItsDeviceAndExtensions) {
  const std::string clients = EGL(eglQueryString)(EGL_NO_DISPLAY, EGL_EXTENSIONS);
  EXPECT_NE(clients.find("EGL_MESA_platform_surfaceless"), std::string::npos);
  EGLDeviceEXT device = nullptr;
  EGLint count = 0;
  ASSERT_TRUE(EGL(eglQueryDevicesEXT)(1, &device, &count));
  ASSERT_EQ(count, 1);
  EGLAttrib ordinal = -1;
  EXPECT_TRUE(EGL(eglQueryDeviceAttribEXT)(device, EGL_CUDA_DEVICE_NV, &ordinal));
  EXPECT_EQ(ordinal, 0);
  EXPECT_EQ(EGL(eglGetPlatformDisplay)(EGL_PLATFORM_DEVICE_EXT, device, nullptr), display_);
  EXPECT_EQ(EGL(eglGetPlatformDisplay)(EGL_PLATFORM_GBM_KHR, nullptr, nullptr), EGL_NO_DISPLAY);
  EXPECT_EQ(EGL(eglGetError)(), EGL_BAD_PARAMETER);
  const std::string all = EGL(eglQueryString)(display_, EGL_EXTENSIONS);
  EXPECT_NE(all.find("EGL_EXT_image_dma_buf_import_modifiers"), std::string::npos);
  EGL(softegl_without)("EGL_EXT_image_dma_buf_import_modifiers");
  const std::string fewer = EGL(eglQueryString)(display_, EGL_EXTENSIONS);
  EXPECT_EQ(fewer.find("EGL_EXT_image_dma_buf_import_modifiers"), std::string::npos);
  EXPECT_NE(EGL(eglGetProcAddress)("eglCreateImageKHR"), nullptr);
  EXPECT_EQ(EGL(eglGetProcAddress)("eglExportDMABUFImageMESA"), nullptr);
}

TEST_F(EglTest, NamesFormatsAndModifiers) {
  EGLint count = 0;
  ASSERT_TRUE(EGL(eglQueryDmaBufFormatsEXT)(display_, 0, nullptr, &count));
  std::vector<EGLint> formats(static_cast<size_t>(count));
  ASSERT_TRUE(EGL(eglQueryDmaBufFormatsEXT)(display_, count, formats.data(), &count));
  EXPECT_NE(std::find(formats.begin(), formats.end(), EGLint{DRM_FORMAT_NV12}), formats.end());
  EGLuint64KHR modifiers[4] = {};
  EGLBoolean external[4] = {};
  ASSERT_TRUE(EGL(eglQueryDmaBufModifiersEXT)(display_, DRM_FORMAT_NV12, 4, modifiers, external, &count));
  ASSERT_EQ(count, 2);
  EXPECT_EQ(modifiers[0], DRM_FORMAT_MOD_LINEAR);
  EXPECT_TRUE(external[0]);
  EXPECT_FALSE(EGL(eglQueryDmaBufModifiersEXT)(display_, DRM_FORMAT_NV15, 4, modifiers, external, &count));
  EGL(softegl_without)("linear");
  ASSERT_TRUE(EGL(eglQueryDmaBufModifiersEXT)(display_, DRM_FORMAT_NV12, 4, modifiers, external, &count));
  ASSERT_EQ(count, 1);
  EXPECT_EQ(modifiers[0], softcuda::kTiledModifier);
  const SharedBytes frame(kSize);
  EXPECT_EQ(refusal(nv12(frame.fd.get(), kWidth, kHeight, kPitch)), EGL_BAD_MATCH);
  EGL(eglGetError)();
}

TEST_F(EglTest, RefusesWrongAttributes) {
  const SharedBytes frame(kSize);
  const Attributes good = nv12(frame.fd.get(), kWidth, kHeight, kPitch);
  EXPECT_EQ(refusal(good), EGL_SUCCESS);
  EXPECT_EQ(refusal(with(good, EGL_YUV_COLOR_SPACE_HINT_EXT, EGL_ITU_REC709_EXT)), EGL_SUCCESS);
  for (const EGLint needed : {EGL_WIDTH, EGL_LINUX_DRM_FOURCC_EXT, EGL_DMA_BUF_PLANE0_FD_EXT,
                              EGL_DMA_BUF_PLANE1_OFFSET_EXT, EGL_DMA_BUF_PLANE1_PITCH_EXT})
    EXPECT_EQ(refusal(without(good, needed)), EGL_BAD_PARAMETER) << std::hex << needed;
  EXPECT_EQ(refusal(with(good, EGL_LINUX_DRM_FOURCC_EXT, DRM_FORMAT_NV15)), EGL_BAD_MATCH);
  EXPECT_EQ(refusal(with(good, EGL_DMA_BUF_PLANE2_FD_EXT, frame.fd.get())), EGL_BAD_ATTRIBUTE);
  EXPECT_EQ(refusal(with(good, EGL_DMA_BUF_PLANE0_FD_EXT, 1 << 20)), EGL_BAD_PARAMETER);
  EXPECT_EQ(refusal(with(good, EGL_DMA_BUF_PLANE0_PITCH_EXT, kWidth - 1)), EGL_BAD_ACCESS);
  EXPECT_EQ(refusal(with(good, EGL_DMA_BUF_PLANE1_OFFSET_EXT, kPitch * kHeight + kPitch)), EGL_BAD_ACCESS);
  EXPECT_EQ(refusal(with(good, EGL_DMA_BUF_PLANE0_MODIFIER_LO_EXT, 0)), EGL_BAD_PARAMETER); // half of it
  Attributes modified = good;
  for (const EGLint name : {EGL_DMA_BUF_PLANE0_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE0_MODIFIER_HI_EXT,
                            EGL_DMA_BUF_PLANE1_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE1_MODIFIER_HI_EXT})
    modified = with(modified, name, 0);
  EXPECT_EQ(refusal(modified), EGL_SUCCESS);
  EXPECT_EQ(refusal(with(modified, EGL_DMA_BUF_PLANE1_MODIFIER_LO_EXT, kModifierLow)), EGL_BAD_PARAMETER); // mixed
  EXPECT_EQ(
      refusal(with(with(modified, EGL_DMA_BUF_PLANE0_MODIFIER_LO_EXT, 99), EGL_DMA_BUF_PLANE1_MODIFIER_LO_EXT, 99)),
      EGL_BAD_MATCH);
  EXPECT_EQ(refusal(with(good, EGL_TEXTURE_FORMAT, 1)), EGL_BAD_PARAMETER);
  EGL(softegl_without)("EGL_EXT_image_dma_buf_import_modifiers");
  EXPECT_EQ(refusal(modified), EGL_BAD_PARAMETER);
  EGL(softegl_without)(nullptr);
  EGL(softegl_refuse)("image");
  EXPECT_EQ(refusal(good), EGL_BAD_ALLOC);
}

TEST_F(EglTest, CatchesWhoDestroysTwice) {
  const SharedBytes frame(kSize);
  const EGLImage image = create(nv12(frame.fd.get(), kWidth, kHeight, kPitch));
  ASSERT_NE(image, EGL_NO_IMAGE);
  EXPECT_TRUE(EGL(eglDestroyImageKHR)(display_, image));
  EXPECT_FALSE(EGL(eglDestroyImageKHR)(display_, image));
  EXPECT_EQ(takeEglMisuses(), 1u);
  CUgraphicsResource resource;
  EXPECT_EQ(CU(cuGraphicsEGLRegisterImage)(&resource, image, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(takeEglMisuses(), 1u);
  EXPECT_EQ(CU(cuGraphicsEGLRegisterImage)(&resource, &display_, 0), CUDA_ERROR_INVALID_HANDLE); // no image at all
  EXPECT_EQ(takeEglMisuses(), 0u);
}

TEST_F(EglTest, ALinearImageIsPitchedMemory) {
  const SharedBytes frame(kSize);
  const EGLImage image = create(nv12(frame.fd.get(), kWidth, kHeight, kPitch));
  CUgraphicsResource resource;
  CU_OK(CU(cuGraphicsEGLRegisterImage)(&resource, image, CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY));
  EXPECT_TRUE(EGL(eglDestroyImage)(display_, image)); // what was made of it stays
  CUeglFrame mapped;
  CU_OK(CU(cuGraphicsResourceGetMappedEglFrame)(&mapped, resource, 0, 0));
  EXPECT_EQ(mapped.frameType, CU_EGL_FRAME_TYPE_PITCH);
  EXPECT_EQ(mapped.width, 1920u);
  EXPECT_EQ(mapped.height, 1080u);
  EXPECT_EQ(mapped.pitch, 1984u);
  EXPECT_EQ(mapped.planeCount, 2u);
  EXPECT_EQ(mapped.cuFormat, CU_AD_FORMAT_UNSIGNED_INT8);
  EXPECT_EQ(mapped.eglColorFormat, 1);
  const auto luma = reinterpret_cast<CUdeviceptr>(mapped.frame.pPitch[0]);
  const auto chroma = reinterpret_cast<CUdeviceptr>(mapped.frame.pPitch[1]);
  EXPECT_EQ(chroma - luma, size_t{kPitch} * kHeight);
  EXPECT_EQ(firstDifference(read(luma, kSize)), kSize);
  const unsigned char byte = 1;
  EXPECT_EQ(CU(cuMemcpyHtoD_v2)(luma, &byte, 1), CUDA_ERROR_INVALID_VALUE); // read only
  EXPECT_EQ(CU(cuMemFree_v2)(luma), CUDA_ERROR_INVALID_VALUE);              // not the user's
  CU_OK(CU(cuGraphicsUnregisterResource)(resource));
  unsigned char gone;
  EXPECT_EQ(CU(cuMemcpyDtoH_v2)(&gone, luma, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(CU(cuGraphicsUnregisterResource)(resource), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(takeMisuses(), 1u);
}

TEST_F(EglTest, PlanesMayBeOfSeveralFiles) {
  constexpr size_t kLuma = size_t{kPitch} * kHeight;
  const SharedBytes luma(kLuma), chroma(kLuma / 2);
  Attributes attributes =
      with(nv12(luma.fd.get(), kWidth, kHeight, kPitch), EGL_DMA_BUF_PLANE1_FD_EXT, chroma.fd.get());
  const EGLImage image = create(with(attributes, EGL_DMA_BUF_PLANE1_OFFSET_EXT, 0));
  ASSERT_NE(image, EGL_NO_IMAGE);
  CUgraphicsResource resource;
  CUeglFrame mapped;
  CU_OK(CU(cuGraphicsEGLRegisterImage)(&resource, image, 0));
  CU_OK(CU(cuGraphicsResourceGetMappedEglFrame)(&mapped, resource, 0, 0));
  EXPECT_EQ(firstDifference(read(reinterpret_cast<CUdeviceptr>(mapped.frame.pPitch[1]), kLuma / 2)), kLuma / 2);
  chroma.data[3] = 0xaa;
  EXPECT_EQ(read(reinterpret_cast<CUdeviceptr>(mapped.frame.pPitch[1]) + 3, 1)[0], 0xaa);
  CU_OK(CU(cuGraphicsUnregisterResource)(resource));
  EXPECT_TRUE(EGL(eglDestroyImage)(display_, image));
}

TEST_F(EglTest, ATiledImageIsArrays) {
  constexpr int kTiledWidth = 200, kTiledHeight = 64, kTiledPitch = 256;
  const SharedBytes frame(size_t{kTiledPitch} * kTiledHeight * 3 / 2);
  Attributes attributes = nv12(frame.fd.get(), kTiledWidth, kTiledHeight, kTiledPitch);
  attributes.insert(attributes.end(),
                    {EGL_DMA_BUF_PLANE0_MODIFIER_LO_EXT, kModifierLow, EGL_DMA_BUF_PLANE0_MODIFIER_HI_EXT,
                     kModifierHigh, EGL_DMA_BUF_PLANE1_MODIFIER_LO_EXT, kModifierLow,
                     EGL_DMA_BUF_PLANE1_MODIFIER_HI_EXT, kModifierHigh});
  EXPECT_EQ(refusal(with(attributes, EGL_DMA_BUF_PLANE0_PITCH_EXT, 250)), EGL_BAD_ACCESS); // not of whole tiles
  const EGLImage image = create(attributes);
  ASSERT_NE(image, EGL_NO_IMAGE);
  CUgraphicsResource resource;
  CUeglFrame mapped;
  CU_OK(CU(cuGraphicsEGLRegisterImage)(&resource, image, 0));
  CU_OK(CU(cuGraphicsResourceGetMappedEglFrame)(&mapped, resource, 0, 0));
  EXPECT_EQ(mapped.frameType, CU_EGL_FRAME_TYPE_ARRAY);
  const CUdeviceptr linear = newMemory(size_t{kTiledWidth} * kTiledHeight / 2);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = mapped.frame.pArray[1];
  copy.srcXInBytes = 10;
  copy.srcY = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = linear;
  copy.dstPitch = kTiledWidth;
  copy.WidthInBytes = 150;
  copy.Height = 20;
  CU_OK(CU(cuMemcpy2DAsync_v2)(&copy, nullptr));
  const std::vector<unsigned char> bytes = read(linear, size_t{kTiledWidth} * kTiledHeight / 2);
  for (size_t y = 0; y < 20; y++)
    for (size_t x = 0; x < 150; x++)
      ASSERT_EQ(bytes[y * kTiledWidth + x],
                patternAt(size_t{kTiledPitch} * kTiledHeight + softcuda::tiledOffset(x + 10, y + 3, kTiledPitch)))
          << x << ", " << y;
  copy.Height = 30; // beyond the plane's 32 rows
  EXPECT_EQ(CU(cuMemcpy2DAsync_v2)(&copy, nullptr), CUDA_ERROR_INVALID_VALUE);
  CU_OK(CU(cuMemFree_v2)(linear));
  CU_OK(CU(cuGraphicsUnregisterResource)(resource));
  EXPECT_TRUE(EGL(eglDestroyImage)(display_, image));
}

TEST_F(EglTest, CatchesWhoUnregistersWhatIsStillUsed) {
  const SharedBytes frame(kSize);
  const EGLImage image = create(nv12(frame.fd.get(), kWidth, kHeight, kPitch));
  CUgraphicsResource resource;
  CUeglFrame mapped;
  CU_OK(CU(cuGraphicsEGLRegisterImage)(&resource, image, 0));
  CU_OK(CU(cuGraphicsResourceGetMappedEglFrame)(&mapped, resource, 0, 0));
  const CUstream stream = newStream();
  PinnedWord gate;
  CU_OK(CU(cuStreamWaitValue32_v2)(stream, gate.device(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  CU_OK(CU(cuMemsetD8Async)(reinterpret_cast<CUdeviceptr>(mapped.frame.pPitch[0]), 1, 100, stream));
  CU_OK(CU(cuGraphicsUnregisterResource)(resource));
  EXPECT_EQ(takeMisuses(), 1u);
  gate.set(1);
  CU_OK(CU(cuStreamSynchronize)(stream));
  CU_OK(CU(cuStreamDestroy_v2)(stream));
  EXPECT_TRUE(EGL(eglDestroyImage)(display_, image));
}

TEST_F(EglTest, RegistrationIsRefusedOrWrongOnDemand) {
  const SharedBytes frame(kSize);
  const EGLImage image = create(nv12(frame.fd.get(), kWidth, kHeight, kPitch));
  CUgraphicsResource resource;
  CUeglFrame mapped;
  SOFT(set_profile)("dgpu");
  EXPECT_EQ(CU(cuGraphicsEGLRegisterImage)(&resource, image, 0), CUDA_ERROR_NOT_SUPPORTED);
  SOFT(set_profile)("orin");
  SOFT(set_import_fault)("egl:2M");
  CU_OK(CU(cuGraphicsEGLRegisterImage)(&resource, image, 0));
  CU_OK(CU(cuGraphicsResourceGetMappedEglFrame)(&mapped, resource, 0, 0));
  EXPECT_EQ(firstDifference(read(reinterpret_cast<CUdeviceptr>(mapped.frame.pPitch[0]), kSize)), 2 * kMegabyte);
  CU_OK(CU(cuGraphicsUnregisterResource)(resource));
  EXPECT_TRUE(EGL(eglDestroyImage)(display_, image));
}

TEST_F(EglTest, ASyncTakesItsFence) {
  const int fence = eventfd(0, EFD_CLOEXEC);
  const EGLint attributes[] = {EGL_SYNC_NATIVE_FENCE_FD_ANDROID, fence, EGL_NONE};
  const EGLSync sync = EGL(eglCreateSyncKHR)(display_, EGL_SYNC_NATIVE_FENCE_ANDROID, attributes);
  ASSERT_NE(sync, EGL_NO_SYNC);
  EXPECT_EQ(EGL(eglClientWaitSyncKHR)(display_, sync, 0, 0), EGL_TIMEOUT_EXPIRED);
  const UniqueFd copy(EGL(eglDupNativeFenceFDANDROID)(display_, sync));
  const uint64_t one = 1;
  EXPECT_EQ(write(copy.get(), &one, sizeof one), ssize_t{sizeof one});
  EXPECT_EQ(EGL(eglClientWaitSyncKHR)(display_, sync, 0, EGL_FOREVER_KHR), EGL_CONDITION_SATISFIED);
  EXPECT_TRUE(EGL(eglDestroySyncKHR)(display_, sync));
  EXPECT_FALSE(softcuda::isOpen(fence));
  EXPECT_EQ(EGL(eglClientWaitSyncKHR)(display_, sync, 0, 0), EGL_FALSE);
  EXPECT_EQ(takeEglMisuses(), 1u);
  const EGLint none[] = {EGL_NONE}; // a fence of the current context, of which there is none
  EXPECT_EQ(EGL(eglCreateSyncKHR)(display_, EGL_SYNC_NATIVE_FENCE_ANDROID, none), EGL_NO_SYNC);
  EXPECT_EQ(EGL(eglGetError)(), EGL_BAD_MATCH);
  EGL(softegl_refuse)("sync");
  EXPECT_EQ(EGL(eglCreateSyncKHR)(display_, EGL_SYNC_NATIVE_FENCE_ANDROID, attributes), EGL_NO_SYNC);
  EXPECT_EQ(EGL(eglGetError)(), EGL_BAD_ALLOC);
}

} // namespace
} // namespace gstzc::test
