// SPDX-License-Identifier: LGPL-2.1-or-later
// Allocators, pool and dmabufupload with the kernel's devices: what memfds cannot show on the host.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include <drm_fourcc.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/dma_alloc.h"
#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcpool.h"
#include "tests/elements/upload/upload_pipeline.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/screen.h"
#include "tests/lab/support/writeback.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kAboveUdmabufLimit = 65 * kMiB;

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// ---- allocation ----

TEST(LabAlloc, DmaBufsOfBothSourcesAreZeroAndOfWholePages) {
  for (const DmaSource source : {DmaSource::Udmabuf, DmaSource::DmaHeap, DmaSource::Auto}) {
    auto allocator = DmaAllocator::open(source, "system");
    ASSERT_TRUE(allocator.ok()) << allocator.error().message();
    auto buffer = allocator->alloc(100000);
    ASSERT_TRUE(buffer.ok()) << buffer.error().message();
    EXPECT_TRUE(isDmaBuf(buffer->fd.get())) << dmaSourceName(source);
    EXPECT_EQ(buffer->size, 102400u);
    EXPECT_EQ(buffer->source, source == DmaSource::DmaHeap ? source : DmaSource::Udmabuf);
    EXPECT_EQ(buffer->memfd.isValid(), source != DmaSource::DmaHeap);
    auto mapping = lab::Mapping::create(buffer->fd.get(), buffer->size);
    ASSERT_TRUE(mapping.ok());
    EXPECT_EQ(std::count(mapping->data(), mapping->data() + buffer->size, 0), static_cast<ptrdiff_t>(buffer->size));
  }
}

TEST(LabAlloc, TheMemfdIsTheSamePages) {
  auto buffer = DmaAllocator::open(DmaSource::Udmabuf, "")->alloc(8192).take();
  auto dmabuf = lab::Mapping::create(buffer.fd.get(), 8192), file = lab::Mapping::create(buffer.memfd.get(), 8192);
  ASSERT_TRUE(dmabuf && file);
  {
    DmaBufCpuScope scope(buffer.fd.get(), Access::ReadWrite);
    ASSERT_TRUE(scope.ok());
    dmabuf->data()[4097] = 0x5a;
    file->data()[5] = 0xa5;
  }
  EXPECT_EQ(file->data()[buffer.memfd_offset + 4097], 0x5a);
  EXPECT_EQ(dmabuf->data()[5], 0xa5);
  EXPECT_EQ(ftruncate(buffer.memfd.get(), 4096), -1) << "sealed: nobody takes the pages away";
}

// The driver's limit in MiB as long as the object lives
class UdmabufLimit {
public:
  explicit UdmabufLimit(const std::string &mib) {
    std::ifstream(kParameter) >> before_;
    std::ofstream(kParameter) << mib;
    std::string now;
    std::ifstream(kParameter) >> now;
    EXPECT_EQ(now, mib);
  }
  ~UdmabufLimit() { std::ofstream(kParameter) << before_; }
  UdmabufLimit(const UdmabufLimit &) = delete;
  UdmabufLimit &operator=(const UdmabufLimit &) = delete;

private:
  static constexpr const char *kParameter = "/sys/module/udmabuf/parameters/size_limit_mb";
  std::string before_;
};

TEST(LabAlloc, AboveTheLimitUdmabufSaysItAndAutoTakesTheHeap) {
  UdmabufLimit limit("64"); // the default for a long time; the newest kernels have hardly any
  auto refused = DmaAllocator::open(DmaSource::Udmabuf, "")->alloc(kAboveUdmabufLimit);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_TRUE(has(refused.error().message(), "at most 64 MiB")) << refused.error().message();
  EXPECT_TRUE(has(refused.error().message(), "size_limit_mb")) << refused.error().message();
  auto buffer = DmaAllocator::open(DmaSource::Auto, "system")->alloc(kAboveUdmabufLimit);
  ASSERT_TRUE(buffer.ok()) << buffer.error().message();
  EXPECT_EQ(buffer->source, DmaSource::DmaHeap);
  EXPECT_FALSE(buffer->memfd.isValid());
}

TEST(LabAlloc, WrongHeapNamesTheOnesThereAre) {
  auto allocator = DmaAllocator::open(DmaSource::DmaHeap, "linux,nothing");
  ASSERT_FALSE(allocator.ok());
  EXPECT_TRUE(has(allocator.error().message(), "system")) << allocator.error().message();
}

