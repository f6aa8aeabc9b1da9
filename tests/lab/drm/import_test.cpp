// SPDX-License-Identifier: LGPL-2.1-or-later
// Framebuffers of vkms made of dma-bufs that come round again: how many there are, and when they go.
#include <map>
#include <set>
#include <vector>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gtest/gtest.h>

#include "gst/drm/framebuffer.h"
#include "gst/drm/device/libdrm_device.h"
#include "gst/zerocopy/core/mapping.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcpool.h"
#include "gst/zerocopy/memory_tracking.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::lab;
using gstzc::test::openFds;

namespace {

constexpr guint kBuffers = 8;

class FramebufferImports : public testing::Test {
protected:
  void SetUp() override {
    auto path = cardPath("vkms");
    ASSERT_TRUE(path) << path.error().message();
    path_ = *path;
    auto opened = LibdrmDevice::openPath(path_);
    ASSERT_TRUE(opened) << opened.error().message();
    device_ = opened.take();
    importer_ = std::make_unique<FramebufferImporter>(device_, true);
    before_ = framebuffersOf(path_);
    ASSERT_GE(before_, 0) << "debugfs";
    GstCaps *caps =
        gst_caps_from_string("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=48");
    caps_ = *parseFrameCaps(caps);
    gst_caps_unref(caps);
    allocator_ = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_UDMABUF, nullptr, nullptr);
    ASSERT_NE(allocator_, nullptr);
  }
  void TearDown() override {
    importer_.reset();
    EXPECT_EQ(framebuffersOf(path_), before_) << "none is left";
    gst_clear_object(&allocator_);
  }

  int framebuffers() const { return framebuffersOf(path_) - before_; }

  GstBufferPool *pool() const {
    GstBufferPool *pool = gst_zc_pool_new(allocator_, 0);
    GstCaps *caps = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=48");
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, 0, kBuffers, kBuffers);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    EXPECT_TRUE(gst_buffer_pool_set_config(pool, config));
    EXPECT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
    gst_caps_unref(caps);
    return pool;
  }
  static void free(GstBufferPool *pool) {
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
  }
  static GstBuffer *acquire(GstBufferPool *pool) {
    GstBuffer *buffer = nullptr;
    EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    return buffer;
  }

  // As the sink does it. 0: an error, which fails the test.
  uint32_t import(GstBuffer *buffer) {
    auto layout = frameLayout(buffer, caps_);
    EXPECT_TRUE(layout) << layout.error().message();
    FramebufferImporter::Source source;
    source.key.n_planes = layout->n_planes;
    source.key.fourcc = caps_.fourcc;
    source.key.width = 64;
    source.key.height = 48;
    for (guint p = 0; p < layout->n_planes; ++p) {
      const PlaneLayout &plane = layout->planes[p];
      source.key.buffers[p] = *trackMemory(gst_buffer_peek_memory(buffer, plane.memory));
      source.key.offsets[p] = plane.offset;
      source.key.pitches[p] = static_cast<uint32_t>(plane.stride);
      source.fds[p] = plane.fd;
    }
    auto made = importer_->import(source);
    EXPECT_TRUE(made) << made.error().message();
    return made ? (*made)->id() : 0;
  }

  std::string path_;
  std::shared_ptr<KmsDevice> device_;
  std::unique_ptr<FramebufferImporter> importer_;
  int before_ = 0;
  FrameCaps caps_;
  GstAllocator *allocator_ = nullptr;
};

TEST_F(FramebufferImports, HundredThousandFramesOverEightBuffers) {
  GstBufferPool *frames = pool();
  std::set<uint32_t> ids;
  size_t descriptors = 0;
  for (int i = 0; i < 100000; ++i) {
    GstBuffer *buffer = acquire(frames);
    ids.insert(import(buffer));
    gst_buffer_unref(buffer);
    if (i == 100) descriptors = openFds();
    ASSERT_FALSE(HasFailure()) << i;
  }
  EXPECT_EQ(ids.size(), kBuffers);
  EXPECT_EQ(importer_->imports(), kBuffers);
  EXPECT_EQ(importer_->hits(), 100000u - kBuffers);
  EXPECT_EQ(framebuffers(), static_cast<int>(kBuffers));
  EXPECT_EQ(openFds(), descriptors);
  EXPECT_EQ(gst_zc_pool_get_n_allocated(GST_ZC_POOL(frames)), kBuffers);
  free(frames);
}

