// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/decode/masks.h"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "gst/infer/decode/half.h"

using namespace gstzc::infer;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

// P prototypes of width x height.
struct Prototypes {
  int count, width, height;
  std::vector<float> values = std::vector<float>(static_cast<size_t>(count) * width * height);

  float &at(int p, int x, int y) { return values[(static_cast<size_t>(p) * height + y) * width + x]; }
  TensorView view() {
    return {TensorType::Float32, {1, count, height, width}, values.data(), values.size() * 4, MemorySpace::Host};
  }
};

Detection box(float left, float top, float right, float bottom) {
  Detection d;
  d.left = left, d.top = top, d.right = right, d.bottom = bottom;
  return d;
}

// Rows of the mask, joined by a slash; # inside, . outside.
std::string draw(const std::optional<BoxMask> &mask) {
  if (!mask) return "none";
  std::string text;
  for (size_t i = 0; i < mask->values.size(); ++i) {
    if (i > 0 && i % static_cast<size_t>(mask->width) == 0) text += '/';
    text += mask->values[i] == 255 ? '#' : mask->values[i] == 0 ? '.' : '?';
  }
  return text;
}

TEST(Half, KnownNumbers) {
  struct {
    uint16_t bits;
    float value;
  } const rows[] = {{0x0000, 0},     {0x3c00, 1},        {0xc000, -2},       {0x3555, 0.333251953125f},
                    {0x7bff, 65504}, {0x0400, 0x1p-14f}, {0x0001, 0x1p-24f}, {0x83ff, -1023 * 0x1p-24f},
                    {0x7c00, kInf},  {0xfc00, -kInf}};
  for (const auto &row : rows) EXPECT_EQ(halfToFloat(row.bits), row.value) << std::hex << row.bits;
  EXPECT_TRUE(std::signbit(halfToFloat(0x8000)));
  EXPECT_TRUE(std::isnan(halfToFloat(0x7e00)));
  EXPECT_TRUE(std::isnan(halfToFloat(0xfc01)));
}

TEST(Half, AllFiniteNumbersByDefinition) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10), fraction = static_cast<int>(bits & 0x3ff);
    const double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
    ASSERT_EQ(halfToFloat(static_cast<uint16_t>(bits)), static_cast<float>(value)) << bits;
    ASSERT_EQ(halfToFloat(static_cast<uint16_t>(bits | 0x8000)), static_cast<float>(-value)) << bits;
  }
}

// Left half of the first prototype, top half of the second.
Prototypes halves() {
  Prototypes p{2, 8, 4};
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 8; ++x) p.at(0, x, y) = x < 4 ? 1.0f : -1.0f, p.at(1, x, y) = y < 2 ? 1.0f : -1.0f;
  return p;
}

TEST(Masks, FactorsChooseAmongPrototypes) {
  Prototypes p = halves();
  const Detection whole = box(0, 0, 1, 1);
  struct {
    std::vector<float> factors;
    const char *mask;
  } const rows[] = {
      {{3, 0}, "####..../####..../####..../####...."},    {{-3, 0}, "....####/....####/....####/....####"},
      {{0, 1}, "########/########/......../........"},    {{2, 1}, "####..../####..../####..../####...."},
      {{1, 1.5f}, "########/########/......../........"}, {{0, 0}, "......../......../......../........"}};
  for (const auto &row : rows) EXPECT_EQ(draw(maskOf(row.factors, p.view(), whole)), row.mask);
}

TEST(Masks, TheGridBeginsAndEndsAtTheBox) {
  Prototypes p = halves();
  const std::vector<float> left = {1, 0};
  struct {
    Detection box;
    const char *mask;
  } const rows[] = {
      {box(0.25f, 0.25f, 0.75f, 0.75f), "##../##.."}, // cells 2 to 5 of 8, 1 to 2 of 4
      {box(0.5f, 0, 1, 0.25f), "...."},
      // 1.5 cells from x 3.25 to 4.75 in 2: centres at 3.625 and 4.375, the border is at 4
      {box(3.25f / 8, 0, 4.75f / 8, 0.25f), "#."},
      {box(3.75f / 8, 0, 4.75f / 8, 0.25f), "."},                 // one cell with the centre at 4.25
      {box(3.25f / 8, 0, 4.25f / 8, 0.25f), "#"},                 // and at 3.75
      {box(0.49f, 0.5f, 0.495f, 0.501f), "#"},                    // far smaller than a cell
      {box(-1, -1, 2, 2), "####..../####..../####..../####...."}, // only what lies in the picture
      {box(0.25f, 0.5f, 1e30f, kInf), "##..../##...."},
      {box(-kInf, 0.75f, 0.5f, 9), "####"},
  };
  for (const auto &row : rows) EXPECT_EQ(draw(maskOf(left, p.view(), row.box)), row.mask) << row.box.left;
}

