// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/gstzcpool.h"

#include <string>

#include <gst/allocators/allocators.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"

using namespace gstzc;

namespace {

constexpr guint kDefaultAlign = 0;

class Pool : public testing::Test {
protected:
  void SetUp() override {
    allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
    make(kDefaultAlign);
  }
  void TearDown() override {
    gst_buffer_pool_set_active(pool, FALSE);
    gst_clear_object(&pool);
    gst_clear_object(&allocator);
  }
  void make(guint align) {
    gst_clear_object(&pool);
    pool = gst_zc_pool_new(allocator, align);
  }
  // false: the configuration was refused
  bool configure(const char *text, bool with_meta, const GstVideoAlignment *alignment = nullptr, guint size = 0) {
    GstCaps *caps = gst_caps_from_string(text);
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, size, 0, 0);
    if (with_meta) gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (alignment != nullptr) {
      gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_ALIGNMENT);
      gst_buffer_pool_config_set_video_alignment(config, alignment);
    }
    const bool ok = gst_buffer_pool_set_config(pool, config);
    auto parsed = parseFrameCaps(caps);
    if (parsed) frame = *parsed;
    gst_caps_unref(caps);
    return ok;
  }
  GstBuffer *acquire() {
    GstBuffer *buffer = nullptr;
    gst_buffer_pool_set_active(pool, TRUE);
    EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    return buffer;
  }

  GstAllocator *allocator = nullptr;
  GstBufferPool *pool = nullptr;
  FrameCaps frame;
};

struct Notation {
  const char *caps;
  gint stride0, stride1;
};

class PoolNotations : public Pool, public testing::WithParamInterface<Notation> {};

TEST_P(PoolNotations, AlignedStridesOneDmaBufTrueMeta) {
  ASSERT_TRUE(configure(GetParam().caps, true));
  GstBuffer *buffer = acquire();
  ASSERT_NE(buffer, nullptr);
  EXPECT_EQ(gst_buffer_n_memory(buffer), 1u);
  const auto layout = frameLayout(buffer, frame);
  ASSERT_TRUE(layout.ok()) << layout.error().message();
  EXPECT_TRUE(layout->allDmaBuf());
  EXPECT_EQ(layout->planes[0].stride, GetParam().stride0);
  if (GetParam().stride1 != 0) {
    EXPECT_EQ(layout->planes[1].stride, GetParam().stride1);
  }
  EXPECT_EQ(gst_buffer_get_video_meta(buffer)->format, GST_VIDEO_INFO_FORMAT(&frame.info));
  gst_buffer_unref(buffer);
}

INSTANTIATE_TEST_SUITE_P(
    All, PoolNotations,
    testing::Values(Notation{"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=1921,height=1079", 2048,
                             2048},
                    Notation{"video/x-raw(memory:DMABuf),format=NV12,width=640,height=480", 768, 768},
                    Notation{"video/x-raw,format=BGRx,width=641,height=481", 2816, 0},
                    // the chroma of planar formats is aligned to half, else the luma would need twice its width
                    Notation{"video/x-raw,format=I420,width=640,height=480", 768, 384},
                    Notation{"video/x-raw,format=RGB,width=641,height=481", 2304, 0},
                    Notation{"video/x-raw,format=Y444,width=640,height=480", 768, 768},
                    Notation{"video/x-raw,format=GRAY8,width=1,height=1", 256, 0}));

TEST_F(Pool, WithoutVideoMetaTheDefaultLayout) {
  ASSERT_TRUE(configure("video/x-raw,format=NV12,width=641,height=481", false));
  GstBuffer *buffer = acquire();
  const auto layout = frameLayout(buffer, frame);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->planes[0].stride, 644) << "a user that knows no GstVideoMeta writes default strides";
  EXPECT_EQ(gst_buffer_get_size(buffer), GST_VIDEO_INFO_SIZE(&frame.info));
  EXPECT_NE(gst_buffer_get_video_meta(buffer), nullptr);
  gst_buffer_unref(buffer);
}

