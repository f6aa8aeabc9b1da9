// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/profile_reader.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include <drm_fourcc.h>

#include "gst/drm/mode.h"
#include "gst/drm/profile/plane_fields.h"
#include "gst/drm/profile/profile_fields.h"
#include "gst/drm/profile/profile_names.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {
namespace {

using json::Value;

constexpr size_t kMaxProperties = 256; // of an object
constexpr size_t kMaxCrtcs = 32;       // the kernel's masks have as many bits
constexpr uint32_t kMaxId = 0x7fffffff;

class Reader {
public:
  Reader(json::Document &document, DeviceProfile *profile) : document_(document), profile_(*profile) {}

  void read() {
    const Value root = document_.root();
    root.allow({"driver", "device", "provenance", "notes", "path", "caps", "min_size", "max_size", "connectors",
                "crtcs", "planes", "quirks", "refuses"});
    KmsSnapshot &s = profile_.snapshot;
    s.driver = root.member("driver").text();
    profile_.device = root.member("device").text();
    profile_.provenance = root.member("provenance").text();
    for (const Value &v : root.member("notes").items(kMaxProfileEntries)) profile_.notes.push_back(v.text());
    s.path = root.member("path").text();
    if (s.path.empty()) s.path = document_.name().substr(document_.name().rfind('/') + 1); // npos + 1 is 0
    // silent about sizes: nothing is refused for them
    s.min_width = s.min_height = 1;
    s.max_width = s.max_height = kMaxSide;
    readSize(root.member("min_size"), &s.min_width, &s.min_height, 0);
    readSize(root.member("max_size"), &s.max_width, &s.max_height);
    checkSizes(root, s.min_width, s.min_height, s.max_width, s.max_height);

    reserveIds(root);
    readCrtcs(root.member("crtcs"));
    readConnectors(root.member("connectors"));
    readPlanes(root.member("planes"));
    const Value caps = root.member("caps");
    caps.allow({"addfb2_modifiers", "dumb_buffers"});
    s.addfb2_modifiers =
        caps.member("addfb2_modifiers").exists()
            ? caps.member("addfb2_modifiers").boolean()
            : std::any_of(s.planes.begin(), s.planes.end(), [](const KmsPlane &p) { return p.has_in_formats; });
    s.dumb_buffers = !caps.member("dumb_buffers").exists() || caps.member("dumb_buffers").boolean();
    profile_.quirks = readQuirks(root.member("quirks"));
    for (const Value &v : root.member("refuses").items(kMaxProfileEntries)) {
      profile_.refusals.push_back(readRefusal(v));
      const std::string &label = profile_.refusals.back().plane;
      if (!label.empty() &&
          std::none_of(s.planes.begin(), s.planes.end(), [&](const KmsPlane &p) { return p.label == label; }))
        v.member("plane").fail("no plane has this label");
    }
    if (document_.error()) return;
    addAtomicProperties(s, &next_id_);
    const auto dropPlaceholders = [](auto &objects) {
      for (auto &object : objects) std::erase_if(object.properties, [](const auto &p) { return p.second.id == 0; });
    };
    dropPlaceholders(s.connectors);
    dropPlaceholders(s.crtcs);
    dropPlaceholders(s.planes);
  }

private:
  // Ids that the file gives are kept; made up ones come after the largest.
  void reserveIds(const Value &root) {
    for (const char *kind : {"crtcs", "connectors", "planes"}) {
      const Value list = root.member(kind);
      if (!list.isArray()) continue;
      for (const Value &v : list.items(kMaxProfileObjects)) {
        reserve(v.member("id"));
        const Value properties = v.member("properties");
        if (!properties.isObject()) continue;
        for (const auto &[name, p] : properties.members(kMaxProperties))
          if (p.isObject()) reserve(p.member("id"), false);
      }
    }
  }
  void reserve(const Value &id, bool unique = true) {
    if (!id.exists()) return;
    const auto value = static_cast<uint32_t>(id.integer(1, kMaxId));
    if (unique && !ids_.insert(value).second) id.fail("another object has this id");
    next_id_ = std::max(next_id_, value + 1);
  }
  uint32_t idOf(const Value &object) {
    const Value id = object.member("id");
    return id.exists() ? static_cast<uint32_t>(id.integer(1, kMaxId)) : next_id_++;
  }

