// SPDX-License-Identifier: LGPL-2.1-or-later
// The routes that need nothing but the driver, on a driver. Files stand for dma-bufs.
#include <algorithm>
#include <atomic>
#include <cerrno>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include "ext/cuda/routes/import_cache.h"
#include "tests/unit/cuda/routes/device_fixture.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

using Make = std::unique_ptr<ImportRoute> (*)(ContextPtr);

std::vector<ImportSource> layouts() {
  return {nv12(1920, 1080, 1920), nv12(1920, 1080, 1984, 1088), nv12(1921, 1079, 1984), nv12(64, 48, 64),
          i420(1921, 1079, 1984), rgba(1280, 720, 5120),        rgba(3, 1, 12)};
}

class DeviceRoutes : public OnDevice {
protected:
  std::shared_ptr<DeviceImport> import(ImportRoute &route, const ImportSource &source) {
    auto import = route.import(source);
    EXPECT_TRUE(import) << import.error().message();
    return import ? import.take() : nullptr;
  }
  Error refusal(ImportRoute &route, const ImportSource &source) {
    auto import = route.import(source);
    EXPECT_FALSE(import);
    return import ? Error{} : import.error();
  }

  // Every layout, and what is written to the buffer after the import.
  void showsTheFrame(ImportRoute &route, bool copies) {
    for (const ImportSource &layout : layouts()) {
      SCOPED_TRACE(describe(layout));
      Picture picture(layout);
      auto made = import(route, picture.source);
      ASSERT_NE(made, nullptr);
      EXPECT_EQ(readBack(*made), packed(layout, picture.read()));
      picture.write(noise(layout.size, 2));
      EXPECT_EQ(readBack(*made), packed(layout, noise(layout.size, 2)));
      EXPECT_EQ(made->copyBytes() != 0, copies);
      EXPECT_EQ(made->n_planes, layout.n_planes);
      for (unsigned p = 0; p < layout.n_planes && !copies; ++p) {
        EXPECT_EQ(made->planes[p].offset, layout.planes[p].offset);
        EXPECT_EQ(made->planes[p].pitch, layout.planes[p].pitch);
      }
    }
  }
  void keepsTheFrame(ImportRoute &route) {
    Bytes expected;
    std::shared_ptr<DeviceImport> made;
    {
      Picture picture(nv12(1920, 1080, 1920));
      expected = packed(picture.source, picture.read());
      made = import(route, picture.source);
    }
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(readBack(*made), expected) << "after its descriptor was closed";
  }
  void refusesTiles(ImportRoute &route) {
    Picture picture(nv12(1920, 1080, 1920));
    picture.source.modifier = DRM_FORMAT_MOD_ARM_16X16_BLOCK_U_INTERLEAVED;
    EXPECT_EQ(refusal(route, picture.source).code, EOPNOTSUPP);
  }
};

// ---- dmabuf-fd ----

TEST_F(DeviceRoutes, DmabufFdShowsTheFrame) {
  if (!takesDmaBufs()) GTEST_SKIP() << kProfile << " imports no dma-bufs";
  auto route = makeDmabufFdRoute(context);
  ASSERT_TRUE(route->available());
  showsTheFrame(*route, false);
  keepsTheFrame(*route);
  refusesTiles(*route);
}

TEST_F(DeviceRoutes, DmabufFdIsRefusedBeforeThor) {
  if (takesDmaBufs() || !onStandIn()) GTEST_SKIP() << kProfile << " imports dma-bufs, or may";
  auto route = makeDmabufFdRoute(context);
  Picture picture(nv12(1920, 1080, 1920));
  const Error error = refusal(*route, picture.source);
  EXPECT_EQ(error.code, ENOSYS);
  EXPECT_NE(error.message().find("Thor"), std::string::npos) << error.message();
}

TEST_F(DeviceRoutes, DmabufFdNeedsItsFunctions) {
  tap->tapped.cuImportExternalMemory = nullptr;
  const Status status = makeDmabufFdRoute(context)->available();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ENOSYS);
}

// ---- host-register ----

