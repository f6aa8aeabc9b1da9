// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/literal.h"

#include <gtest/gtest.h>

using namespace gstzc::infer;
using Kind = Literal::Kind;

namespace {

TEST(Literal, ReadsTextAsPythonAndJsonWriteIt) {
  struct {
    const char *text, *value;
  } const rows[] = {
      {"'person'", "person"},
      {"\"driver's seat\"", "driver's seat"},
      {R"('say "hi", it\'s')", "say \"hi\", it's"},
      {R"('a\\b\n\t')", "a\\b\n\t"},
      {R"('\xe9')", "\xc3\xa9"},
      {R"('\u4eba')", "\xe4\xba\xba"},
      {R"('\U0001f600')", "\xf0\x9f\x98\x80"},
      {R"("\ud83d\ude00")", "\xf0\x9f\x98\x80"},
      {"'\xe4\xba\xba'", "\xe4\xba\xba"},
      {"  ''  ", ""},
  };
  for (const auto &row : rows) {
    const auto read = parseLiteral(row.text);
    ASSERT_TRUE(read) << row.text;
    EXPECT_EQ(read->kind, Kind::Text) << row.text;
    EXPECT_EQ(read->text, row.value) << row.text;
  }
}

TEST(Literal, ReadsNumbersAndWords) {
  EXPECT_EQ(parseLiteral("640")->integer, 640);
  EXPECT_EQ(parseLiteral(" -7 ")->integer, -7);
  EXPECT_EQ(parseLiteral("9223372036854775807")->integer, INT64_MAX);
  EXPECT_EQ(parseLiteral("0.25")->real, 0.25);
  EXPECT_EQ(parseLiteral("1e-3")->real, 0.001);
  EXPECT_EQ(parseLiteral("640")->kind, Kind::Integer);
  EXPECT_EQ(parseLiteral("1.0")->kind, Kind::Real);
  EXPECT_TRUE(parseLiteral("True")->truth());
  EXPECT_TRUE(parseLiteral("true")->truth());
  EXPECT_FALSE(parseLiteral("False")->truth());
  EXPECT_EQ(parseLiteral("False")->kind, Kind::Bool);
  EXPECT_FALSE(parseLiteral("1")->truth());
  EXPECT_EQ(parseLiteral("None")->kind, Kind::None);
}

TEST(Literal, ReadsListsTuplesAndDictionaries) {
  const auto list = parseLiteral("[640, (1, 2,), []]");
  ASSERT_TRUE(list);
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[1].items.size(), 2u);
  EXPECT_EQ(list->items[2].kind, Kind::List);
  EXPECT_EQ(list->find("640"), nullptr);

  const auto dict = parseLiteral("{'batch': 1, 'nms': True, 'data': None, 'imgsz': [32, 64], 'iou': 0.7}");
  ASSERT_TRUE(dict);
  ASSERT_NE(dict->find("nms"), nullptr);
  EXPECT_TRUE(dict->find("nms")->truth());
  EXPECT_EQ(dict->find("imgsz")->items[1].integer, 64);
  EXPECT_EQ(dict->find("absent"), nullptr);
  EXPECT_TRUE(parseLiteral("{}")->items.empty());
}

// No part of it from the start is a value, and no changed byte leads beyond the end.
TEST(Literal, DamagedText) {
  const std::string good = R"({0: 'a\xe9\u4eba\U0001f600', "1": [1, -2.5e3, (True, None)], 2: "\ud83d\ude00"})";
  ASSERT_TRUE(parseLiteral(good));
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(parseLiteral(std::string_view(good).substr(0, i))) << i;
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = good;
      changed[i] = static_cast<char>(byte);
      parseLiteral(changed);
      parseLiteral(std::string_view(changed).substr(i));
    }
  }
}

TEST(Literal, RefusesTheRest) {
  const std::string deep(17, '[');
  const char *const rows[] = {
      "",
      " ",
      "person",
      "'open",
      "\"half'",
      "'a' 'b'",
      "[1, 2",
      "[1 2]",
      "[,]",
      "{0}",
      "{0: }",
      "{0: 'a' 1: 'b'}",
      "{0: 'a'",
      "{",
      "1 2",
      "0x10",
      "1.2.3",
      "--1",
      "-",
      "99999999999999999999",
      "1e999",
      "nan",
      "inf",
      "Truely",
      R"('\q')",
      R"('\)",
      R"('\x4')",
      R"('\xzz')",
      R"('\u12')",
      R"('\ud800')",
      R"('\ud800\u0041')",
      R"('\udc00')",
      R"('\x00')",
      R"('\U00110000')",
      "'\xff'",
      "b'bytes'",
      "lambda: 1",
      "[1]]",
  };
  for (const char *const row : rows) EXPECT_FALSE(parseLiteral(row)) << row;
  EXPECT_FALSE(parseLiteral(deep + std::string(17, ']') + "]"));
  EXPECT_FALSE(parseLiteral(deep + "[" + std::string(18, ']')));
  EXPECT_TRUE(parseLiteral(deep + std::string(17, ']')));
  EXPECT_FALSE(parseLiteral(std::string(1 << 20, '[')));
  EXPECT_FALSE(parseLiteral(std::string_view("'a\0b'", 5)));
}

} // namespace
