// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufupload: whose memory, for how long, and what it says when there is none.
#include "tests/elements/upload/upload_pipeline.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include <unistd.h>

#include <gst/video/video.h>

#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcpool.h"
#include "tests/support/open_fds.h"
#include "tests/support/scale.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr const char *kNv12 = "video/x-raw,format=NV12,width=64,height=48,framerate=25/1";

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

bool hostHasDevices() { return access("/dev/udmabuf", F_OK) == 0 || access("/dev/dma_heap/system", F_OK) == 0; }

struct Unref {
  void operator()(gpointer object) const { gst_object_unref(object); }
};
using AllocatorPtr = std::unique_ptr<GstAllocator, Unref>;
using PoolPtr = std::unique_ptr<GstBufferPool, Unref>;

AllocatorPtr memfdAllocator() {
  return AllocatorPtr(gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr));
}

// ---- no memory ----

TEST(UploadErrors, AutoNamesBothNodesAndNeverTakesAMemfd) {
  if (hostHasDevices()) GTEST_SKIP() << "this machine has a device to allocate from";
  Pipeline p("videotestsrc num-buffers=3 ! dmabufupload name=up ! fakesink");
  const std::string error = p.run();
  EXPECT_EQ(p.errorSource(), "up") << error;
  EXPECT_EQ(p.errorDomain(), GST_RESOURCE_ERROR);
  EXPECT_EQ(p.errorCode(), GST_RESOURCE_ERROR_NOT_FOUND);
  EXPECT_TRUE(has(error, "/dev/udmabuf: No such file or directory (2)")) << error;
  EXPECT_TRUE(has(error, "/dev/dma_heap/system: No such file or directory (2)")) << error;
  EXPECT_TRUE(has(error, "modprobe udmabuf")) << error;
  EXPECT_TRUE(has(error, "memory=memfd")) << error;
}

TEST(UploadErrors, WhatWasAskedForByNameFailsAtStart) {
  for (const char *property : {"memory=udmabuf", "memory=dma-heap heap-name=no-such-heap"}) {
    if (hostHasDevices() && std::string(property) == "memory=udmabuf") continue;
    Pipeline p(std::string("videotestsrc ! dmabufupload name=up ") + property + " ! fakesink");
    EXPECT_EQ(p.setState(GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE) << property;
    const std::string error = p.waitEnd();
    EXPECT_TRUE(has(error, "/dev/")) << error;
    EXPECT_TRUE(has(error, "No such file or directory (2)")) << error;
    EXPECT_EQ(p.errorSource(), "up");
  }
}

TEST(UploadErrors, StrideAlignOtherThanAPowerOfTwoIsNotTaken) {
  Pipeline p("dmabufupload name=up ! fakesink");
  guint align = 0;
  g_object_set(p.element("up"), "stride-align", 64, nullptr);
  g_object_set(p.element("up"), "stride-align", 100, nullptr);
  g_object_get(p.element("up"), "stride-align", &align, nullptr);
  EXPECT_EQ(align, 64u);
}

TEST(UploadErrors, ZeroSizeSaysSo) {
  Pipeline p("appsrc name=src caps=\"video/x-raw,format=NV12,width=0,height=48,framerate=25/1\" ! "
             "dmabufupload name=up memory=memfd ! fakesink");
  p.setState(GST_STATE_PLAYING);
  gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), gst_buffer_new_allocate(nullptr, 4096, nullptr));
  const std::string error = p.waitEnd();
  EXPECT_TRUE(has(error, "0x48")) << error;
  EXPECT_EQ(p.errorSource(), "up");
}

TEST(UploadErrors, ShortFrameIsRefusedWithItsPlane) {
  Pipeline p(std::string("appsrc name=src caps=\"") + kNv12 + "\" ! dmabufupload name=up memory=memfd ! fakesink");
  p.setState(GST_STATE_PLAYING);
  gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), gst_buffer_new_allocate(nullptr, 64 * 72 - 1, nullptr));
  const std::string error = p.waitEnd();
  EXPECT_TRUE(has(error, "plane 1")) << error;
  EXPECT_EQ(p.errorSource(), "up");
}

