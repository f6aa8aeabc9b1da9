// SPDX-License-Identifier: LGPL-2.1-or-later
// Contiguous memory: where it comes from on a kernel without a contiguous heap, and a device that takes no other.
#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

#include <linux/videodev2.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/dma_alloc.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/gstzcpool.h"
#include "tests/elements/upload/upload_pipeline.h"
#include "tests/lab/support/contiguity.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/output.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr unsigned kFrames = 16;            // huge pages: one a frame
constexpr size_t kSize = 512 * 360 * 3 / 2; // of a frame

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// ---- memory ----

TEST(LabContiguous, AUdmabufOverAHugePageIsOnePiece) {
  auto pages = lab::HugePages::reserve(2);
  ASSERT_TRUE(pages) << pages.error().message();
  for (const auto source : {GST_ZC_MEMORY_SOURCE_AUTO, GST_ZC_MEMORY_SOURCE_UDMABUF}) {
    GError *error = nullptr;
    GstAllocator *allocator = gst_zc_allocator_new_full(source, nullptr, GST_ZC_MEMORY_NEED_CONTIGUOUS, &error);
    ASSERT_NE(allocator, nullptr) << error->message;
    GstMemory *memory = gst_zc_allocator_try_alloc(GST_ZC_ALLOCATOR(allocator), kSize, nullptr, &error);
    ASSERT_NE(memory, nullptr) << error->message;
    EXPECT_TRUE(isDmaBuf(gst_dmabuf_memory_get_fd(memory)));
    EXPECT_EQ(gst_zc_memory_get_source(memory), GST_ZC_MEMORY_SOURCE_UDMABUF);
    EXPECT_EQ(gst_zc_memory_get_traits(memory), GST_ZC_MEMORY_TRAIT_CONTIGUOUS | GST_ZC_MEMORY_TRAIT_CACHED);
    EXPECT_EQ(gst_zc_memory_get_numa_node(memory), 0);
    EXPECT_LT(memory->maxsize, kSize + 4096) << "of the huge page only what is needed";
    auto one = lab::isContiguous(gst_zc_memory_get_memfd(memory, nullptr), kSize);
    ASSERT_TRUE(one) << one.error().message();
    EXPECT_TRUE(*one);

    GstMapInfo map;
    ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READWRITE));
    EXPECT_EQ(std::count(map.data, map.data + map.size, 0), static_cast<ptrdiff_t>(map.size));
    map.data[kSize - 1] = 0x5a;
    gst_memory_unmap(memory, &map);
    auto file = lab::Mapping::create(gst_zc_memory_get_memfd(memory, nullptr), 2 << 20);
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ(file->data()[kSize - 1], 0x5a) << "the memfd is the same page";
    gst_memory_unref(memory);
    gst_object_unref(allocator);
  }
}

TEST(LabContiguous, OrdinaryMemoryPromisesNothing) {
  auto fragments = lab::FragmentedMemory::create();
  ASSERT_TRUE(fragments) << fragments.error().message();
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_AUTO, nullptr, nullptr);
  GstMemory *memory = gst_allocator_alloc(allocator, kSize, nullptr);
  EXPECT_EQ(gst_zc_memory_get_traits(memory), GST_ZC_MEMORY_TRAIT_CACHED);
  EXPECT_EQ(gst_zc_memory_get_numa_node(memory), 0);
  auto one = lab::isContiguous(gst_zc_memory_get_memfd(memory, nullptr), kSize);
  ASSERT_TRUE(one) << one.error().message();
  EXPECT_FALSE(*one);
  gst_memory_unref(memory);
  gst_object_unref(allocator);
}

TEST(LabContiguous, WithoutHugePagesTheErrorSaysHowToGetThem) {
  auto allocator = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Contiguous);
  ASSERT_TRUE(allocator) << allocator.error().message();
  auto none = allocator->alloc(kSize);
  ASSERT_FALSE(none);
  EXPECT_TRUE(has(none.error().message(), "free huge page of 2 MiB")) << none.error().message();
  EXPECT_TRUE(has(none.error().message(), "echo 16 > ")) << none.error().message();
  EXPECT_TRUE(has(none.error().message(), "no contiguous heap")) << none.error().message();
  auto pages = lab::HugePages::reserve(2);
  ASSERT_TRUE(pages) << pages.error().message();
  none = allocator->alloc(3 << 20);
  ASSERT_FALSE(none);
  EXPECT_TRUE(has(none.error().message(), "3145728 bytes in one huge page of 2 MiB")) << none.error().message();
}

// ---- the device ----

