// SPDX-License-Identifier: LGPL-2.1-or-later
#include "heat_map.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include <glib.h>
#include <gtest/gtest.h>

#include "golden.h"

namespace {

using namespace gstzc::inspect;
using namespace gstzc::test;

constexpr Level kAll[] = {Level::Compressed, Level::Tiled,      Level::Linear,
                          Level::Implicit,   Level::Impossible, Level::Untried};

HeatMap example() {
  HeatMap map;
  map.title = "What displays take";
  map.columns = {"videotestsrc ! video/x-raw,format=NV12", "fakesrc ! a<b & \"c\""};
  map.rows = {"first", "second <b>"};
  map.cells = {{{Level::Linear, "NV12", "NV12 linear on plane 31 (primary)"}, {Level::Compressed, "AB24", ""}},
               {{Level::Impossible, "no", "plane 31 has no NV12"}, {Level::Untried, "?", "no frame came"}}};
  return map;
}

struct Document {
  std::vector<std::string> elements, texts;
  std::set<std::string> attributes;
};

void onStart(GMarkupParseContext *, const gchar *name, const gchar **names, const gchar **values, gpointer data,
             GError **) {
  auto *document = static_cast<Document *>(data);
  document->elements.emplace_back(name);
  for (; *names != nullptr; ++names, ++values) document->attributes.insert(std::string(*names) + "=" + *values);
}
void onText(GMarkupParseContext *, const gchar *text, gsize length, gpointer data, GError **) {
  static_cast<Document *>(data)->texts.emplace_back(text, length);
}

Document parse(const std::string &xml) {
  Document document;
  const GMarkupParser parser = {onStart, nullptr, onText, nullptr, nullptr};
  GMarkupParseContext *context = g_markup_parse_context_new(&parser, G_MARKUP_TREAT_CDATA_AS_TEXT, &document, nullptr);
  GError *error = nullptr;
  EXPECT_TRUE(g_markup_parse_context_parse(context, xml.data(), static_cast<gssize>(xml.size()), &error) &&
              g_markup_parse_context_end_parse(context, &error))
      << (error != nullptr ? error->message : "");
  g_clear_error(&error);
  g_markup_parse_context_free(context);
  return document;
}

size_t count(const std::vector<std::string> &list, const std::string &what) {
  return static_cast<size_t>(std::count(list.begin(), list.end(), what));
}

double luminance(const char *colour) {
  unsigned r = 0, g = 0, b = 0;
  EXPECT_EQ(std::sscanf(colour, "#%2x%2x%2x", &r, &g, &b), 3) << colour;
  const auto linear = [](unsigned c) {
    const double v = c / 255.0;
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

double contrast(const Colours &c) {
  const double a = luminance(c.fill), b = luminance(c.ink);
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

TEST(HeatMap, TextCanBeReadInBothSchemes) {
  for (const bool dark : {false, true}) {
    EXPECT_GE(contrast(pageColours(dark)), 7);
    for (const Level level : kAll) EXPECT_GE(contrast(coloursOf(level, dark)), 4.5) << levelName(level) << dark;
  }
}

TEST(HeatMap, LevelsHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Level level : kAll) names.insert(levelName(level));
  EXPECT_EQ(names.size(), std::size(kAll));
}

TEST(HeatMap, SvgSaysEachOutcomeInText) {
  const Document document = parse(toSvg(example()));
  // labels and levels as text; the level also in the legend
  EXPECT_EQ(count(document.texts, "NV12"), 1u);
  EXPECT_EQ(count(document.texts, "no"), 1u);
  for (const char *level : {"linear", "compressed", "impossible", "untried"})
    EXPECT_EQ(count(document.texts, level), 2u);
  for (const char *level : {"tiled", "implicit"}) EXPECT_EQ(count(document.texts, level), 1u);
  EXPECT_TRUE(document.attributes.contains("role=img"));
  EXPECT_TRUE(document.attributes.contains("aria-labelledby=title desc"));
  // a title of the whole and one of each cell
  EXPECT_EQ(count(document.elements, "title"), 5u);
  EXPECT_EQ(count(document.elements, "desc"), 1u);
}

TEST(HeatMap, HtmlIsATableWithHeads) {
  std::string html = toHtml(example());
  // well-formed but for what HTML leaves open
  for (const char *open : {"<!DOCTYPE html>\n", "<meta charset=\"utf-8\">\n",
                           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                           "<meta name=\"color-scheme\" content=\"light dark\">\n"}) {
    const size_t at = html.find(open);
    ASSERT_NE(at, std::string::npos) << open;
    html.erase(at, std::string(open).size());
  }
  const Document document = parse(html);
  EXPECT_EQ(count(document.elements, "td"), 5u); // the corner and four cells
  EXPECT_EQ(count(document.elements, "th"), 4u);
  EXPECT_TRUE(document.attributes.contains("scope=col"));
  EXPECT_TRUE(document.attributes.contains("scope=row"));
  EXPECT_TRUE(document.attributes.contains("lang=en"));
  EXPECT_EQ(count(document.elements, "caption"), 1u);
  EXPECT_EQ(count(document.texts, "impossible"), 2u);
}

TEST(HeatMap, IsSelfContained) {
  for (const std::string &text : {toSvg(example()), toHtml(example())}) {
    for (const char *outside : {"href", "src=", "url(", "@import", "<script"})
      EXPECT_EQ(text.find(outside), std::string::npos) << outside;
    EXPECT_NE(text.find("prefers-color-scheme: dark"), std::string::npos);
  }
}

TEST(HeatMap, StrangeTextStaysText) {
  HeatMap map = example();
  map.rows[0] = "\x01\xff</text><script>";
  map.cells[0][0].detail = "a\x02 & b";
  map.cells[1][1].label = std::string(500, 'x');
  for (const std::string &text : {toSvg(map)}) {
    const Document document = parse(text);
    EXPECT_EQ(count(document.elements, "script"), 0u);
  }
  EXPECT_EQ(toHtml(map).find("<script"), std::string::npos);
}

TEST(HeatMap, MayBeEmpty) {
  HeatMap map;
  map.title = "nothing";
  parse(toSvg(map));
  EXPECT_NE(toHtml(map).find("0 of 0 possible"), std::string::npos);
}

TEST(HeatMap, Golden) {
  expectGolden("heat-map.svg", toSvg(example()));
  expectGolden("heat-map.html", toHtml(example()));
}

} // namespace