TEST(UploadErrors, LinearFramesAreNotOfferedAsTiled) {
  GError *error = nullptr;
  GstElement *pipeline =
      gst_parse_launch_full("videotestsrc ! dmabufupload memory=memfd ! "
                            "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002 ! fakesink",
                            nullptr, GST_PARSE_FLAG_FATAL_ERRORS, &error);
  EXPECT_EQ(pipeline, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_TRUE(has(error->message, "can't handle caps")) << error->message;
  g_clear_error(&error);
}

// ---- frames that are dma-bufs already ----

GstBuffer *dmabufFrame(gsize size, bool with_meta) {
  AllocatorPtr allocator = memfdAllocator();
  GstBuffer *buffer = gst_buffer_new_allocate(allocator.get(), size, nullptr);
  if (with_meta) gst_buffer_add_video_meta(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 48);
  return buffer;
}

// Where the device nodes are missing this needs none: memory=auto
TEST(UploadPass, DmaBufsUnderPlainCapsPassWithoutOwnMemory) {
  for (const bool shared : {false, true}) {
    // the branch that comes first keeps each buffer, so that the second may not write to it
    Pipeline p(std::string("appsrc name=src format=time caps=\"") + kNv12 + "\" ! " +
               (shared ? "tee name=t ! queue ! appsink name=hold sync=false  t. ! " : "") +
               "dmabufupload name=up ! appsink name=sink sync=false");
    p.setState(GST_STATE_PLAYING);
    std::vector<GstMemory *> memories;
    for (const bool meta : {true, false}) {
      GstBuffer *buffer = dmabufFrame(64 * 72, meta);
      memories.push_back(gst_buffer_peek_memory(buffer, 0));
      ASSERT_EQ(gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), buffer), GST_FLOW_OK);
    }
    gst_app_src_end_of_stream(GST_APP_SRC(p.element("src")));
    for (GstMemory *memory : memories) {
      GstSample *sample = p.pull(), *held = shared ? p.pull("hold") : nullptr;
      ASSERT_NE(sample, nullptr) << p.waitEnd();
      GstBuffer *buffer = gst_sample_get_buffer(sample);
      EXPECT_EQ(gst_buffer_peek_memory(buffer, 0), memory) << "the same GstMemory";
      const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
      ASSERT_NE(meta, nullptr);
      EXPECT_EQ(meta->stride[1], 64);
      EXPECT_EQ(meta->offset[1], 64u * 48);
      if (held != nullptr && memory == memories[1]) {
        const GstParentBufferMeta *parent = gst_buffer_get_parent_buffer_meta(buffer);
        ASSERT_NE(parent, nullptr) << "a shallow copy keeps the pool from reusing its memory";
        EXPECT_EQ(parent->buffer, gst_sample_get_buffer(held));
        EXPECT_EQ(gst_buffer_get_video_meta(gst_sample_get_buffer(held)), nullptr)
            << "the shared buffer is not touched";
      }
      gst_sample_unref(sample);
      g_clear_pointer(&held, gst_sample_unref);
    }
    EXPECT_EQ(p.waitEnd(), "");
    EXPECT_EQ(p.stat("passed"), 2u);
    EXPECT_EQ(p.stat("bytes-copied"), 0u);
  }
}

