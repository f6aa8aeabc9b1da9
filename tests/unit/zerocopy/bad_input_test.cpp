// SPDX-License-Identifier: LGPL-2.1-or-later
// What every public function, and the core beneath, answers to what it cannot work with: a defined error, nothing
// leaked, nothing closed that is not its own. Real dma-bufs: tests/lab/zerocopy/bad_input_test.cpp.
#include <cerrno>
#include <climits>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gst/allocators/allocators.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gst/zerocopy/core/dma_alloc.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/frame_copy.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/zerocopy.h"
#include "tests/support/criticals.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace std::chrono_literals;
using gstzc::test::Criticals;
using gstzc::test::openFds;

namespace {

UniqueFd regularFile() {
  char name[] = "/tmp/gstzc-bad-input-XXXXXX";
  UniqueFd fd(mkstemp(name));
  unlink(name);
  return fd;
}

UniqueFd memfd(off_t size) {
  UniqueFd fd(memfd_create("bad-input", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), size), 0);
  return fd;
}

// A number that was a descriptor's and is none now.
int closedFd() {
  const UniqueFd fd(eventfd(0, EFD_CLOEXEC));
  return fd.get();
}

class BadInput : public testing::Test {
protected:
  static void SetUpTestSuite() {
    // the process's poller opens its descriptors with its first wait
    UniqueFd never(eventfd(0, EFD_CLOEXEC));
    auto &poller = FencePoller::process();
    const auto id =
        poller.watch({Fence::Kind::Event, std::move(never), {}}, FencePoller::Clock::now() + 1h, [](auto &) {});
    ASSERT_TRUE(id.ok());
    poller.cancel(*id);
  }
  void SetUp() override { fds = openFds(); }
  void TearDown() override { EXPECT_EQ(openFds(), fds) << "descriptors leaked, or closed that were not ours"; }
  size_t fds = 0;
};

// ---- descriptors that are no fence ----

struct Descriptor {
  const char *name;
  std::function<UniqueFd()> open;
};

const Descriptor kNoFences[] = {
    {"a regular file", regularFile},
    {"/dev/null", [] { return UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)); }},
    {"a directory", [] { return UniqueFd(open("/", O_RDONLY | O_CLOEXEC)); }},
    {"an eventfd", [] { return UniqueFd(eventfd(0, EFD_CLOEXEC)); }},
    {"a memfd", [] { return memfd(4096); }},
};

TEST_F(BadInput, WhatIsNoSyncFileIsNoFence) {
  for (const Descriptor &row : kNoFences) {
    SCOPED_TRACE(row.name);
    const UniqueFd fd = row.open();
    ASSERT_TRUE(fd.isValid());
    GstBuffer *buffer = gst_buffer_new();
    GError *error = nullptr;
    EXPECT_EQ(gst_buffer_add_zc_fence_meta(buffer, fd.get(), 0, &error), nullptr);
    EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
    g_clear_error(&error);
    EXPECT_EQ(gst_buffer_get_zc_fence_meta(buffer), nullptr);
    EXPECT_FALSE(gst_buffer_import_zc_fence(buffer, fd.get(), GST_ZC_FENCE_ACCESS_READ, &error));
    EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
    g_clear_error(&error);
    EXPECT_LT(gst_zc_fence_fd_get_status(fd.get()), 0);
    gst_buffer_unref(buffer);

    EXPECT_EQ(SyncFile::duplicateOf(fd.get()).error().code, EINVAL);
    EXPECT_EQ(SyncFile::adopt(UniqueFd::duplicate(fd.get())).error().code, EINVAL);
    EXPECT_NE(syncFileStatus(fd.get()).error, 0);
    EXPECT_NE(fcntl(fd.get(), F_GETFD), -1) << "it is still ours";
  }
}