TEST(LabAlloc, GstMemoryTellsItsKind) {
  for (const auto source : {GST_ZC_MEMORY_SOURCE_UDMABUF, GST_ZC_MEMORY_SOURCE_DMA_HEAP}) {
    GError *error = nullptr;
    GstAllocator *allocator = gst_zc_allocator_new(source, "system", &error);
    ASSERT_NE(allocator, nullptr) << error->message;
    GstMemory *memory = gst_allocator_alloc(allocator, 5000, nullptr);
    gst_object_unref(allocator);
    ASSERT_NE(memory, nullptr);
    EXPECT_TRUE(gst_is_dmabuf_memory(memory));
    EXPECT_TRUE(isDmaBuf(gst_dmabuf_memory_get_fd(memory)));
    EXPECT_EQ(gst_zc_memory_get_source(memory), source);
    EXPECT_EQ(gst_zc_memory_get_traits(memory), GST_ZC_MEMORY_TRAIT_CACHED);
    EXPECT_EQ(gst_zc_memory_get_memfd(memory, nullptr) >= 0, source == GST_ZC_MEMORY_SOURCE_UDMABUF);
    GstMapInfo map;
    for (const auto flags : {GST_MAP_READ, GST_MAP_WRITE, GST_MAP_READWRITE}) {
      ASSERT_TRUE(gst_memory_map(memory, &map, flags));
      gst_memory_unmap(memory, &map);
    }
    gst_memory_unref(memory);
  }
}

// ---- the element ----

class LabUpload : public testing::TestWithParam<const char *> {};
std::string sourceName(const testing::TestParamInfo<const char *> &param) {
  std::string name = param.param;
  name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
  return name;
}
INSTANTIATE_TEST_SUITE_P(Sources, LabUpload, testing::Values("auto", "udmabuf", "dma-heap"), sourceName);

TEST_P(LabUpload, NoByteIsCopiedAndBuffersAreReused) {
  Pipeline p(std::string("videotestsrc num-buffers=20 ! video/x-raw,format=NV12,width=641,height=481 ! "
                         "dmabufupload name=up memory=") +
             GetParam() + " ! appsink name=sink sync=false max-buffers=2");
  p.setState(GST_STATE_PLAYING);
  std::set<BufferId> buffers;
  int n = 0;
  while (GstSample *sample = p.pull()) {
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    ASSERT_TRUE(isDmaBuf(gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(buffer, 0))));
    buffers.insert(idOf(buffer));
    gst_sample_unref(sample);
    ++n;
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(n, 20);
  EXPECT_EQ(p.stat("frames"), 20u);
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
  EXPECT_LE(buffers.size(), 6u);
}

// A display that offers ordinary memory, or nothing: memory of our own
TEST(LabUploadDownstream, PoolOfOrdinaryMemoryDownstreamIsOfNoUse) {
  GstBufferPool *pool = gst_video_buffer_pool_new();
  Pipeline p("videotestsrc num-buffers=3 ! video/x-raw,format=NV12,width=64,height=48 ! dmabufupload name=up ! "
             "appsink name=sink sync=false");
  GstPad *pad = gst_element_get_static_pad(p.element("sink"), "sink");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_QUERY_DOWNSTREAM,
      [](GstPad *, GstPadProbeInfo *info, gpointer offered) {
        GstQuery *query = GST_PAD_PROBE_INFO_QUERY(info);
        if (GST_QUERY_TYPE(query) != GST_QUERY_ALLOCATION || !(info->type & GST_PAD_PROBE_TYPE_PUSH))
          return GST_PAD_PROBE_OK;
        gst_query_add_allocation_pool(query, GST_BUFFER_POOL_CAST(offered), 64 * 72, 2, 0);
        return GST_PAD_PROBE_HANDLED;
      },
      pool, nullptr);
  gst_object_unref(pad);
  p.setState(GST_STATE_PLAYING);
  GstSample *sample = p.pull();
  ASSERT_NE(sample, nullptr) << p.waitEnd();
  EXPECT_TRUE(GST_IS_ZC_POOL(gst_sample_get_buffer(sample)->pool));
  gst_sample_unref(sample);
  p.drain();
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
  gst_object_unref(pool);
}

// vivid's own dma-bufs, under caps that do not say so
TEST(LabUploadCamera, DmaBufsOfACameraPassUnderPlainCaps) {
  Pipeline p("v4l2src num-buffers=5 io-mode=dmabuf ! video/x-raw,format=NV12,width=640,height=360 ! "
             "dmabufupload name=up ! appsink name=sink sync=false");
  GstPad *pad = gst_element_get_static_pad(p.element("up"), "sink");
  std::vector<BufferId> produced;
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad *, GstPadProbeInfo *info, gpointer list) {
        static_cast<std::vector<BufferId> *>(list)->push_back(idOf(GST_PAD_PROBE_INFO_BUFFER(info)));
        return GST_PAD_PROBE_OK;
      },
      &produced, nullptr);
  gst_object_unref(pad);
  p.setState(GST_STATE_PLAYING);
  for (int i = 0; i < 5; ++i) {
    GstSample *sample = p.pull();
    ASSERT_NE(sample, nullptr) << p.waitEnd();
    EXPECT_TRUE(gst_video_is_dma_drm_caps(gst_sample_get_caps(sample)));
    EXPECT_EQ(idOf(gst_sample_get_buffer(sample)), produced[static_cast<size_t>(i)]);
    gst_sample_unref(sample);
  }
  EXPECT_EQ(p.waitEnd(), "");
  EXPECT_EQ(p.stat("bytes-copied"), 0u);
  EXPECT_EQ(p.stat("pool-buffers"), 0u);
}

