// SPDX-License-Identifier: LGPL-2.1-or-later
// What `drm_info -j` prints: an object of devices by node, each with driver, fb_size (not in old versions), connectors,
// encoders, crtcs and planes as the kernel's structures have them, numbers in decimal. IN_FORMATS is written out as
// "data" of its property: a list of {modifier, formats}.
#include <map>
#include <unordered_map>

#include <drm_fourcc.h>

#include "gst/drm/profile/profile_names.h"
#include "gst/drm/profile/profile_reader.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {
namespace {

using json::Value;

constexpr size_t kMaxNodes = 64;
constexpr size_t kMaxProperties = 256;
constexpr size_t kMaxCrtcs = 32;

uint32_t number(const Value &value) { return static_cast<uint32_t>(value.integer(0, UINT32_MAX)); }

// What is past the largest int64_t is read as that: here it is the largest uint64_t, which drivers use for "any".
uint64_t unsignedBits(const Value &value) {
  const uint64_t bits = value.bits();
  return bits == INT64_MAX ? UINT64_MAX : bits;
}

uint32_t idOf(const Value &object) {
  const Value id = object.member("id");
  if (!id.exists()) object.fail("the key id is needed");
  return static_cast<uint32_t>(id.integer(1, UINT32_MAX));
}

std::vector<uint32_t> readNumbers(const Value &list, size_t max) {
  std::vector<uint32_t> result;
  for (const Value &v : list.items(max)) result.push_back(number(v));
  return result;
}

KmsProperties readProperties(const Value &value) {
  KmsProperties result;
  for (const auto &[name, v] : value.members(kMaxProperties)) {
    if (!v.exists()) continue;
    if (name.size() > DRM_PROP_NAME_LEN) v.fail("names of properties have at most 32 bytes");
    KmsProperty p;
    p.id = idOf(v);
    p.flags = number(v.member("flags"));
    const bool is_signed = (p.flags & DRM_MODE_PROP_EXTENDED_TYPE) == DRM_MODE_PROP_SIGNED_RANGE;
    const auto bits = [&](const Value &n) { return is_signed ? n.bits() : unsignedBits(n); };
    p.value = bits(v.member(is_signed ? "value" : "raw_value"));
    if (const Value spec = v.member("spec"); spec.isArray()) {
      for (const Value &e : spec.items(kMaxProfileEntries))
        p.values.emplace_back(e.member("name").text(64), e.member("value").bits());
    } else if (spec.isObject()) {
      p.values.emplace_back("min", bits(spec.member("min")));
      p.values.emplace_back("max", bits(spec.member("max")));
    }
    result.emplace(name, std::move(p));
  }
  return result;
}

uint64_t valueOf(const KmsProperties &properties, const char *name) {
  const auto p = properties.find(name);
  return p == properties.end() ? 0 : p->second.value;
}

void readConnectors(const Value &device, KmsSnapshot *s) {
  std::map<uint32_t, uint32_t> encoders; // possible CRTCs by id
  for (const Value &v : device.member("encoders").items(kMaxProfileObjects))
    encoders[idOf(v)] = number(v.member("possible_crtcs"));
  std::map<uint32_t, unsigned> counts;
  for (const Value &v : device.member("connectors").items(kMaxProfileObjects)) {
    KmsConnector c;
    c.id = idOf(v);
    c.type = number(v.member("type"));
    // the number is not in the output: connectors are listed in the order in which the kernel numbers them
    c.name = connectorTypeName(c.type) + "-" + std::to_string(++counts[c.type]);
    const auto status = number(v.member("status"));
    c.status = status == DRM_MODE_CONNECTED      ? DRM_MODE_CONNECTED
               : status == DRM_MODE_DISCONNECTED ? DRM_MODE_DISCONNECTED
                                                 : DRM_MODE_UNKNOWNCONNECTION;
    for (const Value &m : v.member("modes").items(kMaxProfileEntries)) c.modes.push_back(readTimings(m));
    const auto ids = readNumbers(v.member("encoders"), kMaxProfileObjects);
    for (const uint32_t id : ids)
      if (const auto e = encoders.find(id); e != encoders.end()) c.possible_crtcs |= e->second;
    if (ids.empty()) c.possible_crtcs = UINT32_MAX;
    c.properties = readProperties(v.member("properties"));
    c.crtc = static_cast<uint32_t>(valueOf(c.properties, "CRTC_ID"));
    s->connectors.push_back(std::move(c));
  }
}

void readCrtcs(const Value &device, KmsSnapshot *s) {
  const Value list = device.member("crtcs");
  for (const Value &v : list.items(kMaxCrtcs)) {
    KmsCrtc c;
    c.id = idOf(v);
    c.properties = readProperties(v.member("properties"));
    c.active = valueOf(c.properties, "ACTIVE") != 0;
    Value mode = v.member("properties").member("MODE_ID").member("data");
    if (!mode.exists()) mode = v.member("mode");
    if (mode.exists()) c.mode = readTimings(mode);
    s->crtcs.push_back(std::move(c));
  }
  if (s->crtcs.empty()) (list.exists() ? list : device).fail("a display has a CRTC at least");
}

void readPlanes(const Value &device, KmsSnapshot *s) {
  const Value list = device.member("planes");
  for (const Value &v : list.items(kMaxProfileObjects)) {
    KmsPlane p;
    p.id = idOf(v);
    p.possible_crtcs = number(v.member("possible_crtcs"));
    p.properties = readProperties(v.member("properties"));
    p.crtc = static_cast<uint32_t>(valueOf(p.properties, "CRTC_ID"));
    if (const auto t = p.properties.find("type"); t != p.properties.end())
      p.type = static_cast<uint32_t>(std::min<uint64_t>(t->second.value, DRM_PLANE_TYPE_CURSOR));
    const auto formats = readNumbers(v.member("formats"), kMaxPlaneFormats);
    std::vector<std::pair<uint64_t, std::vector<uint32_t>>> modifiers;
    size_t pairs = 0;
    for (const Value &m : v.member("properties").member("IN_FORMATS").member("data").items(kMaxPlaneModifiers)) {
      modifiers.emplace_back(m.member("modifier").bits(), readNumbers(m.member("formats"), kMaxPlaneFormats));
      pairs += modifiers.back().second.size();
      if (pairs > kMaxPlanePairs)
        return m.fail("more than " + std::to_string(kMaxPlanePairs) + " pairs of format and modifier");
    }
    p.formats = pairsByFormat(formats, modifiers);
    // the blob may hold nothing: then it says no more than its absence
    p.has_in_formats = !p.formats.empty();
    if (!p.has_in_formats)
      for (const uint32_t fourcc : formats) p.formats.push_back({fourcc, DRM_FORMAT_MOD_LINEAR});
    s->planes.push_back(std::move(p));
  }
  if (s->planes.empty()) (list.exists() ? list : device).fail("a display has a plane at least");
}

} // namespace

