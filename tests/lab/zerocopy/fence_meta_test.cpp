// SPDX-License-Identifier: LGPL-2.1-or-later
// GstZcFenceMeta with fences and dma-bufs of the kernel.
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include <gst/allocators/allocators.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/shallow_copy.h"
#include "gst/zerocopy/zerocopy.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/sw_sync.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace std::chrono_literals;
using gstzc::lab::SwTimeline;
using gstzc::test::openFds;

namespace {

constexpr auto kRead = GST_ZC_FENCE_ACCESS_READ;
constexpr auto kWrite = GST_ZC_FENCE_ACCESS_WRITE;

class LabFenceMeta : public testing::Test {
protected:
  void SetUp() override {
    auto made = SwTimeline::create();
    ASSERT_TRUE(made.ok()) << made.error().message();
    timeline.emplace(made.take());
    buffer = gst_buffer_new();
  }
  void TearDown() override { gst_clear_buffer(&buffer); }

  int fence(uint32_t value) {
    auto made = timeline->fence(value);
    EXPECT_TRUE(made.ok());
    return made->release().release();
  }
  bool add(GstBuffer *to, int fd, guint64 sequence = 0) {
    GError *error = nullptr;
    const bool ok = gst_buffer_add_zc_fence_meta(to, fd, sequence, &error) != nullptr;
    if (!ok) ADD_FAILURE() << error->message;
    g_clear_error(&error);
    return ok;
  }
  // a memory of its own udmabuf; its descriptor, borrowed
  int addDmaBuf(gsize size = 4096) {
    auto made = lab::allocateUdmabuf(size);
    EXPECT_TRUE(made.ok()) << made.error().message();
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    const int fd = made->release();
    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, fd, size));
    gst_object_unref(allocator);
    return fd;
  }
  static bool wait(GstBuffer *of, GstZcFenceAccess access, GstClockTime timeout, std::string *why = nullptr) {
    GError *error = nullptr;
    const bool ready = gst_buffer_wait_zc_fences(of, access, timeout, &error);
    EXPECT_EQ(ready, error == nullptr);
    if (error != nullptr && why != nullptr) *why = error->message;
    g_clear_error(&error);
    return ready;
  }
  UniqueFd ready(GstZcFenceAccess access) {
    gint fd = -1;
    GError *error = nullptr;
    EXPECT_TRUE(gst_buffer_get_zc_ready_fence(buffer, access, &fd, &error)) << error->message;
    g_clear_error(&error);
    return UniqueFd(fd);
  }

  std::optional<SwTimeline> timeline;
  GstBuffer *buffer = nullptr;
};

TEST_F(LabFenceMeta, TheBufferOwnsItsFence) {
  wait(buffer, kRead, 0);
  const size_t fds = openFds();
  ASSERT_TRUE(add(buffer, fence(1), 5));
  EXPECT_EQ(openFds(), fds + 1);
  GstZcFenceMeta *meta = gst_buffer_get_zc_fence_meta(buffer);
  EXPECT_EQ(gst_zc_fence_meta_get_sequence(meta), 5u);
  {
    const UniqueFd fd(gst_zc_fence_meta_dup_fd(meta));
    EXPECT_EQ(gst_zc_fence_fd_get_status(fd.get()), 0);
    EXPECT_TRUE(timeline->advance(1).ok());
    EXPECT_EQ(gst_zc_fence_fd_get_status(fd.get()), 1);
  }
  gst_clear_buffer(&buffer);
  EXPECT_EQ(openFds(), fds);
}

TEST_F(LabFenceMeta, IsWaitedForWithADeadline) {
  ASSERT_TRUE(add(buffer, fence(1)));
  std::string why;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(wait(buffer, kRead, 50 * GST_MSECOND, &why));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 50ms);
  EXPECT_LT(took, 5s); // emulated, and the kernel's own limit would be far beyond
  EXPECT_NE(why.find("50 ms"), std::string::npos) << why;
  std::thread later([&] {
    std::this_thread::sleep_for(30ms);
    EXPECT_TRUE(timeline->advance(1).ok());
  });
  EXPECT_TRUE(wait(buffer, kRead, 30 * GST_SECOND));
  later.join();
}

