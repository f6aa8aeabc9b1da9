// SPDX-License-Identifier: LGPL-2.1-or-later
// Every format that vkms takes, read back pixel by pixel: as DMA_DRM caps, and where GStreamer has a name for it also
// as plain memory:DMABuf; YUV in each encoding and range. Expected values come from the definition of the formats in
// drm_fourcc.h and of the encodings in ITU-R BT.601, BT.709 and BT.2020.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include <drm_fourcc.h>
#include <gtest/gtest.h>

#include "tests/lab/drm/feeder.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/writeback.h"

using namespace gstzc;
using namespace gstzc::lab;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t kWidth = 64, kHeight = 48;
constexpr uint8_t kPadding = 0xee; // behind each row
// The kernel's fixed point against the formula, and deep samples of which it takes the unused low bits for zeros.
constexpr int kRounding = 2;

// Where a component lies in a little-endian pixel.
struct Bits {
  int shift = 0, count = 0; // count 0: absent
};

struct Format {
  const char *name; // as in drm-format
  const char *gst;  // GStreamer's, null: none
  int pixel_bits;   // of a packed pixel, or of a sample where there are several planes
  Bits r, g, b, a;  // packed RGB
  int planes = 1;   // more: YUV, luma first
  int hsub = 1, vsub = 1;
  bool v_first = false;
  int significant = 8; // bits of a YUV sample, the upper ones
  bool yuv() const { return planes > 1; }
  bool grey() const { return !yuv() && r.count == 0; } // pixel_bits of it, the leftmost pixel in the highest bits
};

void PrintTo(const Format &format, std::ostream *out) { *out << format.name; }

// clang-format off
const Format kFormats[] = {
    {"AR24", "BGRA", 32, {16, 8}, {8, 8}, {0, 8}, {24, 8}},
    {"AB24", "RGBA", 32, {0, 8}, {8, 8}, {16, 8}, {24, 8}},
    {"BA24", "ARGB", 32, {8, 8}, {16, 8}, {24, 8}, {0, 8}},
    {"RA24", "ABGR", 32, {24, 8}, {16, 8}, {8, 8}, {0, 8}},
    {"XR24", "BGRx", 32, {16, 8}, {8, 8}, {0, 8}, {}},
    {"XB24", "RGBx", 32, {0, 8}, {8, 8}, {16, 8}, {}},
    {"RG24", "BGR", 24, {16, 8}, {8, 8}, {0, 8}, {}},
    {"BG24", "RGB", 24, {0, 8}, {8, 8}, {16, 8}, {}},
    {"XR48", nullptr, 64, {32, 16}, {16, 16}, {0, 16}, {}},
    {"XB48", nullptr, 64, {0, 16}, {16, 16}, {32, 16}, {}},
    {"AR48", nullptr, 64, {32, 16}, {16, 16}, {0, 16}, {48, 16}},
    {"AB48", nullptr, 64, {0, 16}, {16, 16}, {32, 16}, {48, 16}},
    {"RG16", "RGB16", 16, {11, 5}, {5, 6}, {0, 5}, {}},
    {"BG16", "BGR16", 16, {0, 5}, {5, 6}, {11, 5}, {}},
    {"NV12", "NV12", 8, {}, {}, {}, {}, 2, 2, 2},
    {"NV16", "NV16", 8, {}, {}, {}, {}, 2, 2, 1},
    {"NV24", "NV24", 8, {}, {}, {}, {}, 2, 1, 1},
    {"NV21", "NV21", 8, {}, {}, {}, {}, 2, 2, 2, true},
    {"NV61", "NV61", 8, {}, {}, {}, {}, 2, 2, 1, true},
    {"NV42", nullptr, 8, {}, {}, {}, {}, 2, 1, 1, true},
    {"YU12", "I420", 8, {}, {}, {}, {}, 3, 2, 2},
    {"YU16", "Y42B", 8, {}, {}, {}, {}, 3, 2, 1},
    {"YU24", "Y444", 8, {}, {}, {}, {}, 3, 1, 1},
    {"YV12", "YV12", 8, {}, {}, {}, {}, 3, 2, 2, true},
    {"YV16", nullptr, 8, {}, {}, {}, {}, 3, 2, 1, true},
    {"YV24", nullptr, 8, {}, {}, {}, {}, 3, 1, 1, true},
    {"P010", "P010_10LE", 16, {}, {}, {}, {}, 2, 2, 2, false, 10},
    {"P012", "P012_LE", 16, {}, {}, {}, {}, 2, 2, 2, false, 12},
    {"P016", nullptr, 16, {}, {}, {}, {}, 2, 2, 2, false, 16},
    {"R1  ", nullptr, 1},
    {"R2  ", nullptr, 2},
    {"R4  ", nullptr, 4},
    {"R8  ", "GRAY8", 8},
};
// clang-format on

uint32_t fourccOf(const Format &format) {
  return fourcc_code(format.name[0], format.name[1], format.name[2], format.name[3]);
}

