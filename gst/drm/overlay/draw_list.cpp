// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/draw_list.h"

#include <algorithm>
#include <cmath>

namespace gstzc {
namespace {

constexpr float kUpright = 1e-3f; // radians; less turned than this is not turned

// What `item` covers is known by its area.
void add(DrawItem item, const Rect &bounds, const OverlayMapping &mapping, std::vector<DrawItem> &items) {
  item.bounds = intersection(bounds, mapping.whole());
  if (!isEmpty(item.bounds)) items.push_back(std::move(item));
}

Rect around(float x0, float y0, float x1, float y1, float reach) {
  const auto low = [&](float a, float b) { return static_cast<int>(std::floor(std::min(a, b) - reach)); };
  const auto high = [&](float a, float b) { return static_cast<int>(std::ceil(std::max(a, b) + reach)); };
  return {low(x0, x1), low(y0, y1), high(x0, x1) - low(x0, x1), high(y0, y1) - low(y0, y1)};
}

float coordinate(double v) {
  constexpr double kMost = 1 << 20; // numbers that a float still tells apart by quarters
  return static_cast<float>(std::clamp(v, -kMost, kMost));
}

// Above the box where there is room, else inside; always within the picture.
void addLabel(const std::shared_ptr<const TextBitmap> &text, const Rect &box, bool below, uint32_t color,
              const OverlayMapping &mapping, std::vector<DrawItem> &items) {
  const int pad = std::max(1, text->height / 8);
  Rect ground{box.x, 0, text->width + 2 * pad, text->height};
  ground.x = std::max(0, std::min(ground.x, mapping.width() - ground.width));
  const int above = below ? box.y + box.height - ground.height : box.y - ground.height;
  ground.y = above >= 0 ? above : std::max(0, box.y);
  ground.y = std::max(0, std::min(ground.y, mapping.height() - ground.height));
  DrawItem item;
  item.shape = DrawItem::Shape::Label;
  item.area = ground;
  item.color = premultiply(color);
  item.text_color = fade(premultiply(readableOn(color)), color >> 24);
  item.text = text;
  add(std::move(item), ground, mapping, items);
}

} // namespace

int overlayLineWidth(const OverlayStyle &style, int height) {
  return style.line_width > 0 ? static_cast<int>(std::min(style.line_width, 1000u))
                              : std::clamp(height / 240, 1, 8) + 1;
}

uint32_t DrawListMaker::colorOf(uint32_t label, const OverlayStyle &style) {
  return style.color != 0 ? style.color : colors_.of(label);
}

std::shared_ptr<const Pixmap> DrawListMaker::pixmapFor(const OverlayScene &scene, const OverlayMask &mask,
                                                       const OverlayStyle &style, uint32_t rotation) {
  const OverlayRegion *regions = scene.regions.data() + mask.first_region;
  OverlayMask content = mask; // only what makes the pixels
  content.area = {};
  content.first_region = 0;
  for (const KnownMask &known : old_masks_)
    if (known.mask == content &&
        std::equal(known.regions.begin(), known.regions.end(), regions, regions + mask.regions)) {
      masks_.push_back(known);
      return known.pixmap;
    }
  const auto opacity = static_cast<uint32_t>(std::lround(std::clamp(style.mask_opacity, 0.0, 1.0) * 255));
  const auto color = [&](uint32_t value) {
    uint32_t argb = ClassColors::ofNumber(value);
    if (style.color != 0) {
      argb = style.color;
    } else if (mask.label != 0) {
      argb = colors_.of(mask.label);
    } else {
      for (uint32_t r = 0; r < mask.regions; ++r)
        if (regions[r].value == value && regions[r].label != 0) argb = colors_.of(regions[r].label);
    }
    return fade(premultiply(argb), opacity);
  };
  auto pixmap = pixmapOfMask(mask.pixels.get(), color, rotation);
  masks_.push_back({std::move(content), {regions, regions + mask.regions}, pixmap});
  return pixmap;
}

std::shared_ptr<const Pixmap> DrawListMaker::pixmapFor(const OverlayImage &image, uint32_t rotation) {
  OverlayImage content = image;
  content.area = {};
  for (const KnownImage &known : old_images_)
    if (known.image == content) {
      images_.push_back(known);
      return known.pixmap;
    }
  auto pixmap = pixmapOf(image.pixels.get(), image.premultiplied, image.alpha, rotation);
  images_.push_back({std::move(content), pixmap});
  return pixmap;
}

void DrawListMaker::addBox(const OverlayBox &box, const OverlayStyle &style, const OverlayMapping &mapping, int line,
                           std::vector<DrawItem> &items) {
  DrawItem item;
  item.color = premultiply(colorOf(box.label, style));
  item.line = line;
  if (std::abs(box.angle) < kUpright) {
    item.area = mapping.rect(box.area);
    if (!isEmpty(item.area)) add(std::move(item), item.area, mapping, items);
    return;
  }
  item.shape = DrawItem::Shape::Segment;
  const double cx = box.area.x + box.area.width / 2.0, cy = box.area.y + box.area.height / 2.0;
  const double sine = std::sin(static_cast<double>(box.angle)), cosine = std::cos(static_cast<double>(box.angle));
  OverlayMapping::Point corners[4];
  for (int i = 0; i < 4; ++i) {
    const double dx = (i == 1 || i == 2 ? 0.5 : -0.5) * box.area.width, dy = (i >= 2 ? 0.5 : -0.5) * box.area.height;
    corners[i] = mapping.point(cx + dx * cosine - dy * sine, cy + dx * sine + dy * cosine);
  }
  for (int i = 0; i < 4; ++i) {
    item.x0 = coordinate(corners[i].x);
    item.y0 = coordinate(corners[i].y);
    item.x1 = coordinate(corners[(i + 1) % 4].x);
    item.y1 = coordinate(corners[(i + 1) % 4].y);
    add(item, around(item.x0, item.y0, item.x1, item.y1, static_cast<float>(line) / 2 + 1), mapping, items);
  }
}

void DrawListMaker::make(const OverlayScene &scene, const OverlayStyle &style, const OverlayMapping &mapping,
                         LabelSource *labels, std::vector<DrawItem> &items) {
  items.clear();
  std::swap(masks_, old_masks_);
  std::swap(images_, old_images_);
  if (style.color != masks_style_.color || style.mask_opacity != masks_style_.mask_opacity) old_masks_.clear();
  if (mapping.rotation() != rotation_) {
    old_masks_.clear();
    old_images_.clear();
  }
  masks_style_ = style;
  rotation_ = mapping.rotation();
  masks_.clear();
  images_.clear();
  const int line = overlayLineWidth(style, mapping.height());

  for (const OverlayMask &mask : scene.masks) {
    const Rect area = mapping.rect(mask.area);
    if (isEmpty(intersection(area, mapping.whole()))) continue;
    DrawItem item;
    item.shape = DrawItem::Shape::Image;
    item.area = area;
    item.smooth = false; // between two classes there is no third
    item.pixmap = pixmapFor(scene, mask, style, rotation_);
    if (item.pixmap) add(std::move(item), area, mapping, items);
  }
  for (const OverlayBox &box : scene.boxes) addBox(box, style, mapping, line, items);
  for (const OverlayPoint &point : scene.points) {
    const auto at = mapping.point(static_cast<double>(point.x), static_cast<double>(point.y));
    DrawItem item;
    item.shape = DrawItem::Shape::Disc;
    item.color = premultiply(colorOf(point.label, style));
    item.line = line * 2 + 1;
    item.x0 = item.x1 = coordinate(at.x);
    item.y0 = item.y1 = coordinate(at.y);
    add(std::move(item), around(item.x0, item.y0, item.x0, item.y0, static_cast<float>(line) + 2.5f), mapping, items);
  }
  if (style.labels && labels != nullptr) {
    size_t n = 0;
    for (const OverlayBox &box : scene.boxes) {
      if (n >= kMostLabels) break;
      const Rect area = mapping.rect(box.area);
      if ((box.label == 0 && box.percent < 0) || isEmpty(intersection(area, mapping.whole()))) continue;
      const auto text = labels->label(box.label, box.percent);
      if (!text) continue;
      addLabel(text, area, false, colorOf(box.label, style), mapping, items);
      ++n;
    }
    for (const OverlayText &text : scene.texts) {
      if (n >= kMostLabels) break;
      const bool of_box = text.box >= 0 && static_cast<size_t>(text.box) < scene.boxes.size();
      const Rect area = of_box ? mapping.rect(scene.boxes[static_cast<size_t>(text.box)].area) : mapping.whole();
      if (isEmpty(intersection(area, mapping.whole()))) continue;
      const auto bitmap = labels->label(text.label, text.percent);
      if (!bitmap) continue;
      addLabel(bitmap, area, of_box, colorOf(text.label, style), mapping, items);
      ++n;
    }
  }
  for (const OverlayImage &image : scene.images) {
    const Rect area = mapping.rect(image.area);
    if (isEmpty(intersection(area, mapping.whole()))) continue;
    DrawItem item;
    item.shape = DrawItem::Shape::Image;
    item.area = area;
    item.pixmap = pixmapFor(image, rotation_);
    if (item.pixmap) add(std::move(item), area, mapping, items);
  }
  old_masks_.clear();
  old_images_.clear();
}

} // namespace gstzc