bool isDrmInfo(const Value &root) {
  if (!root.isObject() || root.member("planes").exists()) return false;
  for (const auto &[node, device] : root.members(kMaxNodes))
    if (device.member("planes").isArray() || device.member("driver").isObject()) return true;
  return false;
}

void readDrmInfo(json::Document &document, const std::string &node, DeviceProfile *profile) {
  std::vector<std::pair<std::string, Value>> devices;
  std::string names;
  for (const auto &[name, device] : document.root().members(kMaxNodes)) {
    if (!device.isObject()) continue; // a node that could not be opened
    devices.emplace_back(name, device);
    names += (names.empty() ? "" : ", ") + name.substr(0, 64);
  }
  const auto connected = [](const Value &device) {
    for (const Value &c : device.member("connectors").items(kMaxProfileObjects))
      if (c.member("status").isInteger() && c.member("status").bits() == DRM_MODE_CONNECTED) return true;
    return false;
  };
  const std::pair<std::string, Value> *chosen = nullptr;
  for (const auto &entry : devices)
    if (node.empty() ? chosen == nullptr && connected(entry.second) : entry.first == node) chosen = &entry;
  if (chosen == nullptr && node.empty() && !devices.empty()) chosen = &devices.front();
  if (document.error()) return;
  if (chosen == nullptr)
    return document.fail({document.name() + ": there is no device " + (node.empty() ? "in it" : "\"" + node + "\""), 0,
                          names.empty() ? "" : "It has " + names});
  if (devices.size() > 1) document.warn("taken is " + chosen->first + " of " + names);

  const Value &device = chosen->second;
  KmsSnapshot &s = profile->snapshot;
  s.path = chosen->first;
  const Value driver = device.member("driver");
  s.driver = driver.member("name").text();
  const std::string release = driver.member("kernel").member("release").text();
  profile->device = driver.member("desc").text();
  profile->provenance = "drm_info" + (release.empty() ? "" : ", Linux " + release);
  const Value caps = driver.member("caps");
  s.addfb2_modifiers = caps.member("ADDFB2_MODIFIERS").bits() != 0;
  s.dumb_buffers = caps.member("DUMB_BUFFER").bits() != 0;
  s.min_width = s.min_height = 1;
  s.max_width = s.max_height = kMaxFrameSide; // where the output does not say it
  const Value size = device.member("fb_size");
  for (const auto &[key, side] : {std::pair{"min_width", &s.min_width},
                                  {"min_height", &s.min_height},
                                  {"max_width", &s.max_width},
                                  {"max_height", &s.max_height}})
    if (size.member(key).exists()) *side = number(size.member(key));
  readCrtcs(device, &s);
  readConnectors(device, &s);
  readPlanes(device, &s);
  if (document.error()) return;
  uint32_t next = 1;
  const auto past = [&](const auto &objects) {
    for (const auto &object : objects) {
      next = std::max(next, object.id + 1);
      for (const auto &[name, p] : object.properties) next = std::max(next, p.id + 1);
    }
  };
  past(s.connectors);
  past(s.crtcs);
  past(s.planes);
  addAtomicProperties(s, &next); // what a device without DRM_CLIENT_CAP_ATOMIC did not list
}

} // namespace gstzc
