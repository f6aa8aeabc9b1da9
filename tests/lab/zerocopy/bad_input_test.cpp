// SPDX-License-Identifier: LGPL-2.1-or-later
// What is wrong with real dma-bufs and fences; the rest: tests/unit/zerocopy/bad_input_test.cpp.
#include <cerrno>
#include <string>

#include <gst/allocators/allocators.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/zerocopy.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/sw_sync.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using gstzc::test::openFds;

namespace {

class LabBadInput : public testing::Test {
protected:
  void SetUp() override {
    auto made = lab::allocateUdmabuf(4096);
    ASSERT_TRUE(made.ok()) << made.error().message();
    dmabuf = made.take();
    fds = openFds();
  }
  void TearDown() override { EXPECT_EQ(openFds(), fds); }
  // a frame over the dma-buf, of the size that somebody says it has
  GstBuffer *frame(gsize size) {
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(
        buffer, gst_dmabuf_allocator_alloc_with_flags(allocator, dmabuf.get(), size, GST_FD_MEMORY_FLAG_DONT_CLOSE));
    gst_object_unref(allocator);
    return buffer;
  }
  UniqueFd dmabuf;
  size_t fds = 0;
};

TEST_F(LabBadInput, ADmaBufIsNoFence) {
  GstBuffer *buffer = frame(4096);
  GError *error = nullptr;
  EXPECT_EQ(gst_buffer_add_zc_fence_meta(buffer, dmabuf.get(), 0, &error), nullptr);
  EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
  g_clear_error(&error);
  EXPECT_FALSE(gst_buffer_import_zc_fence(buffer, dmabuf.get(), GST_ZC_FENCE_ACCESS_WRITE, &error));
  EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
  g_clear_error(&error);
  EXPECT_LT(gst_zc_fence_fd_get_status(dmabuf.get()), 0);
  EXPECT_EQ(SyncFile::duplicateOf(dmabuf.get()).error().code, EINVAL);
  gst_buffer_unref(buffer);
}

TEST_F(LabBadInput, AFenceIsNoDmaBuf) {
  auto timeline = lab::SwTimeline::create().take();
  const SyncFile fence = timeline.fence(1).take();
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  for (const int fd : {fence.fd(), event.get()}) {
    EXPECT_FALSE(isDmaBuf(fd));
    EXPECT_EQ(exportFence(fd, Access::Read).error().code, EINVAL);
    EXPECT_EQ(importFence(fd, fence, Access::Write).error().code, EINVAL);
  }
  // memory that only stands in for a dma-buf has no place for a fence
  GstBuffer *memfd_frame = gst_buffer_new();
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  gst_buffer_append_memory(memfd_frame, gst_allocator_alloc(allocator, 4096, nullptr));
  GstBuffer *system = gst_buffer_new_allocate(nullptr, 64, nullptr), *empty = gst_buffer_new();
  for (GstBuffer *buffer : {memfd_frame, system, empty}) {
    GError *error = nullptr;
    EXPECT_FALSE(gst_buffer_import_zc_fence(buffer, fence.fd(), GST_ZC_FENCE_ACCESS_READ, &error));
    EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS)) << error->message;
    g_clear_error(&error);
    gst_buffer_unref(buffer);
  }
  gst_object_unref(allocator);
}

TEST_F(LabBadInput, FlagsThatAreNoAccess) {
  for (const uint32_t access : {0u, 4u, 7u}) {
    EXPECT_EQ(exportFence(dmabuf.get(), static_cast<Access>(access)).error().code, EINVAL) << access;
    auto timeline = lab::SwTimeline::create().take();
    EXPECT_EQ(importFence(dmabuf.get(), timeline.fence(1).take(), static_cast<Access>(access)).error().code, EINVAL);
  }
}

TEST_F(LabBadInput, ATruncatedDmaBuf) {
  GstCaps *text = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=64");
  const FrameCaps caps = parseFrameCaps(text).take();
  gst_caps_unref(text);
  GstBuffer *buffer = frame(64 * 96);
  const auto layout = frameLayout(buffer, caps);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message().find("dma-buf of 4096"), std::string::npos) << layout.error().message();
  GstBuffer *copy = gst_buffer_new_allocate(nullptr, 64 * 96, nullptr);
  EXPECT_FALSE(copyFrame(copy, caps, buffer, caps).ok());
  EXPECT_FALSE(copyFrame(buffer, caps, copy, caps).ok());
  gst_buffer_unref(copy);
  gst_buffer_unref(buffer);
}

TEST_F(LabBadInput, AllocationsThatTheDriversRefuse) {
  for (const auto source : {GST_ZC_MEMORY_SOURCE_UDMABUF, GST_ZC_MEMORY_SOURCE_DMA_HEAP, GST_ZC_MEMORY_SOURCE_AUTO}) {
    GError *error = nullptr;
    GstAllocator *allocator = gst_zc_allocator_new(source, nullptr, &error);
    ASSERT_NE(allocator, nullptr) << error->message;
    for (const gsize size : {gsize{0}, G_MAXSIZE, gsize{1} << 46}) {
      EXPECT_EQ(gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), size, nullptr, &error), nullptr) << size;
      ASSERT_NE(error, nullptr) << size;
      g_clear_error(&error);
    }
    gst_object_unref(allocator);
  }
}

} // namespace
