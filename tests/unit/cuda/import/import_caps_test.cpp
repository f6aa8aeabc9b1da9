// SPDX-License-Identifier: LGPL-2.1-or-later
#include <string>

#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "ext/cuda/import/import_caps.h"

using namespace gstzc::cuda;

namespace {

struct Caps {
  explicit Caps(GstCaps *taken) : caps(taken) {}
  explicit Caps(const char *text) : caps(gst_caps_from_string(text)) { EXPECT_NE(caps, nullptr) << text; }
  ~Caps() { gst_clear_caps(&caps); }
  Caps(const Caps &) = delete;
  Caps &operator=(const Caps &) = delete;
  std::string text() const {
    gchar *s = gst_caps_to_string(caps);
    std::string result = s;
    g_free(s);
    return result;
  }
  GstCaps *caps;
};

struct Case {
  const char *name, *in, *out;
};
std::ostream &operator<<(std::ostream &out, const Case &c) { return out << c.name; }

class Imported : public testing::TestWithParam<Case> {};

TEST_P(Imported, CapsAre) {
  Caps in(GetParam().in), out(importedCaps(in.caps)), expected(GetParam().out);
  EXPECT_TRUE(gst_caps_is_strictly_equal(out.caps, expected.caps)) << out.text();
}

INSTANTIATE_TEST_SUITE_P(
    , Imported,
    testing::Values(Case{"Linear", "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=48",
                         "video/x-raw(memory:CUDAMemory),format=NV12,width=64,height=48"},
                    Case{"Tiled",
                         "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64",
                         "video/x-raw(memory:CUDAMemory),format=NV12,width=64"},
                    Case{"ListWithTwoLayoutsOfOneFormat",
                         "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={NV12:0x0100000000000002,NV12,P010}",
                         "video/x-raw(memory:CUDAMemory),format={NV12,P010_10LE}"},
                    Case{"PlainDmaBuf", "video/x-raw(memory:DMABuf),format=RGBA,width=64",
                         "video/x-raw(memory:CUDAMemory),format=RGBA,width=64"},
                    Case{"System", "video/x-raw,format=I420,framerate=30/1,colorimetry=bt709",
                         "video/x-raw(memory:CUDAMemory),format=I420,framerate=30/1,colorimetry=bt709"},
                    Case{"SameFromTwoKinds", "video/x-raw(memory:DMABuf),format=NV12;video/x-raw,format=NV12",
                         "video/x-raw(memory:CUDAMemory),format=NV12"},
                    Case{"UnknownFourcc", "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=ZZ99", "EMPTY"},
                    Case{"OtherMemory", "video/x-raw(memory:GLMemory),format=RGBA", "EMPTY"},
                    Case{"CudaMemory", "video/x-raw(memory:CUDAMemory),format=NV12", "EMPTY"}),
    [](const auto &test) { return std::string(test.param.name); });

TEST(ImportableCaps, PreferLinearDmaBufs) {
  Caps out("video/x-raw(memory:CUDAMemory),format=NV12,width=64"), in(importableCaps(out.caps, nullptr));
  Caps expected("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64;"
                "video/x-raw(memory:DMABuf),format=NV12,width=64;video/x-raw,format=NV12,width=64");
  EXPECT_TRUE(gst_caps_is_strictly_equal(in.caps, expected.caps)) << in.text();
}

TEST(ImportableCaps, KeepTheOrderOfKindsWithSeveralStructures) {
  Caps out("video/x-raw(memory:CUDAMemory),format=NV12;video/x-raw,format=I420;"
           "video/x-raw(memory:CUDAMemory),format=RGBA");
  Caps in(importableCaps(out.caps, nullptr));
  Caps expected("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12;"
                "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=AB24;"
                "video/x-raw(memory:DMABuf),format=NV12;video/x-raw(memory:DMABuf),format=RGBA;"
                "video/x-raw,format=NV12;video/x-raw,format=RGBA");
  EXPECT_TRUE(gst_caps_is_strictly_equal(in.caps, expected.caps)) << in.text();
}

TEST(ImportableCaps, TakeModifiersOnlyFromWhoHasNothingLinear) {
  Caps out("video/x-raw(memory:CUDAMemory),format=NV12");
  Caps tiled("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64,height=48");
  Caps both("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format={NV12:0x0100000000000002,NV12},width=64,height=48");
  Caps of_tiled(importableCaps(out.caps, tiled.caps)), of_both(importableCaps(out.caps, both.caps));
  EXPECT_TRUE(gst_caps_can_intersect(of_tiled.caps, tiled.caps)) << of_tiled.text();
  EXPECT_FALSE(gst_caps_can_intersect(of_both.caps, tiled.caps)) << of_both.text();
  EXPECT_TRUE(gst_caps_can_intersect(of_both.caps, both.caps)) << of_both.text();
}

TEST(ImportTemplates, HoldWhatIsTranslated) {
  Caps sink(importSinkCaps()), src(importSrcCaps());
  for (const char *text : {"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64,"
                           "height=48,framerate=0/1",
                           "video/x-raw(memory:DMABuf),format=P010_10LE,width=64,height=48,framerate=0/1",
                           "video/x-raw,format=GRAY8,width=64,height=48,framerate=0/1"}) {
    Caps in(text), out(importedCaps(in.caps));
    EXPECT_TRUE(gst_caps_is_subset(in.caps, sink.caps)) << text;
    EXPECT_FALSE(gst_caps_is_empty(out.caps)) << text;
    EXPECT_TRUE(gst_caps_is_subset(out.caps, src.caps)) << out.text();
  }
}

// What the base class relies on: what comes back from the other side has the same formats
TEST(ImportTemplates, AreEachOthersInverse) {
  Caps src(importSrcCaps()), sink(importSinkCaps());
  Caps in(importableCaps(src.caps, nullptr)), out(importedCaps(sink.caps));
  EXPECT_TRUE(gst_caps_is_subset(in.caps, sink.caps)) << in.text();
  EXPECT_TRUE(gst_caps_is_equal(out.caps, src.caps)) << out.text();
}

} // namespace
