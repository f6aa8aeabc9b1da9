// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>

#include <drm_fourcc.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/negotiate/match.h"

namespace gstzc {
namespace {

constexpr size_t kListed = 6; // of anything, in a sentence

std::string fourccName(uint32_t fourcc) { return toString({fourcc, DRM_FORMAT_MOD_LINEAR}); }

template <typename List, typename Text> std::string listed(const List &list, Text text) {
  std::string result;
  for (size_t i = 0; i < list.size() && i < kListed; ++i) result += (i == 0 ? "" : ", ") + text(list[i]);
  if (list.size() > kListed) result += ", … (" + std::to_string(list.size()) + " in all)";
  return result;
}

// How unlike two formats are; pictures in one can be had in the other by elements that are everywhere.
int distance(uint32_t wanted, uint32_t other) {
  const FormatTraits a = formatTraits(wanted), b = formatTraits(other);
  return (a.yuv != b.yuv ? 8 : 0) + (b.indexed_or_low && !a.indexed_or_low ? 4 : 0) +
         (a.hsub != b.hsub || a.vsub != b.vsub ? 2 : 0) + (a.alpha != b.alpha ? 1 : 0);
}

// The same frame asked for less: as it is, if only turning or scaling is in the way, or in a size that is possible.
bool eased(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need, const FailureMemory &failures,
           std::vector<NearMiss> *result) {
  const auto attempt = [&](const FrameNeed &easier, const std::string &how, const std::string &remedy = {}) {
    const auto options = propose(snapshot, crtc, easier, failures, nullptr);
    if (options.empty()) return false;
    const size_t plane = options.front().plane;
    result->push_back({need.format, plane,
                       describeNeed(easier) + " would be shown " + how + ", on " + planeName(snapshot.planes[plane]),
                       remedy});
    return true;
  };
  FrameNeed easier = need;
  if (need.alpha) {
    easier.alpha = false;
    if (attempt(easier, "with alpha=1", "Leave alpha at 1")) return true;
    easier = need;
  }
  if (need.zpos) {
    easier.zpos.reset();
    if (attempt(easier, "at the plane's own zpos", "Leave zpos at -1, or choose one that a plane has")) return true;
    easier.alpha = false;
    if (attempt(easier, "with alpha=1, at the plane's own zpos", "Leave alpha at 1 and zpos at -1")) return true;
    easier = need;
  }
  if (scalingOf(need) != Scaling::None) {
    easier.target_width = easier.target_height = 0;
    if (attempt(easier, "pixel for pixel")) return true;
  }
  if (need.rotation != 0 && need.rotation != DRM_MODE_ROTATE_0) {
    easier = need;
    easier.rotation = 0;
    if (need.rotation & (DRM_MODE_ROTATE_90 | DRM_MODE_ROTATE_270))
      std::swap(easier.target_width, easier.target_height);
    if (attempt(easier, "the way it is")) return true;
    easier.target_width = easier.target_height = 0;
    if (attempt(easier, "the way it is, pixel for pixel")) return true;
  }
  for (size_t i = 0; i < snapshot.planes.size(); ++i) {
    const KmsPlane &plane = snapshot.planes[i];
    if (!onCrtc(plane, crtc) || usedElsewhere(snapshot, plane, crtc)) continue;
    if (plane.type == DRM_PLANE_TYPE_CURSOR || matchPair(snapshot, plane, need.format) != PairMatch::Yes) continue;
    const PlaneFormatLimits limits = limitsOf(plane, need.format);
    easier = need;
    easier.rotation = 0;
    easier.alpha = false;
    easier.zpos.reset();
    easier.crop.reset();
    easier.target_width = easier.target_height = 0;
    const auto fit = [](int value, uint32_t low, uint32_t high) {
      if (high != 0 && value > static_cast<int64_t>(high)) return static_cast<int>(high);
      return static_cast<int>(std::max<int64_t>(value, low));
    };
    const auto least = [](const std::optional<uint32_t> &a, uint32_t b) {
      return a && b != 0 ? std::min(*a, b) : a.value_or(b);
    };
    const auto least_width = std::max(limits.min_width.value_or(1), snapshot.min_width);
    const auto least_height = std::max(limits.min_height.value_or(1), snapshot.min_height);
    const auto most_width = least(limits.max_width, snapshot.max_width);
    const auto most_height = least(limits.max_height, snapshot.max_height);
    if (need.width <= 0 || need.height <= 0) { // the nearest side where none of several is possible
      const bool even = limits.even.value_or(false);
      const FormatTraits traits = formatTraits(need.format.fourcc);
      const auto nearest = [&](const SideRange &wanted, uint32_t low, uint32_t high, unsigned step) {
        int side = fit(wanted.min, low, high);
        if (even && wanted.min == wanted.max) side -= side % static_cast<int>(step);
        return side >= wanted.min && side <= wanted.max ? wanted : SideRange{side, side};
      };
      easier.widths = nearest(need.widths, least_width, most_width, traits.hsub);
      easier.heights = nearest(need.heights, least_height, most_height, traits.vsub);
      if ((easier.widths != need.widths || easier.heights != need.heights) && attempt(easier, "in that size"))
        return true;
      continue;
    }
    easier.width = fit(need.width, least_width, most_width);
    easier.height = fit(need.height, least_height, most_height);
    if (limits.even.value_or(false)) {
      const FormatTraits traits = formatTraits(need.format.fourcc);
      easier.width -= easier.width % static_cast<int>(traits.hsub);
      easier.height -= easier.height % static_cast<int>(traits.vsub);
    }
    if ((easier.width != need.width || easier.height != need.height) && attempt(easier, "in that size")) return true;
  }
  return false;
}

} // namespace

std::vector<NearMiss> nearestMiss(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need,
                                  const FailureMemory &failures) {
  std::vector<NearMiss> result;
  if (crtc >= snapshot.crtcs.size() || eased(snapshot, crtc, need, failures, &result)) return result;

  const auto width = static_cast<uint32_t>(std::max(need.width, 0));
  const auto height = static_cast<uint32_t>(std::max(need.height, 0));
  const bool single = width != 0 && height != 0;
  const SideRange widths = single ? SideRange{need.width, need.width} : need.widths;
  const SideRange heights = single ? SideRange{need.height, need.height} : need.heights;
  const OfferedFormats offered = offers(snapshot, crtc, failures, width, height);
  struct Candidate {
    DrmFormat format;
    size_t plane;
    int order;
  };
  std::vector<Candidate> candidates;
  const uint64_t vendor = need.format.modifier >> 56;
  for (const OfferedGroup &group : offered.groups)
    for (const DrmFormat &f : group.pairs) {
      const auto possible = [](const SideRange &s, uint32_t low, uint32_t high) {
        return s.max >= static_cast<int64_t>(low) && (high == 0 || s.min <= static_cast<int64_t>(high));
      };
      if (!possible(widths, group.min_width, group.max_width) || !possible(heights, group.min_height, group.max_height))
        continue;
      if (sameLayout(f, need.format)) continue; // it is refused for another reason
      const bool same = f.fourcc == need.format.fourcc;
      const bool linear = f.modifier == DRM_FORMAT_MOD_LINEAR;
      // another fourcc counts where the layout is what the producer has, or linear, which all can do
      if (!same && !linear && comparableModifier(f.modifier) != comparableModifier(need.format.modifier)) continue;
      const int layout = comparableModifier(f.modifier) == comparableModifier(need.format.modifier) ? 0
                         : linear                                                                   ? 2
                         : f.modifier >> 56 == vendor                                               ? 1
                                                                                                    : 3;
      candidates.push_back({f, group.plane, (same ? 0 : 100 + 4 * distance(need.format.fourcc, f.fourcc)) + layout});
    }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate &a, const Candidate &b) { return a.order < b.order; });
  if (candidates.empty()) return result;
  const bool same = candidates.front().format.fourcc == need.format.fourcc;
  const int limit = same ? 100 : candidates.front().order + 4; // of other fourccs the most alike
  for (const Candidate &c : candidates) {
    if (c.order >= limit || result.size() == kListed) break;
    result.push_back(
        {c.format, c.plane,
         fourccName(c.format.fourcc) + " would be shown with " +
             (c.format.modifier == DRM_FORMAT_MOD_LINEAR ? "linear layout" : layoutName(c.format.modifier)) + ", on " +
             planeName(snapshot.planes[c.plane])});
  }
  return result;
}