TEST_F(BadInput, AClosedDescriptorIsNoFence) {
  for (const int fd : {closedFd(), 1 << 20}) {
    GstBuffer *buffer = gst_buffer_new();
    GError *error = nullptr;
    EXPECT_EQ(gst_buffer_add_zc_fence_meta(buffer, fd, 0, &error), nullptr);
    ASSERT_NE(error, nullptr);
    EXPECT_NE(std::string(error->message).find("(9)"), std::string::npos) << error->message;
    g_clear_error(&error);
    EXPECT_FALSE(gst_buffer_import_zc_fence(buffer, fd, GST_ZC_FENCE_ACCESS_READ, &error));
    g_clear_error(&error);
    EXPECT_EQ(gst_zc_device_event_new_eventfd(fd, &error), nullptr);
    g_clear_error(&error);
    EXPECT_EQ(gst_zc_fence_fd_get_status(fd), -EBADF);
    gst_buffer_unref(buffer);
    EXPECT_EQ(SyncFile::duplicateOf(fd).error().code, EBADF);
    EXPECT_EQ(exportFence(fd, Access::Read).error().code, EBADF);
    EXPECT_EQ(fenceNow(Fence::Kind::Event, fd)->error, EBADF);
  }
  EXPECT_EQ(gst_zc_fence_fd_get_status(-1), -EBADF);
  EXPECT_EQ(SyncFile::adopt(UniqueFd()).error().code, EBADF);
}

TEST_F(BadInput, WhatCannotBeWaitedForIsNoEvent) {
  for (const Descriptor &row : kNoFences) {
    SCOPED_TRACE(row.name);
    UniqueFd fd = row.open();
    GError *error = nullptr;
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(fd.get(), &error);
    const bool may = std::string(row.name) == "an eventfd";
    EXPECT_EQ(event != nullptr, may);
    if (event != nullptr) {
      (void)fd.release(); // the event's now
      gst_zc_device_event_unref(event);
      continue;
    }
    EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
    g_clear_error(&error);
    EXPECT_NE(fcntl(fd.get(), F_GETFD), -1) << "it is still ours";
  }
}

TEST_F(BadInput, ThePollerRefusesWhatItCannotWaitFor) {
  FencePoller poller;
  const auto watch = [&](UniqueFd fd) {
    return poller.watch({Fence::Kind::Event, std::move(fd), {}}, FencePoller::Clock::now() + 1h,
                        [](auto &) { ADD_FAILURE() << "called"; });
  };
  EXPECT_EQ(watch(UniqueFd()).error().code, EBADF);
  EXPECT_EQ(watch(regularFile()).error().code, EPERM);
  EXPECT_EQ(watch(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC))).error().code, EPERM);
  EXPECT_EQ(poller.counters().watched, 0u);
  EXPECT_FALSE(poller.cancel(UINT64_MAX));
}

// ---- descriptors that are no dma-buf ----

TEST_F(BadInput, TheCoreSaysWhatIsNoDmaBuf) {
  for (const Descriptor &row : kNoFences) {
    SCOPED_TRACE(row.name);
    const UniqueFd fd = row.open();
    EXPECT_FALSE(isDmaBuf(fd.get()));
    EXPECT_EQ(exportFence(fd.get(), Access::Read).error().code, EINVAL);
    EXPECT_TRUE(importFence(fd.get(), SyncFile(), Access::Write).ok()) << "nothing to add";
    EXPECT_TRUE(bufferId(fd.get()).ok()) << "an inode it has";
  }
  const int closed = closedFd();
  EXPECT_FALSE(isDmaBuf(closed));
  EXPECT_EQ(bufferId(closed).error().code, EBADF);
  EXPECT_EQ(fileSize(closed).error().code, EBADF);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  EXPECT_EQ(fileSize(reader.get()).error().code, ESPIPE);
}

// A frame whose one memory is said to be a dma-buf of `size` bytes.
GstBuffer *frameOver(int fd, gsize size) {
  GstAllocator *allocator = gst_dmabuf_allocator_new();
  GstBuffer *buffer = gst_buffer_new();
  gst_buffer_append_memory(buffer,
                           gst_dmabuf_allocator_alloc_with_flags(allocator, fd, size, GST_FD_MEMORY_FLAG_DONT_CLOSE));
  gst_object_unref(allocator);
  return buffer;
}

FrameCaps capsOf(const char *text) {
  GstCaps *caps = gst_caps_from_string(text);
  auto parsed = parseFrameCaps(caps);
  gst_caps_unref(caps);
  EXPECT_TRUE(parsed.ok()) << parsed.error().message();
  return parsed.take();
}

