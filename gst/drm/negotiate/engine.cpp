// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/negotiate/engine.h"

#include <algorithm>
#include <cstdio>

#include <drm_fourcc.h>

#include "gst/drm/negotiate/match.h"

namespace gstzc {
namespace {

constexpr uint32_t kQuarterTurns = DRM_MODE_ROTATE_90 | DRM_MODE_ROTATE_270;
constexpr uint32_t kReflections = DRM_MODE_REFLECT_X | DRM_MODE_REFLECT_Y;
constexpr uint32_t kRotations = DRM_MODE_ROTATE_0 | DRM_MODE_ROTATE_90 | DRM_MODE_ROTATE_180 | DRM_MODE_ROTATE_270;

std::string fourccName(uint32_t fourcc) { return toString({fourcc, DRM_FORMAT_MOD_LINEAR}); }

std::string size(int64_t width, int64_t height) { return std::to_string(width) + "x" + std::to_string(height); }

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// what can be turned and reflected, one bit each
uint32_t rotationsOf(const KmsPlane &plane) {
  const auto p = plane.properties.find("rotation");
  if (p == plane.properties.end()) return DRM_MODE_ROTATE_0;
  uint32_t mask = DRM_MODE_ROTATE_0; // which the kernel wants of every driver
  if (p->second.immutable()) return mask;
  for (const auto &[name, bit] : p->second.values)
    if (bit < 32) mask |= 1u << bit;
  return mask;
}

// the same picture by other means: half a turn more, and both axes reflected
uint32_t halfTurned(uint32_t rotation) {
  const uint32_t turn = rotation & kRotations;
  const uint32_t other = turn == DRM_MODE_ROTATE_0     ? DRM_MODE_ROTATE_180
                         : turn == DRM_MODE_ROTATE_180 ? DRM_MODE_ROTATE_0
                         : turn == DRM_MODE_ROTATE_90  ? DRM_MODE_ROTATE_270
                                                       : DRM_MODE_ROTATE_90;
  return other | ((rotation & kReflections) ^ kReflections);
}

struct Factors {
  double x = 1, y = 1;
};

std::optional<Factors> factorsOf(const FrameNeed &need) {
  Rect source = need.source();
  if (need.rotation & kQuarterTurns) std::swap(source.width, source.height);
  if (need.target_width <= 0 || need.target_height <= 0 || source.width <= 0 || source.height <= 0) return std::nullopt;
  return Factors{double(need.target_width) / source.width, double(need.target_height) / source.height};
}

struct Verdict {
  std::optional<RefusalReason> refused;
  std::string why; // what follows the plane's name
  Option option;
};

class Judge {
public:
  Judge(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need, const FailureMemory &failures)
      : snapshot_(snapshot), crtc_(crtc), need_(need), failures_(failures), scaling_(scalingOf(need)),
        factors_(factorsOf(need)), traits_(formatTraits(need.format.fourcc)),
        memory_planes_(memoryPlanes(need.format)) {}

  // `match`: of the pair, which was looked up already
  Verdict operator()(size_t index, PairMatch match) const {
    const KmsPlane &plane = snapshot_.planes[index];
    Verdict v;
    v.option = {index, need_.format, scaling_, DRM_MODE_ROTATE_0, memory_planes_, {}};
    if (!onCrtc(plane, crtc_)) return refuse(RefusalReason::NotOnThisCrtc, "belongs to other CRTCs");
    if (auto bad = pairRefusal(plane, match); bad.refused) return bad;
    if (usedElsewhere(snapshot_, plane, crtc_))
      return refuse(RefusalReason::InUse, plane.claimed ? "shows the frames of another sink"
                                                        : "is in use on CRTC " + std::to_string(plane.crtc));
    if (need_.memory_planes != 0 && need_.memory_planes != memory_planes_ && memoryPlanesKnown(need_.format.modifier))
      return refuse(RefusalReason::MemoryPlanes, "takes " + pair() + " in " + std::to_string(memory_planes_) +
                                                     " memory planes, and the buffers have " +
                                                     std::to_string(need_.memory_planes));
    const PlaneFormatLimits limits = limitsOf(plane, need_.format);
    if (auto bad = sizeRefusal(limits, &v.option.open); bad.refused) return bad;
    const auto rotation = planeRotation(plane, need_.rotation);
    if (!rotation) return refuse(RefusalReason::RotationRefused, "cannot turn or reflect the picture that way");
    v.option.rotation = *rotation;
    if (auto bad = lookRefusal(plane); bad.refused) return bad;
    if (auto bad = scalingRefusal(limits, &v.option.open); bad.refused) return bad;
    if (failures_.contains(plane.id, need_.format, static_cast<uint32_t>(std::max(need_.width, 0)),
                           static_cast<uint32_t>(std::max(need_.height, 0))))
      return refuse(RefusalReason::FailedBefore, "refused " + pair() + " in this size before");
    return v;
  }

private:
  static Verdict refuse(RefusalReason reason, std::string why) { return {reason, std::move(why), {}}; }
  std::string pair() const { return fourccName(need_.format.fourcc) + " " + layoutName(need_.format.modifier); }

