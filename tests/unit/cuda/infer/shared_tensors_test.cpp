// SPDX-License-Identifier: LGPL-2.1-or-later
// Tensors that were shared are there until those who read them on the device are done, on whichever stream.
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include "ext/cuda/infer/cuda_tensor_device.h"
#include "ext/cuda/memory/import_memory.h"
#include "tests/unit/cuda/support/gst_device_test.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

class SharedTensors : public GstDeviceTest {
protected:
  void SetUp() override {
    GstDeviceTest::SetUp();
    if (HasFatalFailure()) return;
    device_ = need(makeCudaTensorDevice(context_, allRoutes, gst_context_));
    ASSERT_TRUE(device_);
    elsewhere_ = gst_cuda_stream_new(gst_context_);
  }
  void TearDown() override {
    gst_clear_cuda_stream(&elsewhere_);
    device_.reset();
    GstDeviceTest::TearDown();
  }

  // Whether a tensor is gone while a reader's work is not done, on a stream other than its memory's or, null, on that.
  bool goesEarly(GstCudaStream *other_than_its) {
    const auto owner = std::make_shared<int>(0);
    auto memory = need(device_->newDeviceMemory(64));
    infer::Outputs outputs;
    outputs.tensors = {{infer::TensorType::Float32, {16}, memory.get(), 64, infer::MemorySpace::Device}};
    outputs.owner = std::make_shared<std::pair<std::shared_ptr<int>, std::shared_ptr<void>>>(owner, std::move(memory));
    outputs.on_stream = true;
    auto shared = need(device_->share(outputs));
    outputs = {};
    bool early = false;
    {
      auto *tensor = GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(shared.at(0).get(), 0));
      if (other_than_its != nullptr) gst_cuda_memory_sync(tensor);
      GstMapInfo map;
      EXPECT_TRUE(gst_memory_map(GST_MEMORY_CAST(tensor), &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
      GstCudaStream *used = other_than_its != nullptr ? other_than_its : gst_cuda_memory_get_stream(tensor);
      const Blocker reader(context_, gst_cuda_stream_get_handle(used));
      gst_memory_unmap(GST_MEMORY_CAST(tensor), &map);
      shared.clear();
      early = eventually([&] { return owner.use_count() == 1; }, kGlance);
    }
    EXPECT_TRUE(eventually([&] { return owner.use_count() == 1; }));
    return early;
  }

  std::shared_ptr<infer::TensorDevice> device_;
  GstCudaStream *elsewhere_ = nullptr;
};

TEST_F(SharedTensors, WaitForWhoReadsThemOnTheirStream) { EXPECT_FALSE(goesEarly(nullptr)); }
TEST_F(SharedTensors, WaitForWhoReadsThemOnAnother) { EXPECT_FALSE(goesEarly(elsewhere_)); }

} // namespace
