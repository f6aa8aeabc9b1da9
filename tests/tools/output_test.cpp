// SPDX-License-Identifier: LGPL-2.1-or-later
// Tables, JSON, caps in words.
#include <algorithm>

#include <gtest/gtest.h>

#include <json-glib/json-glib.h>

#include "gst/drm/profile/json_writer.h"
#include "caps_text.h"
#include "table.h"

namespace {

using namespace gstzc::inspect;

TEST(Table, AlignsByCharacters) {
  Table table({"A", "B"});
  table.add({"größer", "x"});
  table.add({"1", "y"});
  EXPECT_EQ(table.text(), "A       B\ngrößer  x\n1       y\n");
}

TEST(Table, HasNoBlanksAtLineEnds) {
  Table table({"A", "B", "C"});
  table.add({"1"});
  table.add({"", "", "z"});
  EXPECT_EQ(table.text(), "A  B  C\n1\n      z\n");
}

TEST(Table, WrapsTheLastColumn) {
  Table table({"A", "LIST"});
  std::string words, expected = "A    LIST\nrow  ";
  for (int i = 0; i < 40; ++i) words += (i == 0 ? "" : " ") + std::string("12345");
  table.add({"row", words});
  const std::string text = table.text();
  for (size_t from = 0, to; (to = text.find('\n', from)) != std::string::npos; from = to + 1) {
    EXPECT_LE(to - from, kLineWidth);
    EXPECT_TRUE(from == 0 || text.compare(from, 5, "row  ") == 0 || text.compare(from, 5, "     ") == 0);
  }
  EXPECT_GT(std::count(text.begin(), text.end(), '\n'), 2);
}

TEST(Wrap, LongWordsStandAlone) {
  EXPECT_EQ(wrap("a bbbbbbbb c", 4), (std::vector<std::string>{"a", "bbbbbbbb", "c"}));
  EXPECT_EQ(wrap("", 4), std::vector<std::string>{""});
}

TEST(WrapLines, KeepsShortLinesAsTheyAre) {
  EXPECT_EQ(wrapLines("yes  a\n\nno   b", 5), "yes  a\n\nno   b\n");
  const std::string text = wrapLines("no " + std::string(100, 'x') + " " + std::string(100, 'y') + "\n", 5);
  EXPECT_EQ(text, "no " + std::string(100, 'x') + "\n     " + std::string(100, 'y') + "\n");
  EXPECT_EQ(wrapLines("  " + std::string(100, 'x') + " " + std::string(100, 'y'), 4),
            "  " + std::string(100, 'x') + "\n    " + std::string(100, 'y') + "\n");
}

TEST(Joined, CountsTheRest) {
  EXPECT_EQ(joined({"a", "b", "c"}, 2), "a, b and 1 more");
  EXPECT_EQ(joined({"a", "b"}, 2), "a, b");
  EXPECT_EQ(joined({}), "");
}

TEST(Json, IsReadBack) {
  gstzc::JsonWriter json;
  json.beginObject();
  json.member("text", "quote \" slash \\ line\n");
  json.member("bytes", std::string("\xff\xfe"));
  json.member("big", static_cast<int64_t>(1) << 53);
  json.member("yes", true);
  json.member("list", std::vector<std::string>{"a", "b"});
  json.memberOrNull("nothing", "");
  json.endObject();
  JsonParser *parser = json_parser_new();
  ASSERT_TRUE(json_parser_load_from_data(parser, json.text().c_str(), -1, nullptr));
  JsonObject *object = json_node_get_object(json_parser_get_root(parser));
  EXPECT_STREQ(json_object_get_string_member(object, "text"), "quote \" slash \\ line\n");
  EXPECT_STREQ(json_object_get_string_member(object, "bytes"), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(json_object_get_int_member(object, "big"), int64_t{1} << 53);
  EXPECT_TRUE(json_object_get_boolean_member(object, "yes"));
  EXPECT_EQ(json_array_get_length(json_object_get_array_member(object, "list")), 2u);
  EXPECT_TRUE(json_object_get_null_member(object, "nothing"));
  g_object_unref(parser);
}

struct CapsCase {
  const char *caps;
  std::vector<std::string> lines;
};

class CapsLines : public testing::TestWithParam<CapsCase> {};

TEST_P(CapsLines, Are) {
  const Caps caps(gst_caps_from_string(GetParam().caps));
  ASSERT_TRUE(caps);
  EXPECT_EQ(capsLines(caps.get()), GetParam().lines);
}

INSTANTIATE_TEST_SUITE_P(
    All, CapsLines,
    testing::Values(CapsCase{"ANY", {"anything"}}, CapsCase{"EMPTY", {"nothing"}},
                    CapsCase{"video/x-raw, format=NV12, width=64, height=48, framerate=30/1",
                             {"video/x-raw NV12; 64x48; 30/1 frames/s"}},
                    CapsCase{"video/x-raw, format=NV12, width=64, height=48, framerate=0/1",
                             {"video/x-raw NV12; 64x48"}},
                    CapsCase{"video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={NV12, XR24:0x0100000000000001}, "
                             "width=[1, 4096], height=[1, 2160]",
                             {"video/x-raw(memory:DMABuf) NV12 linear, XR24 INTEL_X_TILED; 1..4096 x 1..2160"}},
                    CapsCase{"video/x-raw, width=[1, max], height=[1, max]; audio/x-raw, rate=8000",
                             {"video/x-raw; any size", "audio/x-raw"}},
                    CapsCase{"video/x-raw, format={a1, a2, a3, a4, a5, a6, a7, a8, a9, b1}",
                             {"video/x-raw a1, a2, a3, a4, a5, a6, a7, a8 and 2 more"}},
                    CapsCase{"video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=nonsense",
                             {"video/x-raw(memory:DMABuf) nonsense"}}));

TEST(CapsLinesOf, NoCapsAreNothing) { EXPECT_EQ(capsLines(nullptr), std::vector<std::string>{"nothing"}); }

} // namespace