TEST_F(DeviceRoutes, HostRegisterShowsTheFrame) {
  auto route = makeHostRegisterRoute(context);
  ASSERT_TRUE(route->available());
  showsTheFrame(*route, false);
  keepsTheFrame(*route);
  refusesTiles(*route);
}

// As under a udmabuf that begins somewhere in its memfd.
TEST_F(DeviceRoutes, HostRegisterTakesTheMemfd) {
  const ImportSource layout = nv12(1920, 1080, 1920);
  Bytes bytes(8192 + layout.size);
  const Bytes frame = noise(layout.size);
  std::copy(frame.begin(), frame.end(), bytes.begin() + 8192);
  ImportSource whole = layout;
  whole.size = bytes.size();
  Picture file(whole, bytes), buffer(layout, Bytes(layout.size));
  ImportSource source = buffer.source;
  source.memfd = file.source.fd;
  source.memfd_offset = 8192;
  for (const Make make : {&makeHostRegisterRoute, &makeStagedCopyRoute}) {
    auto route = make(context);
    auto made = import(*route, source);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(readBack(*made), packed(layout, frame)) << route->name();
  }
}

TEST_F(DeviceRoutes, HostRegisterThatIsRefusedNamesWhatWasTried) {
  tap->failAll("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE);
  Picture picture(nv12(1920, 1080, 1920));
  const Error error = refusal(*makeHostRegisterRoute(context), picture.source);
  EXPECT_EQ(error.code, EINVAL);
  EXPECT_NE(error.message().find("cuMemHostRegister of 3112960 bytes"), std::string::npos) << error.message();
}

TEST_F(DeviceRoutes, HostRegisterNeedsTheDevice) {
  tap->failAll("cuDeviceGetAttribute", CUDA_ERROR_INVALID_VALUE);
  const Status status = makeHostRegisterRoute(context)->available();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ENOSYS);
}

// ---- staged-copy ----

TEST_F(DeviceRoutes, StagedCopyShowsTheFrame) {
  auto route = makeStagedCopyRoute(context);
  ASSERT_TRUE(route->available());
  EXPECT_TRUE(route->copies());
  EXPECT_FALSE(route->onDevice());
  showsTheFrame(*route, true);
  keepsTheFrame(*route);
  refusesTiles(*route);
}

// Where the pages cannot be registered the CPU copies first, in the stream's order.
TEST_F(DeviceRoutes, StagedCopyOverABounceBuffer) {
  tap->failAll("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE);
  auto route = makeStagedCopyRoute(context);
  showsTheFrame(*route, true);
  keepsTheFrame(*route);
}

TEST_F(DeviceRoutes, StagedCopyCountsItsBytes) {
  auto route = makeStagedCopyRoute(context);
  Picture picture(nv12(1920, 1080, 1984, 1088));
  EXPECT_EQ(import(*route, picture.source)->copyBytes(), 1920u * 1080 * 3 / 2);
  tap->failAll("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(import(*route, picture.source)->copyBytes(), 2 * 1920u * 1080 * 3 / 2) << "each byte twice";
}

// The producer writes when the copy is enqueued already, but not yet due: the copy shows what it wrote.
TEST_F(DeviceRoutes, StagedCopyReadsWhenItsTurnComes) {
  for (const bool bounce : {false, true}) {
    tap->stopFailing();
    if (bounce) tap->failAll("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE);
    Picture picture(nv12(1920, 1080, 1920), Bytes(nv12(1920, 1080, 1920).size));
    auto made = import(*makeStagedCopyRoute(context), picture.source);
    ASSERT_NE(made, nullptr);
    auto stream = newStream(context);
    ASSERT_TRUE(stream);
    std::atomic<bool> written = false;
    const ContextScope scope(*context);
    const auto wait = [](void *flag) { static_cast<std::atomic<bool> *>(flag)->wait(false); };
    ASSERT_EQ(context->driver.cuLaunchHostFunc(stream->get(), wait, &written), CUDA_SUCCESS);
    EXPECT_TRUE(made->refresh(stream->get()));
    picture.write(noise(picture.source.size));
    written = true;
    written.notify_all();
    Bytes seen(picture.source.planes[0].row_bytes);
    EXPECT_EQ(context->driver.cuMemcpyDtoHAsync(seen.data(), made->pointer, seen.size(), stream->get()), CUDA_SUCCESS);
    EXPECT_EQ(context->driver.cuStreamSynchronize(stream->get()), CUDA_SUCCESS);
    const Bytes expected = picture.read();
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), expected.begin())) << (bounce ? "bounce" : "pinned");
  }
}