  void readCrtcs(const Value &value) {
    auto &crtcs = profile_.snapshot.crtcs;
    if (!value.exists() || value.isInteger()) {
      crtcs.resize(value.exists() ? static_cast<size_t>(value.integer(1, kMaxCrtcs)) : 1);
      for (KmsCrtc &c : crtcs) c.id = next_id_++;
      return;
    }
    for (const Value &v : value.items(kMaxCrtcs)) {
      v.allow({"id", "active", "mode", "properties"});
      KmsCrtc crtc;
      crtc.id = idOf(v);
      crtc.active = v.member("active").boolean();
      if (v.member("mode").exists()) crtc.mode = readMode(v.member("mode"));
      readProperties(v.member("properties"), &crtc.properties);
      crtcs.push_back(std::move(crtc));
    }
    if (crtcs.empty()) value.fail("a display has a CRTC at least");
  }

  static drmModeModeInfo readMode(const Value &value) {
    if (!value.isString()) return readTimings(value);
    const auto request = parseMode(value.text(64));
    if (!request) {
      // the text is shown already, and not as the property that it is elsewhere
      std::string why = request.error().what;
      if (const std::string named = "mode=" + value.text(64) + " "; why.starts_with(named))
        why = "it " + why.substr(named.size());
      value.fail(why);
      return {};
    }
    if (request->refresh < 0 || request->refresh > 1000) {
      value.fail("a refresh rate of up to 1000 Hz is needed");
      return {};
    }
    drmModeModeInfo mode = generateMode(request->width, request->height, request->refresh == 0 ? 60 : request->refresh);
    mode.type = DRM_MODE_TYPE_DRIVER;
    return mode;
  }

  // A list of indices into `crtcs`; absent: all.
  uint32_t readPossibleCrtcs(const Value &value) const {
    const size_t n = profile_.snapshot.crtcs.size();
    const uint32_t all = n >= 32 ? UINT32_MAX : (1u << n) - 1;
    if (!value.exists()) return all;
    uint32_t mask = 0;
    for (const Value &v : value.items(kMaxCrtcs))
      mask |= 1u << static_cast<unsigned>(v.integer(0, static_cast<int64_t>(std::max<size_t>(n, 1)) - 1));
    return mask;
  }
  // An index into `crtcs` as an id; absent: none.
  uint32_t readCrtc(const Value &value) const {
    const auto &crtcs = profile_.snapshot.crtcs;
    if (!value.exists() || crtcs.empty()) return 0;
    return crtcs[static_cast<size_t>(value.integer(0, static_cast<int64_t>(crtcs.size()) - 1))].id;
  }

  void readConnectors(const Value &value) {
    auto &connectors = profile_.snapshot.connectors;
    if (!value.exists()) {
      KmsConnector c;
      c.id = next_id_++;
      c.type = DRM_MODE_CONNECTOR_VIRTUAL;
      c.name = "Virtual-1";
      c.status = DRM_MODE_CONNECTED;
      for (const auto &[w, h] : {std::pair{1920, 1080}, {3840, 2160}, {1280, 720}, {640, 480}}) {
        c.modes.push_back(generateMode(w, h, 60));
        c.modes.back().type = DRM_MODE_TYPE_DRIVER;
      }
      c.modes.front().type |= DRM_MODE_TYPE_PREFERRED;
      c.possible_crtcs = readPossibleCrtcs({});
      connectors.push_back(std::move(c));
      return;
    }
    for (const Value &v : value.items(kMaxProfileObjects)) readConnector(v);
  }

