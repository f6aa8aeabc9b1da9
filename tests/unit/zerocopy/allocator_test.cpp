// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/gstzcallocator.h"

#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/dmabuf.h"

namespace {

class MemfdAllocator : public testing::Test {
protected:
  void SetUp() override {
    allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
    ASSERT_NE(allocator, nullptr);
  }
  void TearDown() override { gst_clear_object(&allocator); }
  GstAllocator *allocator = nullptr;
};

TEST_F(MemfdAllocator, MemoryIsADmaBufMemoryOfExactSize) {
  GstMemory *memory = gst_allocator_alloc(allocator, 5000, nullptr);
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(gst_is_dmabuf_memory(memory));
  EXPECT_TRUE(gst_is_zc_memory(memory));
  EXPECT_EQ(gst_zc_memory_get_source(memory), GST_ZC_MEMORY_SOURCE_MEMFD);
  EXPECT_EQ(gst_zc_memory_get_traits(memory), GST_ZC_MEMORY_TRAIT_CACHED);
  EXPECT_EQ(memory->size, 5000u);
  EXPECT_EQ(memory->maxsize % static_cast<gsize>(sysconf(_SC_PAGESIZE)), 0u);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READ));
  for (gsize i = 0; i < map.size; ++i) ASSERT_EQ(map.data[i], 0) << i;
  gst_memory_unmap(memory, &map);
  gst_memory_unref(memory);
}

TEST_F(MemfdAllocator, WritesAreSeenThroughTheMemfd) {
  GstMemory *memory = gst_allocator_alloc(allocator, 4096, nullptr);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_WRITE));
  std::memset(map.data, 0x5a, map.size);
  gst_memory_unmap(memory, &map);
  guint64 offset = 1;
  const int memfd = gst_zc_memory_get_memfd(memory, &offset);
  ASSERT_GE(memfd, 0);
  EXPECT_EQ(offset, 0u);
  unsigned char byte = 0;
  ASSERT_EQ(pread(memfd, &byte, 1, 4095), 1);
  EXPECT_EQ(byte, 0x5a);
  gst_memory_unref(memory);
}

TEST_F(MemfdAllocator, ReadersAndWritersMapInAnyOrder) {
  GstMemory *memory = gst_allocator_alloc(allocator, 4096, nullptr);
  GstMapInfo read, write;
  ASSERT_TRUE(gst_memory_map(memory, &read, GST_MAP_READ));
  gst_memory_unmap(memory, &read);
  ASSERT_TRUE(gst_memory_map(memory, &write, GST_MAP_WRITE));
  write.data[7] = 9;
  gst_memory_unmap(memory, &write);
  ASSERT_TRUE(gst_memory_map(memory, &read, GST_MAP_READ));
  EXPECT_EQ(read.data[7], 9);
  gst_memory_unmap(memory, &read);
  gst_memory_unref(memory);
}

TEST_F(MemfdAllocator, PrefixPaddingAndAlignment) {
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.prefix = 100;
  params.padding = 50;
  params.align = 63;
  GstMemory *memory = gst_allocator_alloc(allocator, 1000, &params);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->size, 1000u);
  EXPECT_GE(memory->offset, 100u);
  EXPECT_GE(memory->maxsize, memory->offset + 1000 + 50);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READ));
  EXPECT_EQ(reinterpret_cast<guintptr>(map.data) & 63, 0u);
  gst_memory_unmap(memory, &map);
  gst_memory_unref(memory);
}

TEST_F(MemfdAllocator, ImpossibleRequestsSayWhy) {
  GError *error = nullptr;
  EXPECT_EQ(gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), G_MAXSIZE, nullptr, &error), nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error->message).find(std::to_string(G_MAXSIZE)), std::string::npos) << error->message;
  g_clear_error(&error);

  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.align = (1 << 20) - 1;
  EXPECT_EQ(gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), 10, &params, &error), nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error->message).find("alignment"), std::string::npos) << error->message;
  g_clear_error(&error);

  params.align = 0;
  params.prefix = 10;
  EXPECT_EQ(gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), G_MAXSIZE - 5, &params, &error), nullptr)
      << "prefix and size overflow";
  EXPECT_NE(error, nullptr);
  g_clear_error(&error);
}

TEST_F(MemfdAllocator, PartsAndCopies) {
  GstMemory *memory = gst_allocator_alloc(allocator, 8192, nullptr);
  GstMemory *part = gst_memory_share(memory, 4096, 4096);
  ASSERT_NE(part, nullptr);
  EXPECT_TRUE(gst_is_zc_memory(part));
  EXPECT_EQ(gst_zc_memory_get_memfd(part, nullptr), gst_zc_memory_get_memfd(memory, nullptr));
  GstMemory *copy = gst_memory_copy(memory, 0, -1);
  ASSERT_NE(copy, nullptr);
  EXPECT_TRUE(gst_is_dmabuf_memory(copy)) << "a copy is shareable again";
  EXPECT_NE(gstzc::bufferId(gst_dmabuf_memory_get_fd(copy)).value(),
            gstzc::bufferId(gst_dmabuf_memory_get_fd(memory)).value());
  gst_memory_unref(copy);
  gst_memory_unref(part);
  gst_memory_unref(memory);
}

TEST_F(MemfdAllocator, MemoryOutlivesTheAllocator) {
  GstMemory *memory = gst_allocator_alloc(allocator, 4096, nullptr);
  const int fd = gst_dmabuf_memory_get_fd(memory), memfd = gst_zc_memory_get_memfd(memory, nullptr);
  gst_clear_object(&allocator);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READWRITE));
  gst_memory_unmap(memory, &map);
  gst_memory_unref(memory);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "closed with the memory";
  EXPECT_EQ(fcntl(memfd, F_GETFD), -1);
}

TEST(Allocator, OtherMemoryIsNotOurs) {
  GstMemory *memory = gst_allocator_alloc(nullptr, 100, nullptr);
  EXPECT_FALSE(gst_is_zc_memory(memory));
  gst_memory_unref(memory);
}

TEST(Allocator, UnknownHeapIsAnErrorWithItsName) {
  GError *error = nullptr;
  EXPECT_EQ(gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_DMA_HEAP, "no-such-heap", &error), nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_NOT_FOUND));
  EXPECT_NE(std::string(error->message).find("/dev/dma_heap/no-such-heap"), std::string::npos) << error->message;
  g_clear_error(&error);
}

} // namespace
