// SPDX-License-Identifier: LGPL-2.1-or-later
// The wait of those who know the stream of a shared tensor is needed: left out, they read what is not written yet.
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gtest/gtest.h>

#include "ext/cuda/infer/cuda_tensor_device.h"
#include "ext/cuda/memory/import_memory.h"
#include "tests/unit/cuda/support/gst_device_test.h"
#include "tests/unit/cuda/support/mutations.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using std::chrono::milliseconds;

namespace {

class DeviceResultsMutations : public GstDeviceTest {
protected:
  void SetUp() override {
    GstDeviceTest::SetUp();
    if (HasFatalFailure()) return;
    auto made = makeCudaTensorDevice(context_, allRoutes, gst_context_);
    ASSERT_TRUE(made.ok()) << made.error().message();
    device_ = made.take();
    memory_ = need(device_->newDeviceMemory(64));
    outputs_.tensors = {{infer::TensorType::Float32, {16}, memory_.get(), 64, infer::MemorySpace::Device}};
    outputs_.owner = memory_;
    outputs_.on_stream = true;
  }
  void TearDown() override {
    outputs_ = {};
    memory_.reset();
    device_.reset();
    GstDeviceTest::TearDown();
  }

  std::shared_ptr<infer::TensorDevice> device_;
  std::shared_ptr<void> memory_;
  infer::Outputs outputs_;
};

TEST_F(DeviceResultsMutations, TheOrderOfTheMemorysStream) {
  expectNoticed("shared-order", [this](milliseconds patience) {
    Work work(context_);
    work.setSource(1);
    std::vector<infer::BufferRef> shared;
    CUstream reader = nullptr;
    {
      const Blocker run(context_, static_cast<CUstream>(device_->stream()));
      shared = need(device_->share(outputs_));
      GstMemory *memory = gst_buffer_peek_memory(shared.at(0).get(), 0);
      reader = gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)));
      EXPECT_NE(reader, nullptr);
      work.enqueue(reader);
      becomesIdle(context_, reader, patience);
      work.setSource(2);
    }
    EXPECT_TRUE(becomesIdle(context_, reader));
    return work.result() == 2;
  });
}

} // namespace
