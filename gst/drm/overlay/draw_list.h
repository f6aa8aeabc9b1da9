// SPDX-License-Identifier: LGPL-2.1-or-later
// A scene as shapes in a picture's pixels: what is painted, and what two pictures are compared by.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gst/drm/overlay/mapping.h"
#include "gst/drm/overlay/pixmap.h"
#include "gst/drm/overlay/scene.h"
#include "gst/drm/overlay/style.h"

namespace gstzc {

struct DrawItem {
  enum class Shape {
    Outline, // of `area`, `line` wide, inside of it
    Segment, // from (x0, y0) to (x1, y1), `line` wide
    Disc,    // about (x0, y0) with a diameter of `line`, a dark rim about it
    Label,   // `text` on a ground that is `area`
    Image,   // `pixmap` stretched over `area`
  };
  Shape shape = Shape::Outline;
  Rect bounds; // nothing is painted outside of it; lies in the picture, never empty
  Rect area;
  uint32_t color = 0;      // premultiplied; of a label: the ground's
  uint32_t text_color = 0; // premultiplied
  int line = 0;
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  bool smooth = true; // an image's pixels blend into each other; else each is a rectangle
  std::shared_ptr<const TextBitmap> text;
  std::shared_ptr<const Pixmap> pixmap;

  // Of the same look: pictures and texts are compared by address, so whoever makes the list keeps them.
  bool operator==(const DrawItem &) const = default;
};

// Where texts come from.
class LabelSource {
public:
  virtual ~LabelSource() = default;
  // "face 93%" at most as wide as the picture. Null: there are no texts here, or none for this.
  virtual std::shared_ptr<const TextBitmap> label(uint32_t quark, int percent) = 0;
};

// Further ones than these are left out; they would hide each other.
constexpr size_t kMostLabels = 512;

// Makes lists, and keeps what was made for the last one: pixels of pictures and masks that come again.
class DrawListMaker {
public:
  // `labels`: null: none. Into `items`, in the order of painting.
  void make(const OverlayScene &scene, const OverlayStyle &style, const OverlayMapping &mapping, LabelSource *labels,
            std::vector<DrawItem> &items);

private:
  struct KnownMask {
    OverlayMask mask;
    std::vector<OverlayRegion> regions;
    std::shared_ptr<const Pixmap> pixmap;
  };
  struct KnownImage {
    OverlayImage image;
    std::shared_ptr<const Pixmap> pixmap;
  };
  std::shared_ptr<const Pixmap> pixmapFor(const OverlayScene &scene, const OverlayMask &mask, const OverlayStyle &style,
                                          uint32_t rotation);
  std::shared_ptr<const Pixmap> pixmapFor(const OverlayImage &image, uint32_t rotation);
  uint32_t colorOf(uint32_t label, const OverlayStyle &style);
  void addBox(const OverlayBox &box, const OverlayStyle &style, const OverlayMapping &mapping, int line,
              std::vector<DrawItem> &items);

  ClassColors colors_;
  OverlayStyle masks_style_; // what the masks were made with
  uint32_t rotation_ = 0;
  std::vector<KnownMask> masks_, old_masks_;
  std::vector<KnownImage> images_, old_images_;
};

int overlayLineWidth(const OverlayStyle &style, int height);

} // namespace gstzc