// A sample of the picture, `bits` wide: all of them differ from pixel to pixel.
uint32_t sample(int component, uint32_t x, uint32_t y, int bits) {
  const uint32_t mixed = (x * 0x9e37 + y * 0x79b9 + static_cast<uint32_t>(component) * 0x3c6f + 0x1234) & 0xffff;
  return mixed >> (16 - bits);
}

struct Memory {
  std::vector<uint8_t> bytes;
  std::vector<size_t> offsets;
  std::vector<int> strides;
};

void putSample(uint8_t *row, uint32_t at, uint32_t value, const Format &format) {
  if (format.pixel_bits == 8) {
    row[at] = static_cast<uint8_t>(value);
  } else {
    const auto word = static_cast<uint16_t>(value << (16 - format.significant));
    std::memcpy(row + at * 2, &word, 2);
  }
}

void paintPacked(const Format &format, uint8_t *row, uint32_t y) {
  for (uint32_t x = 0; x < kWidth; ++x) {
    if (format.grey()) {
      const auto per_byte = static_cast<uint32_t>(8 / format.pixel_bits);
      const auto shift = 8 - format.pixel_bits * static_cast<int>(x % per_byte + 1);
      uint8_t &byte = row[x / per_byte];
      byte = static_cast<uint8_t>((x % per_byte == 0 ? 0 : byte) | sample(0, x, y, format.pixel_bits) << shift);
      continue;
    }
    uint64_t pixel = 0;
    const Bits components[] = {format.r, format.g, format.b};
    for (int c = 0; c < 3; ++c) pixel |= uint64_t{sample(c, x, y, components[c].count)} << components[c].shift;
    if (format.a.count > 0) pixel |= ((uint64_t{1} << format.a.count) - 1) << format.a.shift; // opaque
    std::memcpy(row + x * static_cast<uint32_t>(format.pixel_bits / 8), &pixel,
                static_cast<size_t>(format.pixel_bits / 8));
  }
}

Memory paint(const Format &format) {
  Memory memory;
  for (int p = 0; p < format.planes; ++p) {
    const uint32_t width = p == 0 ? kWidth : kWidth / static_cast<uint32_t>(format.hsub);
    const uint32_t height = p == 0 ? kHeight : kHeight / static_cast<uint32_t>(format.vsub);
    const uint32_t per_pixel = p > 0 && format.planes == 2 ? 2 : 1;
    const uint32_t row_bytes = width * per_pixel * static_cast<uint32_t>(format.pixel_bits) / 8;
    const uint32_t stride = ((row_bytes + 63) & ~63u) + 64;
    const size_t offset = memory.bytes.size();
    memory.offsets.push_back(offset);
    memory.strides.push_back(static_cast<int>(stride));
    memory.bytes.resize(offset + size_t{stride} * height, kPadding);
    for (uint32_t y = 0; y < height; ++y) {
      uint8_t *row = memory.bytes.data() + offset + size_t{y} * stride;
      if (!format.yuv()) {
        paintPacked(format, row, y);
        continue;
      }
      for (uint32_t x = 0; x < width; ++x)
        for (uint32_t i = 0; i < per_pixel; ++i) {
          int component = p;
          if (p > 0) component = format.planes == 2 ? static_cast<int>(1 + i) : p;
          if (p > 0 && format.v_first) component = 3 - component;
          putSample(row, x * per_pixel + i, sample(component, x, y, format.significant), format);
        }
    }
  }
  return memory;
}

struct Color {
  const char *name; // of the test
  double kr, kb;
  bool full;
  const char *colorimetry; // GStreamer's numbers: range, matrix, transfer, primaries
};
const Color kColors[] = {
    {"Bt601Limited", 0.299, 0.114, false, "2:4:5:1"},    {"Bt601Full", 0.299, 0.114, true, "1:4:5:1"},
    {"Bt709Limited", 0.2126, 0.0722, false, "2:3:5:1"},  {"Bt709Full", 0.2126, 0.0722, true, "1:3:5:1"},
    {"Bt2020Limited", 0.2627, 0.0593, false, "2:6:5:1"}, {"Bt2020Full", 0.2627, 0.0593, true, "1:6:5:1"},
};

uint32_t rgb(double r, double g, double b) { // of 0 to 1
  const auto byte = [](double v) { return static_cast<uint32_t>(std::lround(std::clamp(v, 0.0, 1.0) * 255)); };
  return byte(r) << 16 | byte(g) << 8 | byte(b);
}