  void readConnector(const Value &v) {
    v.allow({"id", "type", "name", "status", "modes", "possible_crtcs", "crtc", "properties"});
    KmsConnector c;
    c.id = idOf(v);
    const Value type = v.member("type");
    c.type = DRM_MODE_CONNECTOR_VIRTUAL;
    if (type.exists()) {
      const auto known = connectorTypeOf(type.text(64));
      if (!known) type.fail("the kernel's name of a kind of output is needed, such as \"HDMI-A\" or \"Virtual\"");
      c.type = known.value_or(c.type);
    }
    c.name = v.member("name").text(64);
    if (c.name.empty()) {
      const auto same = std::count_if(profile_.snapshot.connectors.begin(), profile_.snapshot.connectors.end(),
                                      [&](const KmsConnector &other) { return other.type == c.type; });
      c.name = connectorTypeName(c.type) + "-" + std::to_string(same + 1);
    }
    const Value status = v.member("status");
    const std::string name = status.exists() ? status.text(16) : "connected";
    c.status = name == "connected"      ? DRM_MODE_CONNECTED
               : name == "disconnected" ? DRM_MODE_DISCONNECTED
                                        : DRM_MODE_UNKNOWNCONNECTION;
    if (c.status == DRM_MODE_UNKNOWNCONNECTION && name != "unknown")
      status.fail("\"connected\", \"disconnected\" or \"unknown\" is needed");
    bool written_out = false;
    for (const Value &m : v.member("modes").items(kMaxProfileEntries)) {
      written_out |= !m.isString();
      c.modes.push_back(readMode(m));
    }
    // timings that are written out have their type
    if (!written_out && !c.modes.empty()) c.modes.front().type |= DRM_MODE_TYPE_PREFERRED;
    c.possible_crtcs = readPossibleCrtcs(v.member("possible_crtcs"));
    c.crtc = readCrtc(v.member("crtc"));
    readProperties(v.member("properties"), &c.properties);
    profile_.snapshot.connectors.push_back(std::move(c));
  }

  void readPlanes(const Value &value) {
    auto &planes = profile_.snapshot.planes;
    if (!value.exists()) return value.fail("the list of planes is needed");
    for (const Value &v : value.items(kMaxProfileObjects)) {
      v.allow({"id", "type", "label", "formats", "in_formats", "count", "possible_crtcs", "crtc", "zpos", "rotation",
               "alpha", "limits", "properties"});
      KmsPlane plane;
      plane.label = v.member("label").text();
      plane.possible_crtcs = readPossibleCrtcs(v.member("possible_crtcs"));
      plane.crtc = readCrtc(v.member("crtc"));
      readPlaneFormats(v, &plane);
      readPlaneLimits(v.member("limits"), &plane);
      const std::string types = readPlaneTypes(v.member("type"));
      const Value count = v.member("count");
      const auto n = count.exists() ? count.integer(1, kMaxProfileObjects) : 1;
      if (planes.size() + static_cast<size_t>(n) > kMaxProfileObjects)
        return count.fail("more than " + std::to_string(kMaxProfileObjects) + " planes in all");
      size_t bytes = 0;
      for (int64_t i = 0; i < n && !document_.error(); ++i) {
        KmsPlane one = plane;
        if (i > 0 && v.member("id").exists()) v.member("id").fail("a group of several planes has no single id");
        one.id = idOf(v);
        one.type = chooseType(types);
        addPlaneProperties(v, &one);
        if (bytes == 0) bytes = bytesOf(one); // all of a group are alike
        if ((bytes_ += bytes) > kMaxPlanesBytes) return v.fail("more than a display's planes have");
        planes.push_back(std::move(one));
      }
      if (document_.error()) return;
    }
    if (planes.empty()) value.fail("a display has a plane at least");
  }

  uint32_t chooseType(const std::string &types) const {
    if (const auto single = planeTypeOf(types)) return *single;
    const auto &planes = profile_.snapshot.planes;
    const bool primary =
        std::any_of(planes.begin(), planes.end(), [](const KmsPlane &p) { return p.type == DRM_PLANE_TYPE_PRIMARY; });
    if (!primary && types.find("Primary") != std::string::npos) return DRM_PLANE_TYPE_PRIMARY;
    return types.find("Overlay") != std::string::npos ? DRM_PLANE_TYPE_OVERLAY : DRM_PLANE_TYPE_CURSOR;
  }

