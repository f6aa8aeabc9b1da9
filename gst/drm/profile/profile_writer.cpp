// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>

#include <drm_fourcc.h>

#include "gst/drm/negotiate/modifiers.h"
#include "gst/drm/profile/device_profile.h"
#include "gst/drm/profile/json_writer.h"
#include "gst/drm/profile/profile_names.h"

namespace gstzc {
namespace {

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016" PRIx64, value);
  return text;
}

std::string fourccName(uint32_t fourcc) { return toString({fourcc, DRM_FORMAT_MOD_LINEAR}); }

class ProfileWriter {
public:
  explicit ProfileWriter(const DeviceProfile &profile) : profile_(profile), s_(profile.snapshot) {}

  std::string operator()() {
    w_.object([&] {
      w_.member("driver", s_.driver);
      w_.member("device", profile_.device);
      w_.member("provenance", profile_.provenance);
      w_.member("notes", profile_.notes);
      w_.member("path", s_.path);
      w_.key("caps").object([&] {
        w_.member("addfb2_modifiers", s_.addfb2_modifiers);
        w_.member("dumb_buffers", s_.dumb_buffers);
      });
      size("min_size", s_.min_width, s_.min_height);
      size("max_size", s_.max_width, s_.max_height);
      w_.key("crtcs").list([&] {
        for (const KmsCrtc &c : s_.crtcs) crtc(c);
      });
      w_.key("connectors").list([&] {
        for (const KmsConnector &c : s_.connectors) connector(c);
      });
      w_.key("planes").list([&] {
        for (const KmsPlane &p : s_.planes) plane(p);
      });
      const ProfileQuirks &q = profile_.quirks;
      if (q.in_fence_fd != 0 || q.no_foreign_memory || q.needs_primary)
        w_.key("quirks").object([&] {
          if (q.in_fence_fd != 0) w_.member("in_fence_fd", errnoText(q.in_fence_fd));
          if (q.no_foreign_memory) w_.member("no_foreign_memory", true);
          if (q.needs_primary) w_.member("needs_primary", true);
        });
      if (!profile_.refusals.empty())
        w_.key("refuses").list([&] {
          for (const ProfileRefusal &r : profile_.refusals) refusal(r);
        });
    });
    return w_.text(1);
  }

private:
  void size(const char *name, uint32_t width, uint32_t height) {
    w_.key(name).list([&] {
      w_.value(width);
      w_.value(height);
    });
  }

  // `usual`: properties that the reader adds by itself, unless they are said to be absent
  void properties(const KmsProperties &all, std::initializer_list<const char *> usual) {
    w_.key("properties").object([&] {
      for (const char *name : usual)
        if (!all.contains(name)) w_.key(name).null();
      for (const auto &entry : all)
        w_.key(entry.first).object([&] {
          const KmsProperty &p = entry.second;
          w_.member("id", p.id);
          w_.member("flags", p.flags);
          w_.member("value", static_cast<int64_t>(p.value));
          w_.key("values").object([&] {
            for (const auto &[n, v] : p.values) w_.member(n, static_cast<int64_t>(v));
          });
        });
    });
  }

  void mode(const drmModeModeInfo &m) {
    w_.object([&] {
      w_.member("name", std::string(m.name, strnlen(m.name, sizeof m.name)));
      for (const auto &[name, value] :
           std::initializer_list<std::pair<const char *, uint32_t>>{{"clock", m.clock},
                                                                    {"hdisplay", m.hdisplay},
                                                                    {"hsync_start", m.hsync_start},
                                                                    {"hsync_end", m.hsync_end},
                                                                    {"htotal", m.htotal},
                                                                    {"hskew", m.hskew},
                                                                    {"vdisplay", m.vdisplay},
                                                                    {"vsync_start", m.vsync_start},
                                                                    {"vsync_end", m.vsync_end},
                                                                    {"vtotal", m.vtotal},
                                                                    {"vscan", m.vscan},
                                                                    {"vrefresh", m.vrefresh},
                                                                    {"flags", m.flags},
                                                                    {"type", m.type}})
        w_.member(name, value);
    });
  }

  void crtcsOf(uint32_t mask) {
    w_.key("possible_crtcs").list([&] {
      for (size_t i = 0; i < s_.crtcs.size() && i < 32; ++i)
        if ((mask >> i) & 1) w_.value(static_cast<int64_t>(i));
    });
  }
  void crtcIndex(uint32_t id) {
    for (size_t i = 0; i < s_.crtcs.size(); ++i)
      if (id != 0 && s_.crtcs[i].id == id) w_.member("crtc", static_cast<int64_t>(i));
  }

  void crtc(const KmsCrtc &c) {
    w_.object([&] {
      w_.member("id", c.id);
      w_.member("active", c.active);
      if (c.mode && c.mode->hdisplay != 0) {
        w_.key("mode");
        mode(*c.mode);
      }
      properties(c.properties, {"ACTIVE", "MODE_ID", "OUT_FENCE_PTR"});
    });
  }

