// SPDX-License-Identifier: LGPL-2.1-or-later
// Each call of the driver fails once: an error that names the call, or another way; nothing is lost.
#include <functional>

#include "ext/cuda/routes/import_cache.h"
#include "tests/unit/cuda/routes/device_fixture.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

class DeviceFaults : public OnDevice {
protected:
  // Runs it once to see its calls, then once for each of them with that one failing. It says what went wrong, or
  // nothing; TearDown() looks for what was left. Afterwards it works again.
  void eachCallFailing(const std::function<std::string()> &run) {
    tap->failNth(0, CUDA_SUCCESS);
    ASSERT_EQ(run(), "");
    const std::vector<std::string> calls = tap->calls();
    ASSERT_FALSE(calls.empty());
    const size_t fds = gstzc::test::openFds();
    size_t errors = 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      SCOPED_TRACE("call " + std::to_string(i + 1) + ": " + calls[i]);
      tap->failNth(static_cast<int>(i + 1), CUDA_ERROR_OUT_OF_MEMORY);
      const std::string error = run();
      tap->stopFailing();
      if (!error.empty()) {
        ++errors;
        EXPECT_NE(error.find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << error;
      }
      EXPECT_EQ(tap->left(), (std::map<std::string, int>{}));
      EXPECT_EQ(gstzc::test::openFds(), fds);
    }
    EXPECT_GT(errors, 0u);
    EXPECT_EQ(run(), "");
  }

  // Import, the frame, and the check; what it shows is right if nothing failed.
  std::string all(ImportRoute &route, const Picture &picture) {
    if (auto available = route.available(); !available) return "CUDA_ERROR_OUT_OF_MEMORY (an attribute was not known)";
    auto import = route.import(picture.source);
    if (!import) return import.error().message();
    auto check = checkContent(*context, picture.source, **import);
    if (!check) return check.error().message();
    EXPECT_EQ(check->verdict, ContentVerdict::Same);
    return "";
  }
};

TEST_F(DeviceFaults, DmabufFd) {
  if (!takesDmaBufs()) GTEST_SKIP() << kProfile << " imports no dma-bufs";
  Picture picture(nv12(1920, 1080, 1984));
  auto route = makeDmabufFdRoute(context);
  eachCallFailing([&] { return all(*route, picture); });
}

TEST_F(DeviceFaults, HostRegister) {
  Picture picture(nv12(1920, 1080, 1984));
  auto route = makeHostRegisterRoute(context);
  eachCallFailing([&] { return all(*route, picture); });
}

TEST_F(DeviceFaults, StagedCopy) {
  Picture picture(nv12(1920, 1080, 1984));
  auto route = makeStagedCopyRoute(context);
  eachCallFailing([&] { return all(*route, picture); });
}

TEST_F(DeviceFaults, StagedCopyOverABounceBuffer) {
  Picture picture(nv12(1920, 1080, 1984));
  auto route = makeStagedCopyRoute(context);
  eachCallFailing([&] {
    tap->failAll("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE);
    return all(*route, picture);
  });
}

// With all routes a failure is survived by going another way, as long as a copy is allowed.
TEST_F(DeviceFaults, AnotherRouteIsTaken) {
  Picture picture(nv12(1920, 1080, 1984));
  size_t calls = 0;
  const auto attempt = [&]() -> std::string {
    ImportCache cache;
    CachedImports imports(driverRoutes(), {.allow_copy = true}, cache);
    const auto check = [&](const ImportSource &source, DeviceImport &import) {
      return checkContent(*context, source, import);
    };
    auto made = imports.get(picture.source, check);
    if (!made) return made.error().message();
    tap->stopFailing();
    calls = tap->calls().size();
    EXPECT_EQ(readBack(**made), packed(picture.source, picture.read()));
    return "";
  };
  tap->failNth(0, CUDA_SUCCESS);
  ASSERT_EQ(attempt(), "");
  const size_t all = calls;
  for (size_t i = 0; i < all; ++i) {
    tap->failNth(static_cast<int>(i + 1), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(attempt(), "") << i;
  }
  tap->stopFailing();
}

// A context that is lost refuses everything; what was made in it can still be let go of.
TEST_F(DeviceFaults, ALostContext) {
  Picture picture(nv12(1920, 1080, 1984)), other(nv12(1920, 1080, 1984));
  ImportCache cache;
  CachedImports imports(driverRoutes(), {.allow_copy = true}, cache);
  const auto check = [&](const ImportSource &source, DeviceImport &import) {
    return checkContent(*context, source, import);
  };
  ASSERT_TRUE(imports.get(picture.source, check));
  for (const char *name : {"cuImportExternalMemory", "cuMemHostRegister", "cuMemAlloc", "cuMemHostAlloc", "cuMemFree",
                           "cuMemHostUnregister", "cuDestroyExternalMemory", "cuStreamCreate"})
    tap->failAll(name, CUDA_ERROR_ILLEGAL_ADDRESS);
  auto made = imports.get(other.source, check);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << made.error().message();
  imports.forget();
  EXPECT_EQ(imports.counters().entries, 0u);
}

} // namespace
