// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <drm_fourcc.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/negotiate/match.h"

namespace gstzc {
namespace {

struct PairHash {
  size_t operator()(const DrmFormat &f) const {
    uint64_t h = (f.modifier ^ f.fourcc) * 0x9e3779b97f4a7c15ull; // spreads what differs in few bits
    h ^= h >> 29;
    return static_cast<size_t>((h + f.fourcc) * 0xbf58476d1ce4e5b9ull);
  }
};

struct Sizes {
  uint32_t min_width = 1, min_height = 1, max_width = 0, max_height = 0;
  auto operator<=>(const Sizes &) const = default;
  bool holds(const Sizes &other) const {
    const auto most = [](uint32_t mine, uint32_t theirs) { return mine == 0 || (theirs != 0 && mine >= theirs); };
    return min_width <= other.min_width && min_height <= other.min_height && most(max_width, other.max_width) &&
           most(max_height, other.max_height);
  }
};

// auxiliary surfaces of a layout, whatever the format: clear colours and second copies of the compression state come
// after layouts without
unsigned auxiliary(uint64_t modifier) { return memoryPlanes({DRM_FORMAT_XRGB8888, modifier}); }

int formatClass(uint32_t fourcc) {
  const FormatTraits traits = formatTraits(fourcc);
  return traits.indexed_or_low ? 2 : traits.alpha ? 1 : 0;
}

class Offerer {
public:
  Offerer(const KmsSnapshot &snapshot, size_t crtc, const FailureMemory &failures, uint32_t width, uint32_t height)
      : snapshot_(snapshot), crtc_(crtc), failures_(failures), width_(width), height_(height) {}

  OfferedFormats operator()() {
    OfferedFormats result;
    result.max_width = snapshot_.max_width;
    result.max_height = snapshot_.max_height;
    struct Ranked {
      size_t plane;
      std::vector<Pair> pairs;
      LayoutTier best;
    };
    std::vector<Ranked> planes;
    for (size_t i = 0; i < snapshot_.planes.size(); ++i) {
      const KmsPlane &plane = snapshot_.planes[i];
      if (!onCrtc(plane, crtc_) || usedElsewhere(snapshot_, plane, crtc_)) continue;
      if (plane.type == DRM_PLANE_TYPE_CURSOR && !onlyNamedCursor(plane)) continue;
      Ranked ranked{i, pairsOf(plane), LayoutTier::Implicit};
      for (const Pair &p : ranked.pairs)
        if (p.named) ranked.best = std::max(ranked.best, layoutTier(p.format.modifier));
      if (!ranked.pairs.empty()) planes.push_back(std::move(ranked));
    }
    std::stable_sort(planes.begin(), planes.end(), [&](const Ranked &a, const Ranked &b) {
      const auto key = [&](const Ranked &r) {
        const int type = typeOrder(snapshot_.planes[r.plane]);
        return std::make_tuple(type == 2, -static_cast<int>(r.best), type);
      };
      return key(a) < key(b);
    });
    for (const Ranked &ranked : planes) addGroups(result, ranked.plane, ranked.pairs);
    return result;
  }

private:
  struct Pair {
    DrmFormat format;
    Sizes sizes;
    bool named = false;    // with its modifier
    bool implicit = false; // without one
  };

  // Each pair once, best first. Linear in pairs: modifiers and formats are ordered each for themselves.
  std::vector<Pair> pairsOf(const KmsPlane &plane) const {
    std::vector<uint32_t> fourccs;
    std::vector<uint64_t> modifiers;
    std::vector<std::vector<size_t>> layouts; // of a format, indices of modifiers in the driver's order
    std::unordered_map<uint32_t, size_t> format_of;
    std::unordered_map<uint64_t, size_t> modifier_of;
    std::unordered_set<DrmFormat, PairHash> seen;
    for (const DrmFormat &f : plane.formats) {
      const DrmFormat pair{f.fourcc, comparableModifier(f.modifier)};
      if (pair.modifier == DRM_FORMAT_MOD_INVALID || impossiblePair(pair) != nullptr) continue;
      if (pair.modifier != DRM_FORMAT_MOD_LINEAR && !(snapshot_.addfb2_modifiers && plane.has_in_formats)) continue;
      if (!seen.insert(pair).second) continue;
      const auto [format, new_format] = format_of.emplace(pair.fourcc, fourccs.size());
      if (new_format) {
        fourccs.push_back(pair.fourcc);
        layouts.emplace_back();
      }
      const auto [modifier, new_modifier] = modifier_of.emplace(pair.modifier, modifiers.size());
      if (new_modifier) modifiers.push_back(pair.modifier);
      layouts[format->second].push_back(modifier->second);
    }

    // The driver's order of modifiers is to be had from the formats with most of them: the lists of others are sublists
    // of it.
    std::vector<size_t> formats(fourccs.size());
    std::iota(formats.begin(), formats.end(), size_t{0});
    std::stable_sort(formats.begin(), formats.end(),
                     [&](size_t a, size_t b) { return layouts[a].size() > layouts[b].size(); });
    std::vector<size_t> order; // of modifiers
    std::vector<bool> listed(modifiers.size());
    for (const size_t f : formats)
      for (const size_t m : layouts[f])
        if (!listed[m]) {
          listed[m] = true;
          order.push_back(m);
        }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const auto key = [&](size_t m) {
        return std::make_pair(-static_cast<int>(layoutTier(modifiers[m])), auxiliary(modifiers[m]));
      };
      return key(a) < key(b);
    });
    std::sort(formats.begin(), formats.end(), [&](size_t a, size_t b) {
      return std::make_pair(formatClass(fourccs[a]), a) < std::make_pair(formatClass(fourccs[b]), b);
    });

