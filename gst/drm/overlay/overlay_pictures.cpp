// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/overlay_pictures.h"

#include <utility>

#include <drm_fourcc.h>

namespace gstzc {

Result<OverlayMemory> OverlayMemory::create(const std::shared_ptr<KmsDevice> &device, bool modifiers, int width,
                                            int height) {
  auto memory = DumbBuffer::create(device, static_cast<uint32_t>(width), static_cast<uint32_t>(height), 32);
  if (!memory) return memory.error();
  const Framebuffer::Plane plane{(*memory)->handle(), (*memory)->pitch(), 0};
  auto fb = Framebuffer::create(device, modifiers, {DRM_FORMAT_ARGB8888, DRM_FORMAT_MOD_LINEAR},
                                static_cast<uint32_t>(width), static_cast<uint32_t>(height), {&plane, 1});
  if (!fb) return fb.error();
  return OverlayMemory{memory.take(), fb.take()};
}

LabelSource *OverlayPictures::labels(const OverlayScene &scene, const OverlayStyle &style) {
  if (!style.labels || (scene.boxes.empty() && scene.texts.empty())) return nullptr;
  if (!text_tried_) {
    labels_missing_ = !TextRenderer::warm();
    if (labels_missing_) return nullptr; // no frame waits for fonts
    text_tried_ = true;
    auto made = TextRenderer::create();
    if (made)
      text_ = made.take();
    else if (note_)
      note_("labels are not shown: " + made.error().message());
  }
  if (text_) text_->setFormat({style.font, mapping_.width(), mapping_.height()});
  return text_.get();
}

Result<size_t> OverlayPictures::freePicture() {
  for (size_t i = 0; i < pictures_.size(); ++i) // the last one is held by `last_` too
    if (pictures_[i].memory.fb.use_count() == (pictures_[i].memory.fb == last_ ? 2 : 1)) return i;
  if (pictures_.size() >= most_) return Error{"all pictures of the overlay are on their way to the screen", 0, ""};
  auto memory = new_memory_();
  if (!memory) return memory.error();
  pictures_.push_back({memory.take(), {}});
  return pictures_.size() - 1;
}

Result<std::shared_ptr<Framebuffer>> OverlayPictures::blank() {
  last_.reset(); // whatever it is, what follows is drawn anew
  style_.reset();
  auto chosen = freePicture();
  if (!chosen) return chosen.error();
  return pictures_[*chosen].memory.fb;
}

std::shared_ptr<Framebuffer> OverlayPictures::draw(const OverlayScene &scene,
                                                   const std::shared_ptr<const OverlayStyle> &style) {
  const bool same = style_ && (style_ == style || *style_ == *style) && scene_ == scene;
  if (same && (!labels_missing_ || !TextRenderer::warm())) return last_;
  maker_.make(scene, *style, mapping_, labels(scene, *style), items_);
  const auto remember = [&](std::shared_ptr<Framebuffer> shown) {
    scene_ = scene;
    style_ = style;
    last_ = std::move(shown);
    return last_;
  };
  if (items_.empty()) return remember(nullptr);
  for (const Picture &picture : pictures_)
    if (picture.items == items_) return remember(picture.memory.fb); // it need not be written
  auto chosen = freePicture();
  auto data = chosen ? pictures_[*chosen].memory.memory->map() : chosen.error();
  if (!data) {
    if (note_ && data.error().code != 0 && !std::exchange(told_of_memory_, true))
      note_("an overlay is not redrawn: " + data.error().message());
    return last_;
  }
  Picture &picture = pictures_[*chosen];
  findDamage(picture.items, items_, damage_);
  for (const Rect &part : damage_.rects()) {
    painter_.paint(items_, part, *data, picture.memory.memory->pitch());
    counters_.pixels += static_cast<uint64_t>(part.width) * static_cast<uint64_t>(part.height);
  }
  ++counters_.redraws;
  picture.items = items_;
  return remember(picture.memory.fb);
}

} // namespace gstzc