// ---- the content check ----

TEST_F(DeviceRoutes, CheckedContentIsTheSame) {
  for (const Make make : {&makeHostRegisterRoute, &makeStagedCopyRoute})
    for (const ImportSource &layout : layouts()) {
      SCOPED_TRACE(describe(layout));
      Picture picture(layout);
      auto made = import(*make(context), picture.source);
      ASSERT_NE(made, nullptr);
      auto check = checkContent(*context, picture.source, *made);
      ASSERT_TRUE(check) << check.error().message();
      EXPECT_EQ(check->verdict, canTell(layout) ? ContentVerdict::Same : ContentVerdict::Undecided);
      EXPECT_EQ(check->compared, packed(layout, picture.read()).size());
    }
}

// An import of another buffer that is alike in its first 2 MiB.
TEST_F(DeviceRoutes, CheckedContentIsWrongPastTwoMebibytes) {
  const ImportSource layout = nv12(1920, 1080, 1920);
  const Bytes right = noise(layout.size);
  Bytes wrong = right;
  std::fill(wrong.begin() + kTellingOffset, wrong.end(), 0);
  Picture real(layout, right), shown(layout, wrong);
  for (const Make make : {&makeHostRegisterRoute, &makeStagedCopyRoute}) {
    auto made = import(*make(context), shown.source);
    ASSERT_NE(made, nullptr);
    auto check = checkContent(*context, real.source, *made);
    ASSERT_TRUE(check);
    EXPECT_EQ(check->verdict, ContentVerdict::Different);
    EXPECT_GE(check->first_difference, kTellingOffset);
    EXPECT_LT(check->first_difference, kTellingOffset + 16);
  }
}

TEST_F(DeviceRoutes, WhatTheCpuCannotReadIsUndecided) {
  Picture picture(nv12(1920, 1080, 1920));
  auto made = import(*makeStagedCopyRoute(context), picture.source);
  ASSERT_NE(made, nullptr);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ImportSource blind = picture.source;
  blind.fd = ends[0];
  auto check = checkContent(*context, blind, *made);
  close(ends[0]);
  close(ends[1]);
  ASSERT_TRUE(check);
  EXPECT_EQ(check->verdict, ContentVerdict::Undecided);
  EXPECT_NE(check->reason.find("CPU cannot read it"), std::string::npos) << check->reason;
  ImportSource tiled = picture.source;
  tiled.modifier = DRM_FORMAT_MOD_ARM_16X16_BLOCK_U_INTERLEAVED;
  check = checkContent(*context, tiled, *made);
  ASSERT_TRUE(check);
  EXPECT_NE(check->reason.find("layout"), std::string::npos) << check->reason;
}

TEST_F(DeviceRoutes, AnImportOfAnotherShapeIsAnError) {
  Picture picture(nv12(1920, 1080, 1920));
  auto made = import(*makeStagedCopyRoute(context), picture.source);
  ASSERT_NE(made, nullptr);
  void (*const changes[])(DeviceImport &) = {
      [](DeviceImport &i) { i.n_planes = 1; },
      [](DeviceImport &i) { i.planes[1].rows = 539; },
      [](DeviceImport &i) { i.planes[0].pitch = 1; },
      [](DeviceImport &i) { i.size = 4096; },
      [](DeviceImport &i) { i.planes[1].offset = ~0ull; },
  };
  for (const auto &change : changes) {
    auto other = import(*makeStagedCopyRoute(context), picture.source);
    ASSERT_NE(other, nullptr);
    change(*other);
    auto check = checkContent(*context, picture.source, *other);
    ASSERT_FALSE(check);
    EXPECT_EQ(check.error().code, EINVAL);
  }
}

// ---- all of them ----