uint32_t expected(const Format &format, const Color &color, uint32_t x, uint32_t y) {
  const auto level = [&](int component, int bits) {
    return sample(component, x, y, bits) / static_cast<double>((1u << bits) - 1);
  };
  if (format.grey()) {
    const double grey = level(0, format.pixel_bits);
    return rgb(grey, grey, grey);
  }
  if (!format.yuv()) return rgb(level(0, format.r.count), level(1, format.g.count), level(2, format.b.count));
  const auto value = [&](int component, uint32_t sx, uint32_t sy) { // in 256ths of a sample's range
    return sample(component, sx, sy, format.significant) / static_cast<double>(1u << format.significant) * 256;
  };
  const uint32_t cx = x / static_cast<uint32_t>(format.hsub), cy = y / static_cast<uint32_t>(format.vsub);
  const double luma = value(0, x, y), cb = value(1, cx, cy) - 128, cr = value(2, cx, cy) - 128;
  const double l = color.full ? luma / 255 : (luma - 16) / 219, scale = color.full ? 255 : 224;
  const double kg = 1 - color.kr - color.kb;
  const double r = l + 2 * (1 - color.kr) * cr / scale, b = l + 2 * (1 - color.kb) * cb / scale;
  return rgb(r, (l - color.kr * r - color.kb * b) / kg, b);
}

class VkmsFormats : public testing::Test {
protected:
  void SetUp() override {
    auto opened = openCard("vkms");
    ASSERT_TRUE(opened) << opened.error().message();
    card_ = opened.take();
  }

  void expectShown(const Format &format, const std::string &caps, const Color &color) {
    const Memory memory = paint(format);
    const size_t size = (memory.bytes.size() + 4095) & ~size_t{4095};
    auto dmabuf = allocateUdmabuf(size);
    ASSERT_TRUE(dmabuf) << dmabuf.error().message();
    auto mapping = Mapping::create(dmabuf->get(), size);
    ASSERT_TRUE(mapping) << mapping.error().message();
    std::memcpy(mapping->data(), memory.bytes.data(), memory.bytes.size());

    Player player("appsrc name=src format=time ! drmmodifiersink name=sink max-lateness=-1 mode=64x48 fd=" +
                  std::to_string(card_.get()));
    Feeder feeder(player);
    GstCaps *made =
        gst_caps_from_string(("video/x-raw(memory:DMABuf)," + caps + ",width=64,height=48,framerate=30/1,colorimetry=" +
                              (format.yuv() ? color.colorimetry : "sRGB"))
                                 .c_str());
    ASSERT_NE(made, nullptr) << caps;
    g_object_set(feeder.element(), "caps", made, nullptr);
    gst_caps_unref(made);
    player.start();
    const Piece piece{dmabuf->get(), size, 0, size};
    const GstVideoFormat known =
        format.gst != nullptr ? gst_video_format_from_string(format.gst) : GST_VIDEO_FORMAT_DMA_DRM;
    ASSERT_NE(known, GST_VIDEO_FORMAT_UNKNOWN);
    feeder.push(makeFrame({&piece, 1}, {known, kWidth, kHeight, memory.offsets, memory.strides}, 0));
    feeder.end();
    ASSERT_TRUE(player.wait(60s)) << caps;
    ASSERT_TRUE(player.ended()) << player.errors();
    EXPECT_EQ(player.stat("copies"), 0u);
    auto shown = captureWriteback(card_.get());
    ASSERT_TRUE(shown) << shown.error().message();
    const int tolerance = format.yuv() ? kRounding : 0;
    size_t wrong = 0;
    for (uint32_t y = 0; y < kHeight; ++y)
      for (uint32_t x = 0; x < kWidth; ++x)
        if (const uint32_t want = expected(format, color, x, y);
            distance(shown->at(x, y), want) > tolerance && wrong++ == 0)
          ADD_FAILURE() << caps << " " << color.name << ": at " << x << "," << y << std::hex << " " << shown->at(x, y)
                        << " instead of " << want << ", " << player.configuration();
    EXPECT_EQ(wrong, 0u) << caps << " " << color.name;
  }

  UniqueFd card_;
};

class EveryVkmsFormat : public VkmsFormats, public testing::WithParamInterface<Format> {};

TEST_P(EveryVkmsFormat, ByItsFourcc) {
  const Format &format = GetParam();
  for (const Color &color : kColors) {
    ASSERT_NO_FATAL_FAILURE(
        expectShown(format, std::string("format=DMA_DRM,drm-format=(string)\"") + format.name + "\"", color));
    if (!format.yuv()) return;
  }
}

TEST_P(EveryVkmsFormat, ByGStreamersName) {
  const Format &format = GetParam();
  if (format.gst == nullptr) GTEST_SKIP() << "GStreamer has no name for " << format.name;
  expectShown(format, std::string("format=") + format.gst, kColors[2]);
}

std::string nameOf(const testing::TestParamInfo<Format> &info) {
  std::string name = info.param.name;
  std::erase(name, ' ');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Formats, EveryVkmsFormat, testing::ValuesIn(kFormats), nameOf);

TEST_F(VkmsFormats, AreAllInTheTable) {
  std::set<uint32_t> ours, theirs;
  for (const Format &format : kFormats) ours.insert(fourccOf(format));
  for (const PlaneInfo &plane : planes(card_.get()))
    if (plane.type == DRM_PLANE_TYPE_PRIMARY) theirs.insert(plane.formats.begin(), plane.formats.end());
  EXPECT_EQ(ours, theirs);
}

} // namespace