TEST(UploadPass, DrmCapsOfAnyModifierAreNoneOfItsBusiness) {
  for (const char *format : {"NV12", "NV12:0x0100000000000002"}) {
    Pipeline p(std::string("appsrc name=src format=time caps=\"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=") +
               format + ",width=64,height=48,framerate=25/1\" ! dmabufupload name=up ! appsink name=sink sync=false");
    p.setState(GST_STATE_PLAYING);
    GstBuffer *buffer = dmabufFrame(8192, false);
    gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), buffer);
    gst_app_src_end_of_stream(GST_APP_SRC(p.element("src")));
    GstSample *sample = p.pull();
    ASSERT_NE(sample, nullptr) << p.waitEnd();
    EXPECT_EQ(gst_sample_get_buffer(sample), buffer) << "the same GstBuffer";
    EXPECT_EQ(gst_buffer_get_n_meta(buffer, GST_VIDEO_META_API_TYPE), 0u) << "nothing is known of tiled layouts";
    gst_sample_unref(sample);
    EXPECT_EQ(p.stat("passed"), 1u);
  }
}

TEST(UploadPass, PlainDmaBufCapsGetTheirDrmName) {
  Pipeline p(
      "appsrc name=src format=time caps=\"video/x-raw(memory:DMABuf),format=NV12,width=64,height=48,framerate=25/1\""
      " ! dmabufupload name=up ! video/x-raw(memory:DMABuf),format=DMA_DRM ! appsink name=sink sync=false");
  p.setState(GST_STATE_PLAYING);
  GstBuffer *buffer = dmabufFrame(64 * 72, true);
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), buffer);
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  EXPECT_STREQ(gst_structure_get_string(gst_caps_get_structure(gst_sample_get_caps(sample), 0), "drm-format"), "NV12");
  EXPECT_EQ(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0), memory);
  gst_sample_unref(sample);
}

// ---- downstream's wishes ----

// As a display's pool may be: only for the caps it was made for
struct DrmOnlyPool {
  GstBufferPool parent;
};
struct DrmOnlyPoolClass {
  GstBufferPoolClass parent_class;
};
G_DEFINE_TYPE(DrmOnlyPool, drm_only_pool, GST_TYPE_BUFFER_POOL)
gboolean drmOnlySetConfig(GstBufferPool *pool, GstStructure *config) {
  GstCaps *caps = nullptr;
  if (!gst_buffer_pool_config_get_params(config, &caps, nullptr, nullptr, nullptr) || caps == nullptr ||
      !gst_video_is_dma_drm_caps(caps))
    return FALSE;
  return GST_BUFFER_POOL_CLASS(drm_only_pool_parent_class)->set_config(pool, config);
}
GstFlowReturn drmOnlyAlloc(GstBufferPool *, GstBuffer **buffer, GstBufferPoolAcquireParams *) {
  *buffer = dmabufFrame(64 * 72, true);
  return GST_FLOW_OK;
}
void drm_only_pool_class_init(DrmOnlyPoolClass *klass) {
  GST_BUFFER_POOL_CLASS(klass)->set_config = drmOnlySetConfig;
  GST_BUFFER_POOL_CLASS(klass)->alloc_buffer = drmOnlyAlloc;
}
void drm_only_pool_init(DrmOnlyPool *) {}

PoolPtr zcPool(guint stride_align = 0) {
  AllocatorPtr allocator = memfdAllocator();
  return PoolPtr(gst_zc_pool_new(allocator.get(), stride_align));
}

PoolPtr drmOnlyPool() {
  return PoolPtr(GST_BUFFER_POOL_CAST(gst_object_ref_sink(g_object_new(drm_only_pool_get_type(), nullptr))));
}

