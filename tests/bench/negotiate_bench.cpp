// SPDX-License-Identifier: LGPL-2.1-or-later
// What negotiation costs. A caps query against returning caps that lie ready, with and without a filter, on the largest
// of tests/profiles; the whole choice of a plane there, and how it grows: devices with two and four times the planes,
// or formats, for what they cost a plane and format. By turns in one run.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include <drm_fourcc.h>
#include <gst/gst.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/profile/device_profile.h"
#include "gst/drm/sink_caps.h"
#include "tests/bench/measure.h"

namespace gstzc::bench {
namespace {

constexpr size_t kRounds = 25;
constexpr double kRoundNs = 2e6; // of one side

size_t pairsOf(const KmsSnapshot &s) {
  size_t n = 0;
  for (const KmsPlane &p : s.planes) n += p.formats.size();
  return n;
}

DeviceProfile largest() {
  DeviceProfile result;
  for (const auto &entry : std::filesystem::directory_iterator(GSTZC_PROFILES)) {
    if (entry.path().extension() != ".json") continue;
    auto profile = loadProfile(entry.path());
    if (profile && pairsOf(profile->snapshot) > pairsOf(result.snapshot)) result = profile.take();
  }
  return result;
}

// ns of this thread a call: nothing waits, and what else the machine does is not counted
double time(const std::function<void()> &call, size_t n) {
  const uint64_t from = clockNs(CLOCK_THREAD_CPUTIME_ID);
  for (size_t i = 0; i < n; ++i) call();
  return static_cast<double>(clockNs(CLOCK_THREAD_CPUTIME_ID) - from) / static_cast<double>(n);
}

size_t callsFor(const std::function<void()> &call) {
  const double once = time(call, 8);
  return std::max<size_t>(static_cast<size_t>(kRoundNs / std::max(once, 1.0)), 1);
}

struct Compared {
  double mine = 0, ratio = 0, spread = 0;
};
Compared compare(const std::function<void()> &mine, const std::function<void()> &theirs) {
  const size_t n = callsFor(mine), m = callsFor(theirs);
  std::vector<double> a, ratios;
  for (size_t round = 0; round < kRounds; ++round) {
    const double x = time(mine, n), y = time(theirs, m);
    a.push_back(x);
    ratios.push_back(x / y);
  }
  return {median(a), median(ratios), quantile(ratios, 0.75) - quantile(ratios, 0.25)};
}

void answer(GstCaps *filter, const std::function<GstCaps *()> &caps) {
  GstQuery *query = gst_query_new_caps(filter);
  GstCaps *result = caps();
  gst_query_set_caps_result(query, result);
  gst_caps_unref(result);
  gst_query_unref(query);
}

void queries(const KmsSnapshot &s) {
  SinkCaps sink;
  sink.update(offers(s, 0, {}), {});
  GstCaps *ready = sink.caps();
  std::fprintf(stderr, "%zu planes, %zu pairs, caps of %u structures\n", s.planes.size(), pairsOf(s),
               gst_caps_get_size(ready));
  GstCaps *filter =
      gst_caps_from_string("video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format={NV12:0x0100000000000007, "
                           "NV12:0x0100000000000002, NV12}, width=1920, height=1080; video/x-raw, format=NV12");
  Compared c = compare([&] { answer(nullptr, [&] { return sink.caps(); }); },
                       [&] { answer(nullptr, [&] { return gst_caps_ref(ready); }); });
  report({"caps-query", c.mine, "ns", c.ratio, "returning ready-made caps", c.spread, 2});
  const auto intersect = [&] { return gst_caps_intersect_full(filter, ready, GST_CAPS_INTERSECT_FIRST); };
  c = compare([&] { answer(filter, [&] { return sink.caps(filter); }); }, [&] { answer(filter, intersect); });
  report({"caps-query-filtered", c.mine, "ns", c.ratio, "intersecting ready-made caps", c.spread, 2});
  GstCaps *fixed = gst_caps_from_string(
      "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=NV12, width=1920, height=1080, framerate=30/1");
  c = compare([&] { (void)sink.accepts(fixed); }, [&] { (void)gst_caps_is_subset(fixed, ready); });
  report({"accept-caps", c.mine, "ns", c.ratio, "a subset of ready-made caps", c.spread, 2});
  for (GstCaps *caps : {ready, filter, fixed}) gst_caps_unref(caps);
}

// `planes` overlays of `formats` fourccs with four layouts each
KmsSnapshot grown(size_t planes, size_t formats) {
  KmsSnapshot s;
  s.addfb2_modifiers = true;
  s.max_width = s.max_height = 8192;
  s.crtcs.resize(1);
  for (size_t p = 0; p < planes; ++p) {
    KmsPlane plane;
    plane.id = static_cast<uint32_t>(p + 1);
    plane.possible_crtcs = 1;
    for (size_t f = 0; f < formats; ++f)
      for (const uint64_t modifier : {uint64_t{I915_FORMAT_MOD_Y_TILED_GEN12_MC_CCS}, uint64_t{I915_FORMAT_MOD_Y_TILED},
                                      uint64_t{I915_FORMAT_MOD_X_TILED}, uint64_t{DRM_FORMAT_MOD_LINEAR}})
        plane.formats.push_back({static_cast<uint32_t>(0x20000000 + p * 100000 + f), modifier}); // each plane its own
    s.planes.push_back(std::move(plane));
  }
  return s;
}

FrameNeed wanted(uint32_t fourcc) {
  FrameNeed need;
  need.format = {fourcc, DRM_FORMAT_MOD_LINEAR};
  need.width = 1920;
  need.height = 1080;
  return need;
}

void choices(const KmsSnapshot &s) {
  // nothing has it: every pair of every plane is looked at, and the refusals are written
  const auto propose_of = [](const KmsSnapshot &of) {
    return [&of] {
      std::vector<Refusal> refusals;
      (void)propose(of, 0, wanted(DRM_FORMAT_NV12), {}, &refusals);
    };
  };
  const auto offers_of = [](const KmsSnapshot &of) { return [&of] { (void)offers(of, 0, {}); }; };
  const KmsSnapshot base = grown(8, 32), planes = grown(32, 32), formats = grown(8, 128);
  Compared c = compare(
      [&] {
        std::vector<Refusal> refusals;
        FrameNeed need = wanted(DRM_FORMAT_NV12);
        need.target_width = 1280;
        need.target_height = 720;
        (void)propose(s, 0, need, {}, &refusals);
      },
      propose_of(base));
  report({"choice-largest-profile", c.mine, "ns", c.ratio, "8 planes of 128 pairs", c.spread, 0});
  c = compare(offers_of(s), propose_of(base));
  report({"offers-largest-profile", c.mine, "ns", c.ratio, "a choice on 8 planes of 128 pairs", c.spread, 0});
  struct Growth {
    const char *name;
    std::function<void()> large, small;
  };
  for (const Growth &g : {Growth{"choice-4x-planes", propose_of(planes), propose_of(base)},
                          Growth{"choice-4x-formats", propose_of(formats), propose_of(base)},
                          Growth{"offers-4x-planes", offers_of(planes), offers_of(base)},
                          Growth{"offers-4x-formats", offers_of(formats), offers_of(base)}}) {
    c = compare(g.large, g.small);
    // linear is 1: a quarter of it for a quarter of the planes times formats
    report({g.name, c.mine, "ns", c.ratio / 4, "a plane and format of a quarter", c.spread / 4, 1.5});
  }
}

} // namespace
} // namespace gstzc::bench

int main() {
  gst_init(nullptr, nullptr);
  const gstzc::DeviceProfile profile = gstzc::bench::largest();
  if (profile.snapshot.planes.empty()) {
    std::fprintf(stderr, "no profiles in " GSTZC_PROFILES "\n");
    return 1;
  }
  std::fprintf(stderr, "largest profile: %s\n", profile.device.c_str());
  gstzc::bench::queries(profile.snapshot);
  gstzc::bench::choices(profile.snapshot);
  return 0;
}