TEST_F(LabFenceMeta, AnErrorIsNoSignal) {
  ASSERT_TRUE(add(buffer, fence(1)));
  const UniqueFd before = ready(kRead);
  timeline->close();
  pollfd request = {before.get(), POLLIN, 0};
  EXPECT_EQ(poll(&request, 1, 0), 1) << "readable";
  EXPECT_EQ(gst_zc_fence_fd_get_status(before.get()), -ENOENT) << "and not good";
  std::string why;
  EXPECT_FALSE(wait(buffer, kRead, GST_SECOND, &why));
  EXPECT_NE(why.find("(2)"), std::string::npos) << why;
  gint fd = 7;
  GError *error = nullptr;
  EXPECT_FALSE(gst_buffer_get_zc_ready_fence(buffer, kRead, &fd, &error));
  EXPECT_EQ(fd, -1);
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error->message).find("(2)"), std::string::npos) << error->message;
  g_clear_error(&error);
}

TEST_F(LabFenceMeta, ReadyMergesTheExplicitAndTheImplicitOfAllPlanes) {
  auto other = SwTimeline::create().take(), third = SwTimeline::create().take();
  const int luma = addDmaBuf();
  addDmaBuf();
  EXPECT_FALSE(ready(kRead).isValid()) << "nothing is pending";
  ASSERT_TRUE(add(buffer, fence(1)));
  ASSERT_TRUE(importFence(luma, other.fence(1).take(), Access::Write).ok());
  ASSERT_TRUE(
      importFence(gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(buffer, 1)), third.fence(1).take(), Access::Write)
          .ok());
  const UniqueFd all = ready(kRead);
  ASSERT_TRUE(all.isValid());
  auto info = SyncFile::duplicateOf(all.get())->info();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->fences.size(), 3u);
  EXPECT_TRUE(other.advance(1).ok());
  EXPECT_EQ(gst_zc_fence_fd_get_status(all.get()), 0);
  EXPECT_TRUE(timeline->advance(1).ok());
  EXPECT_EQ(gst_zc_fence_fd_get_status(all.get()), 0);
  EXPECT_FALSE(wait(buffer, kRead, 0));
  EXPECT_TRUE(third.advance(1).ok());
  EXPECT_EQ(gst_zc_fence_fd_get_status(all.get()), 1);
  EXPECT_TRUE(wait(buffer, kRead, 0));
  EXPECT_FALSE(ready(kRead).isValid());
}

TEST_F(LabFenceMeta, TwoPointsOfOneTimelineAreTheLater) {
  ASSERT_TRUE(add(buffer, fence(1)));
  ASSERT_TRUE(add(buffer, fence(2)));
  const UniqueFd all = ready(kRead);
  EXPECT_TRUE(timeline->advance(1).ok());
  EXPECT_EQ(gst_zc_fence_fd_get_status(all.get()), 0);
  EXPECT_TRUE(timeline->advance(1).ok());
  EXPECT_EQ(gst_zc_fence_fd_get_status(all.get()), 1);
}

TEST_F(LabFenceMeta, CompletionsOfReadersHinderWritersOnly) {
  addDmaBuf();
  addDmaBuf();
  const UniqueFd completion(fence(1));
  GError *error = nullptr;
  ASSERT_TRUE(gst_buffer_import_zc_fence(buffer, completion.get(), kRead, &error)) << error->message;
  EXPECT_NE(fcntl(completion.get(), F_GETFD), -1) << "it is still ours";
  EXPECT_TRUE(wait(buffer, kRead, 0));
  EXPECT_FALSE(wait(buffer, kWrite, 0));
  EXPECT_FALSE(ready(kRead).isValid());
  EXPECT_TRUE(ready(kWrite).isValid());
  EXPECT_TRUE(timeline->advance(1).ok());
  EXPECT_TRUE(wait(buffer, kWrite, 0));
}

TEST_F(LabFenceMeta, CompletionsOfWritersHinderAll) {
  const int fd = addDmaBuf();
  const UniqueFd completion(fence(1));
  ASSERT_TRUE(gst_buffer_import_zc_fence(buffer, completion.get(), kWrite, nullptr));
  pollfd request = {fd, POLLIN | POLLOUT, 0};
  EXPECT_EQ(poll(&request, 1, 0), 0);
  EXPECT_FALSE(wait(buffer, kRead, 0));
  EXPECT_TRUE(timeline->advance(1).ok());
  EXPECT_TRUE(wait(buffer, kRead, 0));
  EXPECT_EQ(poll(&request, 1, 0), 1);
}