  void connector(const KmsConnector &c) {
    w_.object([&] {
      w_.member("id", c.id);
      w_.member("type", connectorTypeName(c.type));
      w_.member("name", c.name);
      w_.member("status", c.status == DRM_MODE_CONNECTED      ? "connected"
                          : c.status == DRM_MODE_DISCONNECTED ? "disconnected"
                                                              : "unknown");
      w_.key("modes").list([&] {
        for (const drmModeModeInfo &m : c.modes) mode(m);
      });
      crtcsOf(c.possible_crtcs);
      crtcIndex(c.crtc);
      properties(c.properties, {"CRTC_ID"});
    });
  }

  void plane(const KmsPlane &p) {
    std::vector<uint32_t> fourccs;
    std::vector<std::pair<uint64_t, std::vector<uint32_t>>> by_modifier;
    std::map<uint64_t, size_t> index;
    for (const uint64_t modifier : modifierOrder(p)) {
      index[modifier] = by_modifier.size();
      by_modifier.emplace_back(modifier, std::vector<uint32_t>());
    }
    for (const DrmFormat &f : p.formats) {
      if (std::find(fourccs.begin(), fourccs.end(), f.fourcc) == fourccs.end()) fourccs.push_back(f.fourcc);
      by_modifier[index[f.modifier]].second.push_back(f.fourcc);
    }
    w_.object([&] {
      w_.member("id", p.id);
      w_.member("type", planeTypeName(p.type));
      w_.member("label", p.label);
      crtcsOf(p.possible_crtcs);
      crtcIndex(p.crtc);
      const auto names = [&](const std::vector<uint32_t> &list) {
        w_.list([&] {
          for (const uint32_t fourcc : list) w_.value(fourccName(fourcc));
        });
      };
      w_.key("formats");
      names(fourccs);
      w_.key("in_formats").list([&] {
        if (!p.has_in_formats) return;
        for (const auto &entry : by_modifier)
          w_.object([&] {
            w_.member("modifier", hex(entry.first));
            w_.member("name", layoutName(entry.first));
            w_.key("formats");
            names(entry.second);
          });
      });
      if (p.limits) limits(*p.limits);
      properties(p.properties, {"type", "FB_ID", "CRTC_ID", "IN_FENCE_FD", "CRTC_X", "CRTC_Y", "CRTC_W", "CRTC_H",
                                "SRC_X", "SRC_Y", "SRC_W", "SRC_H"});
    });
  }

  // Of the format with most of them first: the lists of others are mostly sublists of it.
  static std::vector<uint64_t> modifierOrder(const KmsPlane &p) {
    std::map<uint32_t, size_t> counts;
    for (const DrmFormat &f : p.formats) ++counts[f.fourcc];
    std::vector<DrmFormat> pairs = p.formats;
    std::stable_sort(pairs.begin(), pairs.end(),
                     [&](const DrmFormat &a, const DrmFormat &b) { return counts[a.fourcc] > counts[b.fourcc]; });
    std::vector<uint64_t> order;
    for (const DrmFormat &f : pairs)
      if (std::find(order.begin(), order.end(), f.modifier) == order.end()) order.push_back(f.modifier);
    return order;
  }

  void pairConditions(const std::vector<uint32_t> &fourccs, const std::vector<uint64_t> &modifiers) {
    if (!fourccs.empty())
      w_.key("formats").list([&] {
        for (const uint32_t fourcc : fourccs) w_.value(fourccName(fourcc));
      });
    if (!modifiers.empty())
      w_.key("modifiers").list([&] {
        for (const uint64_t modifier : modifiers) w_.value(hex(modifier));
      });
  }
  template <typename T> void sizes(const T &of) {
    if (of.min_width || of.min_height) size("min_size", of.min_width.value_or(1), of.min_height.value_or(1));
    if (of.max_width && of.max_height) size("max_size", *of.max_width, *of.max_height);
  }

  void limits(const PlaneLimits &all) {
    w_.key("limits").list([&] {
      for (const PlaneFormatLimits &l : all)
        w_.object([&] {
          pairConditions(l.fourccs, l.modifiers);
          sizes(l);
          if (l.min_scale || l.max_scale)
            w_.key("scaling").object([&] {
              if (l.min_scale) w_.member("min", *l.min_scale);
              if (l.max_scale) w_.member("max", *l.max_scale);
            });
          else if (l.scaling)
            w_.member("scaling", *l.scaling);
          if (l.even) w_.member("even", *l.even);
        });
    });
  }

  void refusal(const ProfileRefusal &r) {
    w_.object([&] {
      if (!r.plane.empty()) w_.member("plane", r.plane);
      if (r.type) w_.member("type", planeTypeName(*r.type));
      pairConditions(r.fourccs, r.modifiers);
      sizes(r);
      if (r.scaled) w_.member("scaled", *r.scaled);
      if (r.rotations != 0) w_.member("rotation", rotationNames(r.rotations));
      w_.member("error", errnoText(r.error));
      if (!r.why.empty()) w_.member("why", r.why);
    });
  }

  const DeviceProfile &profile_;
  const KmsSnapshot &s_;
  JsonWriter w_;
};

} // namespace

std::string writeProfile(const DeviceProfile &profile) { return ProfileWriter(profile)(); }

} // namespace gstzc
