// SPDX-License-Identifier: LGPL-2.1-or-later
// The whole way from caps and a profile to a choice: a profile's text, a line "---", caps.
#include <string>
#include <string_view>

#include <drm_fourcc.h>
#include <gst/gst.h>

#include "gst/drm/negotiate/explain.h"
#include "gst/drm/profile/device_profile.h"
#include "gst/drm/sink_caps.h"
#include "tests/fuzz/target.h"

using namespace gstzc;

namespace {

constexpr size_t kPairs = 64, kNeeds = 16; // of a profile and of caps: each asks all planes
constexpr std::string_view kBetween = "\n---\n";

// what the caps say and what the engine says of them may be at odds about sizes and scaling, not about pairs
void checkOffers(const KmsSnapshot &snapshot, size_t crtc, const OfferedFormats &offered) {
  size_t n = 0;
  for (const OfferedGroup &group : offered.groups) {
    GSTZC_FUZZ_CHECK(group.plane < snapshot.planes.size());
    GSTZC_FUZZ_CHECK(!group.pairs.empty() || !group.implicit.empty());
    for (const DrmFormat &pair : group.pairs) {
      if (++n > kPairs) return;
      FrameNeed need;
      need.format = pair;
      GSTZC_FUZZ_CHECK(!propose(snapshot, crtc, need, {}, nullptr).empty());
    }
  }
}

void checkNeed(const DeviceProfile &profile, size_t crtc, FrameNeed need, size_t variant) {
  const uint32_t rotations[] = {0, DRM_MODE_ROTATE_90, DRM_MODE_ROTATE_180 | DRM_MODE_REFLECT_X, DRM_MODE_ROTATE_0};
  need.rotation = rotations[variant % 4];
  if (variant & 4) {
    need.target_width = 640;
    need.target_height = 480;
  }
  if ((variant & 8) != 0 && need.width > 4) need.crop = Rect{1, 1, need.width - 2, need.height - 1};
  const Explanation e = explain(profile, crtc, need, {});
  GSTZC_FUZZ_CHECK(e.shown == e.choice.has_value());
  GSTZC_FUZZ_CHECK(!e.verdict.empty());
  GSTZC_FUZZ_CHECK(!e.shown || e.choice->plane < profile.snapshot.planes.size());
  (void)toText(e);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool ready = [] {
    gst_init(nullptr, nullptr);
    gst_debug_remove_log_function(nullptr); // bad caps are no news
    return true;
  }();
  (void)ready;
  const std::string_view input(reinterpret_cast<const char *>(data), size);
  const size_t split = input.rfind(kBetween);
  const auto profile = parseProfile(input.substr(0, split), "fuzz");
  if (!profile) return 0;
  const KmsSnapshot &s = profile->snapshot;
  GstCaps *caps = nullptr;
  if (split != std::string_view::npos)
    caps = gst_caps_from_string(std::string(input.substr(split + kBetween.size())).c_str());

  for (size_t crtc = 0; crtc < s.crtcs.size() && crtc < 2; ++crtc) {
    const OfferedFormats offered = offers(s, crtc, {});
    checkOffers(s, crtc, offered);
    SinkCaps sink;
    sink.update(offered, {});
    GstCaps *all = sink.caps();
    GSTZC_FUZZ_CHECK(gst_caps_is_empty(all) || sink.accepts(all));
    gst_caps_unref(all);
    if (caps == nullptr) continue;
    GstCaps *common = sink.caps(caps);
    gst_caps_unref(common);
    (void)sink.accepts(caps);
    if (const auto needs = needsOfCaps(caps))
      for (size_t i = 0; i < needs->size() && i < kNeeds; ++i) checkNeed(*profile, crtc, (*needs)[i].need, size + i);
  }
  if (caps != nullptr) gst_caps_unref(caps);
  return 0;
}
