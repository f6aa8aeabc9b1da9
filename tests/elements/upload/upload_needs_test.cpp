// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufupload and what downstream needs of memory. On the host no memory is contiguous unless huge pages are reserved;
// what a device makes of it is seen in the laboratory.
#include "tests/elements/upload/upload_pipeline.h"

#include <gst/video/video.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/gstzcpool.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr const char *kNv12 = "video/x-raw,format=NV12,width=64,height=48,framerate=25/1";
constexpr gsize kSize = 64 * 72;

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

void needContiguous(GstQuery *query) {
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  gst_query_add_zc_memory_need(query, GST_ZC_MEMORY_NEED_CONTIGUOUS, "the display");
}

class UploadNeeds : public testing::Test {
protected:
  void SetUp() override {
    GstAllocator *allocator =
        gst_zc_allocator_new_full(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, GST_ZC_MEMORY_NEED_CONTIGUOUS, nullptr);
    GstMemory *memory = gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), kSize, nullptr, nullptr);
    have_contiguous = memory != nullptr;
    if (memory != nullptr) gst_memory_unref(memory);
    gst_object_unref(allocator);
  }
  // a dma-buf by its type, over a memfd that nothing is known of
  static GstBuffer *foreignFrame() {
    const int fd = memfd_create("foreign", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(fd, kSize), 0);
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_dmabuf_allocator_alloc(allocator, fd, kSize));
    gst_object_unref(allocator);
    return buffer;
  }
  static GstBuffer *scatteredFrame() {
    GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
    GstBuffer *buffer = gst_buffer_new_allocate(allocator, kSize, nullptr);
    gst_object_unref(allocator);
    return buffer;
  }
  bool have_contiguous = false;
};

TEST_F(UploadNeeds, WithoutSuchMemoryTheFirstFrameSaysWhoNeedsIt) {
  if (have_contiguous) GTEST_SKIP() << "this machine has free huge pages";
  for (const char *hide : {"", " ! identity drop-allocation=true"}) {
    Pipeline p(std::string("videotestsrc num-buffers=3 ! ") + kNv12 + hide +
               " ! dmabufupload name=up memory=memfd ! appsink name=sink");
    Downstream downstream(p, needContiguous);
    const std::string error = p.run();
    EXPECT_EQ(p.errorSource(), "up") << error;
    EXPECT_EQ(p.errorDomain(), GST_RESOURCE_ERROR);
    EXPECT_TRUE(has(error, "the display needs physically contiguous memory: ")) << error;
    EXPECT_TRUE(has(error, "huge page")) << error;
    EXPECT_EQ(p.stat("pool-buffers"), 0u);
  }
}

TEST_F(UploadNeeds, ItsOwnPoolIsDownstreamsWord) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  GstBufferPool *pool = gst_zc_pool_new(allocator, 0);
  {
    Pipeline p(std::string("videotestsrc num-buffers=3 ! ") + kNv12 + " ! dmabufupload name=up ! appsink name=sink");
    Downstream downstream(p, [&](GstQuery *query) {
      needContiguous(query);
      gst_query_add_allocation_pool(query, pool, kSize, 2, 0);
    });
    p.setState(GST_STATE_PLAYING);
    // passed as unknown: what its device makes is for the device to know
    GstSample *sample = p.pull();
    if (sample != nullptr) {
      EXPECT_EQ(gst_sample_get_buffer(sample)->pool, pool);
      gst_sample_unref(sample);
    }
    EXPECT_NE(sample, nullptr);
    p.drain();
    EXPECT_EQ(p.waitEnd(), "");
  }
  gst_object_unref(pool);
  gst_object_unref(allocator);
}

TEST_F(UploadNeeds, FramesOfUnknownMemoryPass) {
  Pipeline p(std::string("appsrc name=src format=time caps=\"") + kNv12 +
             "\" ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  Downstream downstream(p, needContiguous);
  p.setState(GST_STATE_PLAYING);
  GstBuffer *frame = foreignFrame();
  GstMemory *memory = gst_buffer_peek_memory(frame, 0);
  gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), frame);
  gst_app_src_end_of_stream(GST_APP_SRC(p.element("src")));
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  EXPECT_EQ(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0), memory);
  gst_sample_unref(sample);
}

TEST_F(UploadNeeds, FramesThatAreKnownToBeScatteredAreCopiedOrRefused) {
  Pipeline p(std::string("appsrc name=src format=time caps=\"") + kNv12 +
             "\" ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  Downstream downstream(p, needContiguous);
  p.setState(GST_STATE_PLAYING);
  gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), scatteredFrame());
  gst_app_src_end_of_stream(GST_APP_SRC(p.element("src")));
  if (have_contiguous) {
    GstSample *sample = p.pull();
    ASSERT_NE(sample, nullptr) << p.waitEnd();
    EXPECT_TRUE(gst_zc_memory_get_traits(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0)) &
                GST_ZC_MEMORY_TRAIT_CONTIGUOUS);
    gst_sample_unref(sample);
    EXPECT_EQ(p.stat("copies"), 1u);
  } else {
    const std::string error = p.waitEnd();
    EXPECT_TRUE(has(error, "the display needs physically contiguous memory")) << error;
  }
}

// The need is that of one answer: it goes with the next one
TEST_F(UploadNeeds, ANeedThatIsGoneIsForgotten) {
  bool need = true;
  Pipeline p(std::string("appsrc name=src format=time caps=\"") + kNv12 +
             "\" ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false");
  Downstream downstream(p, [&](GstQuery *query) {
    if (need) needContiguous(query);
  });
  p.setState(GST_STATE_PLAYING);
  gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), foreignFrame());
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  gst_sample_unref(sample);
  need = false;
  GstPad *pad = gst_element_get_static_pad(p.element("sink"), "sink");
  gst_pad_push_event(pad, gst_event_new_reconfigure());
  gst_object_unref(pad);
  gst_app_src_push_buffer(GST_APP_SRC(p.element("src")), scatteredFrame());
  sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  gst_sample_unref(sample);
  EXPECT_EQ(p.stat("passed"), 2u);
}

// The static-pool rule: what the first frames needed is all that is ever allocated
TEST(UploadSteadyState, NothingIsAllocatedAfterTheFirstFrames) {
  for (const char *hide : {"", " ! identity drop-allocation=true"}) {
    Pipeline p(std::string("videotestsrc num-buffers=600 ! ") + kNv12 + hide +
               " ! dmabufupload name=up memory=memfd ! appsink name=sink sync=false max-buffers=2");
    p.setState(GST_STATE_PLAYING);
    std::set<BufferId> buffers;
    guint64 after_warm_up = 0;
    for (int i = 0; i < 600; ++i) {
      GstSample *sample = p.pull();
      ASSERT_NE(sample, nullptr) << p.waitEnd();
      buffers.insert(idOf(gst_sample_get_buffer(sample)));
      gst_sample_unref(sample);
      if (i == 50) after_warm_up = p.stat("pool-buffers");
    }
    EXPECT_EQ(p.waitEnd(), "");
    EXPECT_LE(p.stat("pool-buffers"), std::max<guint64>(after_warm_up, 6)) << "queue, hand and producer: no more";
    EXPECT_EQ(buffers.size(), p.stat("pool-buffers"));
    EXPECT_EQ(p.stat("delayed"), 0u);
  }
}

} // namespace
