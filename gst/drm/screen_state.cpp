// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/screen_state.h"

#include <algorithm>
#include <cerrno>

#include <xf86drm.h>
#include <xf86drmMode.h>

#include "gst/drm/mode.h"

namespace gstzc {
namespace {

// What we may change besides mode, and where and what planes show.
constexpr const char *kConnectorExtras[] = {"HDR_OUTPUT_METADATA", "Colorspace"};
constexpr const char *kPlaneExtras[] = {"COLOR_ENCODING", "COLOR_RANGE", "rotation", "alpha", "zpos"};

void setPlane(AtomicRequest &request, const KmsPlane &plane, uint64_t fb, uint64_t crtc, const Rect &source,
              const Rect &target) {
  const auto fixed = [](int v) { return static_cast<uint64_t>(v) << 16; };
  const auto signed32 = [](int v) { return static_cast<uint64_t>(static_cast<int64_t>(v)); };
  const auto set = [&](const char *name, uint64_t value) { request.set(plane.id, plane.properties, name, value); };
  set("FB_ID", fb);
  set("CRTC_ID", crtc);
  set("SRC_X", fixed(source.x));
  set("SRC_Y", fixed(source.y));
  set("SRC_W", fixed(source.width));
  set("SRC_H", fixed(source.height));
  set("CRTC_X", signed32(target.x));
  set("CRTC_Y", signed32(target.y));
  set("CRTC_W", static_cast<uint64_t>(target.width));
  set("CRTC_H", static_cast<uint64_t>(target.height));
}

} // namespace

Result<std::shared_ptr<PropertyBlob>> PropertyBlob::create(std::shared_ptr<KmsDevice> device, const void *data,
                                                           size_t size, const std::string &what) {
  uint32_t id = 0;
  const int rc = device->createBlob(data, size, &id);
  if (rc != 0) return Error{"hand " + what + " to " + device->path(), rc, ""};
  return std::shared_ptr<PropertyBlob>(new PropertyBlob(std::move(device), id));
}

Result<std::shared_ptr<PropertyBlob>> PropertyBlob::create(std::shared_ptr<KmsDevice> device,
                                                           const drmModeModeInfo &mode) {
  return create(std::move(device), &mode, sizeof mode, "mode " + modeName(mode));
}

PropertyBlob::~PropertyBlob() { device_->destroyBlob(id_); }

void inheritState(ScreenState &next, const ScreenState &missed) {
  if (!next.mode) {
    next.mode = missed.mode;
    next.settings = missed.settings;
    next.hdr = missed.hdr;
  }
  for (const PlaneUse &m : missed.planes) {
    const bool known =
        std::any_of(next.planes.begin(), next.planes.end(), [&](const PlaneUse &n) { return n.plane == m.plane; });
    if (!known) next.planes.push_back(m);
  }
}

namespace {

void addOutput(AtomicRequest &request, const KmsSnapshot &snapshot, const Output &output, const ScreenState &state) {
  if (!state.mode) return;
  const KmsCrtc &crtc = snapshot.crtcs[output.crtc];
  const KmsConnector &connector = snapshot.connectors[output.connector];
  request.set(connector.id, connector.properties, "CRTC_ID", crtc.id);
  request.set(crtc.id, crtc.properties, "MODE_ID", state.mode->id());
  request.set(crtc.id, crtc.properties, "ACTIVE", 1);
  for (const PropertySetting &s : state.settings) request.set(s.object, s.property, s.value);
}

void addPlane(AtomicRequest &request, const KmsSnapshot &snapshot, const Output &output, const PlaneUse &use) {
  const KmsPlane &plane = snapshot.planes[use.plane];
  setPlane(request, plane, use.fb ? use.fb->id() : 0, use.fb ? snapshot.crtcs[output.crtc].id : 0, use.source,
           use.target);
  if (use.fb && use.properties)
    for (const auto &[property, value] : *use.properties) request.set(plane.id, property, value);
}

} // namespace

void addState(AtomicRequest &request, const KmsSnapshot &snapshot, const Output &output, const ScreenState &state) {
  addOutput(request, snapshot, output, state);
  for (const PlaneUse &use : state.planes) addPlane(request, snapshot, output, use);
}

bool KnownPlanes::sameButForFramebuffer(const PlaneUse &use) const {
  if (use.plane >= planes_.size() || !planes_[use.plane].known) return false;
  const Plane &known = planes_[use.plane];
  if (!use.fb) return known.fb == 0;
  return known.fb != 0 && known.source == use.source && known.target == use.target &&
         (known.properties == use.properties ||
          (known.properties && use.properties && *known.properties == *use.properties));
}

bool KnownPlanes::onlyFramebuffers(const ScreenState &state) const {
  return !state.mode && std::all_of(state.planes.begin(), state.planes.end(),
                                    [this](const PlaneUse &use) { return sameButForFramebuffer(use); });
}

void KnownPlanes::addChange(AtomicRequest &request, const KmsSnapshot &snapshot, const Output &output,
                            const ScreenState &state) {
  if (state.mode) forget();
  addOutput(request, snapshot, output, state);
  for (const PlaneUse &use : state.planes) {
    const KmsPlane &plane = snapshot.planes[use.plane];
    if (!sameButForFramebuffer(use))
      addPlane(request, snapshot, output, use);
    else if (use.fb)
      request.set(plane.id, plane.properties, "FB_ID", use.fb->id());
  }
}

void KnownPlanes::taken(const ScreenState &state) {
  for (const PlaneUse &use : state.planes) {
    if (use.plane >= planes_.size()) planes_.resize(use.plane + 1);
    Plane &known = planes_[use.plane];
    known.known = true;
    known.fb = use.fb ? use.fb->id() : 0;
    known.source = use.source;
    known.target = use.target;
    if (known.properties != use.properties) known.properties = use.properties;
  }
}

int SavedState::attempt(const std::shared_ptr<KmsDevice> &device, Extent extent) const {
  AtomicRequest request;
  const KmsConnector &connector = snapshot_.connectors[output_.connector];
  const KmsCrtc &crtc = snapshot_.crtcs[output_.crtc];
  const bool on = crtc.active && crtc.mode && connector.crtc == crtc.id && extent != Extent::Off;
  std::shared_ptr<ModeBlob> mode;
  if (on) {
    auto blob = ModeBlob::create(device, *crtc.mode);
    if (!blob) return blob.error().code;
    mode = *blob;
  }
  request.set(connector.id, connector.properties, "CRTC_ID", on ? crtc.id : 0);
  request.set(crtc.id, crtc.properties, "MODE_ID", mode ? mode->id() : 0);
  request.set(crtc.id, crtc.properties, "ACTIVE", on ? 1 : 0);

  const auto put_back = [&](uint32_t id, const KmsProperties &properties, const char *name) {
    const auto p = properties.find(name);
    if (p == properties.end() || p->second.immutable()) return;
    // another's blob may be gone, and with it the way to have it back
    const bool blob = (p->second.flags & DRM_MODE_PROP_BLOB) != 0;
    request.set(id, p->second.id, blob && extent != Extent::Full ? 0 : p->second.value);
  };
  for (const char *name : kConnectorExtras) put_back(connector.id, connector.properties, name);
  put_back(crtc.id, crtc.properties, "VRR_ENABLED");

  for (const KmsPlane &plane : snapshot_.planes) {
    if (((plane.possible_crtcs >> output_.crtc) & 1) == 0) continue;
    if (plane.claimed || (plane.crtc != 0 && plane.crtc != crtc.id)) continue; // of another output, never touched
    const auto old = [&](const char *name) -> uint64_t {
      const auto p = plane.properties.find(name);
      return p == plane.properties.end() ? 0 : p->second.value;
    };
    const bool shown = on && extent == Extent::Full && plane.crtc == crtc.id && old("FB_ID") != 0;
    for (const char *name :
         {"FB_ID", "CRTC_ID", "SRC_X", "SRC_Y", "SRC_W", "SRC_H", "CRTC_X", "CRTC_Y", "CRTC_W", "CRTC_H"})
      request.set(plane.id, plane.properties, name, shown ? old(name) : 0);
    for (const char *name : kPlaneExtras)
      if (const auto p = plane.properties.find(name); p != plane.properties.end() && !p->second.immutable())
        request.set(plane.id, p->second.id, p->second.value);
  }
  return device->commit(request, DRM_MODE_ATOMIC_ALLOW_MODESET, nullptr);
}

Status SavedState::restore(const std::shared_ptr<KmsDevice> &device, const void *owner) {
  device->claims().mark(snapshot_, owner);
  int first = 0;
  for (const Extent extent : {Extent::Full, Extent::ModeOnly, Extent::Off}) {
    const int rc = attempt(device, extent);
    if (rc == 0 || rc == EACCES) return Nothing{}; // EACCES: the screen is another process's by now
    if (first == 0) first = rc;
  }
  return Error{"put back what " + snapshot_.connectors[output_.connector].name + " of " + device->path() +
                   " showed before",
               first, "Switch the virtual terminal there and back"};
}

} // namespace gstzc