TEST(LabContiguous, TheDeviceTellsOneFromTheOther) {
  auto pages = lab::HugePages::reserve(1);
  ASSERT_TRUE(pages) << pages.error().message();
  auto path = lab::outputPath("vivid");
  ASSERT_TRUE(path) << path.error().message();
  auto device = lab::OutputDevice::open(*path, V4L2_PIX_FMT_NV12, 64, 48);
  ASSERT_TRUE(device) << device.error().message();
  ASSERT_LE(device->frameSize(), 8192u);

  auto whole = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Contiguous)->alloc(8192);
  ASSERT_TRUE(whole) << whole.error().message();
  auto taken = device->queue(whole->fd.get(), whole->size);
  EXPECT_TRUE(taken) << taken.error().message();

  auto scattered = DmaAllocator::open(DmaSource::Auto, "system")->allocScattered();
  ASSERT_TRUE(scattered) << scattered.error().message();
  ASSERT_EQ(scattered->size, 8192u);
  auto refused = device->queue(scattered->fd.get(), scattered->size);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EFAULT);
}

// ---- pipelines ----

// videotestsrc writes, the device reads. The sink cannot state its need yet, so a probe does.
class LabContiguousPipeline : public testing::Test {
protected:
  void SetUp() override {
    auto path = lab::outputPath("vivid");
    ASSERT_TRUE(path) << path.error().message();
    line = "videotestsrc num-buffers=12 ! video/x-raw,format=NV12,width=512,height=360,framerate=30/1 ! "
           "dmabufupload name=up ! v4l2sink name=sink sync=false io-mode=dmabuf-import device=" +
           *path;
  }
  static void stateNeed(const Pipeline &p) {
    GstPad *pad = gst_element_get_static_pad(p.element("sink"), "sink");
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
        [](GstPad *, GstPadProbeInfo *info, gpointer) {
          GstQuery *query = GST_PAD_PROBE_INFO_QUERY(info);
          if (GST_QUERY_TYPE(query) == GST_QUERY_ALLOCATION && (info->type & GST_PAD_PROBE_TYPE_PULL) != 0)
            gst_query_add_zc_memory_need(query, GST_ZC_MEMORY_NEED_CONTIGUOUS, "vivid");
          return GST_PAD_PROBE_OK;
        },
        nullptr, nullptr);
    gst_object_unref(pad);
  }
  std::string line;
};

TEST_F(LabContiguousPipeline, WithTheNeedStatedTheDeviceTakesEveryFrame) {
  auto pages = lab::HugePages::reserve(kFrames);
  ASSERT_TRUE(pages) << pages.error().message();
  auto fragments = lab::FragmentedMemory::create();
  ASSERT_TRUE(fragments) << fragments.error().message();
  Pipeline p(line);
  stateNeed(p);
  std::vector<GstZcMemoryTraits> traits;
  GstPad *pad = gst_element_get_static_pad(p.element("sink"), "sink");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad *, GstPadProbeInfo *info, gpointer list) {
        GstMemory *memory = gst_buffer_peek_memory(GST_PAD_PROBE_INFO_BUFFER(info), 0);
        static_cast<std::vector<GstZcMemoryTraits> *>(list)->push_back(gst_zc_memory_get_traits(memory));
        return GST_PAD_PROBE_OK;
      },
      &traits, nullptr);
  gst_object_unref(pad);
  EXPECT_EQ(p.run(), "");
  EXPECT_EQ(traits.size(), 12u);
  for (const GstZcMemoryTraits t : traits) EXPECT_TRUE(t & GST_ZC_MEMORY_TRAIT_CONTIGUOUS);
  EXPECT_EQ(p.stat("frames"), 12u);
  EXPECT_EQ(p.stat("copies"), 0u);
}

TEST_F(LabContiguousPipeline, WithoutItTheKernelRefusesScatteredFrames) {
  auto fragments = lab::FragmentedMemory::create();
  ASSERT_TRUE(fragments) << fragments.error().message();
  Pipeline p(line);
  const std::string error = p.run();
  EXPECT_TRUE(has(error, "streaming stopped, reason error")) << error;
  EXPECT_EQ(p.stat("frames"), 1u) << "the first one is refused";
}

TEST_F(LabContiguousPipeline, WithoutContiguousMemoryTheFirstFrameSaysWhoNeedsIt) {
  Pipeline p(line);
  stateNeed(p);
  const std::string error = p.run();
  EXPECT_EQ(p.errorSource(), "up") << error;
  EXPECT_TRUE(has(error, "vivid needs physically contiguous memory")) << error;
  EXPECT_TRUE(has(error, "nr_hugepages")) << error;
}

} // namespace
