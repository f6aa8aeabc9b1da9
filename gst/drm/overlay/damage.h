// SPDX-License-Identifier: LGPL-2.1-or-later
// Which parts of a picture have to be painted anew.
#pragma once

#include <vector>

#include "gst/drm/overlay/draw_list.h"

namespace gstzc {

// Parts of a picture that do not overlap. Past kMost of them they become one: finding out costs more than painting.
class Damage {
public:
  static constexpr size_t kMost = 24;
  void clear() { rects_.clear(); }
  void add(Rect rect);
  const std::vector<Rect> &rects() const { return rects_; }

private:
  std::vector<Rect> rects_;
};

// What differs between a picture of `before` and one of `after`, into `damage`, which is emptied first.
void findDamage(const std::vector<DrawItem> &before, const std::vector<DrawItem> &after, Damage &damage);

} // namespace gstzc