  Verdict pairRefusal(const KmsPlane &plane, PairMatch match) const {
    const std::string fourcc = fourccName(need_.format.fourcc);
    switch (match) {
    case PairMatch::Yes: return {};
    case PairMatch::NoSuchFormat: return refuse(RefusalReason::NoSuchFormat, "has no " + fourcc);
    case PairMatch::NeedsModifier:
      return refuse(RefusalReason::NeedsModifier, "takes " + fourcc + " in named layouts only");
    case PairMatch::ImpossiblePair:
      return refuse(RefusalReason::ImpossiblePair,
                    std::string("lists a pair that cannot be: ") + impossiblePair(need_.format));
    case PairMatch::NotWithThisModifier: break;
    }
    if (!snapshot_.addfb2_modifiers || !plane.has_in_formats)
      return refuse(RefusalReason::NotWithThisModifier, "has " + fourcc +
                                                            ", but its driver takes no modifiers such as " +
                                                            layoutName(need_.format.modifier));
    return refuse(RefusalReason::NotWithThisModifier,
                  "has " + fourcc + ", but not with " + layoutName(need_.format.modifier));
  }

  // Of frames without a single size: whether none of theirs is possible.
  Verdict rangeRefusal(const PlaneFormatLimits &limits) const {
    const auto low = [](const SideRange &s) { return static_cast<uint32_t>(std::max(s.min, 1)); };
    const auto high = [](const SideRange &s) { return static_cast<uint32_t>(std::max(s.max, 1)); };
    const SideRange &w = need_.widths, &h = need_.heights;
    if ((snapshot_.max_width != 0 && low(w) > snapshot_.max_width) ||
        (snapshot_.max_height != 0 && low(h) > snapshot_.max_height))
      return refuse(RefusalReason::TooLarge, deviceMost());
    if (high(w) < snapshot_.min_width || high(h) < snapshot_.min_height)
      return refuse(RefusalReason::TooSmall, deviceLeast());
    if (low(w) > limits.max_width.value_or(UINT32_MAX) || low(h) > limits.max_height.value_or(UINT32_MAX))
      return refuse(RefusalReason::TooLarge, planeMost(limits));
    if (high(w) < limits.min_width.value_or(0) || high(h) < limits.min_height.value_or(0))
      return refuse(RefusalReason::TooSmall, planeLeast(limits));
    const auto splits = [](const SideRange &s, unsigned step) {
      return s.min == s.max && s.min % static_cast<int>(step) != 0;
    };
    if (limits.even.value_or(false) && (splits(w, traits_.hsub) || splits(h, traits_.vsub)))
      return refuse(RefusalReason::NotEven, notEven());
    return {};
  }

  std::string deviceMost() const {
    return "belongs to a device whose framebuffers have " + size(snapshot_.max_width, snapshot_.max_height) +
           " at most";
  }
  std::string deviceLeast() const {
    return "belongs to a device whose framebuffers have " + size(snapshot_.min_width, snapshot_.min_height) +
           " at least";
  }
  std::string planeMost(const PlaneFormatLimits &limits) const {
    return "takes " + pair() + " up to " +
           size(limits.max_width.value_or(snapshot_.max_width), limits.max_height.value_or(snapshot_.max_height));
  }
  std::string planeLeast(const PlaneFormatLimits &limits) const {
    return "takes " + pair() + " from " + size(limits.min_width.value_or(1), limits.min_height.value_or(1));
  }
  std::string notEven() const {
    return "takes " + fourccName(need_.format.fourcc) +
           " only where position and size of what is shown are multiples of " + size(traits_.hsub, traits_.vsub);
  }