TEST_F(BadInput, FramesOfClosedDescriptors) {
  const FrameCaps caps = capsOf("video/x-raw,format=GRAY8,width=64,height=64");
  GstBuffer *frame = frameOver(closedFd(), 4096);
  EXPECT_EQ(frameLayout(frame, caps).error().code, EBADF);
  EXPECT_EQ(frameFences(frame, Access::Read).error().code, EBADF);
  EXPECT_EQ(waitForFrame(frame, Access::Write, 10ms).error().code, EBADF);
  GError *error = nullptr;
  gint fence = 7;
  EXPECT_FALSE(gst_buffer_get_zc_ready_fence(frame, GST_ZC_FENCE_ACCESS_READ, &fence, &error));
  EXPECT_EQ(fence, -1);
  EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
  g_clear_error(&error);
  EXPECT_FALSE(gst_buffer_wait_zc_fences(frame, GST_ZC_FENCE_ACCESS_READ, GST_MSECOND, &error));
  EXPECT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_SETTINGS));
  g_clear_error(&error);
  GstBuffer *copy = gst_buffer_new_allocate(nullptr, 4096, nullptr);
  EXPECT_FALSE(copyFrame(copy, caps, frame, caps).ok());
  EXPECT_FALSE(copyFrame(frame, caps, copy, caps).ok());
  gst_buffer_unref(copy);
  gst_buffer_unref(frame);
}

TEST_F(BadInput, FramesOfOtherFiles) {
  const FrameCaps caps = capsOf("video/x-raw,format=GRAY8,width=64,height=64");
  for (const Descriptor &row : kNoFences) {
    SCOPED_TRACE(row.name);
    const UniqueFd fd = row.open();
    GstBuffer *frame = frameOver(fd.get(), 4096);
    GstBuffer *copy = gst_buffer_new_allocate(nullptr, 4096, nullptr);
    // a memfd is what stands in for a dma-buf without the devices
    const bool stands_in = std::string(row.name) == "a memfd";
    EXPECT_EQ(frameLayout(frame, caps).ok() && copyFrame(copy, caps, frame, caps).ok(), stands_in);
    gst_buffer_unref(copy);
    // nobody waits longer than allowed, whatever polling such a file says
    GError *error = nullptr;
    const bool ready = gst_buffer_wait_zc_fences(frame, GST_ZC_FENCE_ACCESS_READ, 10 * GST_MSECOND, &error);
    EXPECT_EQ(ready, error == nullptr);
    g_clear_error(&error);
    gst_buffer_unref(frame);
  }
}

TEST_F(BadInput, ATruncatedDmaBuf) {
  const FrameCaps caps = capsOf("video/x-raw,format=NV12,width=64,height=64");
  const UniqueFd fd = memfd(4096); // the luma only
  GstBuffer *frame = frameOver(fd.get(), 64 * 96);
  const auto layout = frameLayout(frame, caps);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message().find("plane 1"), std::string::npos) << layout.error().message();
  EXPECT_NE(layout.error().message().find("4096"), std::string::npos) << layout.error().message();
  GstBuffer *copy = gst_buffer_new_allocate(nullptr, 64 * 96, nullptr);
  EXPECT_FALSE(copyFrame(copy, caps, frame, caps).ok()) << "reading on would be a bus error";
  EXPECT_FALSE(copyFrame(frame, caps, copy, caps).ok());
  gst_buffer_unref(copy);
  gst_buffer_unref(frame);

  // where the memory begins counts as well
  const UniqueFd large = memfd(64 * 96);
  GstBuffer *shifted = frameOver(large.get(), 64 * 96 + 4096);
  gst_buffer_resize(shifted, 4096, 64 * 96);
  EXPECT_FALSE(frameLayout(shifted, caps).ok());
  gst_buffer_unref(shifted);
}

// ---- layouts ----

struct Layout {
  const char *name, *caps;
  gsize size; // of the buffer
  guint n_planes;
  gsize offset[4];
  gint stride[4];
  const char *says;
};

