// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/content_check.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/cuda/routes/pictures.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

ContentCheck compare(const ImportSource &source, const Bytes &host, const Bytes &seen) {
  return compareContent(host.data(), packed(source, seen).data(), source);
}

Bytes filled(const ImportSource &source, uint8_t luma, uint8_t chroma) {
  Bytes bytes(source.size, luma);
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(source.planes[1].offset), bytes.end(), chroma);
  return bytes;
}

// Luma by a function of column and row; chroma of one value.
template <typename F> Bytes luma(const ImportSource &source, F &&value) {
  Bytes bytes = filled(source, 0, 128);
  for (uint32_t row = 0; row < source.height; ++row)
    for (uint32_t x = 0; x < source.width; ++x)
      bytes[source.planes[0].pitch * size_t{row} + x] = static_cast<uint8_t>(value(x, row));
  return bytes;
}

// What known or feared drivers make of a buffer: right in the first 2 MiB, and then…
struct Wrong {
  const char *name;
  Bytes (*of)(const Bytes &);
};
template <typename F> Bytes after(const Bytes &bytes, F &&at) {
  Bytes wrong = bytes;
  for (uint64_t i = kTellingOffset; i < wrong.size(); ++i) wrong[i] = at(i);
  return wrong;
}
const Wrong kWrong[] = {
    {"zero", [](const Bytes &b) { return after(b, [](uint64_t) { return uint8_t{0}; }); }},
    {"poison", [](const Bytes &b) { return after(b, [](uint64_t) { return uint8_t{0xff}; }); }},
    {"the first part again",
     [](const Bytes &b) { return after(b, [&](uint64_t i) { return b[i % kTellingOffset]; }); }},
    {"one page everywhere",
     [](const Bytes &b) { return after(b, [&](uint64_t i) { return b[kTellingOffset + i % kContentPage]; }); }},
    {"the next page",
     [](const Bytes &b) {
       return after(b,
                    [&](uint64_t i) { return b[i + kContentPage < b.size() ? i + kContentPage : i % kContentPage]; });
     }},
};

struct Frame {
  const char *name;
  ImportSource source;
  Bytes bytes;
  ContentVerdict verdict;
};

std::vector<Frame> frames() {
  const ImportSource hd = nv12(1920, 1080, 1920), wide = nv12(2048, 1080, 2048), odd = nv12(1921, 1079, 1984),
                     padded = nv12(1920, 1080, 1920, 1088), planar = i420(1921, 1079, 1984),
                     rgb = rgba(1280, 720, 5120), vga = nv12(640, 480, 640), uhd = nv12(3840, 2160, 3840),
                     square = rgba(1024, 1024, 4096);
  std::vector<Frame> all;
  all.push_back({"noise", hd, noise(hd.size), ContentVerdict::Same});
  all.push_back({"noise, odd sizes", odd, noise(odd.size), ContentVerdict::Same});
  all.push_back({"noise, padded height", padded, noise(padded.size), ContentVerdict::Same});
  all.push_back({"noise, three planes", planar, noise(planar.size), ContentVerdict::Same});
  all.push_back({"noise, RGBA", rgb, noise(rgb.size), ContentVerdict::Same});
  all.push_back({"nothing written yet", hd, Bytes(hd.size), ContentVerdict::Undecided});
  all.push_back({"black", hd, filled(hd, 16, 128), ContentVerdict::Undecided});
  all.push_back({"black, UHD", uhd, filled(uhd, 16, 128), ContentVerdict::Undecided});
  all.push_back({"black, padded height", padded, filled(padded, 16, 128), ContentVerdict::Undecided});
  all.push_back({"white RGBA", rgb, Bytes(rgb.size, 0xff), ContentVerdict::Undecided});
  // each row is the same and the pitch divides 2 MiB: the first part again looks right
  Bytes rows(square.size);
  for (uint64_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i % 4096 / 16);
  all.push_back({"gradient to the right", square, rows, ContentVerdict::Undecided});
  Bytes again = noise(square.size);
  std::copy_n(again.begin(), square.size - kTellingOffset, again.begin() + kTellingOffset);
  all.push_back({"the first 2 MiB again", square, again, ContentVerdict::Undecided});
  for (uint64_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i / 4096 / 64);
  all.push_back({"bars of whole pages", square, rows, ContentVerdict::Undecided});
  // to the right again, where 2 MiB are no whole rows
  all.push_back({"gradient to the right, UHD", uhd, luma(uhd, [](uint32_t x, uint32_t) { return x / 15; }),
                 ContentVerdict::Same});
  all.push_back({"gradient downwards", wide, luma(wide, [](uint32_t, uint32_t y) { return y * 255 / 1080; }),
                 ContentVerdict::Same});
  all.push_back({"noise, too small", vga, noise(vga.size), ContentVerdict::Undecided});
  return all;
}

TEST(ContentCheckTest, WhatTells) {
  for (const Frame &frame : frames()) {
    SCOPED_TRACE(frame.name);
    const ContentCheck check = compare(frame.source, frame.bytes, frame.bytes);
    EXPECT_EQ(check.verdict, frame.verdict);
    EXPECT_EQ(check.compared, packed(frame.source, frame.bytes).size());
    EXPECT_EQ(check.reason.empty(), check.verdict == ContentVerdict::Same);
  }
}

