// SPDX-License-Identifier: LGPL-2.1-or-later
// libgstcuda's own memory and buffer pools, through its unmodified headers on ours of the driver.
#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include "tests/softcuda/test_driver.h"

namespace gstzc::test {
namespace {

constexpr unsigned char kGrey = 0x42;

class GstCudaMemoryTest : public testing::Test {
protected:
  void SetUp() override {
    if (!libcuda()) GTEST_SKIP() << "no libcuda.so.1";
    if (!gst_cuda_load_library()) GTEST_SKIP() << "libgstcuda finds no driver";
    if (onStandIn()) SOFT(reset)();
    context_ = gst_cuda_context_new(0);
    if (!context_) GTEST_SKIP() << "no CUDA device";
    stream_ = gst_cuda_stream_new(context_);
    gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_NV12, 334, 250);
  }
  void TearDown() override {
    gst_clear_cuda_stream(&stream_);
    gst_clear_object(&context_);
    if (!libcuda() || !onStandIn()) return;
    EXPECT_EQ(SOFT(misuses)(), 0u) << SOFT(misuse_list)();
    EXPECT_EQ(SOFT(live)(nullptr), 0u) << SOFT(live_list)();
    EXPECT_EQ(SOFT(live)("context"), 0u);
  }
  static void fill(GstMemory *memory) {
    GstMapInfo map;
    ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_WRITE));
    memset(map.data, kGrey, map.size);
    gst_memory_unmap(memory, &map);
  }
  // What is at the memory's address on the device.
  void expectFilled(GstMemory *memory) {
    GstMapInfo map;
    ASSERT_TRUE(gst_memory_map(memory, &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
    std::vector<unsigned char> bytes(map.size);
    ASSERT_TRUE(gst_cuda_context_push(context_));
    EXPECT_EQ(CU(cuStreamSynchronize)(gst_cuda_stream_get_handle(stream_)), CUDA_SUCCESS);
    EXPECT_EQ(CU(cuMemcpyDtoH_v2)(bytes.data(), reinterpret_cast<CUdeviceptr>(map.data), bytes.size()), CUDA_SUCCESS);
    gst_cuda_context_pop(nullptr);
    gst_memory_unmap(memory, &map);
    EXPECT_EQ(bytes.front(), kGrey);
    EXPECT_EQ(bytes[bytes.size() / 2], kGrey);
  }

  GstCudaContext *context_ = nullptr;
  GstCudaStream *stream_ = nullptr;
  GstVideoInfo info_ = {};
};

TEST_F(GstCudaMemoryTest, TakesWhatTheHostWrites) {
  GstMemory *memory = gst_cuda_allocator_alloc(nullptr, context_, stream_, &info_);
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(gst_is_cuda_memory(memory));
  fill(memory);
  expectFilled(memory);
  gst_memory_unref(memory);
}

TEST_F(GstCudaMemoryTest, ComesFromABufferPool) {
  GstBufferPool *pool = gst_cuda_buffer_pool_new(context_);
  GstStructure *config = gst_buffer_pool_get_config(pool);
  GstCaps *caps = gst_video_info_to_caps(&info_);
  gst_buffer_pool_config_set_params(config, caps, unsigned(info_.size), 1, 2);
  gst_buffer_pool_config_set_cuda_stream(config, stream_);
  gst_caps_unref(caps);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  for (int i = 0; i < 3; ++i) {
    GstBuffer *buffer = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    fill(gst_buffer_peek_memory(buffer, 0));
    expectFilled(gst_buffer_peek_memory(buffer, 0));
    gst_buffer_unref(buffer);
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

TEST_F(GstCudaMemoryTest, ComesInTheOrderOfAStream) {
  GstStructure *config =
      gst_structure_new("config", GST_CUDA_ALLOCATOR_OPT_STREAM_ORDERED, G_TYPE_BOOLEAN, TRUE, nullptr);
  GstCudaPoolAllocator *pool = gst_cuda_pool_allocator_new_full(context_, stream_, &info_, config);
  ASSERT_NE(pool, nullptr);
  ASSERT_TRUE(gst_cuda_allocator_set_active(GST_CUDA_ALLOCATOR(pool), TRUE));
  GstMemory *memory = nullptr;
  ASSERT_EQ(gst_cuda_pool_allocator_acquire_memory(pool, &memory), GST_FLOW_OK);
  fill(memory);
  expectFilled(memory);
  gst_memory_unref(memory);
  gst_cuda_allocator_set_active(GST_CUDA_ALLOCATOR(pool), FALSE);
  gst_object_unref(pool);
  if (onStandIn()) {
    EXPECT_EQ(SOFT(calls)("cuMemAllocAsync"), 1u);
    EXPECT_EQ(SOFT(calls)("cuMemFreeAsync"), 1u);
  }
}

} // namespace
} // namespace gstzc::test
