// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/text.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

using namespace gstzc;

namespace {

TEST(LabelText, OfNamesAndScores) {
  const auto quark = [](const char *name) { return g_quark_from_string(name); };
  EXPECT_EQ(labelText(quark("face"), 93), "face 93%");
  EXPECT_EQ(labelText(quark("face"), -1), "face");
  EXPECT_EQ(labelText(0, 7), "7%");
  EXPECT_EQ(labelText(0, -1), "");
  EXPECT_EQ(labelText(quark("a\nb\tc"), -1), "a b c");
  const std::string faulty = labelText(quark("ab\xff\xfe"
                                             "c"),
                                       -1);
  EXPECT_TRUE(g_utf8_validate(faulty.c_str(), -1, nullptr)) << faulty;
  EXPECT_EQ(faulty.substr(0, 2), "ab");
  EXPECT_EQ(faulty.back(), 'c');
  const std::string cut = labelText(quark((std::string(1535, 'x') + "\xe4\xbd\xa0").c_str()), -1);
  EXPECT_TRUE(g_utf8_validate(cut.c_str(), -1, nullptr)) << "cut within a character";
  std::string wide;
  for (int i = 0; i < 1000; ++i) wide += "\xe4\xbd\xa0";
  EXPECT_EQ(g_utf8_strlen(labelText(quark(wide.c_str()), -1).c_str(), -1), 256);
}

class Text : public testing::Test {
protected:
  void SetUp() override {
    auto made = TextRenderer::create();
    if (!made) GTEST_SKIP() << made.error().message();
    text_ = made.take();
    text_->setFormat({"", 640, 480});
  }
  static int ink(const TextBitmap &bitmap) {
    return static_cast<int>(
        std::count_if(bitmap.coverage.begin(), bitmap.coverage.end(), [](uint8_t c) { return c > 127; }));
  }
  std::unique_ptr<TextRenderer> text_;
};

TEST_F(Text, HasInkThatDiffersWithTheText) {
  const auto one = text_->render("face 93%"), other = text_->render("face 94%"), same = text_->render("face 93%");
  ASSERT_TRUE(one && other && same);
  EXPECT_EQ(one->coverage.size(), static_cast<size_t>(one->width * one->height));
  EXPECT_GT(ink(*one), 20);
  EXPECT_LT(ink(*one), one->width * one->height / 2) << "letters, not a block";
  EXPECT_NE(one->coverage, other->coverage);
  EXPECT_EQ(one->coverage, same->coverage);
}

TEST_F(Text, IsAsLargeAsTheFontSays) {
  const auto by_height = text_->render("Hg");
  ASSERT_TRUE(by_height);
  EXPECT_GE(by_height->height, 10);
  EXPECT_LE(by_height->height, 24);
  text_->setFormat({"Sans Bold 30", 640, 480}); // 40 pixels
  const auto large = text_->render("Hg");
  ASSERT_TRUE(large);
  EXPECT_GE(large->height, 36);
  EXPECT_LE(large->height, 60);
  text_->setFormat({"", 3840, 2160});
  const auto uhd = text_->render("Hg");
  ASSERT_TRUE(uhd);
  EXPECT_GT(uhd->height, by_height->height);
}

TEST_F(Text, AnyFontIsSome) {
  for (const char *font :
       {"no such font at all 12", "Sans 99999999", "Sans 0", "12px", ",,,", "Sans -5", "Sans @wght=3000"}) {
    text_->setFormat({font, 640, 480});
    const auto bitmap = text_->render("x");
    ASSERT_TRUE(bitmap) << font;
    EXPECT_LE(bitmap->width, 16384) << font;
    EXPECT_LE(bitmap->height, 2048) << font;
  }
}

TEST_F(Text, IsNoWiderThanThePicture) {
  text_->setFormat({"", 64, 48});
  std::string text;
  for (int i = 0; i < 250; ++i) text += static_cast<char>('a' + i % 26);
  const auto bitmap = text_->render(text);
  ASSERT_TRUE(bitmap);
  EXPECT_LE(bitmap->width, 68) << "but for ink that leans over";
  EXPECT_GT(ink(*bitmap), 0);
}

TEST_F(Text, FromRightToLeftStandsWhereItsGroundIs) {
  const auto bitmap = text_->render("\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d 93%"); // Hebrew
  ASSERT_TRUE(bitmap);
  EXPECT_LT(bitmap->width, 200) << "the layout's width is not the text's";
  EXPECT_GT(ink(*bitmap), 20);
}

TEST_F(Text, WithNothingToSeeIsNone) {
  EXPECT_EQ(text_->render(""), nullptr);
  EXPECT_EQ(text_->render("   "), nullptr);
  EXPECT_EQ(text_->label(0, -1), nullptr);
}

TEST_F(Text, LabelsAreKept) {
  const uint32_t face = g_quark_from_string("face");
  const auto first = text_->label(face, 50);
  for (int i = 0; i < 100; ++i) (void)text_->label(face, i);
  EXPECT_EQ(text_->label(face, 50), first);
  for (int i = 0; i < 40; ++i)
    for (int k = 0; k <= 100; k += 2) (void)text_->label(g_quark_from_string(("n" + std::to_string(i)).c_str()), k);
  EXPECT_NE(text_->label(face, 50), first) << "not for ever";
  const auto kept = text_->label(face, 50);
  text_->setFormat({"Sans 40", 640, 480});
  EXPECT_NE(text_->label(face, 50)->height, kept->height);
}

// A process of its own, made before this one has read fontconfig's settings: they are read once.
TEST(TextDeathTest, WithoutFontsIsAnError) {
  const test::TempDir dir;
  const std::string file = dir.path() + "/fonts.conf";
  std::ofstream(file) << "<fontconfig><dir>/nonexistent</dir><cachedir>" << dir.path() << "</cachedir></fontconfig>";
  EXPECT_EXIT(
      {
        setenv("FONTCONFIG_FILE", file.c_str(), 1);
        auto made = TextRenderer::create();
        if (!made) std::fprintf(stderr, "said: %s\n", made.error().message().c_str());
        std::_Exit(made ? 1 : 0);
      },
      testing::ExitedWithCode(0), "said: .*(font|Pango)");
}

} // namespace