// BT.601, limited range; a chroma sample is taken for all four of its pixels, as vkms does
uint32_t rgbOf(double y, double u, double v) {
  const double l = 255.0 / 219 * (y - 16), b = 255.0 / 224 * (u - 128), r = 255.0 / 224 * (v - 128);
  const auto level = [](double value) { return static_cast<uint32_t>(std::clamp(std::lround(value), 0L, 255L)); };
  return level(l + 1.402 * r) << 16 | level(l - 0.344136 * b - 0.714136 * r) << 8 | level(l + 1.772 * b);
}

// A pixel of the frame as the CPU sees it, from the planes' mappings
uint32_t pixelOf(const FrameLayout &layout, const uint8_t *data, size_t x, size_t y) {
  const auto row = [&](guint p, size_t n) {
    return data + layout.planes[p].in_memory + n * static_cast<size_t>(layout.planes[p].stride);
  };
  if (layout.n_planes == 1) {
    uint32_t pixel;
    std::memcpy(&pixel, row(0, y) + x * 4, 4);
    return pixel & 0xffffff;
  }
  const uint8_t *chroma = row(1, y / 2) + x / 2 * 2;
  return rgbOf(row(0, y)[x], chroma[0], chroma[1]);
}

// The display finds the pixels where the meta says: its pages, strides and offsets are those of the CPU
TEST_P(LabUpload, DisplayImportsAndShowsTheFrame) {
  constexpr uint32_t kWidth = 66, kHeight = 50; // no multiple of the stride alignment
  for (const std::string format : {"BGRx", "NV12"}) {
    Pipeline p("videotestsrc num-buffers=1 pattern=smpte ! video/x-raw,format=" + format +
               ",width=66,height=50,colorimetry=bt601 ! dmabufupload name=up memory=" + GetParam() +
               " ! appsink name=sink sync=false");
    p.setState(GST_STATE_PLAYING);
    GstSample *sample = p.pull();
    ASSERT_NE(sample, nullptr) << p.waitEnd();
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    const auto frame = parseFrameCaps(gst_sample_get_caps(sample)).take();
    const auto layout = frameLayout(buffer, frame);
    ASSERT_TRUE(layout.ok()) << layout.error().message();

    auto card = lab::openCard("vkms");
    ASSERT_TRUE(card.ok()) << card.error().message();
    auto screen = lab::Screen::find(card->get());
    ASSERT_TRUE(screen.ok()) << screen.error().message();
    uint32_t handle = 0, framebuffer = 0;
    ASSERT_EQ(drmPrimeFDToHandle(card->get(), layout->planes[0].fd, &handle), 0) << errno;
    uint32_t handles[4] = {}, pitches[4] = {}, offsets[4] = {};
    for (guint i = 0; i < layout->n_planes; ++i) {
      handles[i] = handle;
      pitches[i] = static_cast<uint32_t>(layout->planes[i].stride);
      offsets[i] = static_cast<uint32_t>(layout->planes[i].offset);
      EXPECT_EQ(pitches[i] % GST_ZC_DEFAULT_STRIDE_ALIGN, 0u);
    }
    ASSERT_EQ(drmModeAddFB2(card->get(), kWidth, kHeight, frame.fourcc, handles, pitches, offsets, &framebuffer, 0), 0)
        << errno;
    std::map<std::string, uint64_t> values;
    if (format == "NV12") {
      auto encoding = screen->enumValue("COLOR_ENCODING", "ITU-R BT.601 YCbCr");
      auto range = screen->enumValue("COLOR_RANGE", "YCbCr limited range");
      ASSERT_TRUE(encoding && range);
      values = {{"COLOR_ENCODING", *encoding}, {"COLOR_RANGE", *range}};
    }
    auto shown = screen->show(framebuffer, lab::makeMode(kWidth, kHeight), values);
    ASSERT_TRUE(shown) << shown.error().message();
    auto image = lab::captureWriteback(card->get());
    ASSERT_TRUE(image) << image.error().message();

    GstMapInfo map;
    ASSERT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READ));
    std::set<uint32_t> colours;
    int worst = 0;
    for (uint32_t y = 0; y < kHeight; ++y)
      for (uint32_t x = 0; x < kWidth; ++x) {
        const uint32_t expected = pixelOf(*layout, map.data, x, y);
        colours.insert(expected);
        worst = std::max(worst, lab::distance(image->at(x, y), expected));
      }
    gst_buffer_unmap(buffer, &map);
    EXPECT_GE(colours.size(), 7u) << "the colour bars";
    EXPECT_LE(worst, format == "BGRx" ? 0 : 2) << format << ": conversions differ by rounding";

    drmModeRmFB(card->get(), framebuffer);
    drmCloseBufferHandle(card->get(), handle);
    EXPECT_TRUE(screen->off());
    gst_sample_unref(sample);
  }
}

} // namespace