  void addPlaneProperties(const Value &v, KmsPlane *plane) {
    readProperties(v.member("properties"), &plane->properties);
    const auto add = [&](const char *name, uint32_t flags, uint64_t value,
                         std::vector<std::pair<std::string, uint64_t>> values) {
      KmsProperty p;
      p.id = next_id_++;
      p.flags = flags;
      p.value = value;
      p.values = std::move(values);
      plane->properties.insert_or_assign(name, std::move(p));
    };
    const Value zpos = v.member("zpos");
    if (zpos.isInteger()) {
      const auto at = static_cast<uint64_t>(zpos.integer(0, 255));
      add("zpos", DRM_MODE_PROP_RANGE | DRM_MODE_PROP_IMMUTABLE, at, {{"min", at}, {"max", at}});
    } else if (zpos.exists()) {
      zpos.allow({"value", "min", "max"});
      const auto min = static_cast<uint64_t>(zpos.member("min").integer(0, 255));
      const auto max = static_cast<uint64_t>(zpos.member("max").integer(0, 255));
      const Value at = zpos.member("value");
      if (min > max) zpos.fail("min is larger than max");
      if (at.exists() &&
          (static_cast<uint64_t>(at.integer(0, 255)) < min || static_cast<uint64_t>(at.integer(0, 255)) > max))
        at.fail("it is not between min and max");
      add("zpos", DRM_MODE_PROP_RANGE, at.exists() ? static_cast<uint64_t>(at.integer(0, 255)) : min,
          {{"min", min}, {"max", max}});
    }
    if (const Value rotation = v.member("rotation"); rotation.exists()) {
      std::vector<std::pair<std::string, uint64_t>> values;
      for (const std::string &name : rotationNames(readRotations(rotation)))
        values.emplace_back(name, bitOf(*rotationOf(name)));
      add("rotation", DRM_MODE_PROP_BITMASK, DRM_MODE_ROTATE_0, std::move(values));
    }
    if (const Value alpha = v.member("alpha"); alpha.boolean())
      add("alpha", DRM_MODE_PROP_RANGE, 0xffff, {{"min", 0}, {"max", 0xffff}});
  }

  // {"NAME": {"type", "flags", "value", "values", "immutable", "id"}}; null: the object has none of that name
  void readProperties(const Value &value, KmsProperties *properties) {
    for (const auto &[name, v] : value.members(kMaxProperties)) {
      if (v.isNull()) { // a placeholder that keeps addAtomicProperties() from adding it
        properties->insert_or_assign(name, KmsProperty{});
        continue;
      }
      v.allow({"id", "type", "flags", "value", "values", "min", "max", "immutable"});
      if (name.size() > DRM_PROP_NAME_LEN) v.fail("names of properties have at most 32 bytes");
      KmsProperty p;
      p.id = idOf(v);
      if (v.member("flags").exists()) {
        p.flags = static_cast<uint32_t>(v.member("flags").integer(INT32_MIN, UINT32_MAX));
      } else {
        const Value type = v.member("type");
        const auto known = propertyTypeOf(type.exists() ? type.text(16) : "range");
        if (!known) type.fail("one of range, signed-range, enum, bitmask, object, blob is needed");
        p.flags = known.value_or(0) | (v.member("immutable").boolean() ? DRM_MODE_PROP_IMMUTABLE : 0u);
      }
      if (const Value values = v.member("values"); values.isArray()) {
        uint64_t number = 0; // bits of a bitmask count likewise
        for (const Value &n : values.items(kMaxProfileEntries)) p.values.emplace_back(n.text(64), number++);
      } else {
        for (const auto &[n, number] : values.members(kMaxProfileEntries)) p.values.emplace_back(n, number.bits());
      }
      for (const char *bound : {"min", "max"})
        if (v.member(bound).exists()) p.values.emplace_back(bound, v.member(bound).bits());
      if (const Value now = v.member("value"); now.isString()) {
        const auto known = p.named(now.text(64));
        if (!known) now.fail("this is not among the property's values");
        p.value = known.value_or(0);
      } else {
        p.value = now.bits();
      }
      properties->insert_or_assign(name, std::move(p));
    }
  }

  json::Document &document_;
  DeviceProfile &profile_;
  std::set<uint32_t> ids_;
  size_t bytes_ = 0; // of planes
  uint32_t next_id_ = 1;
};

} // namespace

void readProfile(json::Document &document, DeviceProfile *profile) { Reader(document, profile).read(); }

} // namespace gstzc
