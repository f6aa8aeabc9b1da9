// SPDX-License-Identifier: LGPL-2.1-or-later
// A context on whatever driver there is, and frames read through it.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/routes/route.h"
#include "tests/support/open_fds.h"
#include "tests/unit/cuda/routes/driver_tap.h"
#include "tests/unit/cuda/routes/pictures.h"

namespace gstzc::cuda::test {

extern const char *const kProfile; // of the stand-in, which the program asks for: "dgpu", "orin", "thor"

class OnDevice : public testing::Test {
protected:
  void SetUp() override {
    setenv("SOFTCUDA_PROFILE", kProfile, 1);
    auto driver = Driver::get();
    ASSERT_TRUE(driver) << driver.error().message();
    tap = std::make_unique<DriverTap>(**driver);
    auto own = CudaContext::create(0);
    ASSERT_TRUE(own) << own.error().message();
    own_ = own.take();
    context = std::make_shared<const CudaContext>(tap->tapped, own_->handle, own_->device, nullptr);
    // the device's own threads and files are there after the first work
    {
      Picture warm(nv12(64, 48, 64));
      if (auto import = makeStagedCopyRoute(own_)->import(warm.source)) readBack(**import);
    }
    fds_ = gstzc::test::openFds();
  }
  void TearDown() override {
    if (!context) return;
    EXPECT_EQ(tap->left(), (std::map<std::string, int>{}));
    EXPECT_EQ(gstzc::test::openFds(), fds_);
    EXPECT_EQ(context.use_count(), 1);
    context.reset();
  }

  // Files stand for dma-bufs only where the driver is the stand-in.
  bool onStandIn() const {
    char name[64] = "";
    own_->driver.cuDeviceGetName(name, sizeof name, own_->device);
    return std::string(name).find("soft") != std::string::npos;
  }
  bool takesDmaBufs() const { return onStandIn() && std::string(kProfile) == "thor"; }

  // Those that need nothing but the driver.
  std::vector<std::unique_ptr<ImportRoute>> driverRoutes() const {
    std::vector<std::unique_ptr<ImportRoute>> routes;
    for (const auto make : {&makeDmabufFdRoute, &makeHostRegisterRoute, &makeStagedCopyRoute})
      routes.push_back(make(context));
    return routes;
  }

  // The pixels that the device sees, rows without gaps. By the driver itself, not by the tap.
  Bytes readBack(DeviceImport &import) {
    const Driver &driver = own_->driver;
    auto stream = newStream(own_);
    EXPECT_TRUE(stream);
    const ContextScope scope(*own_);
    const Status fresh = import.refresh(stream->get());
    EXPECT_TRUE(fresh) << (fresh ? "" : fresh.error().message());
    size_t bytes = 0, at = 0;
    for (unsigned p = 0; p < import.n_planes; ++p) bytes += size_t{import.planes[p].rows} * import.planes[p].row_bytes;
    Bytes result(bytes);
    for (unsigned p = 0; p < import.n_planes; ++p) {
      const ImportPlane &plane = import.planes[p];
      for (uint32_t row = 0; row < plane.rows; ++row, at += plane.row_bytes) {
        const CUdeviceptr from = import.pointer + plane.offset + uint64_t{row} * plane.pitch;
        const CUresult copied = driver.cuMemcpyDtoHAsync(result.data() + at, from, plane.row_bytes, stream->get());
        EXPECT_EQ(copied, CUDA_SUCCESS) << "row " << row << " of plane " << p;
        if (copied != CUDA_SUCCESS) row = plane.rows - 1;
      }
    }
    EXPECT_EQ(driver.cuStreamSynchronize(stream->get()), CUDA_SUCCESS);
    return result;
  }

  std::unique_ptr<DriverTap> tap;
  ContextPtr context; // its calls are the tap's

private:
  ContextPtr own_;
  size_t fds_ = 0;
};

} // namespace gstzc::cuda::test