TEST(UploadDownstream, ItsPoolIsHandedUpstream) {
  PoolPtr pool = zcPool(512);
  Pipeline p(std::string("videotestsrc num-buffers=10 ! ") + kNv12 +
             " ! dmabufupload name=up ! appsink name=sink sync=false max-buffers=1");
  Downstream downstream(p, [&](GstQuery *query) {
    GstCaps *caps = nullptr;
    gst_query_parse_allocation(query, &caps, nullptr);
    EXPECT_TRUE(gst_video_is_dma_drm_caps(caps));
    gst_query_add_allocation_pool(query, pool.get(), 64 * 72, 2, 5);
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  });
  p.setState(GST_STATE_PLAYING);
  for (int i = 0; i < 10; ++i) {
    GstSample *sample = p.pull();
    ASSERT_NE(sample, nullptr) << p.waitEnd();
    EXPECT_EQ(gst_sample_get_buffer(sample)->pool, pool.get());
    EXPECT_EQ(gst_buffer_get_video_meta(gst_sample_get_buffer(sample))->stride[0], 512);
    gst_sample_unref(sample);
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
  EXPECT_EQ(p.stat("pool-buffers"), 0u) << "no memory of our own, and no device node needed for it";
}

TEST(UploadDownstream, ItsPoolTakesTheCopiesOfAProducerThatRefusesIt) {
  for (const bool drm_only : {false, true}) {
    PoolPtr pool = drm_only ? drmOnlyPool() : zcPool();
    Pipeline p(std::string("videotestsrc num-buffers=10 ! ") + kNv12 +
               (drm_only ? "" : " ! identity drop-allocation=1") +
               " ! dmabufupload name=up ! appsink name=sink sync=false max-buffers=1");
    Downstream downstream(p, [&](GstQuery *query) {
      gst_query_add_allocation_pool(query, pool.get(), 64 * 72, 2, 0);
      gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
    });
    p.setState(GST_STATE_PLAYING);
    for (int i = 0; i < 10; ++i) {
      GstSample *sample = p.pull();
      ASSERT_NE(sample, nullptr) << p.waitEnd();
      EXPECT_EQ(gst_sample_get_buffer(sample)->pool, pool.get());
      gst_sample_unref(sample);
    }
    EXPECT_EQ(p.waitEnd(), "");
    EXPECT_EQ(p.stat("copies"), 10u);
    EXPECT_EQ(p.stat("bytes-copied"), 10u * 64 * 72);
  }
}

TEST(UploadDownstream, MemoryThatTheUserNamesGoesFirst) {
  PoolPtr pool = zcPool();
  Pipeline p(std::string("videotestsrc num-buffers=3 ! ") + kNv12 +
             " ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  Downstream downstream(p, [&](GstQuery *query) { gst_query_add_allocation_pool(query, pool.get(), 64 * 72, 7, 0); });
  p.setState(GST_STATE_PLAYING);
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  GstBufferPool *used = gst_sample_get_buffer(sample)->pool;
  EXPECT_NE(used, pool.get());
  GstStructure *config = gst_buffer_pool_get_config(used);
  guint min = 0;
  gst_buffer_pool_config_get_params(config, nullptr, nullptr, &min, nullptr);
  gst_structure_free(config);
  EXPECT_GE(min, 7u) << "its number of buffers counts all the same";
  gst_sample_unref(sample);
  p.drain();
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
}

TEST(UploadDownstream, PoolOfOrdinaryMemoryIsOfNoUse) {
  if (hostHasDevices()) GTEST_SKIP() << "here memory of our own would be used, which the laboratory tests";
  PoolPtr pool(gst_video_buffer_pool_new());
  Pipeline p(std::string("videotestsrc num-buffers=3 ! ") + kNv12 + " ! dmabufupload name=up ! appsink name=sink");
  Downstream downstream(p, [&](GstQuery *query) { gst_query_add_allocation_pool(query, pool.get(), 64 * 72, 2, 0); });
  const std::string error = p.run();
  EXPECT_TRUE(has(error, "/dev/udmabuf")) << error;
  EXPECT_FALSE(gst_buffer_pool_is_active(pool.get()));
}

TEST(UploadDownstream, AlignmentAndMinimumReachUpstreamsPool) {
  Pipeline p(std::string("videotestsrc num-buffers=3 ! ") + kNv12 +
             " ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  Downstream downstream(p, [&](GstQuery *query) {
    GstVideoAlignment align;
    gst_video_alignment_reset(&align);
    align.padding_bottom = 16;
    align.stride_align[0] = align.stride_align[1] = 1023;
    GstStructure *params = gst_structure_new_empty("video-meta");
    gst_buffer_pool_config_set_video_alignment(params, &align);
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, params);
    gst_structure_free(params);
    gst_query_add_allocation_pool(query, nullptr, 64 * 72, 5, 0);
  });
  p.setState(GST_STATE_PLAYING);
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  GstBuffer *buffer = gst_sample_get_buffer(sample);
  const GstVideoMeta *meta = gst_buffer_get_video_meta(buffer);
  EXPECT_EQ(meta->stride[0], 1024);
  EXPECT_GE(meta->offset[1], 1024u * (48 + 16));
  GstStructure *config = gst_buffer_pool_get_config(buffer->pool);
  guint min = 0;
  gst_buffer_pool_config_get_params(config, nullptr, nullptr, &min, nullptr);
  gst_structure_free(config);
  EXPECT_GE(min, 5u);
  gst_sample_unref(sample);
  p.drain();
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
}

