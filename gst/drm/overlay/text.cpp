// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/text.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "gst/drm/overlay/pango_library.h"

namespace gstzc {
namespace {

constexpr size_t kKept = 2 * kMostLabels; // bitmaps: more than a picture can need
constexpr int kSmallest = 10, kLargest = 512, kMostWidth = 16384, kMostHeight = 2048; // pixels

int sizeFor(int height) { return std::clamp(height / 40, kSmallest, 48); }

// Pixels of the picture are the only unit there is: a display's resolution in inches nobody knows for sure, so points
// are those of 96 dots an inch.
int pixelsOf(int size, bool absolute) {
  const double pixels = static_cast<double>(size) / PANGO_SCALE * (absolute ? 1 : 96.0 / 72);
  return static_cast<int>(std::clamp<double>(pixels, 1, kLargest));
}

} // namespace

struct TextRenderer::Engine {
  const PangoLibrary &pango;
  // A font map of our own: the default one belongs to a thread, and the streaming thread may change.
  PangoFontMap *map = nullptr;
  PangoContext *context = nullptr;
  PangoLayout *layout = nullptr;

  explicit Engine(const PangoLibrary &library) : pango(library) {
    map = pango.pango_cairo_font_map_new();
    context = pango.pango_font_map_create_context(map);
    layout = pango.pango_layout_new(context);
    pango.pango_layout_set_single_paragraph_mode(layout, TRUE);
    pango.pango_layout_set_ellipsize(layout, PANGO_ELLIPSIZE_END);
    pango.pango_layout_set_auto_dir(layout, TRUE);
  }
  ~Engine() {
    g_object_unref(layout);
    g_object_unref(context);
    g_object_unref(map);
  }
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  // Without a single font Pango has nothing to fall back on, but still lists families that stand for some other.
  bool hasFonts() const {
    PangoFontFamily **families = nullptr;
    int n = 0;
    pango.pango_font_map_list_families(map, &families, &n);
    const bool any = std::any_of(families, families + n, [this](PangoFontFamily *family) {
      const char *name = pango.pango_font_family_get_name(family);
      for (const char *alias : {"Sans", "Serif", "Monospace", "System-ui"})
        if (name == nullptr || g_ascii_strcasecmp(name, alias) == 0) return false;
      return true;
    });
    g_free(families);
    return any;
  }
};

TextRenderer::TextRenderer(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
TextRenderer::~TextRenderer() = default;

Result<std::unique_ptr<TextRenderer>> TextRenderer::create() {
  const Result<PangoLibrary> &library = PangoLibrary::get();
  if (!library) return library.error();
  auto engine = std::make_unique<Engine>(*library);
  if (!engine->hasFonts()) return Error{"fontconfig knows no font", 0, "Install one (Debian: fonts-dejavu-core)"};
  auto renderer = std::make_unique<TextRenderer>(std::move(engine));
  renderer->setFormat({"", 1920, 1080});
  return renderer;
}

namespace {

class WarmUp {
public:
  ~WarmUp() { thread_.join(); } // at the end of the process: fontconfig takes itself down as well
  bool done() const { return done_; }

private:
  std::atomic<bool> done_ = false;
  std::thread thread_{[this] {
    if (auto made = TextRenderer::create()) (void)(*made)->render("0 %");
    done_ = true;
  }};
};

} // namespace

bool TextRenderer::warm() {
  static WarmUp warm_up;
  return warm_up.done();
}

void TextRenderer::setFormat(const TextFormat &format) {
  if (format == format_) return;
  format_ = format;
  index_.clear();
  known_.clear();
  const PangoLibrary &pango = engine_->pango;
  PangoFontDescription *font = pango.pango_font_description_from_string(format.font.c_str());
  const PangoFontMask given = pango.pango_font_description_get_set_fields(font);
  if ((given & PANGO_FONT_MASK_FAMILY) == 0) pango.pango_font_description_set_family(font, "Sans");
  const int pixels = (given & PANGO_FONT_MASK_SIZE) != 0 && pango.pango_font_description_get_size(font) > 0
                         ? pixelsOf(pango.pango_font_description_get_size(font),
                                    pango.pango_font_description_get_size_is_absolute(font))
                         : sizeFor(format.height);
  pango.pango_font_description_set_absolute_size(font, static_cast<double>(pixels) * PANGO_SCALE);
  pango.pango_layout_set_font_description(engine_->layout, font);
  pango.pango_font_description_free(font);
  pango.pango_layout_set_width(engine_->layout, std::clamp(format.width, 1, kMostWidth) * PANGO_SCALE);
}

std::shared_ptr<const TextBitmap> TextRenderer::label(uint32_t quark, int percent) {
  const uint64_t key = uint64_t{quark} << 32 | static_cast<uint32_t>(percent);
  if (const auto found = index_.find(key); found != index_.end()) {
    known_.splice(known_.begin(), known_, found->second);
    return found->second->bitmap;
  }
  const std::string text = labelText(quark, percent);
  known_.push_front({key, text.empty() ? nullptr : render(text)});
  index_.emplace(key, known_.begin());
  if (known_.size() > kKept) {
    index_.erase(known_.back().key);
    known_.pop_back();
  }
  return known_.front().bitmap;
}

std::shared_ptr<const TextBitmap> TextRenderer::render(const std::string &utf8) {
  const PangoLibrary &pango = engine_->pango;
  pango.pango_layout_set_text(engine_->layout, utf8.data(), static_cast<int>(utf8.size()));
  PangoRectangle ink, logical;
  pango.pango_layout_get_pixel_extents(engine_->layout, &ink, &logical);
  if (ink.width <= 0 || ink.height <= 0) return nullptr;
  // Ink may reach beyond the line (slanted letters, stacked accents). Texts from right to left stand at the right end
  // of the layout's width: the extents say where.
  const int left = std::min(ink.x, logical.x), top = std::min(ink.y, logical.y);
  const int right = std::max(ink.x + ink.width, logical.x + logical.width);
  const int bottom = std::max(ink.y + ink.height, logical.y + logical.height);
  auto bitmap = std::make_shared<TextBitmap>();
  bitmap->width = std::clamp(right - left, 1, kMostWidth);
  bitmap->height = std::clamp(bottom - top, 1, kMostHeight);
  const auto width = static_cast<size_t>(bitmap->width), height = static_cast<size_t>(bitmap->height);

  cairo_surface_t *surface = pango.cairo_image_surface_create(CAIRO_FORMAT_A8, bitmap->width, bitmap->height);
  cairo_t *cairo = pango.cairo_create(surface);
  pango.cairo_translate(cairo, -left, -top);
  pango.pango_cairo_show_layout(cairo, engine_->layout);
  pango.cairo_surface_flush(surface);
  const unsigned char *data = pango.cairo_image_surface_get_data(surface);
  const bool drawn = pango.cairo_status(cairo) == CAIRO_STATUS_SUCCESS && data != nullptr;
  if (drawn) {
    const auto stride = static_cast<size_t>(pango.cairo_image_surface_get_stride(surface));
    bitmap->coverage.reserve(width * height);
    for (size_t y = 0; y < height; ++y)
      bitmap->coverage.insert(bitmap->coverage.end(), data + y * stride, data + y * stride + width);
  }
  pango.cairo_destroy(cairo);
  pango.cairo_surface_destroy(surface);
  if (!drawn) return nullptr;
  return bitmap;
}

} // namespace gstzc
