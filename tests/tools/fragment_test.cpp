// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fragment.h"

#include <gtest/gtest.h>

#include "golden.h"

namespace {

using namespace gstzc::inspect;
using namespace gstzc::test;

struct Good {
  const char *text, *last; // "element" or "element.pad"
};

class GoodFragment : public testing::TestWithParam<Good> {};

TEST_P(GoodFragment, EndsWhereItIsOpen) {
  auto fragment = parseFragment(GetParam().text);
  ASSERT_TRUE(fragment) << fragment.error().message();
  std::string last = GST_OBJECT_NAME(fragment->last.get());
  if (fragment->pad) last += std::string(".") + GST_OBJECT_NAME(fragment->pad.get());
  EXPECT_EQ(last, GetParam().last);
  EXPECT_TRUE(GST_IS_PIPELINE(fragment->pipeline.get()));
}

INSTANTIATE_TEST_SUITE_P(
    All, GoodFragment,
    testing::Values(Good{"videotestsrc name=a", "a.src"}, Good{"videotestsrc ! identity name=i", "i.src"},
                    Good{"videotestsrc ! capsfilter name=c caps=video/x-raw,format=NV12", "c.src"},
                    Good{"fakesrc ! decodebin name=d", "d"}, // pads to come
                    Good{"videotestsrc ! tee name=t", "t"},  // pads on request
                    Good{"videotestsrc ! tee name=t t. ! queue ! fakesink t. ! queue name=q", "q.src"},
                    Good{"( videotestsrc ! identity name=i )", "i.src"},
                    Good{"filesrc location=/nowhere ! decodebin ! videoconvert name=v", "v.src"}));

struct Filtered {
  const char *text, *caps;
};

class CapsAtTheEnd : public testing::TestWithParam<Filtered> {};

TEST_P(CapsAtTheEnd, AreAFilter) {
  auto fragment = parseFragment(GetParam().text);
  ASSERT_TRUE(fragment) << fragment.error().message();
  GstCaps *caps = nullptr;
  ASSERT_STREQ(G_OBJECT_TYPE_NAME(fragment->last.get()), "GstCapsFilter");
  g_object_get(fragment->last.get(), "caps", &caps, nullptr);
  GstCaps *expected = gst_caps_from_string(GetParam().caps);
  EXPECT_TRUE(gst_caps_is_equal(caps, expected));
  gst_caps_unref(expected);
  gst_caps_unref(caps);
}

INSTANTIATE_TEST_SUITE_P(
    All, CapsAtTheEnd,
    testing::Values(Filtered{"videotestsrc ! video/x-raw,format=NV12", "video/x-raw,format=NV12"},
                    Filtered{"videotestsrc!video/x-raw, format=(string)NV12, width=64 ",
                             "video/x-raw,format=NV12,width=64"},
                    Filtered{"videotestsrc ! 'video/x-raw, format={NV12, RGB}'", "video/x-raw,format={NV12, RGB}"},
                    Filtered{"videotestsrc ! video/x-raw,format=\"NV12\"", "video/x-raw,format=NV12"},
                    Filtered{"fakesrc ! video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002",
                             "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002"},
                    Filtered{"videotestsrc name=\"a ! b\" ! video/x-raw", "video/x-raw"}));

TEST(BadFragment, Golden) {
  std::string text;
  for (const char *bad : {"", "  ", "videotestsrc !", "! videotestsrc", "videotestsrc ! fakesink name=end",
                          "videotestsrc ! nosuchelement ! alsonosuch", "videotestsrc nosuchproperty=1",
                          "videotestsrc pattern=nosuchpattern", "videotestsrc name=a ! audioconvert name=b",
                          "videoconvert name=a", "identity name=a ! identity name=b", "tee name=t", "decodebin name=d",

                          "videotestsrc name=a videotestsrc name=b", "videotestsrc ! video/x-raw,format= ! identity",
                          "videotestsrc ! video/x-raw,format=", "videotestsrc ! nosuchname."}) {
    auto fragment = parseFragment(bad);
    text += "$ '" + std::string(bad) + "'\n";
    if (fragment) {
      ADD_FAILURE() << bad;
      continue;
    }
    const std::string message = fragment.error().message();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(fragment.error().remedy, "") << message;
    text += message + "\n";
  }
  expectGolden("fragment-errors.txt", text);
}

TEST(BadFragment, LeavesNothingBehind) {
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(parseFragment("videotestsrc ! fakesink"));
}

} // namespace
