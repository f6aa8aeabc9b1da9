// SPDX-License-Identifier: LGPL-2.1-or-later
// EGL's half of the route egl-image on Mesa's llvmpipe, with real dma-bufs: what an image shows is read through OpenGL.
#include <iostream>

#include <drm_fourcc.h>
#include <gtest/gtest.h>

#include "ext/cuda/routes/egl_api.h"
#include "tests/lab/cuda/pattern.h"
#include "tests/lab/cuda/wrong_import.h"

using namespace gstzc;
using namespace gstzc::cuda;

namespace {

constexpr uint32_t kWidth = 1024, kHeight = 1024; // of 4 bytes: 4 MiB, twice as much as a wrong import shows right

// The little of OpenGL ES that reads an image back.
struct Gl {
  static constexpr unsigned kTexture2D = 0x0de1, kFramebuffer = 0x8d40, kColor = 0x8ce0, kComplete = 0x8cd5,
                            kRgba = 0x1908, kBytes = 0x1401;
  void (*glGenTextures)(int, unsigned *) = nullptr;
  void (*glDeleteTextures)(int, const unsigned *) = nullptr;
  void (*glBindTexture)(unsigned, unsigned) = nullptr;
  void (*glEGLImageTargetTexture2DOES)(unsigned, void *) = nullptr;
  void (*glGenFramebuffers)(int, unsigned *) = nullptr;
  void (*glDeleteFramebuffers)(int, const unsigned *) = nullptr;
  void (*glBindFramebuffer)(unsigned, unsigned) = nullptr;
  void (*glFramebufferTexture2D)(unsigned, unsigned, unsigned, unsigned, int) = nullptr;
  unsigned (*glCheckFramebufferStatus)(unsigned) = nullptr;
  void (*glReadPixels)(int, int, int, int, unsigned, unsigned, void *) = nullptr;
  unsigned (*glGetError)() = nullptr;
};

class Egl : public ::testing::Test {
protected:
  // Of Mesa's displays those without a device refuse every dma-buf, the software device's takes them.
  void SetUp() override {
    auto api = EglApi::get();
    ASSERT_TRUE(api.ok()) << api.error().message();
    egl = *api;
    auto displays = findEglDisplays(*egl, 0);
    ASSERT_TRUE(displays.ok()) << displays.error().message();
    auto dmabuf = lab::allocateUdmabuf(64 * 64 * 4);
    ASSERT_TRUE(dmabuf.ok());
    for (const EglDisplayChoice &choice : *displays) {
      auto image = EglImage::create(*egl, choice, lab::source(dmabuf->get(), DRM_FORMAT_ABGR8888, 64, 64, 4));
      if (image) {
        display = choice;
        return;
      }
      EXPECT_NE(image.error().what.find("EGL_BAD_"), std::string::npos) << image.error().message();
      std::cout << image.error().message() << "\n";
    }
    FAIL() << "no display imports dma-bufs";
  }

  template <typename F> void look(F &function, const char *name) {
    function = reinterpret_cast<F>(egl->eglGetProcAddress(name));
    ASSERT_NE(function, nullptr) << name;
  }

  // The pixels of an image of 4 bytes each, in R, G, B, A; empty on failure.
  std::vector<uint8_t> read(const EglImage &image) {
    std::vector<uint8_t> pixels;
    decltype(&::eglBindAPI) bind = nullptr;
    decltype(&::eglCreateContext) create = nullptr;
    decltype(&::eglMakeCurrent) make_current = nullptr;
    decltype(&::eglDestroyContext) destroy = nullptr;
    look(bind, "eglBindAPI");
    look(create, "eglCreateContext");
    look(make_current, "eglMakeCurrent");
    look(destroy, "eglDestroyContext");
    bind(EGL_OPENGL_ES_API);
    const EGLint attributes[] = {EGL_CONTEXT_MAJOR_VERSION, 2, EGL_NONE};
    EGLContext context = create(display.handle, nullptr, EGL_NO_CONTEXT, attributes); // EGL_KHR_no_config_context
    if (context == EGL_NO_CONTEXT || !make_current(display.handle, EGL_NO_SURFACE, EGL_NO_SURFACE, context)) {
      ADD_FAILURE() << egl->error("a context without a surface").message();
      return pixels;
    }
    Gl gl;
#define LOOK(name) look(gl.name, #name)
    LOOK(glGenTextures), LOOK(glDeleteTextures), LOOK(glBindTexture), LOOK(glEGLImageTargetTexture2DOES);
    LOOK(glGenFramebuffers), LOOK(glDeleteFramebuffers), LOOK(glBindFramebuffer), LOOK(glFramebufferTexture2D);
    LOOK(glCheckFramebufferStatus), LOOK(glReadPixels), LOOK(glGetError);
#undef LOOK
    unsigned texture = 0, framebuffer = 0;
    gl.glGenTextures(1, &texture);
    gl.glBindTexture(Gl::kTexture2D, texture);
    gl.glEGLImageTargetTexture2DOES(Gl::kTexture2D, image.get());
    gl.glGenFramebuffers(1, &framebuffer);
    gl.glBindFramebuffer(Gl::kFramebuffer, framebuffer);
    gl.glFramebufferTexture2D(Gl::kFramebuffer, Gl::kColor, Gl::kTexture2D, texture, 0);
    if (gl.glCheckFramebufferStatus(Gl::kFramebuffer) == Gl::kComplete) {
      pixels.resize(size_t{kWidth} * kHeight * 4);
      gl.glReadPixels(0, 0, kWidth, kHeight, Gl::kRgba, Gl::kBytes, pixels.data());
    }
    EXPECT_EQ(gl.glGetError(), 0u);
    gl.glDeleteFramebuffers(1, &framebuffer);
    gl.glDeleteTextures(1, &texture);
    make_current(display.handle, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    destroy(display.handle, context);
    return pixels;
  }

  const EglApi *egl = nullptr;
  EglDisplayChoice display;
};

TEST_F(Egl, DisplayWithoutACudaDeviceIsOneToTry) {
  std::cout << "display " << display.name << ", " << egl->eglQueryString(display.handle, EGL_VENDOR) << "\n";
  EXPECT_NE(display.handle, EGL_NO_DISPLAY);
  EXPECT_TRUE(display.modifiers);
}

class EglMemory : public Egl, public ::testing::WithParamInterface<const char *> {};

TEST_P(EglMemory, ImageShowsAllOfTheDmabuf) {
  auto dmabuf = std::string(GetParam()) == "udmabuf" ? lab::allocateUdmabuf(kWidth * kHeight * 4)
                                                     : lab::allocateHeap(kWidth * kHeight * 4);
  ASSERT_TRUE(dmabuf.ok());
  const auto bytes = lab::pattern(kWidth * kHeight * 4, 7);
  ASSERT_TRUE(lab::write(dmabuf->get(), bytes));
  auto image = EglImage::create(*egl, display, lab::source(dmabuf->get(), DRM_FORMAT_ABGR8888, kWidth, kHeight, 4));
  ASSERT_TRUE(image.ok()) << image.error().message();
  const auto pixels = read(*image);
  ASSERT_EQ(pixels.size(), bytes.size());
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 2 * 1024 * 1024, pixels.begin())) << "the first 2 MiB";
  EXPECT_TRUE(std::equal(bytes.begin() + 2 * 1024 * 1024, bytes.end(), pixels.begin() + 2 * 1024 * 1024)) << "the rest";
}
INSTANTIATE_TEST_SUITE_P(All, EglMemory, ::testing::Values("udmabuf", "heap"),
                         [](const auto &one) { return std::string(one.param); });

