// SPDX-License-Identifier: LGPL-2.1-or-later
// Route egl-image on stand-ins for libEGL and libcuda, as on a device that knows EGL images.
#include <cerrno>
#include <cstdlib>

#include <drm_fourcc.h>

#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/routes/egl_api.h"
#include "tests/softcuda/exchange/exchange.h"
#include "tests/support/open_fds.h"
#include "tests/unit/cuda/routes/pictures.h"
#include "tests/unit/cuda/routes/read_back.h"
#include "tests/unit/cuda/support/stand_ins.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using gstzc::test::openFds;

namespace {

[[maybe_unused]] const bool on_orin = setenv("SOFTCUDA_PROFILE", "orin", 0) == 0; // before the library is loaded

bool says(const Error &error, const char *text) { return error.message().find(text) != std::string::npos; }

class EglImageTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    SOFTEGL(softegl_forget_misuses)();
    route = makeEglImageRoute(context);
  }
  void TearDown() override {
    SOFTEGL(softegl_refuse)(nullptr);
    SOFTEGL(softegl_without)(nullptr);
    SOFTCUDA(softcuda_set_import_fault)(nullptr);
    route.reset();
    EXPECT_EQ(SOFTEGL(softegl_live)(), 0u);
    EXPECT_EQ(SOFTEGL(softegl_misuses)(), 0u);
    DeviceTest::TearDown();
  }
  std::unique_ptr<ImportRoute> route;
};

// The same picture with its bytes in the stand-in's tiles.
Picture tiledPicture(ImportSource layout, const Bytes &linear) {
  Bytes bytes(layout.size);
  for (unsigned i = 0; i < layout.n_planes; ++i) {
    const ImportPlane &plane = layout.planes[i];
    for (uint32_t y = 0; y < plane.rows; ++y)
      for (uint32_t x = 0; x < plane.pitch; ++x)
        bytes[plane.offset + softcuda::tiledOffset(x, y, plane.pitch)] =
            linear[plane.offset + uint64_t{y} * plane.pitch + x];
  }
  layout.modifier = softcuda::kTiledModifier;
  return Picture(layout, bytes);
}

TEST_F(EglImageTest, LinearPicturesAreUsedInPlace) {
  for (const ImportSource &layout : {nv12(1920, 1080, 1984), nv12(1920, 1080, 1920, 1088), nv12(1919, 1079, 1984),
                                     i420(1920, 1080, 1920), rgba(1280, 720, 1280 * 4)}) {
    SCOPED_TRACE(describe(layout));
    Picture picture(layout);
    auto import = route->import(picture.source);
    ASSERT_TRUE(import.ok()) << import.error().message();
    EXPECT_EQ((*import)->copyBytes(), 0u);
    EXPECT_EQ(readBack(context, stream.get(), **import), packed(picture.source, picture.read()));
    picture.write(noise(layout.size, 2)); // the next frame in the same memory
    EXPECT_EQ(readBack(context, stream.get(), **import), packed(picture.source, picture.read()));
  }
}

TEST_F(EglImageTest, TiledPicturesAreCopiedByTheDevice) {
  for (const ImportSource &layout : {nv12(1920, 1088, 1920), rgba(640, 480, 2560)}) {
    SCOPED_TRACE(describe(layout));
    const Bytes linear = noise(layout.size);
    const Picture picture = tiledPicture(layout, linear);
    auto import = route->import(picture.source);
    ASSERT_TRUE(import.ok()) << import.error().message();
    uint64_t pixels = 0;
    for (unsigned i = 0; i < layout.n_planes; ++i)
      pixels += uint64_t{layout.planes[i].row_bytes} * layout.planes[i].rows;
    EXPECT_EQ((*import)->copyBytes(), pixels);
    EXPECT_EQ(readBack(context, stream.get(), **import), packed(layout, linear));
  }
}

TEST_F(EglImageTest, ImportKeepsTheMemoryAndTheContext) {
  std::shared_ptr<DeviceImport> import;
  Bytes expected;
  {
    Picture picture(nv12(640, 480, 640));
    expected = packed(picture.source, picture.read());
    import = need(route->import(picture.source));
  }
  ASSERT_TRUE(import);
  route.reset();
  EXPECT_EQ(readBack(context, stream.get(), *import), expected);
}

TEST_F(EglImageTest, ShowsWhatEglRefuses) {
  const Picture picture(nv12(640, 480, 640));
  SOFTEGL(softegl_refuse)("image");
  auto import = route->import(picture.source);
  ASSERT_FALSE(import.ok());
  EXPECT_EQ(import.error().code, ENOMEM);
  EXPECT_TRUE(says(import.error(), "EGL_BAD_ALLOC")) << import.error().message();
  EXPECT_TRUE(says(import.error(), "NV12")) << import.error().message();

  SOFTEGL(softegl_refuse)("");
  SOFTEGL(softegl_without)("linear");
  import = route->import(picture.source);
  ASSERT_FALSE(import.ok());
  EXPECT_TRUE(says(import.error(), "EGL_BAD_")) << import.error().message();
  EXPECT_TRUE(says(import.error(), "takes it with the modifiers")) << import.error().message();

  SOFTEGL(softegl_without)("EGL_EXT_image_dma_buf_import_modifiers");
  route = makeEglImageRoute(context);
  EXPECT_TRUE(route->import(picture.source).ok());
  ImportSource tiled = picture.source;
  tiled.modifier = softcuda::kTiledModifier;
  import = route->import(tiled);
  ASSERT_FALSE(import.ok());
  EXPECT_EQ(import.error().code, EOPNOTSUPP);
  EXPECT_TRUE(says(import.error(), "imports no modifiers")) << import.error().message();
}