TEST(Masks, BetweenTheCells) {
  // 3 and -1: the line that goes through their centres is 0 at 3/4 of the way from one to the other, x = 1.25 of 2
  Prototypes p{1, 2, 1};
  p.values = {3, -1};
  const std::vector<float> one = {1};
  for (const float edge : {0.6f, 1.2f}) // boxes of one cell, centred left of it and right of it
    EXPECT_EQ(draw(maskOf(one, p.view(), box((edge - 0.4f) / 2, 0, (edge + 0.4f) / 2, 1))), "#") << edge;
  EXPECT_EQ(draw(maskOf(one, p.view(), box(0.45f, 0, 0.85f, 1))), "."); // 1.3
}

TEST(Masks, HalfNumbers) {
  Prototypes p = halves();
  std::vector<uint16_t> half;
  for (const float v : p.values) half.push_back(v > 0 ? 0x3c00 : 0xbc00);
  const TensorView view = {TensorType::Float16, {1, 2, 4, 8}, half.data(), half.size() * 2, MemorySpace::Host};
  const std::vector<float> factors = {1, 0.5f};
  EXPECT_EQ(draw(maskOf(factors, view, box(0.25f, 0.25f, 0.75f, 0.75f))), "##../##..");
}

TEST(Masks, NothingWithoutAPlaceInThePicture) {
  Prototypes p = halves();
  const std::vector<float> factors = {1, 1};
  for (const Detection &d : {box(1, 0, 2, 1), box(-1, 0, 0, 1), box(0, 1.5f, 1, 2), box(0.5f, 0, 0.5f, 1),
                             box(0.6f, 0, 0.4f, 1), box(kNan, 0, 1, 1), box(0, 0, 1, kNan), box(kInf, 0, kInf, 1)})
    EXPECT_EQ(draw(maskOf(factors, p.view(), d)), "none") << d.left << " " << d.top << " " << d.right;
}

TEST(Masks, NothingFromOtherTensors) {
  Prototypes p = halves();
  const Detection d = box(0, 0, 1, 1);
  const std::vector<float> factors = {1, 1};
  EXPECT_NE(draw(maskOf(factors, p.view(), d)), "none");
  EXPECT_EQ(draw(maskOf({}, p.view(), d)), "none");
  EXPECT_EQ(draw(maskOf(std::vector<float>{1}, p.view(), d)), "none");
  EXPECT_EQ(draw(maskOf(std::vector<float>{1, 1, 1}, p.view(), d)), "none");
  const auto changed = [&](auto &&change) {
    TensorView view = p.view();
    change(view);
    return draw(maskOf(factors, view, d));
  };
  EXPECT_EQ(changed([](TensorView &v) { v.data = nullptr; }), "none");
  EXPECT_EQ(changed([](TensorView &v) { v.type = TensorType::UInt8; }), "none");
  EXPECT_EQ(changed([](TensorView &v) { v.bytes -= 1; }), "none");
  EXPECT_EQ(changed([](TensorView &v) { v.dims = {2, 2, 4, 4}; }), "none");
  EXPECT_EQ(changed([](TensorView &v) { v.dims = {2, 4, 8}; }), "none");
  EXPECT_EQ(changed([](TensorView &v) { v.dims = {1, 2, 0, 8}; }), "none");
  EXPECT_EQ(changed([](TensorView &v) { v.dims = {1, 2, 4, -8}; }), "none");
  EXPECT_EQ(changed([](TensorView &v) { v.dims = {1, 2, int64_t{1} << 62, int64_t{1} << 62}; }), "none");
}

TEST(Masks, WhatIsNotANumberIsOutside) {
  Prototypes p{1, 4, 1};
  p.values = {1, kNan, 1, 1};
  EXPECT_EQ(draw(maskOf(std::vector<float>{1}, p.view(), box(0, 0, 1, 1))), "#.##");
  EXPECT_EQ(draw(maskOf(std::vector<float>{kNan}, p.view(), box(0, 0, 1, 1))), "....");
  p.values = {1e38f, 1e38f, -1e38f, -1e38f};
  EXPECT_EQ(draw(maskOf(std::vector<float>{0.5f}, p.view(), box(0, 0, 1, 1))), "##..");
}

} // namespace
