// SPDX-License-Identifier: LGPL-2.1-or-later
// In the place of text.cpp where Pango's headers were not there at build time.
#include "gst/drm/overlay/text.h"

namespace gstzc {

struct TextRenderer::Engine {};

TextRenderer::TextRenderer(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
TextRenderer::~TextRenderer() = default;

Result<std::unique_ptr<TextRenderer>> TextRenderer::create() {
  return Error{"this plugin was built without Pango", 0, "Build it with the option pango=enabled"};
}

bool TextRenderer::warm() { return true; }

void TextRenderer::setFormat(const TextFormat &format) { format_ = format; }
std::shared_ptr<const TextBitmap> TextRenderer::label(uint32_t, int) { return nullptr; }
std::shared_ptr<const TextBitmap> TextRenderer::render(const std::string &) { return nullptr; }

} // namespace gstzc
