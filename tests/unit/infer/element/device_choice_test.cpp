// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/device_choice.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/fake_tensor_device.h"
#include "tests/support/frame_caps.h"
#include "tests/unit/infer/stream/runner_helpers.h"

using namespace gstzc;
using namespace gstzc::infer;

namespace {

TEST(DeviceChoice, WhoReadsTheFrames) {
  const FrameCaps cuda = test::frameCaps("video/x-raw(memory:CUDAMemory),format=RGB,width=8,height=8");
  const FrameCaps dma_buf = test::frameCaps("video/x-raw(memory:DMABuf),format=RGB,width=8,height=8");
  Settings s;
  EXPECT_TRUE(readByDevice(cuda, s));
  EXPECT_FALSE(readByDevice(dma_buf, s));
  s.preprocess_device = PreprocessDevice::Cuda;
  EXPECT_TRUE(readByDevice(dma_buf, s));
  s.preprocess_device = PreprocessDevice::Auto;
  s.tensor_memory = TensorMemory::Device;
  EXPECT_FALSE(readByDevice(dma_buf, s)) << "no tensors are asked for";
  s.output = OutputKind::Both;
  EXPECT_TRUE(readByDevice(dma_buf, s)) << "what is on the device has to be made there";
}

TEST(DeviceChoice, TensorsStayWhereModelAndFramesMeet) {
  int ours = 0, another = 0;
  struct {
    void *model, *device; // streams
    int ordinal, batch;   // of the device
    const char *says, *remedy;
  } const rows[] = {
      {&ours, &ours, 0, 1, "", ""},
      {nullptr, &ours, 0, 1, "execution provider cpu of fake has its outputs in host memory", "execution-provider"},
      {&ours, nullptr, 0, 1, "fake device 0 is used in a CUDA context that inference libraries do not use", "primary"},
      {&ours, &ours, 1, 1, "the model runs on CUDA device 0, the frames are read by fake device 0", "device_id=1"},
      {&ours, &ours, 0, 4, "takes 4 pictures", "batch-size=1"},
      {&another, &ours, 0, 1, "another stream", "model-instance-id"},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.says);
    auto fake = test::fakeModel(row.batch, false);
    fake.engine->own_stream = row.model;
    test::FakeTensorDevice device;
    device.own_stream = row.device;
    device.library_device = row.ordinal;
    const Status possible = checkDeviceTensors(*fake.model, device);
    EXPECT_EQ(possible.ok(), *row.says == '\0');
    if (possible) continue;
    EXPECT_EQ(possible.error().what.find("tensor-memory=device: "), 0u) << possible.error().message();
    EXPECT_NE(possible.error().what.find(row.says), std::string::npos) << possible.error().message();
    EXPECT_NE(possible.error().remedy.find(row.remedy), std::string::npos) << possible.error().message();
  }
}

} // namespace