const Layout kBadLayouts[] = {
    {"size smaller than stride x rows", "GRAY8,width=64,height=64", 64 * 63, 1, {0}, {64}, "4096"},
    {"the last row one byte short", "GRAY8,width=64,height=64", 128 * 63 + 63, 1, {0}, {128}, "8128"},
    {"a stride below the row", "BGRx,width=64,height=64", 64 * 64 * 4, 1, {0}, {255}, "stride of 255"},
    {"no stride", "GRAY8,width=64,height=64", 4096, 1, {0}, {0}, "stride of 0"},
    {"a negative stride", "GRAY8,width=64,height=64", 4096, 1, {0}, {-64}, "stride of -64"},
    {"rows that add up past 32 bits", "GRAY8,width=64,height=64", 4096, 1, {0}, {INT_MAX}, "135291469825"},
    {"rows that add up to little in 32 bits", "GRAY8,width=64,height=17", 4096, 1, {0}, {1 << 28}, "4294967360"},
    {"an offset past the end", "GRAY8,width=64,height=64", 4096, 1, {4096}, {64}, "byte 4096"},
    {"an offset past everything", "GRAY8,width=64,height=64", 4096, 1, {SIZE_MAX}, {64}, "18446744073709551615"},
    {"the chroma past the end", "NV12,width=64,height=64", 64 * 96, 2, {0, 64 * 65}, {64, 64}, "plane 1"},
    {"no plane", "GRAY8,width=64,height=64", 4096, 0, {}, {}, "plane layout"},
    {"five planes", "GRAY8,width=64,height=64", 4096, 5, {}, {64, 64, 64, 64}, "5 planes"},
    {"any number of planes", "GRAY8,width=64,height=64", 4096, UINT_MAX, {}, {64, 64, 64, 64}, "planes"},
};

TEST_F(BadInput, LayoutsThatFitNothing) {
  for (const Layout &row : kBadLayouts) {
    SCOPED_TRACE(row.name);
    const FrameCaps caps = capsOf((std::string("video/x-raw,format=") + row.caps).c_str());
    GstBuffer *frame = gst_buffer_new_allocate(nullptr, row.size, nullptr);
    GstVideoMeta *meta = gst_buffer_add_video_meta(frame, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&caps.info),
                                                   static_cast<guint>(caps.width()), static_cast<guint>(caps.height()));
    meta->n_planes = row.n_planes;
    for (guint p = 0; p < GST_VIDEO_MAX_PLANES; ++p) {
      meta->offset[p] = row.offset[p];
      meta->stride[p] = row.stride[p];
    }
    const auto layout = frameLayout(frame, caps);
    ASSERT_FALSE(layout.ok());
    EXPECT_NE(layout.error().message().find(row.says), std::string::npos) << layout.error().message();
    GstBuffer *copy = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&caps.info), nullptr);
    EXPECT_FALSE(copyFrame(copy, caps, frame, caps).ok());
    EXPECT_FALSE(copyFrame(frame, caps, copy, caps).ok());
    gst_buffer_unref(copy);
    gst_buffer_unref(frame);
  }
}

TEST_F(BadInput, FramesWithoutPixelsOrMemory) {
  FrameCaps caps = capsOf("video/x-raw,format=GRAY8,width=64,height=64");
  GstBuffer *empty = gst_buffer_new();
  EXPECT_FALSE(frameLayout(empty, caps).ok());
  EXPECT_TRUE(frameFences(empty, Access::Read)->none());
  GError *error = nullptr;
  EXPECT_TRUE(gst_buffer_wait_zc_fences(empty, GST_ZC_FENCE_ACCESS_WRITE, 0, &error)) << "nothing to wait for";
  gst_buffer_unref(empty);

  // caps that were not parsed here
  GstBuffer *frame = gst_buffer_new_allocate(nullptr, 4096, nullptr);
  for (const int side : {0, -1, INT_MIN}) {
    GST_VIDEO_INFO_HEIGHT(&caps.info) = side;
    EXPECT_FALSE(frameLayout(frame, caps).ok()) << side;
    GST_VIDEO_INFO_HEIGHT(&caps.info) = 64;
    GST_VIDEO_INFO_WIDTH(&caps.info) = side;
    EXPECT_FALSE(frameLayout(frame, caps).ok()) << side;
    GST_VIDEO_INFO_WIDTH(&caps.info) = 64;
  }
  EXPECT_TRUE(frameLayout(frame, caps).ok());
  gst_buffer_unref(frame);
}

// ---- caps ----

