// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>

#include <drm_fourcc.h>
#include <json-glib/json-glib.h>

#include "gst/drm/negotiate/modifiers.h"
#include "gst/drm/profile/device_profile.h"
#include "gst/drm/profile/profile_names.h"

namespace gstzc {
namespace {

// A builder whose strings are valid UTF-8, whatever a driver calls its things.
class Writer {
public:
  Writer() : builder_(json_builder_new()) {}
  ~Writer() { g_object_unref(builder_); }
  Writer(const Writer &) = delete;
  Writer &operator=(const Writer &) = delete;

  Writer &key(const std::string &name) {
    json_builder_set_member_name(builder_, valid(name).c_str());
    return *this;
  }
  void text(const std::string &value) { json_builder_add_string_value(builder_, valid(value).c_str()); }
  void integer(int64_t value) { json_builder_add_int_value(builder_, value); }
  void number(double value) { json_builder_add_double_value(builder_, value); }
  void null() { json_builder_add_null_value(builder_); }
  void boolean(bool value) { json_builder_add_boolean_value(builder_, value); }
  template <typename Members> void object(Members members) {
    json_builder_begin_object(builder_);
    members();
    json_builder_end_object(builder_);
  }
  template <typename Items> void list(Items items) {
    json_builder_begin_array(builder_);
    items();
    json_builder_end_array(builder_);
  }
  void texts(const std::vector<std::string> &values) {
    list([&] {
      for (const std::string &v : values) text(v);
    });
  }
  void size(uint32_t width, uint32_t height) {
    list([&] {
      integer(width);
      integer(height);
    });
  }

  std::string take() {
    JsonGenerator *generator = json_generator_new();
    JsonNode *root = json_builder_get_root(builder_);
    json_generator_set_root(generator, root);
    json_generator_set_pretty(generator, TRUE);
    json_generator_set_indent(generator, 1);
    gchar *text = json_generator_to_data(generator, nullptr);
    std::string result = text != nullptr ? text : "";
    g_free(text);
    json_node_unref(root);
    g_object_unref(generator);
    return result + "\n";
  }

private:
  static std::string valid(const std::string &text) {
    gchar *made = g_utf8_make_valid(text.c_str(), static_cast<gssize>(text.size()));
    std::string result = made;
    g_free(made);
    return result;
  }
  JsonBuilder *builder_;
};

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
      w_.key("driver").text(s_.driver);
      w_.key("device").text(profile_.device);
      w_.key("provenance").text(profile_.provenance);
      w_.key("notes").texts(profile_.notes);
      w_.key("path").text(s_.path);
      w_.key("caps").object([&] {
        w_.key("addfb2_modifiers").boolean(s_.addfb2_modifiers);
        w_.key("dumb_buffers").boolean(s_.dumb_buffers);
      });
      w_.key("min_size").size(s_.min_width, s_.min_height);
      w_.key("max_size").size(s_.max_width, s_.max_height);
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
          if (q.in_fence_fd != 0) w_.key("in_fence_fd").text(errnoText(q.in_fence_fd));
          if (q.no_foreign_memory) w_.key("no_foreign_memory").boolean(true);
          if (q.needs_primary) w_.key("needs_primary").boolean(true);
        });
      if (!profile_.refusals.empty())
        w_.key("refuses").list([&] {
          for (const ProfileRefusal &r : profile_.refusals) refusal(r);
        });
    });
    return w_.take();
  }