TEST_F(LabFenceMeta, AnEventAndASyncFileOnOneBuffer) {
  const UniqueFd signal(eventfd(0, EFD_CLOEXEC));
  GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(signal.get()).release(), nullptr);
  ASSERT_TRUE(add(buffer, fence(1)));
  gst_buffer_add_zc_event_meta(buffer, event, 0);
  gst_zc_device_event_unref(event);
  auto fences = frameFences(buffer, Access::Read);
  ASSERT_TRUE(fences.ok());
  EXPECT_FALSE(fences->sync.isEmpty());
  EXPECT_EQ(fences->others.size(), 1u);
  EXPECT_TRUE(timeline->advance(1).ok());
  EXPECT_FALSE(wait(buffer, kRead, 0));
  eventfd_write(signal.get(), 1);
  EXPECT_TRUE(wait(buffer, kRead, 0));
}

TEST_F(LabFenceMeta, CopiesHaveTheFenceWhenTheOriginalIsGone) {
  addDmaBuf(8192);
  ASSERT_TRUE(add(buffer, fence(1)));
  GstBuffer *copies[] = {gst_buffer_copy(buffer), gst_buffer_copy_region(buffer, GST_BUFFER_COPY_ALL, 4096, 16),
                         writableShallow(gst_buffer_ref(buffer))};
  gst_clear_buffer(&buffer);
  for (GstBuffer *copy : copies) EXPECT_FALSE(wait(copy, kRead, 0));
  EXPECT_TRUE(timeline->advance(1).ok());
  for (GstBuffer *copy : copies) {
    EXPECT_TRUE(wait(copy, kRead, 0));
    gst_buffer_unref(copy);
  }
}

TEST_F(LabFenceMeta, PoolsCloseTheFences) {
  GError *error = nullptr;
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_UDMABUF, nullptr, &error);
  ASSERT_NE(allocator, nullptr) << error->message;
  GstBufferPool *pool = gst_zc_pool_new(allocator, 0);
  GstCaps *caps = gst_caps_from_string("video/x-raw,format=GRAY8,width=64,height=64");
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, 0, 1, 1);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  const size_t fds = openFds();
  for (uint32_t i = 1; i <= 1000; ++i) {
    GstBuffer *frame = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &frame, nullptr), GST_FLOW_OK);
    ASSERT_TRUE(add(frame, fence(i), i));
    EXPECT_TRUE(timeline->advance(1).ok());
    gst_buffer_unref(frame);
  }
  EXPECT_EQ(openFds(), fds);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(GST_ZC_POOL(pool)), 1u);
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
  gst_object_unref(allocator);
  gst_caps_unref(caps);
}

// Beginning the CPU's access would wait in the kernel for the device, and for as long as that likes.
TEST_F(LabFenceMeta, ACopyWaitsForWhoReadsTheMemoryItWritesInto) {
  GstCaps *text = gst_caps_from_string("video/x-raw,format=GRAY8,width=64,height=64");
  const FrameCaps caps = parseFrameCaps(text).take();
  gst_caps_unref(text);
  GstBuffer *from = gst_buffer_new_allocate(nullptr, 4096, nullptr);
  gst_buffer_memset(from, 0, 0x5a, 4096);
  const int fd = addDmaBuf();
  const auto reader = timeline->fence(1);
  ASSERT_TRUE(reader && importFence(fd, *reader, Access::Read));

  auto bytes = copyFrame(buffer, caps, from, caps, [] { return true; });
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ECANCELED) << bytes.error().message();
  bytes = copyFrame(buffer, caps, from, caps);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code, ETIMEDOUT) << bytes.error().message();

  ASSERT_TRUE(timeline->advance(1));
  bytes = copyFrame(buffer, caps, from, caps);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message();
  guint8 first = 0;
  gst_buffer_extract(buffer, 4095, &first, 1);
  EXPECT_EQ(first, 0x5a);
  gst_buffer_unref(from);
}

} // namespace