NoPlane noPlane(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need, const FailureMemory &failures,
                const std::vector<Refusal> &refusals) {
  std::vector<const Refusal *> telling; // planes of other CRTCs say nothing about this output
  for (const Refusal &r : refusals)
    if (r.reason != RefusalReason::NotOnThisCrtc) telling.push_back(&r);
  NoPlane result;
  result.refusal = "no plane of " + snapshot.path + (snapshot.driver.empty() ? "" : " (" + snapshot.driver + ")") +
                   " shows " + describeNeed(need);
  if (!telling.empty()) {
    std::string why;
    for (size_t i = 0; i < telling.size() && i < kListed; ++i) why += (i == 0 ? "" : "; ") + telling[i]->sentence;
    result.refusal += ": " + why + (telling.size() > kListed ? "; …" : "");
  }
  const OfferedFormats offered = offers(snapshot, crtc, failures, static_cast<uint32_t>(std::max(need.width, 0)),
                                        static_cast<uint32_t>(std::max(need.height, 0)));
  std::vector<DrmFormat> pairs;
  for (const OfferedGroup &g : offered.groups) pairs.insert(pairs.end(), g.pairs.begin(), g.pairs.end());
  result.possible = pairs.empty() ? "The output shows nothing at all"
                                  : "Offered are " + listed(pairs, [](const DrmFormat &f) { return toString(f); });
  const auto near = nearestMiss(snapshot, crtc, need, failures);
  if (near.empty()) {
    result.remedy = "Convert upstream to one of the formats in the sink's caps";
    return result;
  }
  result.possible += ". Nearest: " + near.front().sentence;
  const DrmFormat &best = near.front().format;
  if (!near.front().remedy.empty()) {
    result.remedy = near.front().remedy;
    return result;
  }
  result.remedy = best == need.format ? "Scale, turn or crop upstream, such as with videoconvertscale or videoflip"
                                      : "Ask upstream for drm-format=" + toString(best) + ", or let it convert";
  return result;
}

} // namespace gstzc