private:
  // `usual`: properties that the reader adds by itself, unless they are said to be absent
  void properties(const KmsProperties &all, std::initializer_list<const char *> usual) {
    w_.key("properties").object([&] {
      for (const char *name : usual)
        if (!all.contains(name)) w_.key(name).null();
      for (const auto &entry : all)
        w_.key(entry.first).object([&] {
          const KmsProperty &p = entry.second;
          w_.key("id").integer(p.id);
          w_.key("flags").integer(p.flags);
          w_.key("value").integer(static_cast<int64_t>(p.value));
          w_.key("values").object([&] {
            for (const auto &[n, v] : p.values) w_.key(n).integer(static_cast<int64_t>(v));
          });
        });
    });
  }

  void mode(const drmModeModeInfo &m) {
    w_.object([&] {
      w_.key("name").text(std::string(m.name, strnlen(m.name, sizeof m.name)));
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
        w_.key(name).integer(value);
    });
  }

  void crtcsOf(uint32_t mask) {
    w_.key("possible_crtcs").list([&] {
      for (size_t i = 0; i < s_.crtcs.size() && i < 32; ++i)
        if ((mask >> i) & 1) w_.integer(static_cast<int64_t>(i));
    });
  }
  void crtcIndex(uint32_t id) {
    for (size_t i = 0; i < s_.crtcs.size(); ++i)
      if (id != 0 && s_.crtcs[i].id == id) w_.key("crtc").integer(static_cast<int64_t>(i));
  }

  void crtc(const KmsCrtc &c) {
    w_.object([&] {
      w_.key("id").integer(c.id);
      w_.key("active").boolean(c.active);
      if (c.mode && c.mode->hdisplay != 0) {
        w_.key("mode");
        mode(*c.mode);
      }
      properties(c.properties, {"ACTIVE", "MODE_ID", "OUT_FENCE_PTR"});
    });
  }

  void connector(const KmsConnector &c) {
    w_.object([&] {
      w_.key("id").integer(c.id);
      w_.key("type").text(connectorTypeName(c.type));
      w_.key("name").text(c.name);
      w_.key("status").text(c.status == DRM_MODE_CONNECTED      ? "connected"
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
      w_.key("id").integer(p.id);
      w_.key("type").text(planeTypeName(p.type));
      w_.key("label").text(p.label);
      crtcsOf(p.possible_crtcs);
      crtcIndex(p.crtc);
      const auto names = [&](const std::vector<uint32_t> &list) {
        w_.list([&] {
          for (const uint32_t fourcc : list) w_.text(fourccName(fourcc));
        });
      };
      w_.key("formats");
      names(fourccs);
      w_.key("in_formats").list([&] {
        if (!p.has_in_formats) return;
        for (const auto &entry : by_modifier)
          w_.object([&] {
            w_.key("modifier").text(hex(entry.first));
            w_.key("name").text(layoutName(entry.first));
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
        for (const uint32_t fourcc : fourccs) w_.text(fourccName(fourcc));
      });
    if (!modifiers.empty())
      w_.key("modifiers").list([&] {
        for (const uint64_t modifier : modifiers) w_.text(hex(modifier));
      });
  }
  template <typename T> void sizes(const T &of) {
    if (of.min_width || of.min_height) w_.key("min_size").size(of.min_width.value_or(1), of.min_height.value_or(1));
    if (of.max_width && of.max_height) w_.key("max_size").size(*of.max_width, *of.max_height);
  }

  void limits(const PlaneLimits &all) {
    w_.key("limits").list([&] {
      for (const PlaneFormatLimits &l : all)
        w_.object([&] {
          pairConditions(l.fourccs, l.modifiers);
          sizes(l);
          if (l.min_scale || l.max_scale)
            w_.key("scaling").object([&] {
              if (l.min_scale) w_.key("min").number(*l.min_scale);
              if (l.max_scale) w_.key("max").number(*l.max_scale);
            });
          else if (l.scaling)
            w_.key("scaling").boolean(*l.scaling);
          if (l.even) w_.key("even").boolean(*l.even);
        });
    });
  }

  void refusal(const ProfileRefusal &r) {
    w_.object([&] {
      if (!r.plane.empty()) w_.key("plane").text(r.plane);
      if (r.type) w_.key("type").text(planeTypeName(*r.type));
      pairConditions(r.fourccs, r.modifiers);
      sizes(r);
      if (r.scaled) w_.key("scaled").boolean(*r.scaled);
      if (r.rotations != 0) w_.key("rotation").texts(rotationNames(r.rotations));
      w_.key("error").text(errnoText(r.error));
      if (!r.why.empty()) w_.key("why").text(r.why);
    });
  }

  const DeviceProfile &profile_;
  const KmsSnapshot &s_;
  Writer w_;
};

} // namespace

std::string writeProfile(const DeviceProfile &profile) { return ProfileWriter(profile)(); }

} // namespace gstzc