  Verdict sizeRefusal(const PlaneFormatLimits &limits, OpenQuestions *open) const {
    if (need_.width <= 0 || need_.height <= 0) return rangeRefusal(limits);
    const auto w = static_cast<uint32_t>(need_.width), h = static_cast<uint32_t>(need_.height);
    if ((snapshot_.max_width != 0 && w > snapshot_.max_width) ||
        (snapshot_.max_height != 0 && h > snapshot_.max_height))
      return refuse(RefusalReason::TooLarge, deviceMost());
    if (w < snapshot_.min_width || h < snapshot_.min_height) return refuse(RefusalReason::TooSmall, deviceLeast());
    const Rect source = need_.source();
    if (source.x < 0 || source.y < 0 || source.width <= 0 || source.height <= 0 ||
        source.width > need_.width - source.x || source.height > need_.height - source.y)
      return refuse(RefusalReason::SourceOutside, "cannot show a part that is not within the frame");
    const auto sw = static_cast<uint32_t>(source.width), sh = static_cast<uint32_t>(source.height);
    if (sw > limits.max_width.value_or(UINT32_MAX) || sh > limits.max_height.value_or(UINT32_MAX))
      return refuse(RefusalReason::TooLarge, planeMost(limits));
    if (sw < limits.min_width.value_or(0) || sh < limits.min_height.value_or(0))
      return refuse(RefusalReason::TooSmall, planeLeast(limits));
    if (!limits.max_width || !limits.max_height) open->size = true;
    const auto splits = [](int value, unsigned step) { return value % static_cast<int>(step) != 0; };
    if (splits(source.x, traits_.hsub) || splits(source.width, traits_.hsub) || splits(source.y, traits_.vsub) ||
        splits(source.height, traits_.vsub)) {
      if (limits.even.value_or(false)) return refuse(RefusalReason::NotEven, notEven());
      if (!limits.even) open->odd = true;
    }
    return {};
  }

  Verdict lookRefusal(const KmsPlane &plane) const {
    if (need_.alpha)
      if (const auto p = plane.properties.find("alpha"); p == plane.properties.end() || p->second.immutable())
        return refuse(RefusalReason::NoAlpha, p == plane.properties.end() ? "has no alpha property"
                                                                          : "has an alpha property that cannot be set");
    if (!need_.zpos) return {};
    const auto p = plane.properties.find("zpos");
    const std::string wanted = ", wanted " + std::to_string(*need_.zpos);
    if (p == plane.properties.end()) return refuse(RefusalReason::ZposRefused, "has no zpos property");
    const KmsProperty &zpos = p->second;
    if (zpos.immutable()) {
      if (zpos.value == *need_.zpos) return {};
      return refuse(RefusalReason::ZposRefused, "has zpos " + std::to_string(zpos.value) + " for good" + wanted);
    }
    const uint64_t min = zpos.named("min").value_or(0), max = zpos.named("max").value_or(UINT64_MAX);
    if (*need_.zpos >= min && *need_.zpos <= max) return {};
    return refuse(RefusalReason::ZposRefused,
                  "has zpos " + std::to_string(min) + " to " + std::to_string(max) + wanted);
  }

  Verdict scalingRefusal(const PlaneFormatLimits &limits, OpenQuestions *open) const {
    if (scaling_ == Scaling::None || !factors_) return {};
    if (!limits.scaling.value_or(true))
      return refuse(RefusalReason::ScalingRefused, "shows " + pair() + " pixel for pixel only");
    const double low = std::min(factors_->x, factors_->y), high = std::max(factors_->x, factors_->y);
    if (low < limits.min_scale.value_or(0) || high > limits.max_scale.value_or(high))
      return refuse(RefusalReason::ScalingRefused,
                    "scales " + pair() + " by " + number(limits.min_scale.value_or(0)) + " to " +
                        (limits.max_scale ? number(*limits.max_scale) : std::string("any factor")) + ", and " +
                        number(low < limits.min_scale.value_or(0) ? low : high) + " is wanted");
    open->scaling = (low < 1 && !limits.min_scale) || (high > 1 && !limits.max_scale);
    return {};
  }