TEST(ContentCheckTest, WhatTellsWouldHaveShownEachWrongImport) {
  for (const Frame &frame : frames())
    for (const Wrong &wrong : kWrong) {
      if (frame.verdict != ContentVerdict::Same) continue;
      SCOPED_TRACE(std::string(frame.name) + ", " + wrong.name);
      const ContentCheck check = compare(frame.source, frame.bytes, wrong.of(frame.bytes));
      EXPECT_EQ(check.verdict, ContentVerdict::Different);
      EXPECT_GE(check.first_difference, kTellingOffset);
      EXPECT_LT(check.first_difference, frame.source.size);
    }
}

// The other way round: for each frame that does not tell there is a wrong import that looks right, or it is too small.
// Left out are those whose pages tell nothing each, while a border between them does: being careful costs another
// check.
TEST(ContentCheckTest, WhatDoesNotTellMightBeWrong) {
  for (const Frame &frame : frames()) {
    if (frame.verdict != ContentVerdict::Undecided || !canTell(frame.source)) continue;
    if (frame.name == std::string("black, UHD") || frame.name == std::string("bars of whole pages")) continue;
    SCOPED_TRACE(frame.name);
    EXPECT_TRUE(std::any_of(std::begin(kWrong), std::end(kWrong), [&](const Wrong &wrong) {
      return compare(frame.source, frame.bytes, wrong.of(frame.bytes)).verdict != ContentVerdict::Different;
    }));
  }
}

TEST(ContentCheckTest, TheReasonSaysWhy) {
  const ImportSource vga = nv12(640, 480, 640), hd = nv12(1920, 1080, 1920);
  EXPECT_NE(compare(vga, noise(vga.size), noise(vga.size)).reason.find("first 2 MiB"), std::string::npos);
  EXPECT_NE(compare(hd, Bytes(hd.size), Bytes(hd.size)).reason.find("do not differ enough"), std::string::npos);
}

TEST(ContentCheckTest, TheFirstDifferentByteIsNamed) {
  const ImportSource source = nv12(1921, 1079, 1984);
  const Bytes right = noise(source.size);
  const uint64_t last = source.planes[1].offset + 539u * 1984 + 1921;
  for (const uint64_t at :
       {uint64_t{0}, uint64_t{1920}, uint64_t{1984}, kTellingOffset, source.planes[1].offset, last}) {
    Bytes wrong = right;
    wrong[at] ^= 1;
    const ContentCheck check = compare(source, right, wrong);
    EXPECT_EQ(check.verdict, ContentVerdict::Different) << at;
    EXPECT_EQ(check.first_difference, at);
  }
}

TEST(ContentCheckTest, WhatLiesBetweenRowsIsNobodysBusiness) {
  const ImportSource source = nv12(1920, 1080, 1984, 1088);
  const Bytes right = noise(source.size);
  Bytes other = right;
  other[1920] ^= 1;                                      // after a row
  other[uint64_t{1984} * 1085] ^= 1;                     // below the luma
  other[source.planes[1].offset + 1984u * 540 - 1] ^= 1; // after the last row
  EXPECT_EQ(compare(source, right, other).verdict, ContentVerdict::Same);
}

// Padding that tells is not compared, so it does not count.
TEST(ContentCheckTest, OnlyPixelsTell) {
  const ImportSource source = nv12(1920, 1080, 2048);
  Bytes bytes(source.size, 50);
  const Bytes random = noise(source.size);
  for (uint64_t row = 0; row < source.size / 2048; ++row)
    std::copy_n(random.begin() + static_cast<ptrdiff_t>(row * 2048 + 1920), 128,
                bytes.begin() + static_cast<ptrdiff_t>(row * 2048 + 1920));
  EXPECT_EQ(compare(source, bytes, bytes).verdict, ContentVerdict::Undecided);
}

TEST(ContentCheckTest, TwoPagesThatDifferAreNeeded) {
  const ImportSource source = rgba(1024, 1024, 4096);
  const auto page = [](Bytes &bytes, uint64_t n, uint32_t seed) {
    const Bytes content = noise(kContentPage, seed);
    std::copy(content.begin(), content.end(),
              bytes.begin() + static_cast<ptrdiff_t>(kTellingOffset + n * kContentPage));
  };
  Bytes bytes(source.size, 7);
  page(bytes, 3, 1);
  EXPECT_EQ(compare(source, bytes, bytes).verdict, ContentVerdict::Undecided) << "one";
  page(bytes, 9, 1);
  EXPECT_EQ(compare(source, bytes, bytes).verdict, ContentVerdict::Undecided) << "the same twice";
  page(bytes, 300, 2);
  EXPECT_EQ(compare(source, bytes, bytes).verdict, ContentVerdict::Same);
}

TEST(ContentCheckTest, WhichFramesCanTell) {
  ImportSource source = rgba(1024, 513, 4096); // ends one page past 2 MiB
  EXPECT_FALSE(canTell(source));
  source.planes[0].row_bytes = 1;
  source.planes[0].rows = 514; // one byte of the second page
  EXPECT_TRUE(canTell(source));
  source.modifier = DRM_FORMAT_MOD_ARM_16X16_BLOCK_U_INTERLEAVED;
  EXPECT_FALSE(canTell(source));
  EXPECT_TRUE(canTell(nv12(1920, 1080, 1920)));
  EXPECT_FALSE(canTell(nv12(640, 480, 640)));
}

} // namespace