TEST_F(DeviceRoutes, TheChoiceIsThePlatforms) {
  if (!onStandIn()) GTEST_SKIP() << "nobody knows what this device takes";
  ImportCache cache;
  CachedImports imports(driverRoutes(), {.allow_copy = true}, cache);
  Picture picture(nv12(1920, 1080, 1920));
  const auto check = [&](const ImportSource &source, DeviceImport &import) {
    return checkContent(*context, source, import);
  };
  auto made = imports.get(picture.source, check);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_STREQ(imports.choice().chosen()->name(), takesDmaBufs() ? "dmabuf-fd" : "host-register");
  EXPECT_TRUE(imports.choice().trusted());
  EXPECT_EQ((*made)->copyBytes(), 0u);
}

TEST_F(DeviceRoutes, WithoutRegistrationOnlyACopyIsLeft) {
  tap->failAll("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE);
  tap->failAll("cuImportExternalMemory", CUDA_ERROR_NOT_SUPPORTED);
  Picture picture(nv12(1920, 1080, 1920));
  const auto check = [&](const ImportSource &source, DeviceImport &import) {
    return checkContent(*context, source, import);
  };
  RouteChoice no_copy(driverRoutes(), {});
  auto refused = no_copy.import(picture.source, check);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("allow-copy=true"), std::string::npos) << refused.error().message();

  RouteChoice copy(driverRoutes(), {.allow_copy = true});
  auto made = copy.import(picture.source, check);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_STREQ(copy.chosen()->name(), "staged-copy");
  EXPECT_TRUE(copy.trusted());
  EXPECT_EQ(readBack(**made), packed(picture.source, picture.read()));
}

// As drivers are known to do it: the import succeeds, and is right in its first 2 MiB.
TEST_F(DeviceRoutes, AnImportThatShowsOtherMemoryIsFoundAndTheNextRouteTaken) {
  void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto fault = reinterpret_cast<void (*)(const char *)>(dlsym(library, "softcuda_set_import_fault"));
  dlclose(library);
  if (fault == nullptr) GTEST_SKIP() << "this driver does not do so on request";
  const struct {
    const char *faults;
    std::vector<std::string> wrong;
    const char *chosen;
  } cases[] = {
      {"dmabuf:2M", {"dmabuf-fd"}, "host-register"},
      {"dmabuf:2M,register:2M", {"dmabuf-fd", "host-register"}, "staged-copy"},
  };
  Picture picture(nv12(1920, 1080, 1920));
  for (const auto &test : cases) {
    SCOPED_TRACE(test.faults);
    fault(test.faults);
    RouteChoice choice(driverRoutes(), {.allow_copy = true});
    auto made = choice.import(picture.source, [&](const ImportSource &source, DeviceImport &import) {
      return checkContent(*context, source, import);
    });
    fault("");
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_STREQ(choice.chosen()->name(), test.chosen);
    EXPECT_TRUE(choice.trusted());
    EXPECT_EQ(readBack(**made), packed(picture.source, picture.read()));
    for (const RouteReport &report : choice.reports()) {
      const bool tried = report.route != "dmabuf-fd" || takesDmaBufs();
      const bool wrong = std::find(test.wrong.begin(), test.wrong.end(), report.route) != test.wrong.end();
      EXPECT_EQ(report.stage == RouteStage::WrongContent, wrong && tried) << report.route << ": " << report.reason;
    }
  }
}

TEST_F(DeviceRoutes, ARecycledDescriptorNeverShowsAnOldFrame) {
  ImportCache cache;
  CachedImports imports(driverRoutes(), {.allow_copy = true}, cache);
  const auto check = [&](const ImportSource &source, DeviceImport &import) {
    return checkContent(*context, source, import);
  };
  const ImportSource layout = nv12(64, 48, 64);
  for (uint32_t i = 0; i < 1000; ++i) {
    Picture picture(layout, i + 1);
    cache.bufferAppeared(picture.source.id);
    auto made = imports.get(picture.source, check);
    ASSERT_TRUE(made) << made.error().message();
    ASSERT_EQ(readBack(**made), packed(layout, noise(layout.size, i + 1))) << i;
    made = Error{};
    cache.bufferGone(picture.source.id);
  }
  EXPECT_EQ(imports.counters().imports, 1000u);
}

} // namespace