TEST_F(Pool, StrideAlignIsTheMakersChoice) {
  make(64);
  ASSERT_TRUE(configure("video/x-raw,format=BGRx,width=641,height=481", true));
  GstBuffer *buffer = acquire();
  EXPECT_EQ(gst_buffer_get_video_meta(buffer)->stride[0], 2624);
  gst_buffer_unref(buffer);
}

TEST_F(Pool, PaddingOfTheUserAndOfOthersBothHold) {
  GstVideoAlignment least;
  gst_video_alignment_reset(&least);
  least.padding_bottom = 9;
  gst_zc_pool_set_alignment(GST_ZC_POOL(pool), &least);
  GstVideoAlignment user;
  gst_video_alignment_reset(&user);
  user.padding_top = 2;
  user.padding_left = 16;
  user.stride_align[0] = user.stride_align[1] = 1023;
  ASSERT_TRUE(configure("video/x-raw,format=NV12,width=640,height=480", true, &user));
  GstBuffer *buffer = acquire();
  const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
  const gsize stride = static_cast<gsize>(meta->stride[0]);
  EXPECT_EQ(stride % 1024, 0u);
  EXPECT_GE(stride, 640u + 16);
  EXPECT_GE(meta->offset[0], 2 * stride + 16);
  EXPECT_EQ(meta->offset[0] % 1024, 0u) << "the first pixel is aligned, too";
  EXPECT_GE(meta->offset[1] - meta->offset[0], stride * (480 + 9));
  EXPECT_EQ(meta->alignment.padding_top, 2u);
  EXPECT_TRUE(frameLayout(buffer, frame).ok());
  gst_buffer_unref(buffer);
}

TEST_F(Pool, RefusesWhatItCannotLayOut) {
  EXPECT_FALSE(configure(
      "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=640,height=480", true));
  EXPECT_FALSE(configure("video/x-raw,format=NV12_4L4,width=640,height=480", true)) << "tiled without a modifier";
  EXPECT_FALSE(configure("video/x-raw,format=NV12,width=0,height=480", true));
  EXPECT_FALSE(configure("video/x-raw,format=NV12,width=640,height=480", true, nullptr, 100)) << "size too small";
  EXPECT_FALSE(configure("audio/x-raw,format=S16LE,rate=8000,channels=1,layout=interleaved", true));
}

TEST_F(Pool, RecyclesBuffersWithTheirMeta) {
  ASSERT_TRUE(configure("video/x-raw,format=NV12,width=64,height=48", true));
  for (int i = 0; i < 50; ++i) {
    GstBuffer *a = acquire(), *b = acquire();
    ASSERT_NE(gst_buffer_get_video_meta(a), nullptr) << i;
    gst_buffer_unref(a);
    gst_buffer_unref(b);
  }
  EXPECT_EQ(gst_zc_pool_get_n_allocated(GST_ZC_POOL(pool)), 2u);
}

TEST_F(Pool, SaysWhyAnAllocationFailed) {
  EXPECT_EQ(gst_zc_pool_dup_last_error(GST_ZC_POOL(pool)), nullptr);
  ASSERT_TRUE(configure("video/x-raw,format=GRAY8,width=64,height=48", true));
  GstStructure *config = gst_buffer_pool_get_config(pool);
  GstAllocationParams params;
  gst_allocation_params_init(&params);
  params.align = (1 << 20) - 1; // beyond a page
  gst_buffer_pool_config_set_allocator(config, nullptr, &params);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  GstBuffer *buffer = nullptr;
  EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_ERROR);
  gchar *why = gst_zc_pool_dup_last_error(GST_ZC_POOL(pool));
  ASSERT_NE(why, nullptr);
  EXPECT_NE(std::string(why).find("alignment"), std::string::npos) << why;
  g_free(why);
}

} // namespace