TEST_F(BadInput, Caps) {
  EXPECT_FALSE(parseFrameCaps(nullptr).ok());
  GstCaps *any = gst_caps_new_any(), *none = gst_caps_new_empty();
  EXPECT_FALSE(parseFrameCaps(any).ok());
  EXPECT_FALSE(parseFrameCaps(none).ok());
  gst_caps_unref(any);
  gst_caps_unref(none);
#define DRM "video/x-raw(memory:DMABuf),format=DMA_DRM,width=64,height=48,drm-format="
  for (const char *text : {
           DRM "NV12:0x00ffffffffffffff", // INVALID: the layout is whatever the driver thinks
           DRM "NV12:0x0",
           DRM "NV12:",
           DRM "NV12:12",
           DRM "R8",
           DRM "N",
           "video/x-raw(memory:DMABuf),format=DMA_DRM,width=64,height=48", // no drm-format
           "video/x-raw,format=DMA_DRM,drm-format=NV12,width=64,height=48",
           "video/x-raw,format=NO_SUCH,width=64,height=48",
           "video/x-raw,format=NV12",
           "video/x-raw,format={NV12,I420},width=64,height=48",
           "video/x-raw,format=ARGB64,width=2147483647,height=1",
           "video/x-raw,format=GRAY8,width=65536,height=65536",
           "video/x-raw,format=GRAY8,width=-64,height=48",
       }) {
    GstCaps *caps = gst_caps_from_string(text);
    ASSERT_NE(caps, nullptr) << text;
    const auto parsed = parseFrameCaps(caps);
    EXPECT_FALSE(parsed.ok()) << text;
    gst_caps_unref(caps);
  }
#undef DRM
}

TEST_F(BadInput, AFourccThatNobodyKnowsHasNoLayoutOfItsOwn) {
  const FrameCaps caps = capsOf("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=ZZZZ,width=64,height=48");
  GstBuffer *frame = gst_buffer_new_allocate(nullptr, 64 * 48 * 4, nullptr);
  const auto layout = frameLayout(frame, caps);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.error().message().find("GstVideoMeta"), std::string::npos) << layout.error().message();
  gst_buffer_unref(frame);
  EXPECT_EQ(drmFormatName(GST_VIDEO_FORMAT_UNKNOWN), nullptr);
  EXPECT_EQ(drmFormatName(static_cast<GstVideoFormat>(-1)), nullptr);
  EXPECT_EQ(drmFormatName(static_cast<GstVideoFormat>(INT_MAX)), nullptr);
}

// ---- allocator and pool ----

TEST_F(BadInput, Allocations) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  auto *zc = GST_ZC_ALLOCATOR(allocator);
  const gsize sizes[] = {0, SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 4};
  for (const gsize size : sizes) {
    GError *error = nullptr;
    EXPECT_EQ(gst_zc_allocator_try_alloc(zc, size, nullptr, &error), nullptr) << size;
    ASSERT_NE(error, nullptr) << size;
    g_clear_error(&error);
    EXPECT_EQ(gst_zc_allocator_try_alloc(zc, size, nullptr, nullptr), nullptr) << "nobody asks why";
  }
  const struct {
    gsize align, prefix, padding;
  } params[] = {{4095 + 4096, 0, 0}, {5, 0, 0},        {SIZE_MAX, 0, 0},       {0, SIZE_MAX, 0},
                {15, SIZE_MAX, 0},   {0, 0, SIZE_MAX}, {15, SIZE_MAX - 20, 20}};
  for (const auto &row : params) {
    GstAllocationParams p;
    gst_allocation_params_init(&p);
    p.align = row.align;
    p.prefix = row.prefix;
    p.padding = row.padding;
    GError *error = nullptr;
    EXPECT_EQ(gst_zc_allocator_try_alloc(zc, 64, &p, &error), nullptr) << row.align << " " << row.prefix;
    ASSERT_NE(error, nullptr);
    g_clear_error(&error);
  }
  gst_object_unref(allocator);

  for (const char *heap : {"", ".", "..", "../../dev/null", "a/b", "no-such-heap"}) {
    GError *error = nullptr;
    EXPECT_EQ(gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_DMA_HEAP, heap, &error), nullptr) << heap;
    ASSERT_NE(error, nullptr) << heap;
    g_clear_error(&error);
  }
}