// ---- life ----

TEST(UploadLife, HoldingManyFramesStarvesNobody) {
  Pipeline p(std::string("videotestsrc num-buffers=60 ! ") + kNv12 +
             " ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  p.setState(GST_STATE_PLAYING);
  std::vector<GstSample *> held;
  std::set<BufferId> buffers;
  while (GstSample *sample = p.pull()) {
    buffers.insert(idOf(gst_sample_get_buffer(sample)));
    held.push_back(sample);
  }
  EXPECT_EQ(held.size(), 60u);
  EXPECT_EQ(buffers.size(), 60u) << "a frame that is held is never written again";
  for (GstSample *sample : held) gst_sample_unref(sample);
}

TEST(UploadLife, SampleIsReadableAfterThePipelineIsGone) {
  const size_t before = openFds();
  GstSample *sample;
  std::vector<guint8> first;
  {
    Pipeline p("videotestsrc num-buffers=5 pattern=white ! video/x-raw,format=GRAY8,width=64,height=48 ! "
               "dmabufupload memory=memfd ! appsink name=sink sync=false");
    p.setState(GST_STATE_PLAYING);
    sample = p.pull();
    ASSERT_NE(sample, nullptr);
    p.drain();
    EXPECT_EQ(p.waitEnd(), "");
  }
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(gst_sample_get_buffer(sample), &map, GST_MAP_READ));
  for (gsize row = 0; row < 48; ++row)
    for (gsize x = 0; x < 64; ++x) ASSERT_GE(map.data[row * 256 + x], 234);
  gst_buffer_unmap(gst_sample_get_buffer(sample), &map);
  gst_sample_unref(sample);
  EXPECT_LE(openFds(), before + 2) << "GLib may keep a wake-up descriptor";
}