TEST_F(EglImageTest, SaysWhyThereIsNoDisplay) {
  SOFTEGL(softegl_without)("EGL_EXT_image_dma_buf_import");
  auto available = route->available();
  ASSERT_FALSE(available.ok());
  EXPECT_TRUE(says(available.error(), "EGL_EXT_image_dma_buf_import")) << available.error().message();

  SOFTEGL(softegl_without)("");
  SOFTEGL(softegl_refuse)("initialize");
  available = route->available();
  ASSERT_FALSE(available.ok());
  EXPECT_TRUE(says(available.error(), "EGL_NOT_INITIALIZED")) << available.error().message();

  SOFTEGL(softegl_refuse)("");
  EXPECT_TRUE(route->available().ok());
}

TEST_F(EglImageTest, DisplayIsTheDevicesWhereEglTells) {
  const EglApi &egl = **EglApi::get();
  auto displays = findEglDisplays(egl, 0);
  ASSERT_TRUE(displays.ok()) << displays.error().message();
  ASSERT_EQ(displays->size(), 1u);
  EXPECT_TRUE(displays->front().name.find("CUDA device 0") != std::string::npos) << displays->front().name;
  auto nobodys = findEglDisplays(egl, 7);
  ASSERT_FALSE(nobodys.ok());
  EXPECT_EQ(nobodys.error().code, ENODEV);

  // where nobody tells, one is tried
  SOFTEGL(softegl_without)("EGL_EXT_device_base,EGL_EXT_device_enumeration,EGL_EXT_device_query");
  displays = findEglDisplays(egl, 7);
  ASSERT_TRUE(displays.ok()) << displays.error().message();
  EXPECT_EQ(displays->front().name, "surfaceless");
  SOFTEGL(softegl_without)(
      "EGL_EXT_device_base,EGL_EXT_device_enumeration,EGL_EXT_device_query,EGL_MESA_platform_surfaceless");
  displays = findEglDisplays(egl, 7);
  ASSERT_FALSE(displays.ok());
  EXPECT_TRUE(says(displays.error(), "default")) << displays.error().message();
}

TEST_F(EglImageTest, ShowsWhatCudaRefuses) {
  const Picture picture(nv12(640, 480, 640));
  TestedDriver::failFunction(Fn::cuGraphicsEGLRegisterImage, CUDA_ERROR_NOT_SUPPORTED); // as on discrete devices
  auto import = route->import(picture.source);
  ASSERT_FALSE(import.ok());
  EXPECT_EQ(import.error().code, ENOSYS);
  EXPECT_TRUE(says(import.error(), "cuGraphicsEGLRegisterImage")) << import.error().message();
}

TEST_F(EglImageTest, NothingIsLeftWhenACallFails) {
  const ImportSource layout = nv12(640, 480, 640);
  const Picture picture = tiledPicture(layout, noise(layout.size)); // comes by all calls
  ASSERT_TRUE(route->import(picture.source).ok());
  const size_t fds = openFds();
  long failures = 0;
  for (long n = 1;; ++n) {
    ASSERT_LT(n, 100);
    TestedDriver::failCall(n);
    const auto import = route->import(picture.source);
    const bool failed = TestedDriver::hasFailed();
    TestedDriver::reset();
    if (!failed) {
      EXPECT_TRUE(import.ok());
      break;
    }
    failures += !import.ok();
  }
  EXPECT_GE(failures, 4) << "current context, registration, frame, memory";
  EXPECT_EQ(openFds(), fds);
}

TEST_F(EglImageTest, WrongContentIsFound) {
  const Picture picture(nv12(1920, 1080, 1920));
  SOFTCUDA(softcuda_set_import_fault)("egl:2M");
  auto import = route->import(picture.source);
  ASSERT_TRUE(import.ok()) << "that is the fault: it succeeds";
  const ContextScope scope(*context);
  auto check = checkContent(*context, picture.source, **import);
  ASSERT_TRUE(check.ok()) << check.error().message();
  EXPECT_EQ(check->verdict, ContentVerdict::Different);
  EXPECT_GE(check->first_difference, kTellingOffset);
  SOFTCUDA(softcuda_set_import_fault)("");
  import = route->import(picture.source);
  ASSERT_TRUE(import.ok());
  check = checkContent(*context, picture.source, **import);
  ASSERT_TRUE(check.ok());
  EXPECT_EQ(check->verdict, ContentVerdict::Same);
}

TEST(EglLibrary, MissingIsSaid) {
  auto api = EglApi::load("libEGL-of-nobody.so.1");
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.error().code, ENOENT);
  EXPECT_TRUE(says(api.error(), "libegl1"));
}

} // namespace