TEST_F(BadInput, NodesThatAreNoDevices) {
  DmaNodes nodes;
  nodes.udmabuf = "/dev/null";
  nodes.heaps = "/dev";
  const auto udmabuf = DmaAllocator::open(DmaSource::Udmabuf, "", MemoryNeed::Any, nodes);
  ASSERT_TRUE(udmabuf.ok());
  EXPECT_EQ(udmabuf->alloc(4096).error().code, ENOTTY);
  const auto heap = DmaAllocator::open(DmaSource::DmaHeap, "null", MemoryNeed::Any, nodes);
  ASSERT_TRUE(heap.ok());
  EXPECT_EQ(heap->alloc(4096).error().code, ENOTTY);
  EXPECT_EQ(heap->alloc(size_t{1} << 46).error().code, ENOMEM) << "more than any machine has: the heap would try";
  nodes.udmabuf = "/proc/self/no-such-node";
  EXPECT_EQ(DmaAllocator::open(DmaSource::Udmabuf, "", MemoryNeed::Any, nodes).error().code, ENOENT);
}

TEST_F(BadInput, PoolConfigurations) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  GstBufferPool *pool = gst_zc_pool_new(allocator, 0);
  const auto configure = [&](const char *text, const GstVideoAlignment *alignment, guint size = 0) {
    GstCaps *caps = text != nullptr ? gst_caps_from_string(text) : nullptr;
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, size, 0, 0);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (alignment != nullptr) {
      gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
      gst_buffer_pool_config_set_video_alignment(config, alignment);
    }
    gst_clear_caps(&caps);
    return gst_buffer_pool_set_config(pool, config);
  };
  const char *good = "video/x-raw,format=NV12,width=640,height=480";
  EXPECT_FALSE(configure(nullptr, nullptr));
  EXPECT_FALSE(configure("video/x-raw,format=NV12", nullptr)) << "not fixed";
  EXPECT_FALSE(configure("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=ZZZZ,width=64,height=64", nullptr));
  EXPECT_FALSE(configure("video/x-raw,format=ARGB64,width=32767,height=32767", nullptr)) << "8 GiB: no 32 bits";
  EXPECT_FALSE(configure("video/x-raw,format=GRAY8,width=65536,height=65536", nullptr)) << "0 bytes in 32 bits";
  EXPECT_FALSE(configure(good, nullptr, 640 * 480)) << "the luma only";

  // what wraps round in 32 bits is not small
  GstVideoAlignment alignment;
  guint *const sides[] = {&alignment.padding_top, &alignment.padding_bottom, &alignment.padding_left,
                          &alignment.padding_right};
  for (guint *side : sides) {
    for (const guint padding : {UINT_MAX, UINT_MAX - 639, UINT_MAX / 2, 1u << 31, 1u << 16}) {
      gst_video_alignment_reset(&alignment);
      *side = padding;
      EXPECT_FALSE(configure(good, &alignment)) << padding;
    }
  }
  for (const guint mask : {UINT_MAX, UINT_MAX / 2}) {
    gst_video_alignment_reset(&alignment);
    alignment.stride_align[0] = alignment.stride_align[1] = mask;
    EXPECT_FALSE(configure(good, &alignment)) << mask;
  }
  gst_video_alignment_reset(&alignment);
  EXPECT_TRUE(configure(good, &alignment)) << "the pool is as good as new";
  gst_object_unref(pool);
  gst_object_unref(allocator);
}

// ---- misuse: bugs of the caller, which GLib's criticals name ----

