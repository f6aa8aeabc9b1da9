// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames as producers lay them out: padded rows and heights, planes in one dma-buf or several, beginning anywhere. What
// the display shows is compared with the picture's formula, pixel by pixel; padding is of another colour.
//
// vkms (Linux 7.3) reads all planes from the first one's dma-buf and counts that one's offset twice. Where that makes a
// difference its picture is wrong, or its composer reads past the mapping and crashes the kernel, so such dma-bufs have
// spare room at their ends. There the framebuffer on the plane is asked for instead: each of its planes' memory by
// identity, and the bytes in it where the kernel believes the plane to be. bochs shows an offset as it should.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "tests/lab/drm/feeder.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/writeback.h"

using namespace gstzc;
using namespace gstzc::lab;
using namespace std::chrono_literals;

namespace {

constexpr uint8_t kPadding = 0xee;
constexpr int kRounding = 2; // YUV to RGB in the kernel's fixed point

// A plane: in which of the dma-bufs, from which byte on.
struct Plane {
  size_t dmabuf, offset;
  int stride;
};

struct Layout {
  const char *name, *drm_format;
  GstVideoFormat format;
  uint32_t width, height;
  std::vector<size_t> dmabufs; // their sizes
  std::vector<Plane> planes;
  // How planes become GstMemory: one memory for each dma-buf from its first byte on, or one for each plane from the
  // plane's first byte on.
  enum class Memories { Whole, PerPlane, Shared } memories;
};

void PrintTo(const Layout &layout, std::ostream *out) { *out << layout.name; }

int luma(uint32_t x, uint32_t y) { return 16 + static_cast<int>((x * 3 + y * 7) % 220); }
int chroma(uint32_t component, uint32_t cx, uint32_t cy) {
  return component == 0 ? 90 + static_cast<int>((cx + cy * 2) % 64) : 100 + static_cast<int>((cx * 2 + cy) % 64);
}

// BT.601, limited range
uint32_t yuvToRgb(int y, int cb, int cr) {
  const double l = (y - 16) * 255 / 219.0, b = (cb - 128) * 255 / 224.0, r = (cr - 128) * 255 / 224.0;
  const auto byte = [](double v) { return static_cast<uint32_t>(std::clamp(std::lround(v), 0l, 255l)); };
  return byte(l + 1.402 * r) << 16 | byte(l - 0.344136 * b - 0.714136 * r) << 8 | byte(l + 1.772 * b);
}

uint32_t expected(const Layout &layout, uint32_t x, uint32_t y) {
  if (layout.planes.size() == 1) return (x * 4 & 0xff) << 16 | (y * 4 & 0xff) << 8 | ((x + y) & 0xff);
  return yuvToRgb(luma(x, y), chroma(0, x / 2, y / 2), chroma(1, x / 2, y / 2));
}

void paint(const Layout &layout, size_t p, uint8_t *data) {
  const auto row = [&](uint32_t y) { return data + size_t{y} * static_cast<size_t>(layout.planes[p].stride); };
  const uint32_t cw = (layout.width + 1) / 2, ch = (layout.height + 1) / 2;
  if (layout.planes.size() == 1) {
    for (uint32_t y = 0; y < layout.height; ++y)
      for (uint32_t x = 0; x < layout.width; ++x) {
        const uint32_t pixel = expected(layout, x, y);
        std::memcpy(row(y) + x * 4, &pixel, 4);
      }
  } else if (p == 0) {
    for (uint32_t y = 0; y < layout.height; ++y)
      for (uint32_t x = 0; x < layout.width; ++x) row(y)[x] = static_cast<uint8_t>(luma(x, y));
  } else {
    const bool both = layout.planes.size() == 2; // NV12
    for (uint32_t y = 0; y < ch; ++y)
      for (uint32_t x = 0; x < cw; ++x)
        if (both) {
          row(y)[x * 2] = static_cast<uint8_t>(chroma(0, x, y));
          row(y)[x * 2 + 1] = static_cast<uint8_t>(chroma(1, x, y));
        } else {
          row(y)[x] = static_cast<uint8_t>(chroma(p == 1 ? 0 : 1, x, y));
        }
  }
}

struct Frame {
  std::vector<UniqueFd> dmabufs;
  std::vector<size_t> sizes; // whole pages
  std::vector<Piece> pieces;
  FrameShape shape;
};

void makeMemory(const Layout &layout, Frame *frame) {
  for (size_t i = 0; i < layout.dmabufs.size(); ++i) {
    const size_t size = (layout.dmabufs[i] + 4095) & ~size_t{4095};
    auto memory = allocateUdmabuf(size);
    ASSERT_TRUE(memory) << memory.error().message();
    auto mapping = Mapping::create(memory->get(), size);
    ASSERT_TRUE(mapping) << mapping.error().message();
    std::memset(mapping->data(), kPadding, size);
    for (size_t p = 0; p < layout.planes.size(); ++p)
      if (layout.planes[p].dmabuf == i) paint(layout, p, mapping->data() + layout.planes[p].offset);
    frame->dmabufs.push_back(memory.take());
    frame->sizes.push_back(size);
  }
  FrameShape &shape = frame->shape;
  shape = {layout.format, layout.width, layout.height, {}, {}};
  for (const Plane &plane : layout.planes) shape.strides.push_back(plane.stride);
  if (layout.memories == Layout::Memories::Whole) {
    for (size_t i = 0; i < frame->dmabufs.size(); ++i)
      frame->pieces.push_back({frame->dmabufs[i].get(), frame->sizes[i], 0, frame->sizes[i]});
    for (const Plane &plane : layout.planes) {
      size_t before = 0;
      for (size_t i = 0; i < plane.dmabuf; ++i) before += frame->sizes[i];
      shape.offsets.push_back(before + plane.offset);
    }
    return;
  }
  size_t so_far = 0;
  for (const Plane &plane : layout.planes) {
    size_t end = frame->sizes[plane.dmabuf];
    for (const Plane &other : layout.planes)
      if (other.dmabuf == plane.dmabuf && other.offset > plane.offset) end = std::min(end, other.offset);
    frame->pieces.push_back({frame->dmabufs[plane.dmabuf].get(), frame->sizes[plane.dmabuf], plane.offset,
                             end - plane.offset, layout.memories == Layout::Memories::Shared});
    shape.offsets.push_back(so_far);
    so_far += end - plane.offset;
  }
}

// The framebuffer on the plane that shows it is of this memory, and its rows are the picture's.
void expectFramebuffer(int card, const Layout &layout, const Frame &frame) {
  uint32_t id = 0;
  for (const PlaneInfo &plane : planes(card))
    if (const auto fb = static_cast<uint32_t>(property(card, plane.id, DRM_MODE_OBJECT_PLANE, "FB_ID").value); fb != 0)
      id = fb;
  drmModeFB2Ptr fb = drmModeGetFB2(card, id);
  ASSERT_NE(fb, nullptr);
  EXPECT_EQ(fb->width, layout.width);
  EXPECT_EQ(fb->height, layout.height);
  for (size_t p = 0; p < layout.planes.size(); ++p) {
    const Plane &plane = layout.planes[p];
    EXPECT_EQ(fb->pitches[p], static_cast<uint32_t>(plane.stride)) << "plane " << p;
    EXPECT_EQ(fb->offsets[p], plane.offset) << "plane " << p;
    int exported = -1;
    ASSERT_EQ(drmPrimeHandleToFD(card, fb->handles[p], DRM_CLOEXEC, &exported), 0);
    const UniqueFd memory(exported);
    auto is = bufferId(memory.get()), ours = bufferId(frame.dmabufs[plane.dmabuf].get());
    ASSERT_TRUE(is && ours);
    EXPECT_EQ(*is, *ours) << "plane " << p << " is of another dma-buf";

    auto mapping = Mapping::create(memory.get(), frame.sizes[plane.dmabuf]);
    ASSERT_TRUE(mapping) << mapping.error().message();
    std::vector<uint8_t> right(frame.sizes[plane.dmabuf], kPadding);
    paint(layout, p, right.data() + plane.offset);
    const bool whole = layout.planes.size() == 1 || p == 0;
    const size_t rows = whole ? layout.height : (layout.height + 1) / 2;
    const size_t bytes = layout.planes.size() == 1   ? layout.width * 4
                         : layout.planes.size() == 2 ? layout.width
                         : p == 0                    ? layout.width
                                                     : layout.width / 2;
    for (size_t y = 0; y < rows; ++y)
      ASSERT_EQ(std::memcmp(mapping->data() + fb->offsets[p] + y * fb->pitches[p],
                            right.data() + plane.offset + y * static_cast<size_t>(plane.stride), bytes),
                0)
          << "plane " << p << " row " << y;
  }
  for (size_t p = 0; p < 4; ++p) {
    bool seen = false;
    for (size_t q = 0; q < p; ++q) seen |= fb->handles[q] == fb->handles[p];
    if (fb->handles[p] != 0 && !seen) drmCloseBufferHandle(card, fb->handles[p]);
  }
  drmModeFreeFB2(fb);
}

void expectPixels(const Image &shown, const Layout &layout) {
  ASSERT_EQ(shown.width, layout.width);
  ASSERT_EQ(shown.height, layout.height);
  const int tolerance = layout.planes.size() == 1 ? 0 : kRounding;
  size_t wrong = 0;
  for (uint32_t y = 0; y < layout.height; ++y)
    for (uint32_t x = 0; x < layout.width; ++x)
      if (distance(shown.at(x, y), expected(layout, x, y)) > tolerance && wrong++ == 0)
        ADD_FAILURE() << "first at " << x << "," << y;
  EXPECT_EQ(wrong, 0u);
}

std::string pipeline(const Layout &layout, const std::string &display, bool system = false) {
  const std::string width = std::to_string(layout.width), height = std::to_string(layout.height);
  return std::string("appsrc name=src format=time caps=\"video/x-raw") +
         (system ? std::string(",format=") + gst_video_format_to_string(layout.format)
                 : std::string("(memory:DMABuf),format=DMA_DRM,drm-format=") + layout.drm_format) +
         ",width=" + width + ",height=" + height +
         ",framerate=30/1,colorimetry=" + (layout.planes.size() == 1 ? "sRGB" : "bt601") +
         "\" ! drmmodifiersink name=sink message-flips=true max-lateness=-1 mode=" + width + "x" + height + " " +
         display;
}

class SinkLayouts : public testing::TestWithParam<Layout> {};

TEST_P(SinkLayouts, AreShownAsTheyAre) {
  const Layout &layout = GetParam();
  auto card = openCard("vkms");
  ASSERT_TRUE(card) << card.error().message();

  Frame frame;
  ASSERT_NO_FATAL_FAILURE(makeMemory(layout, &frame));
  Player player(pipeline(layout, "fd=" + std::to_string(card->get())));
  Feeder feeder(player);
  player.start();
  feeder.push(makeFrame(frame.pieces, frame.shape, 0));
  feeder.end();
  ASSERT_TRUE(player.wait(120s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_EQ(player.stat("imports"), 1u);
  expectFramebuffer(card->get(), layout, frame);
  if (layout.dmabufs.size() > 1 || layout.planes[0].offset != 0) return;
  auto shown = captureWriteback(card->get(), 90s);
  ASSERT_TRUE(shown) << shown.error().message();
  expectPixels(*shown, layout);
}

constexpr auto kWhole = Layout::Memories::Whole, kPerPlane = Layout::Memories::PerPlane,
               kShared = Layout::Memories::Shared;
constexpr auto kNv12 = GST_VIDEO_FORMAT_NV12;

INSTANTIATE_TEST_SUITE_P(
    Producers, SinkLayouts,
    testing::Values(
        Layout{"XrgbPadded", "XR24", GST_VIDEO_FORMAT_BGRx, 60, 46, {256 * 48}, {{0, 0, 256}}, kWhole},
        Layout{"XrgbSomewhereInside",
               "XR24",
               GST_VIDEO_FORMAT_BGRx,
               60,
               46,
               {2 * 8192 + 256 * 48},
               {{0, 8192, 256}},
               kPerPlane},
        Layout{"Nv12PaddedRowsAndHeight",
               "NV12",
               kNv12,
               60,
               44,
               {128 * 48 * 3 / 2},
               {{0, 0, 128}, {0, 128 * 48, 128}},
               kWhole},
        Layout{"Nv12ASubMemoryEach",
               "NV12",
               kNv12,
               60,
               44,
               {128 * 48 * 3 / 2},
               {{0, 0, 128}, {0, 128 * 48, 128}},
               kShared},
        Layout{"Nv12InTwoDmaBufs", "NV12", kNv12, 60, 44, {128 * 48, 128 * 24}, {{0, 0, 128}, {1, 0, 128}}, kWhole},
        Layout{"Nv12InsideTwoDmaBufs",
               "NV12",
               kNv12,
               60,
               44,
               {4096 + 8192 + 128 * 48, 8192 + 128 * 24},
               {{0, 4096, 128}, {1, 8192, 128}},
               kPerPlane},
        Layout{
            "Nv12ChromaFirst", "NV12", kNv12, 64, 48, {2 * 64 * 24 + 64 * 48}, {{0, 64 * 24, 64}, {0, 0, 64}}, kWhole},
        Layout{"I420InThreeDmaBufs",
               "YU12",
               GST_VIDEO_FORMAT_I420,
               60,
               44,
               {128 * 48, 64 * 24, 64 * 24},
               {{0, 0, 128}, {1, 0, 64}, {2, 0, 64}},
               kPerPlane},
        Layout{"Nv12Of1920With1984And1088Rows",
               "NV12",
               kNv12,
               1920,
               1080,
               {1984 * 1088 * 3 / 2},
               {{0, 0, 1984}, {0, 1984 * 1088, 1984}},
               kWhole},
        Layout{"Nv12Of1280With1920",
               "NV12",
               kNv12,
               1280,
               720,
               {1920 * 720 * 3 / 2},
               {{0, 0, 1920}, {0, 1920 * 720, 1920}},
               kPerPlane}),
    [](const testing::TestParamInfo<Layout> &p) { return p.param.name; });

TEST(BochsLayouts, AnOffsetAndPaddedRows) {
  const Layout layout{"XrgbPaddedInside", "XR24",   GST_VIDEO_FORMAT_BGRx, 640, 480, {8192 + 2816 * 480},
                      {{0, 8192, 2816}},  kPerPlane};
  Frame frame;
  ASSERT_NO_FATAL_FAILURE(makeMemory(layout, &frame));
  auto card = cardPath("bochs-drm");
  ASSERT_TRUE(card) << card.error().message();
  Player player(pipeline(layout, "device=" + *card));
  Feeder feeder(player);
  player.start();
  feeder.push(makeFrame(frame.pieces, frame.shape, 0));
  feeder.end();
  ASSERT_TRUE(player.wait(60s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("copies"), 0u);
  auto shown = screendump("bochs0");
  ASSERT_TRUE(shown) << shown.error().message();
  expectPixels(*shown, layout);
}

// Copies that allow-copy permits: the padding stays behind. In system memory to vkms, in dma-bufs to virtio-gpu, which
// imports none.
const Layout kCopied[] = {
    {"Nv12Of1920With1984And1088Rows",
     "NV12",
     kNv12,
     1920,
     1080,
     {1984 * 1088 * 3 / 2},
     {{0, 0, 1984}, {0, 1984 * 1088, 1984}},
     kWhole},
    {"Nv12Of1280With1920",
     "NV12",
     kNv12,
     1280,
     720,
     {1920 * 720 * 3 / 2},
     {{0, 0, 1920}, {0, 1920 * 720, 1920}},
     kWhole},
    {"XrgbOf1920With1984And1088Rows",
     "XR24",
     GST_VIDEO_FORMAT_BGRx,
     1920,
     1080,
     {1984 * 4 * 1088},
     {{0, 0, 1984 * 4}},
     kWhole},
    {"XrgbSomewhereInside", "XR24", GST_VIDEO_FORMAT_BGRx, 640, 480, {8192 + 2816 * 480}, {{0, 8192, 2816}}, kPerPlane},
};

GstBuffer *inSystemMemory(const Layout &layout) {
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, layout.dmabufs[0], nullptr);
  GstMapInfo map;
  EXPECT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
  std::memset(map.data, kPadding, map.size);
  gsize offsets[GST_VIDEO_MAX_PLANES] = {};
  gint strides[GST_VIDEO_MAX_PLANES] = {};
  for (size_t p = 0; p < layout.planes.size(); ++p) {
    paint(layout, p, map.data + layout.planes[p].offset);
    offsets[p] = layout.planes[p].offset;
    strides[p] = layout.planes[p].stride;
  }
  gst_buffer_unmap(buffer, &map);
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, layout.format, layout.width, layout.height,
                                 static_cast<guint>(layout.planes.size()), offsets, strides);
  GST_BUFFER_PTS(buffer) = 0;
  return buffer;
}

size_t pixelBytes(const Layout &layout) {
  const size_t pixels = size_t{layout.width} * layout.height;
  return layout.planes.size() == 1 ? pixels * 4 : pixels * 3 / 2;
}

class CopiedLayouts : public testing::TestWithParam<Layout> {};

TEST_P(CopiedLayouts, OfSystemMemoryAreShownWithoutTheirPadding) {
  const Layout &layout = GetParam();
  auto card = openCard("vkms");
  ASSERT_TRUE(card) << card.error().message();
  Player player(pipeline(layout, "allow-copy=true fd=" + std::to_string(card->get()), true));
  Feeder feeder(player);
  player.start();
  feeder.push(inSystemMemory(layout));
  feeder.end();
  ASSERT_TRUE(player.wait(120s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("copies"), 1u);
  EXPECT_EQ(player.stat("bytes-copied"), pixelBytes(layout));
  auto shown = captureWriteback(card->get(), 90s);
  ASSERT_TRUE(shown) << shown.error().message();
  expectPixels(*shown, layout);
}

class CopiedDmaBufs : public testing::TestWithParam<Layout> {};

TEST_P(CopiedDmaBufs, AreShownWithoutTheirPadding) {
  const Layout &layout = GetParam();
  Frame frame;
  ASSERT_NO_FATAL_FAILURE(makeMemory(layout, &frame));
  auto card = cardPath("virtio_gpu");
  ASSERT_TRUE(card) << card.error().message();
  Player player(pipeline(layout, "allow-copy=true device=" + *card));
  Feeder feeder(player);
  player.start();
  feeder.push(makeFrame(frame.pieces, frame.shape, 0));
  feeder.end();
  ASSERT_TRUE(player.wait(60s));
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("copies"), 1u);
  EXPECT_EQ(player.stat("bytes-copied"), pixelBytes(layout));
  auto shown = screendump("virtio0");
  ASSERT_TRUE(shown) << shown.error().message();
  expectPixels(*shown, layout);
}

INSTANTIATE_TEST_SUITE_P(Producers, CopiedLayouts, testing::ValuesIn(kCopied),
                         [](const testing::TestParamInfo<Layout> &p) { return p.param.name; });
INSTANTIATE_TEST_SUITE_P(Rgb, CopiedDmaBufs, testing::Values(kCopied[2], kCopied[3]), // all that virtio-gpu shows
                         [](const testing::TestParamInfo<Layout> &p) { return p.param.name; });

} // namespace