  const KmsSnapshot &snapshot_;
  const size_t crtc_;
  const FrameNeed &need_;
  const FailureMemory &failures_;
  const Scaling scaling_;
  const std::optional<Factors> factors_;
  const FormatTraits traits_;
  const unsigned memory_planes_;
};

} // namespace

const char *scalingName(Scaling scaling) {
  switch (scaling) {
  case Scaling::None: return "none";
  case Scaling::Up: return "up";
  case Scaling::Down: return "down";
  case Scaling::Both: return "both";
  }
  return "?";
}

const char *reasonName(RefusalReason reason) {
  switch (reason) {
  case RefusalReason::NotOnThisCrtc: return "not-on-this-crtc";
  case RefusalReason::Cursor: return "cursor";
  case RefusalReason::InUse: return "in-use";
  case RefusalReason::NoSuchFormat: return "no-such-format";
  case RefusalReason::NotWithThisModifier: return "not-with-this-modifier";
  case RefusalReason::ImpossiblePair: return "impossible-pair";
  case RefusalReason::NeedsModifier: return "needs-modifier";
  case RefusalReason::TooLarge: return "too-large";
  case RefusalReason::TooSmall: return "too-small";
  case RefusalReason::ScalingRefused: return "scaling-refused";
  case RefusalReason::NotEven: return "not-even";
  case RefusalReason::RotationRefused: return "rotation-refused";
  case RefusalReason::NoAlpha: return "no-alpha";
  case RefusalReason::ZposRefused: return "zpos-refused";
  case RefusalReason::MemoryPlanes: return "memory-planes";
  case RefusalReason::SourceOutside: return "source-outside";
  case RefusalReason::FailedBefore: return "failed-before";
  case RefusalReason::TestOnly: return "test-only";
  }
  return "?";
}

std::string planeName(const KmsPlane &plane) {
  return "plane " + std::to_string(plane.id) + " (" + planeKind(plane.type) +
         (plane.label.empty() ? "" : ", " + plane.label) + ")";
}

std::string sizeText(const FrameNeed &need) {
  if (need.width > 0) return size(need.width, need.height);
  if (need.widths.any() && need.heights.any()) return "";
  const auto side = [](const SideRange &s) {
    if (s.any()) return std::string("any");
    if (s.min == s.max) return std::to_string(s.min);
    return std::to_string(s.min) + ".." + (s.max == INT_MAX ? std::string("any") : std::to_string(s.max));
  };
  return side(need.widths) + " x " + side(need.heights);
}

std::string describeNeed(const FrameNeed &need) {
  std::string text = fourccName(need.format.fourcc);
  if (need.format.modifier == DRM_FORMAT_MOD_INVALID)
    text += " (implicit layout)";
  else if (need.format.modifier != DRM_FORMAT_MOD_LINEAR)
    text = toString(need.format) + " (" + layoutName(need.format.modifier) + ")";
  if (const std::string frame = sizeText(need); !frame.empty()) text += " " + frame;
  if (need.crop) text += ", of it " + size(need.crop->width, need.crop->height);
  if (scalingOf(need) != Scaling::None) text += ", scaled to " + size(need.target_width, need.target_height);
  if (const uint32_t turn = need.rotation & kRotations; turn != 0 && turn != DRM_MODE_ROTATE_0)
    text += turn == DRM_MODE_ROTATE_90    ? ", rotated by 90 degrees"
            : turn == DRM_MODE_ROTATE_180 ? ", rotated by 180 degrees"
                                          : ", rotated by 270 degrees";
  if (need.rotation & kReflections) text += ", reflected";
  if (need.alpha) text += ", less than opaque";
  if (need.zpos) text += ", at zpos " + std::to_string(*need.zpos);
  return text;
}

std::optional<uint32_t> planeRotation(const KmsPlane &plane, uint32_t wanted) {
  if ((wanted & kRotations) == 0) wanted |= DRM_MODE_ROTATE_0;
  const uint32_t mask = rotationsOf(plane);
  for (const uint32_t form : {wanted, halfTurned(wanted)})
    if ((form & ~mask) == 0) return form;
  return std::nullopt;
}

Scaling scalingOf(const FrameNeed &need) {
  const auto factors = factorsOf(need);
  if (!factors) return Scaling::None;
  const bool up = factors->x > 1 || factors->y > 1, down = factors->x < 1 || factors->y < 1;
  return up && down ? Scaling::Both : up ? Scaling::Up : down ? Scaling::Down : Scaling::None;
}

PlaneFormatLimits limitsOf(const KmsPlane &plane, const DrmFormat &format) {
  PlaneFormatLimits all;
  if (!plane.limits) return all;
  const auto tighten = [](auto &mine, const auto &theirs, auto tighter) {
    if (theirs) mine = mine ? tighter(*mine, *theirs) : *theirs;
  };
  const auto least = [](auto a, auto b) { return std::min(a, b); };
  const auto most = [](auto a, auto b) { return std::max(a, b); };
  for (const PlaneFormatLimits &l : *plane.limits) {
    if (!l.appliesTo(format)) continue;
    tighten(all.max_width, l.max_width, least);
    tighten(all.max_height, l.max_height, least);
    tighten(all.min_width, l.min_width, most);
    tighten(all.min_height, l.min_height, most);
    tighten(all.max_scale, l.max_scale, least);
    tighten(all.min_scale, l.min_scale, most);
    tighten(all.scaling, l.scaling, [](bool a, bool b) { return a && b; });
    tighten(all.even, l.even, [](bool a, bool b) { return a || b; });
  }
  return all;
}

bool onlyNamedCursor(const KmsPlane &plane) {
  return plane.type == DRM_PLANE_TYPE_CURSOR &&
         std::any_of(plane.formats.begin(), plane.formats.end(),
                     [](const DrmFormat &f) { return formatTraits(f.fourcc).yuv; });
}

PairMatch matchPair(const KmsSnapshot &snapshot, const KmsPlane &plane, const DrmFormat &format) {
  const bool implicit = format.modifier == DRM_FORMAT_MOD_INVALID;
  const bool modifiers = snapshot.addfb2_modifiers && plane.has_in_formats;
  bool fourcc = false, pair = false;
  for (const DrmFormat &f : plane.formats) {
    if (f.fourcc != format.fourcc || f.modifier == DRM_FORMAT_MOD_INVALID) continue;
    fourcc = true;
    pair = implicit ? !plane.has_in_formats || f.modifier == DRM_FORMAT_MOD_LINEAR : sameLayout(f, format);
    if (pair) break;
  }
  if (!fourcc) return PairMatch::NoSuchFormat;
  if (!pair) return implicit ? PairMatch::NeedsModifier : PairMatch::NotWithThisModifier;
  if (!implicit && format.modifier != DRM_FORMAT_MOD_LINEAR && !modifiers) return PairMatch::NotWithThisModifier;
  return impossiblePair(format) != nullptr ? PairMatch::ImpossiblePair : PairMatch::Yes;
}

std::vector<Option> propose(const KmsSnapshot &snapshot, size_t crtc, const FrameNeed &need,
                            const FailureMemory &failures, std::vector<Refusal> *refusals) {
  std::vector<Option> result;
  if (crtc >= snapshot.crtcs.size()) return result;
  const Judge judge(snapshot, crtc, need, failures);
  bool others = false; // a plane that is no cursor has the pair
  for (const int type : {0, 1, 2})
    for (size_t i = 0; i < snapshot.planes.size(); ++i) {
      const KmsPlane &plane = snapshot.planes[i];
      if (typeOrder(plane) != type) continue;
      const PairMatch match = matchPair(snapshot, plane, need.format);
      Verdict verdict;
      if (type == 2 && onCrtc(plane, crtc) && match == PairMatch::Yes && (others || !onlyNamedCursor(plane)))
        verdict = {RefusalReason::Cursor, "takes small pictures only", {}};
      else
        verdict = judge(i, match);
      if (type != 2 && match == PairMatch::Yes && onCrtc(plane, crtc) && !usedElsewhere(snapshot, plane, crtc))
        others = true;
      if (!verdict.refused)
        result.push_back(verdict.option);
      else if (refusals != nullptr)
        refusals->push_back({i, *verdict.refused, planeName(plane) + " " + verdict.why, 0});
    }
  const auto order = [&](const Option &o) {
    return std::make_pair(typeOrder(snapshot.planes[o.plane]), o.open.scaling ? 1 : 0);
  };
  std::stable_sort(result.begin(), result.end(), [&](const Option &a, const Option &b) { return order(a) < order(b); });
  return result;
}

} // namespace gstzc