// Producers that know dma-bufs but no GstMemory of their own: another descriptor and another memory each time.
TEST_F(FramebufferImports, ANewMemoryEveryFrame) {
  GstBufferPool *frames = pool();
  GstAllocator *wrapper = gst_dmabuf_allocator_new();
  size_t descriptors = 0;
  for (int i = 0; i < 10000; ++i) {
    GstBuffer *buffer = acquire(frames);
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    GstBuffer *wrapped = gst_buffer_new();
    gst_buffer_append_memory(
        wrapped, gst_dmabuf_allocator_alloc(wrapper, UniqueFd::duplicate(gst_dmabuf_memory_get_fd(memory)).release(),
                                            memory->maxsize));
    const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
    gst_buffer_add_video_meta_full(wrapped, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 48, 2, meta->offset,
                                   meta->stride);
    import(wrapped);
    gst_buffer_unref(wrapped);
    gst_buffer_unref(buffer);
    if (i == 100) descriptors = openFds();
    ASSERT_FALSE(HasFailure()) << i;
  }
  EXPECT_EQ(importer_->imports(), kBuffers);
  EXPECT_EQ(framebuffers(), static_cast<int>(kBuffers));
  EXPECT_EQ(openFds(), descriptors);
  gst_object_unref(wrapper);
  free(frames);
}

TEST_F(FramebufferImports, OfAnotherPoolReplaceThoseOfTheFirst) {
  GstBufferPool *first = pool(), *second = pool();
  for (guint i = 0; i < kBuffers; ++i) {
    GstBuffer *buffer = acquire(first);
    import(buffer);
    gst_buffer_unref(buffer);
  }
  EXPECT_EQ(framebuffers(), static_cast<int>(kBuffers));
  free(first);
  for (int i = 0; i < 100; ++i) {
    GstBuffer *buffer = acquire(second);
    import(buffer);
    gst_buffer_unref(buffer);
  }
  EXPECT_EQ(importer_->imports(), 2 * kBuffers);
  EXPECT_EQ(importer_->counters().expired, kBuffers);
  EXPECT_EQ(framebuffers(), static_cast<int>(kBuffers)) << "the first pool's are gone";
  free(second);
}

TEST_F(FramebufferImports, OneInUseOutlivesPoolAndCache) {
  GstBufferPool *frames = pool();
  GstBuffer *buffer = acquire(frames);
  const uint32_t id = import(buffer);
  free(frames); // the producer is gone, the frame is still here
  EXPECT_EQ(import(buffer), id);
  gst_buffer_unref(buffer);
  EXPECT_EQ(framebuffers(), 1) << "until the lookups have passed";
  importer_->clear();
  EXPECT_EQ(framebuffers(), 0);
}

// A real dma-buf: the mapping is one, the access is bracketed by its ioctls.
TEST_F(FramebufferImports, AMappingOfAUdmabuf) {
  GstBufferPool *frames = pool();
  GstBuffer *buffer = acquire(frames);
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  gst_buffer_memset(buffer, 0, 77, static_cast<gsize>(-1));
  const int fd = gst_dmabuf_memory_get_fd(memory);
  ASSERT_TRUE(isDmaBuf(fd));
  auto mappings = MappingCache::process();
  auto mapping = mappings->map(fd, *trackMemory(memory));
  ASSERT_TRUE(mapping) << mapping.error().message();
  EXPECT_EQ((*mapping)->size(), memory->maxsize);
  {
    DmaBufCpuScope scope(fd, Access::Read);
    EXPECT_TRUE(scope.ok());
    EXPECT_EQ((*mapping)->data()[memory->size - 1], 77);
  }
  EXPECT_EQ(*mappings->map(fd, *bufferId(fd)), *mapping);
  EXPECT_EQ(mappings->counters().imports, 1u);
  gst_buffer_unref(buffer);
  free(frames);
}

} // namespace