    std::vector<std::vector<size_t>> of_modifier(modifiers.size());
    for (const size_t f : formats)
      for (const size_t m : layouts[f]) of_modifier[m].push_back(f);
    std::vector<Pair> result;
    result.reserve(seen.size());
    for (const size_t m : order)
      for (const size_t f : of_modifier[m]) {
        const auto failed = [&](uint64_t modifier) {
          return failures_.contains(plane.id, {fourccs[f], modifier}, width_, height_);
        };
        // without IN_FORMATS every format is in the list as a linear one
        const bool implicit = modifiers[m] == DRM_FORMAT_MOD_LINEAR && !failed(DRM_FORMAT_MOD_INVALID);
        const bool named = !failed(modifiers[m]);
        const DrmFormat pair{fourccs[f], modifiers[m]};
        if (named || implicit) result.push_back({pair, sizesOf(plane, pair), named, implicit});
      }
    return result;
  }

  Sizes sizesOf(const KmsPlane &plane, const DrmFormat &format) const {
    Sizes sizes{std::max(snapshot_.min_width, 1u), std::max(snapshot_.min_height, 1u), snapshot_.max_width,
                snapshot_.max_height};
    if (!plane.limits) return sizes;
    const PlaneFormatLimits limits = limitsOf(plane, format);
    const auto atMost = [](uint32_t &mine, const std::optional<uint32_t> &limit) {
      if (limit) mine = mine == 0 ? *limit : std::min(mine, *limit);
    };
    atMost(sizes.max_width, limits.max_width);
    atMost(sizes.max_height, limits.max_height);
    sizes.min_width = std::max(limits.min_width.value_or(1), sizes.min_width);
    sizes.min_height = std::max(limits.min_height.value_or(1), sizes.min_height);
    return sizes;
  }

  // True: an earlier group has it, in no fewer sizes.
  static bool covered(std::unordered_map<DrmFormat, std::vector<Sizes>, PairHash> &offered, const DrmFormat &format,
                      const Sizes &sizes) {
    std::vector<Sizes> &before = offered[format];
    for (const Sizes &s : before)
      if (s.holds(sizes)) return true;
    before.push_back(sizes);
    return false;
  }

  void addGroups(OfferedFormats &result, size_t plane, const std::vector<Pair> &pairs) {
    std::vector<std::pair<Sizes, OfferedGroup>> groups;
    const auto groupOf = [&](const Sizes &sizes) -> OfferedGroup & {
      for (auto &[s, group] : groups)
        if (s == sizes) return group;
      OfferedGroup group;
      group.plane = plane;
      group.min_width = sizes.min_width;
      group.min_height = sizes.min_height;
      group.max_width = sizes.max_width;
      group.max_height = sizes.max_height;
      return groups.emplace_back(sizes, std::move(group)).second;
    };
    for (const Pair &p : pairs) {
      if (p.sizes.max_width != 0 && p.sizes.max_width < p.sizes.min_width) continue;
      if (p.sizes.max_height != 0 && p.sizes.max_height < p.sizes.min_height) continue;
      if (p.named && !covered(offered_, p.format, p.sizes)) groupOf(p.sizes).pairs.push_back(p.format);
      if (p.implicit && !covered(offered_, {p.format.fourcc, DRM_FORMAT_MOD_INVALID}, p.sizes))
        groupOf(p.sizes).implicit.push_back(p.format.fourcc);
    }
    for (auto &[sizes, group] : groups) result.groups.push_back(std::move(group));
  }

  const KmsSnapshot &snapshot_;
  const size_t crtc_;
  const FailureMemory &failures_;
  const uint32_t width_, height_;
  std::unordered_map<DrmFormat, std::vector<Sizes>, PairHash> offered_;
};

} // namespace

bool OfferedFormats::contains(const DrmFormat &format) const {
  for (const OfferedGroup &g : groups) {
    if (format.modifier == DRM_FORMAT_MOD_INVALID) {
      if (std::find(g.implicit.begin(), g.implicit.end(), format.fourcc) != g.implicit.end()) return true;
    } else if (std::any_of(g.pairs.begin(), g.pairs.end(), [&](const DrmFormat &f) { return sameLayout(f, format); })) {
      return true;
    }
  }
  return false;
}

std::vector<uint32_t> OfferedFormats::linear() const {
  std::vector<uint32_t> result;
  std::unordered_set<uint32_t> seen;
  for (const OfferedGroup &g : groups)
    for (const DrmFormat &f : g.pairs)
      if (f.modifier == DRM_FORMAT_MOD_LINEAR && seen.insert(f.fourcc).second) result.push_back(f.fourcc);
  return result;
}

OfferedFormats offers(const KmsSnapshot &snapshot, size_t crtc, const FailureMemory &failures, uint32_t width,
                      uint32_t height) {
  if (crtc >= snapshot.crtcs.size()) return {};
  return Offerer(snapshot, crtc, failures, width, height)();
}

} // namespace gstzc