TEST_F(BadInput, MisuseIsACritical) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  GstBufferPool *pool = gst_zc_pool_new(allocator, 0);
  GstBuffer *buffer = gst_buffer_new();
  GstBuffer *shared = gst_buffer_new();
  gst_buffer_ref(shared);
  GstQuery *latency = gst_query_new_latency(), *allocation = gst_query_new_allocation(nullptr, FALSE);
  GstMemory *foreign = gst_allocator_alloc(nullptr, 16, nullptr);
  GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd(eventfd(0, EFD_CLOEXEC)).release(), nullptr);
  GError *error = nullptr, *set = g_error_new_literal(GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_FAILED, "before");
  gint fd;
  const auto bad_access = static_cast<GstZcFenceAccess>(4), no_access = static_cast<GstZcFenceAccess>(0);
  const auto no_need = static_cast<GstZcMemoryNeed>(99);
  const GstZcDeviceEventFuncs no_funcs = {},
                              no_fd = {"kind", [](gpointer) { return 1; }, nullptr, nullptr, nullptr, {}};
  auto *const not_an_allocator = reinterpret_cast<GstZcAllocator *>(pool);
  auto *const not_a_pool = reinterpret_cast<GstZcPool *>(allocator);
  constexpr auto kRead = GST_ZC_FENCE_ACCESS_READ;

  const struct {
    const char *name;
    std::function<bool()> call; // true: it returned what it returns when it did nothing
  } rows[] = {
      {"allocator, no source",
       [&] { return gst_zc_allocator_new(static_cast<GstZcMemorySource>(77), nullptr, &error) == nullptr; }},
      {"allocator, no need",
       [&] { return gst_zc_allocator_new_full(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, no_need, &error) == nullptr; }},
      {"need, none of the two",
       [&] {
         gst_query_add_zc_memory_need(allocation, no_need, nullptr);
         return gst_query_get_n_allocation_metas(allocation) == 0;
       }},
      {"add fence, no buffer", [&] { return gst_buffer_add_zc_fence_meta(nullptr, -1, 0, &error) == nullptr; }},
      {"add fence, shared", [&] { return gst_buffer_add_zc_fence_meta(shared, -1, 0, &error) == nullptr; }},
      {"add fence, -2", [&] { return gst_buffer_add_zc_fence_meta(buffer, -2, 0, &error) == nullptr; }},
      {"add fence, error set", [&] { return gst_buffer_add_zc_fence_meta(buffer, -1, 0, &set) == nullptr; }},
      {"add event, no buffer", [&] { return gst_buffer_add_zc_event_meta(nullptr, event, 0) == nullptr; }},
      {"add event, shared", [&] { return gst_buffer_add_zc_event_meta(shared, event, 0) == nullptr; }},
      {"add event, none", [&] { return gst_buffer_add_zc_event_meta(buffer, nullptr, 0) == nullptr; }},
      {"get meta", [&] { return gst_buffer_get_zc_fence_meta(nullptr) == nullptr; }},
      {"dup fd", [&] { return gst_zc_fence_meta_dup_fd(nullptr) == -1; }},
      {"get event", [&] { return gst_zc_fence_meta_get_event(nullptr) == nullptr; }},
      {"get sequence", [&] { return gst_zc_fence_meta_get_sequence(nullptr) == 0; }},
      {"ready, no buffer", [&] { return !gst_buffer_get_zc_ready_fence(nullptr, kRead, &fd, &error) && fd == -1; }},
      {"ready, no fd", [&] { return !gst_buffer_get_zc_ready_fence(buffer, kRead, nullptr, &error); }},
      {"ready, access 4", [&] { return !gst_buffer_get_zc_ready_fence(buffer, bad_access, &fd, &error); }},
      {"ready, access 0", [&] { return !gst_buffer_get_zc_ready_fence(buffer, no_access, &fd, &error); }},
      {"wait, no buffer", [&] { return !gst_buffer_wait_zc_fences(nullptr, kRead, 0, &error); }},
      {"wait, for ever", [&] { return !gst_buffer_wait_zc_fences(buffer, kRead, GST_CLOCK_TIME_NONE, &error); }},
      {"wait, access 4", [&] { return !gst_buffer_wait_zc_fences(buffer, bad_access, 0, &error); }},
      {"import, no buffer", [&] { return !gst_buffer_import_zc_fence(nullptr, -1, kRead, &error); }},
      {"import, access 0", [&] { return !gst_buffer_import_zc_fence(buffer, -1, no_access, &error); }},
      {"event, no functions", [&] { return gst_zc_device_event_new(nullptr, nullptr) == nullptr; }},
      {"event, empty functions", [&] { return gst_zc_device_event_new(&no_funcs, nullptr) == nullptr; }},
      {"event, no make_fd", [&] { return gst_zc_device_event_new(&no_fd, nullptr) == nullptr; }},
      {"event ref", [&] { return gst_zc_device_event_ref(nullptr) == nullptr; }},
      {"event unref", [&] { return gst_zc_device_event_unref(nullptr), true; }},
      {"event kind", [&] { return gst_zc_device_event_get_kind(nullptr) == nullptr; }},
      {"event status", [&] { return gst_zc_device_event_get_status(nullptr) == -EINVAL; }},
      {"event native", [&] { return gst_zc_device_event_get_native(nullptr) == nullptr; }},
      {"event fd", [&] { return gst_zc_device_event_make_fd(nullptr) == -EINVAL; }},
      {"allocator source", [&] { return gst_zc_allocator_get_source(nullptr) == GST_ZC_MEMORY_SOURCE_AUTO; }},
      {"allocator source, a pool",
       [&] { return gst_zc_allocator_get_source(not_an_allocator) == GST_ZC_MEMORY_SOURCE_AUTO; }},
      {"try alloc", [&] { return gst_zc_allocator_try_alloc(nullptr, 1, nullptr, &error) == nullptr; }},
      {"try alloc, a pool",
       [&] { return gst_zc_allocator_try_alloc(not_an_allocator, 1, nullptr, &error) == nullptr; }},
      {"is memory", [&] { return !gst_is_zc_memory(nullptr); }},
      {"memory source", [&] { return gst_zc_memory_get_source(foreign) == GST_ZC_MEMORY_SOURCE_AUTO; }},
      {"memory traits", [&] { return gst_zc_memory_get_traits(nullptr) == 0; }},
      {"memory memfd", [&] { return gst_zc_memory_get_memfd(foreign, nullptr) == -1; }},
      {"pool, no allocator", [&] { return gst_zc_pool_new(nullptr, 0) == nullptr; }},
      {"pool, stride of 3", [&] { return gst_zc_pool_new(allocator, 3) == nullptr; }},
      {"pool alignment", [&] { return gst_zc_pool_set_alignment(nullptr, nullptr), true; }},
      {"pool alignment, none", [&] { return gst_zc_pool_set_alignment(GST_ZC_POOL(pool), nullptr), true; }},
      {"pool allocated", [&] { return gst_zc_pool_get_n_allocated(not_a_pool) == 0; }},
      {"pool timeout", [&] { return gst_zc_pool_set_fence_timeout(not_a_pool, 0), true; }},
      {"pool delayed", [&] { return gst_zc_pool_get_n_delayed(not_a_pool) == 0; }},
      {"pool discarded", [&] { return gst_zc_pool_get_n_discarded(nullptr) == 0; }},
      {"pool held", [&] { return gst_zc_pool_get_n_held(nullptr) == 0; }},
      {"allocator need", [&] { return gst_zc_allocator_get_need(not_an_allocator) == GST_ZC_MEMORY_NEED_ANY; }},
      {"memory node", [&] { return gst_zc_memory_get_numa_node(foreign) == -1; }},
      {"add need, no query",
       [&] { return gst_query_add_zc_memory_need(nullptr, GST_ZC_MEMORY_NEED_CONTIGUOUS, "me"), true; }},
      {"add need, another query",
       [&] { return gst_query_add_zc_memory_need(latency, GST_ZC_MEMORY_NEED_CONTIGUOUS, "me"), true; }},
      {"parse need", [&] { return gst_query_parse_zc_memory_need(latency, nullptr) == GST_ZC_MEMORY_NEED_ANY; }},
      {"pool error", [&] { return gst_zc_pool_dup_last_error(nullptr) == nullptr; }},
  };
  for (const auto &row : rows) {
    Criticals criticals;
    EXPECT_TRUE(row.call()) << row.name;
    EXPECT_GE(criticals.count(), 1) << row.name;
    EXPECT_EQ(error, nullptr) << row.name << ": a bug is no error to handle";
  }

  g_error_free(set);
  gst_zc_device_event_unref(event);
  gst_query_unref(latency);
  gst_query_unref(allocation);
  gst_memory_unref(foreign);
  gst_buffer_unref(shared);
  gst_buffer_unref(shared);
  gst_buffer_unref(buffer);
  gst_object_unref(pool);
  gst_object_unref(allocator);
}

TEST_F(BadInput, WhatIsNoDmaBufTakesNoFence) {
  // there is no sync_file on the host to try with, so that of a fence that does not exist is asked for first
  const UniqueFd fd = memfd(4096);
  GstBuffer *frame = frameOver(fd.get(), 4096);
  GError *error = nullptr;
  EXPECT_FALSE(gst_buffer_import_zc_fence(frame, -1, GST_ZC_FENCE_ACCESS_WRITE, &error));
  ASSERT_NE(error, nullptr);
  EXPECT_NE(std::string(error->message).find("(9)"), std::string::npos) << error->message;
  g_clear_error(&error);
  gst_buffer_unref(frame);
}

} // namespace
