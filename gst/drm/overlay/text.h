// SPDX-License-Identifier: LGPL-2.1-or-later
// Names and scores as bitmaps.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "gst/drm/overlay/draw_list.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc {

// "face 93%", "face", "93%": what of both is known. A name that is not UTF-8 has its faulty bytes replaced; it is one
// line of at most 256 characters.
std::string labelText(uint32_t quark, int percent);

// Which font, in a picture of which size.
struct TextFormat {
  std::string font; // OverlayStyle::font
  int width = 0, height = 0;
  bool operator==(const TextFormat &) const = default;
};

// By Pango: fonts, shaping and directions of all scripts. Used by one thread at a time.
class TextRenderer : public LabelSource {
public:
  // An error where there is no Pango or no font. The first one of a process takes as long as finding its fonts does.
  static Result<std::unique_ptr<TextRenderer>> create();

  // Whether that has been done, or was in vain, so that create() is quick. Never waits: the first call starts a thread
  // that does it, once in a process.
  static bool warm();

  // For what follows. Bitmaps of another format are forgotten.
  void setFormat(const TextFormat &format);

  // From memory where it can be.
  std::shared_ptr<const TextBitmap> label(uint32_t quark, int percent) override;
  // Null: nothing of it is visible.
  std::shared_ptr<const TextBitmap> render(const std::string &utf8);

  struct Engine; // Pango's objects
  explicit TextRenderer(std::unique_ptr<Engine> engine);
  ~TextRenderer() override;

private:
  struct Known {
    uint64_t key;
    std::shared_ptr<const TextBitmap> bitmap;
  };
  std::unique_ptr<Engine> engine_;
  TextFormat format_;
  std::list<Known> known_; // the latest first
  std::unordered_map<uint64_t, std::list<Known>::iterator> index_;
};

} // namespace gstzc
