// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/device/profile_check.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>

#include <drm_fourcc.h>
#include <gst/video/video.h>

#include "gst/drm/mode.h"

namespace gstzc {
namespace {

ProfileVerdict refuse(int error, std::string why) { return {error, std::move(why), false}; }

std::string nameOf(const KmsPlane &plane) { return "plane " + std::to_string(plane.id); }

size_t crtcIndex(const KmsSnapshot &snapshot, uint64_t id) {
  const auto it =
      std::find_if(snapshot.crtcs.begin(), snapshot.crtcs.end(), [&](const KmsCrtc &c) { return c.id == id; });
  return static_cast<size_t>(it - snapshot.crtcs.begin());
}

bool sameMode(const std::optional<drmModeModeInfo> &a, const std::optional<drmModeModeInfo> &b) {
  if (a.has_value() != b.has_value()) return false;
  if (!a) return true;
  return a->clock == b->clock && a->hdisplay == b->hdisplay && a->hsync_start == b->hsync_start &&
         a->hsync_end == b->hsync_end && a->htotal == b->htotal && a->hskew == b->hskew && a->vdisplay == b->vdisplay &&
         a->vsync_start == b->vsync_start && a->vsync_end == b->vsync_end && a->vtotal == b->vtotal &&
         a->vscan == b->vscan && a->flags == b->flags;
}

// What the kernel's core says to a plane, before it asks the driver.
ProfileVerdict checkPlaneCore(const KmsSnapshot &snapshot, const KmsPlane &plane, const ProfileObjects &objects) {
  const auto value = [&](const char *name) { return valueOf(plane.properties, name); };
  const uint64_t fb = value("FB_ID"), crtc = value("CRTC_ID");
  if (fb != 0 && crtc == 0) return refuse(EINVAL, nameOf(plane) + " has a framebuffer and no CRTC");
  if (fb == 0 && crtc != 0) return refuse(EINVAL, nameOf(plane) + " has a CRTC and no framebuffer");
  if (crtc == 0) return {};
  if (((plane.possible_crtcs >> crtcIndex(snapshot, crtc)) & 1) == 0)
    return refuse(EINVAL, nameOf(plane) + " cannot be on CRTC " + std::to_string(crtc));
  const FramebufferRequest &buffer = objects.framebuffers.at(static_cast<uint32_t>(fb));
  const DrmFormat format{buffer.fourcc, buffer.modifier};
  const bool listed = std::any_of(plane.formats.begin(), plane.formats.end(), [&](const DrmFormat &f) {
    return f.fourcc == format.fourcc && (buffer.modifier == DRM_FORMAT_MOD_INVALID || sameLayout(f, format));
  });
  if (!listed) return refuse(EINVAL, nameOf(plane) + " does not list " + describe(format));
  const auto x = static_cast<int32_t>(value("CRTC_X")), y = static_cast<int32_t>(value("CRTC_Y"));
  const uint64_t w = value("CRTC_W"), h = value("CRTC_H");
  if (w > INT_MAX || h > INT_MAX || x > INT_MAX - static_cast<int32_t>(w) || y > INT_MAX - static_cast<int32_t>(h))
    return refuse(ERANGE, nameOf(plane) + " has a target outside of the 32 bits of its coordinates");
  const uint64_t width = uint64_t{buffer.width} << 16, height = uint64_t{buffer.height} << 16;
  if (value("SRC_W") > width || value("SRC_X") > width - value("SRC_W") || value("SRC_H") > height ||
      value("SRC_Y") > height - value("SRC_H"))
    return refuse(ENOSPC, nameOf(plane) + " has a source that reaches out of its " + std::to_string(buffer.width) +
                              "x" + std::to_string(buffer.height) + " framebuffer");
  return {};
}

// What the driver says to a plane that is on.
ProfileVerdict checkPlaneDriver(const DeviceProfile &profile, size_t index, const ProfileObjects &objects) {
  const KmsPlane &plane = profile.snapshot.planes[index];
  const auto value = [&](const char *name) { return valueOf(plane.properties, name); };
  const auto pixels = [&](const char *name) { return static_cast<int>(value(name) >> 16); };
  const FramebufferRequest &buffer = objects.framebuffers.at(static_cast<uint32_t>(value("FB_ID")));
  PlaneTest test;
  test.plane = index;
  test.format = {buffer.fourcc, buffer.modifier == DRM_FORMAT_MOD_INVALID ? DRM_FORMAT_MOD_LINEAR : buffer.modifier};
  test.source = {pixels("SRC_X"), pixels("SRC_Y"), pixels("SRC_W"), pixels("SRC_H")};
  test.target = {static_cast<int32_t>(value("CRTC_X")), static_cast<int32_t>(value("CRTC_Y")),
                 static_cast<int>(value("CRTC_W")), static_cast<int>(value("CRTC_H"))};
  test.rotation = static_cast<uint32_t>(value("rotation"));
  test.buffer_width = static_cast<int>(buffer.width);
  test.buffer_height = static_cast<int>(buffer.height);
  const PlaneVerdict verdict = testPlane(profile, test);
  return {verdict.error, nameOf(plane) + ": " + verdict.why, verdict.open};
}

} // namespace

uint64_t valueOf(const KmsProperties &properties, const char *name) {
  const auto p = properties.find(name);
  return p == properties.end() ? 0 : p->second.value;
}

std::optional<drmModeModeInfo> modeOf(const ProfileObjects &objects, uint64_t blob) {
  const auto it = objects.blobs.find(static_cast<uint32_t>(blob));
  if (it == objects.blobs.end() || it->second.size() != sizeof(drmModeModeInfo)) return std::nullopt;
  drmModeModeInfo mode;
  std::memcpy(&mode, it->second.data(), sizeof mode);
  return mode;
}

ProfileVerdict checkValue(const std::string &name, const KmsProperty &property, uint64_t value,
                          const KmsSnapshot &snapshot, const ProfileObjects &objects) {
  const auto no = [&](const std::string &why) {
    return refuse(EINVAL, name + "=" + std::to_string(value) + ": " + why);
  };
  if (property.immutable()) return no("it is immutable");
  if (name == "FB_ID")
    return value == 0 || objects.framebuffers.contains(static_cast<uint32_t>(value)) ? ProfileVerdict{}
                                                                                     : no("no such framebuffer");
  if (name == "CRTC_ID")
    return value == 0 || crtcIndex(snapshot, value) < snapshot.crtcs.size() ? ProfileVerdict{} : no("no such CRTC");
  if (name == "MODE_ID") return value == 0 || modeOf(objects, value) ? ProfileVerdict{} : no("no blob of a mode");
  if (name == "ACTIVE") return value <= 1 ? ProfileVerdict{} : no("it is 0 or 1");
  if (property.flags & DRM_MODE_PROP_BLOB)
    return value == 0 || objects.blobs.contains(static_cast<uint32_t>(value)) ? ProfileVerdict{} : no("no such blob");
  if (name == "rotation" && std::popcount(value & DRM_MODE_ROTATE_MASK) != 1)
    return no("exactly one of the four rotations has to be set");
  if (property.flags & DRM_MODE_PROP_BITMASK) {
    uint64_t possible = 0;
    for (const auto &[n, bit] : property.values) possible |= bit < 64 ? uint64_t{1} << bit : 0;
    return (value & ~possible) == 0 ? ProfileVerdict{} : no("a bit that it does not have");
  }
  if (property.flags & DRM_MODE_PROP_ENUM) {
    const auto is = [&](const auto &entry) { return entry.second == value; };
    return std::any_of(property.values.begin(), property.values.end(), is) ? ProfileVerdict{} : no("no value of it");
  }
  const auto min = property.named("min"), max = property.named("max");
  if ((property.flags & DRM_MODE_PROP_RANGE) && min && max)
    return value >= *min && value <= *max ? ProfileVerdict{}
                                          : no("it goes from " + std::to_string(*min) + " to " + std::to_string(*max));
  return {};
}

ProfileVerdict checkFramebuffer(const KmsSnapshot &snapshot, const FramebufferRequest &r,
                                const std::vector<std::optional<uint64_t>> &sizes) {
  const bool told = r.modifier != DRM_FORMAT_MOD_INVALID;
  const DrmFormat format{r.fourcc, told ? r.modifier : DRM_FORMAT_MOD_LINEAR};
  if (told && !snapshot.addfb2_modifiers) return refuse(EINVAL, "this device takes no modifiers");
  if (r.width < std::max(snapshot.min_width, 1u) || r.height < std::max(snapshot.min_height, 1u) ||
      r.width > snapshot.max_width || r.height > snapshot.max_height)
    return refuse(EINVAL, "a framebuffer of " + std::to_string(r.width) + "x" + std::to_string(r.height) +
                              " on a device for " + std::to_string(snapshot.min_width) + "x" +
                              std::to_string(snapshot.min_height) + " to " + std::to_string(snapshot.max_width) + "x" +
                              std::to_string(snapshot.max_height));
  const bool listed = std::any_of(snapshot.planes.begin(), snapshot.planes.end(), [&](const KmsPlane &p) {
    return std::any_of(p.formats.begin(), p.formats.end(),
                       [&](const DrmFormat &f) { return f.fourcc == r.fourcc && (!told || sameLayout(f, format)); });
  });
  if (!listed) return refuse(EINVAL, "no plane lists " + describe(format));
  for (unsigned p = 0; p < kMaxFramebufferPlanes; ++p) {
    const bool used = p < r.n_planes;
    if (!used && (r.handles[p] != 0 || r.pitches[p] != 0 || r.offsets[p] != 0))
      return refuse(EINVAL, "memory plane " + std::to_string(p) + " is not used and not 0");
    if (used && r.handles[p] == 0) return refuse(EINVAL, "memory plane " + std::to_string(p) + " has no handle");
    if (used && (p >= sizes.size() || !sizes[p]))
      return refuse(ENOENT, "memory plane " + std::to_string(p) + " has a handle that nobody gave out");
    if (used && r.pitches[p] == 0) return refuse(EINVAL, "memory plane " + std::to_string(p) + " has no pitch");
  }
  // how a linear frame lies in memory is known, where GStreamer knows the format; what a tiled one needs only its
  // driver says
  const GstVideoFormat known = gst_video_dma_drm_fourcc_to_format(r.fourcc);
  if (format.modifier != DRM_FORMAT_MOD_LINEAR || known == GST_VIDEO_FORMAT_UNKNOWN) {
    for (unsigned p = 0; p < r.n_planes; ++p)
      if (r.offsets[p] >= *sizes[p])
        return refuse(EINVAL, "memory plane " + std::to_string(p) + " begins past its memory");
    return {};
  }
  GstVideoInfo info;
  gst_video_info_init(&info);
  if (!gst_video_info_set_format(&info, known, r.width, r.height)) return refuse(EINVAL, "no frame has this size");
  if (GST_VIDEO_INFO_N_PLANES(&info) != r.n_planes)
    return refuse(EINVAL, describe(format) + " has " + std::to_string(GST_VIDEO_INFO_N_PLANES(&info)) + " planes");
  for (unsigned p = 0; p < r.n_planes; ++p) {
    uint64_t row = 0, rows = 0;
    for (guint c = 0; c < GST_VIDEO_INFO_N_COMPONENTS(&info); ++c) {
      if (static_cast<unsigned>(GST_VIDEO_INFO_COMP_PLANE(&info, c)) != p) continue;
      row = std::max<uint64_t>(row, static_cast<uint64_t>(GST_VIDEO_INFO_COMP_WIDTH(&info, c)) *
                                        static_cast<uint64_t>(GST_VIDEO_INFO_COMP_PSTRIDE(&info, c)));
      rows = std::max<uint64_t>(rows, static_cast<uint64_t>(GST_VIDEO_INFO_COMP_HEIGHT(&info, c)));
    }
    if (r.pitches[p] < row)
      return refuse(EINVAL, "memory plane " + std::to_string(p) + " has a pitch of " + std::to_string(r.pitches[p]) +
                                " bytes where a row has " + std::to_string(row));
    if (rows > 0 && r.offsets[p] + (rows - 1) * r.pitches[p] + row > *sizes[p])
      return refuse(EINVAL, "memory plane " + std::to_string(p) + " ends past its memory of " +
                                std::to_string(*sizes[p]) + " bytes");
  }
  return {};
}

ProfileVerdict checkState(const DeviceProfile &profile, const ProfileObjects &objects, uint32_t crtcs,
                          bool allow_modeset) {
  const KmsSnapshot &s = profile.snapshot;
  ProfileVerdict result;
  for (size_t c = 0; c < s.crtcs.size(); ++c) {
    if (((crtcs >> c) & 1) == 0) continue;
    const KmsCrtc &crtc = s.crtcs[c];
    const std::string name = "CRTC " + std::to_string(crtc.id);
    const bool active = valueOf(crtc.properties, "ACTIVE") != 0;
    const auto mode = modeOf(objects, valueOf(crtc.properties, "MODE_ID"));
    if (active && !mode) return refuse(EINVAL, name + " is to be on and has no mode");
    bool outputs = false, moved = false;
    for (const KmsConnector &connector : s.connectors) {
      const uint64_t now = valueOf(connector.properties, "CRTC_ID");
      outputs |= now == crtc.id;
      moved |= now != connector.crtc && (now == crtc.id || connector.crtc == crtc.id);
      if (now == crtc.id && ((connector.possible_crtcs >> c) & 1) == 0)
        return refuse(EINVAL, "output " + connector.name + " cannot be on " + name);
    }
    if (mode.has_value() != outputs)
      return refuse(EINVAL, mode ? name + " has a mode and no output" : name + " has an output and no mode");
    if (mode && refreshOf(*mode) <= 0) return refuse(EINVAL, name + " has a mode without a clock");
    if ((moved || active != crtc.active || !sameMode(mode, crtc.mode)) && !allow_modeset)
      return refuse(EINVAL, name + ": this takes a modeset, which the commit does not allow");
  }
  for (size_t i = 0; i < s.planes.size(); ++i) {
    const KmsPlane &plane = s.planes[i];
    const uint64_t crtc = valueOf(plane.properties, "CRTC_ID");
    const size_t c = crtcIndex(s, crtc);
    const bool concerned = (c < s.crtcs.size() && ((crtcs >> c) & 1)) ||
                           (plane.crtc != 0 && ((crtcs >> crtcIndex(s, plane.crtc)) & 1)) ||
                           (crtc == 0 && valueOf(plane.properties, "FB_ID") != 0);
    if (!concerned) continue;
    if (auto core = checkPlaneCore(s, plane, objects); core.error != 0) return core;
    // moving from one CRTC to another takes a commit without either in between
    if (crtc != 0 && plane.crtc != 0 && plane.crtc != crtc)
      return refuse(EINVAL, nameOf(plane) + " is still on CRTC " + std::to_string(plane.crtc));
    // a driver does not look at planes of a CRTC that is off
    if (crtc == 0 || valueOf(s.crtcs[c].properties, "ACTIVE") == 0) continue;
    auto driver = checkPlaneDriver(profile, i, objects);
    if (driver.error != 0) return driver;
    if (driver.open) result = {0, driver.why, true};
  }
  if (profile.quirks.needs_primary)
    for (size_t c = 0; c < s.crtcs.size(); ++c) {
      if (((crtcs >> c) & 1) == 0 || valueOf(s.crtcs[c].properties, "ACTIVE") == 0) continue;
      const bool covered = std::any_of(s.planes.begin(), s.planes.end(), [&](const KmsPlane &p) {
        return p.type == DRM_PLANE_TYPE_PRIMARY && valueOf(p.properties, "CRTC_ID") == s.crtcs[c].id;
      });
      if (!covered)
        return refuse(EINVAL, "CRTC " + std::to_string(s.crtcs[c].id) + " is on and its primary plane is not");
    }
  return result;
}

} // namespace gstzc
