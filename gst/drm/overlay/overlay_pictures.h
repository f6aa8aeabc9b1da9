// SPDX-License-Identifier: LGPL-2.1-or-later
// The pictures of an overlay plane.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gst/drm/framebuffer.h"
#include "gst/drm/overlay/damage.h"
#include "gst/drm/overlay/draw_list.h"
#include "gst/drm/overlay/painter.h"
#include "gst/drm/overlay/text.h"

namespace gstzc {

// A picture that can be written, and what a display shows it as. The framebuffer keeps the memory.
struct OverlayMemory {
  std::unique_ptr<DumbBuffer> memory;
  std::shared_ptr<Framebuffer> fb;

  // ARGB8888, all transparent.
  static Result<OverlayMemory> create(const std::shared_ptr<KmsDevice> &device, bool modifiers, int width, int height);
};

// Scenes to pictures: one that shows the scene already, else another that nobody shows, in which only what differs is
// painted.
class OverlayPictures {
public:
  struct Counters {
    uint64_t redraws = 0; // pictures that were painted in
    uint64_t pixels = 0;  // painted
  };
  // `memory` makes a picture of the mapping's size. `shown`: the most pictures that are on screen or on their way there
  // at a time. `note`: something the user may want to know once.
  using NewMemory = std::function<Result<OverlayMemory>()>;
  OverlayPictures(OverlayMapping mapping, size_t shown, NewMemory memory, std::function<void(const std::string &)> note)
      : mapping_(mapping), most_(shown + 1), new_memory_(std::move(memory)), note_(std::move(note)) {}

  // Null: nothing of the scene is visible. The picture before stays where no other can be had.
  std::shared_ptr<Framebuffer> draw(const OverlayScene &scene, const std::shared_ptr<const OverlayStyle> &style);
  // One in which nothing is, for a commit that only asks.
  Result<std::shared_ptr<Framebuffer>> blank();
  const OverlayMapping &mapping() const { return mapping_; }
  const Counters &counters() const { return counters_; }

private:
  struct Picture {
    OverlayMemory memory;
    std::vector<DrawItem> items; // what is in it
  };
  LabelSource *labels(const OverlayScene &scene, const OverlayStyle &style);
  Result<size_t> freePicture();

  const OverlayMapping mapping_;
  const size_t most_;
  const NewMemory new_memory_;
  const std::function<void(const std::string &)> note_; // may be empty
  std::vector<Picture> pictures_;
  OverlayScene scene_; // of the last draw
  std::shared_ptr<const OverlayStyle> style_;
  std::shared_ptr<Framebuffer> last_; // null: nothing was visible
  DrawListMaker maker_;
  std::vector<DrawItem> items_;
  Damage damage_;
  Painter painter_;
  std::unique_ptr<TextRenderer> text_;
  bool text_tried_ = false, told_of_memory_ = false;
  bool labels_missing_ = false; // in the last one drawn: there are no fonts yet
  Counters counters_;
};

} // namespace gstzc