// Success that is none: found out by the content, and the next route is taken.
TEST_F(Egl, AnImageThatShowsOtherMemoryIsFoundOut) {
  struct Import : DeviceImport {
    explicit Import(EglImage &&made) : image(std::move(made)) {}
    EglImage image;
  };
  auto views = lab::allocateTwoViews(kWidth * kHeight * 4);
  ASSERT_TRUE(views.ok()) << views.error().message();
  ASSERT_TRUE(lab::write(views->right.get(), lab::pattern(kWidth * kHeight * 4, 7)));
  auto source = lab::source(views->right.get(), DRM_FORMAT_ABGR8888, kWidth, kHeight, 4);
  lab::expectTheNextRouteIsTaken(
      *views, source,
      [this](const ImportSource &of) -> Result<std::shared_ptr<DeviceImport>> {
        auto image = EglImage::create(*egl, display, of);
        if (!image) return image.error();
        return std::shared_ptr<DeviceImport>(std::make_shared<Import>(image.take()));
      },
      [this](DeviceImport &import) { return read(dynamic_cast<Import &>(import).image); });
}

// llvmpipe imports one plane only. Whatever a display does, it is an image or a reason.
TEST_F(Egl, SeveralPlanes) {
  auto dmabuf = lab::allocateUdmabuf(kWidth * kHeight * 2);
  ASSERT_TRUE(dmabuf.ok());
  auto nv12 = lab::source(dmabuf->get(), DRM_FORMAT_NV12, kWidth, kHeight, 1);
  nv12.n_planes = 2;
  nv12.planes[1] = {uint64_t{kWidth} * kHeight, kWidth, kHeight / 2, kWidth};
  nv12.size = uint64_t{kWidth} * kHeight * 2;
  auto image = EglImage::create(*egl, display, nv12);
  if (image) return;
  std::cout << image.error().message() << "\n";
  EXPECT_NE(image.error().what.find("NV12"), std::string::npos);
  EXPECT_NE(image.error().what.find("EGL_BAD_"), std::string::npos);
}

TEST_F(Egl, RefusalNamesTheErrorAndWhatIsTaken) {
  auto dmabuf = lab::allocateUdmabuf(kWidth * kHeight * 4);
  ASSERT_TRUE(dmabuf.ok());
  auto tiled = lab::source(dmabuf->get(), DRM_FORMAT_ABGR8888, kWidth, kHeight, 4);
  tiled.modifier = I915_FORMAT_MOD_Y_TILED;
  auto image = EglImage::create(*egl, display, tiled);
  ASSERT_FALSE(image.ok());
  std::cout << image.error().message() << "\n";
  EXPECT_EQ(image.error().code, EOPNOTSUPP);
  EXPECT_NE(image.error().what.find("EGL_BAD_"), std::string::npos);
  EXPECT_NE(image.error().remedy.find("linear"), std::string::npos);
}

TEST(EglLibrary, MissingIsSaid) {
  auto api = EglApi::load("libEGL-of-nobody.so.1");
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.error().code, ENOENT);
  EXPECT_NE(api.error().what.find("libEGL-of-nobody"), std::string::npos);
}

} // namespace