TEST(UploadLife, StateCyclesLeakNoDescriptors) {
  for (const char *hide : {"", "identity drop-allocation=true ! "}) {
    Pipeline p(std::string("videotestsrc ! ") + kNv12 + " ! " + hide +
               "dmabufupload name=up memory=memfd ! tee name=t ! queue ! fakesink  t. ! queue ! appsink name=sink "
               "sync=false max-buffers=2 drop=true");
    size_t after_first = 0;
    for (int cycle = 0; cycle < 12; ++cycle) {
      ASSERT_NE(p.setState(GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
      GstSample *sample = p.pull();
      ASSERT_NE(sample, nullptr);
      gst_sample_unref(sample);
      ASSERT_EQ(p.setState(GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
      if (cycle == 1) after_first = openFds();
    }
    EXPECT_EQ(openFds(), after_first) << hide;
  }
}

TEST(UploadLife, TwoBranchesShareOneMemory) {
  Pipeline p(std::string("videotestsrc num-buffers=10 ! ") + kNv12 +
             " ! dmabufupload name=up memory=memfd ! tee name=t ! queue ! appsink name=a sync=false  "
             "t. ! queue ! appsink name=b sync=false");
  p.setState(GST_STATE_PLAYING);
  for (int i = 0; i < 10; ++i) {
    GstSample *a = p.pull("a"), *b = p.pull("b");
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(idOf(gst_sample_get_buffer(a)), idOf(gst_sample_get_buffer(b)));
    gst_sample_unref(a);
    gst_sample_unref(b);
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
}

TEST(UploadLife, NewCapsInMidStream) {
  for (const char *hide : {"", " ! identity drop-allocation=true"}) {
    Pipeline p(std::string("videotestsrc ! capsfilter name=f caps=") + kNv12 + hide +
               " ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false max-buffers=1");
    p.setState(GST_STATE_PLAYING);
    const struct {
      const char *format, *drm;
      int width;
    } steps[] = {{"BGRx", "XR24", 641}, {"NV12", "NV12", 1921}, {"NV12", "NV12", 64}};
    for (const auto &step : steps) {
      GstCaps *caps = gst_caps_new_simple("video/x-raw", "format", G_TYPE_STRING, step.format, "width", G_TYPE_INT,
                                          step.width, "height", G_TYPE_INT, 49, nullptr);
      g_object_set(p.element("f"), "caps", caps, nullptr);
      gst_caps_unref(caps);
      bool seen = false;
      for (int i = 0; i < 20 && !seen; ++i) {
        GstSample *sample = p.pull();
        ASSERT_NE(sample, nullptr) << p.waitEnd();
        const GstStructure *now = gst_caps_get_structure(gst_sample_get_caps(sample), 0);
        gint width = 0;
        gst_structure_get_int(now, "width", &width);
        const GstVideoMeta *meta = gst_buffer_get_video_meta(gst_sample_get_buffer(sample));
        EXPECT_EQ(static_cast<gint>(meta->width), width) << "memory of the right caps";
        seen = width == step.width && g_strcmp0(gst_structure_get_string(now, "drm-format"), step.drm) == 0;
        gst_sample_unref(sample);
      }
      EXPECT_TRUE(seen) << step.drm << " " << step.width;
    }
    EXPECT_EQ(p.stat("copies") == 0, std::string(hide).empty());
  }
}

TEST(UploadLife, FlushingSeeksAndEnd) {
  for (const char *hide : {"", " ! identity drop-allocation=true"}) {
    Pipeline p(std::string("videotestsrc num-buffers=500 ! ") + kNv12 + hide +
               " ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false max-buffers=2");
    p.setState(GST_STATE_PLAYING);
    for (int seek = 0; seek < 5; ++seek) {
      GstSample *sample = p.pull();
      ASSERT_NE(sample, nullptr);
      gst_sample_unref(sample);
      ASSERT_TRUE(gst_element_seek_simple(p.get(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH,
                                          static_cast<gint64>(seek) * GST_SECOND / 25));
    }
    int n = 0;
    while (GstSample *sample = p.pull()) {
      gst_sample_unref(sample);
      ++n;
    }
    EXPECT_GT(n, 0);
    EXPECT_EQ(p.waitEnd(), "");
  }
}

// A pad that is being deactivated still answers.
TEST(UploadLife, AllocationIsAskedForWhileItStops) {
  Pipeline p(std::string("videotestsrc ! ") + kNv12 + " ! dmabufupload name=up memory=memfd ! fakesink async=false");
  std::atomic<bool> over = false;
  std::thread asking([&] {
    GstPad *pad = gst_element_get_static_pad(p.element("up"), "sink");
    GstCaps *caps = gst_caps_from_string(kNv12);
    while (!over) {
      GstQuery *query = gst_query_new_allocation(caps, TRUE);
      gst_pad_query(pad, query);
      gst_query_unref(query);
    }
    gst_caps_unref(caps);
    gst_object_unref(pad);
  });
  for (int i = 0; i < rounds(300); ++i) {
    EXPECT_NE(p.setState(GST_STATE_PLAYING), GST_STATE_CHANGE_FAILURE);
    if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_NE(p.setState(GST_STATE_READY), GST_STATE_CHANGE_FAILURE);
  }
  over = true;
  asking.join();
}

} // namespace
