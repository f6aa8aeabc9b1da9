// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/overlay/damage.h"

#include <algorithm>

namespace gstzc {
void Damage::add(Rect rect) {
  if (isEmpty(rect)) return;
  for (size_t i = 0; i < rects_.size();) {
    if (isEmpty(intersection(rects_[i], rect))) {
      ++i;
      continue;
    }
    rect = bounding(rects_[i], rect); // may reach others that it did not before
    rects_[i] = rects_.back();
    rects_.pop_back();
    i = 0;
  }
  rects_.push_back(rect);
  if (rects_.size() <= kMost) return;
  Rect all;
  for (const Rect &r : rects_) all = bounding(all, r);
  rects_.clear();
  rects_.push_back(all);
}

void findDamage(const std::vector<DrawItem> &before, const std::vector<DrawItem> &after, Damage &damage) {
  damage.clear();
  size_t first = 0, tail = 0;
  const size_t common = std::min(before.size(), after.size());
  if (before.size() != after.size()) { // something came or went: what stands before and after it is as it was
    while (first < common && before[first] == after[first]) ++first;
    while (tail < common - first && before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) ++tail;
    for (size_t i = first; i < before.size() - tail; ++i) damage.add(before[i].bounds);
    for (size_t i = first; i < after.size() - tail; ++i) damage.add(after[i].bounds);
    return;
  }
  for (size_t i = 0; i < common; ++i) {
    if (before[i] == after[i]) continue;
    damage.add(before[i].bounds);
    damage.add(after[i].bounds);
  }
}

} // namespace gstzc
