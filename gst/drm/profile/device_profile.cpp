// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/profile/device_profile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>

#include <drm_fourcc.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gst/drm/negotiate/engine.h"
#include "gst/drm/negotiate/match.h"
#include "gst/drm/profile/json_value.h"
#include "gst/drm/profile/profile_reader.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {
namespace {

constexpr std::chrono::seconds kProfilePatience{10}; // between two parts of what a pipe brings

bool appliesTo(const ProfileRefusal &r, const KmsPlane &plane, const PlaneTest &test, bool scaled) {
  const auto width = static_cast<uint32_t>(std::max(test.source.width, 0));
  const auto height = static_cast<uint32_t>(std::max(test.source.height, 0));
  const uint32_t rotation = test.rotation == 0 ? DRM_MODE_ROTATE_0 : test.rotation;
  PlaneFormatLimits pair;
  pair.fourccs = r.fourccs;
  pair.modifiers = r.modifiers;
  return (r.plane.empty() || r.plane == plane.label) && (!r.type || *r.type == plane.type) &&
         pair.appliesTo(test.format) && width >= r.min_width.value_or(0) && height >= r.min_height.value_or(0) &&
         width <= r.max_width.value_or(UINT32_MAX) && height <= r.max_height.value_or(UINT32_MAX) &&
         (!r.scaled || *r.scaled == scaled) && (r.rotations == 0 || (r.rotations & rotation) != 0);
}

// as the kernel's own checks and the helpers of most drivers answer
int errnoOfReason(RefusalReason reason) {
  switch (reason) {
  case RefusalReason::ScalingRefused: return ERANGE;
  case RefusalReason::SourceOutside: return ENOSPC;
  case RefusalReason::InUse: return EBUSY;
  default: return EINVAL;
  }
}

} // namespace

Result<DeviceProfile> parseProfile(std::string_view text, const std::string &name, const std::string &node) {
  json::Document document(name);
  DeviceProfile profile;
  if (document.parse(text, kMaxProfileBytes, kMaxProfileDepth)) {
    if (isDrmInfo(document.root()))
      readDrmInfo(document, node, &profile);
    else if (!document.root().isObject())
      document.root().fail("an object is needed");
    else if (!node.empty())
      document.fail({document.name() + " describes one display, and has no device \"" + node + "\" to choose", 0,
                     "Devices are chosen in the output of drm_info -j only"});
    else
      readProfile(document, &profile);
  }
  if (document.error()) return *document.error();
  profile.warnings = document.takeWarnings();
  return profile;
}

Result<std::string> readProfileText(const std::string &path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st = {};
  if (!fd.isValid() || fstat(fd.get(), &st) != 0)
    return Error{"read the device profile " + path, errno, "Give the path of a JSON file"};
  if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
    return Error{path + " is neither a file nor a pipe", 0, "Give the path of a JSON file"};
  std::string text;
  std::vector<char> buffer(64 << 10);
  while (text.size() <= kMaxProfileBytes) { // what is larger is refused with its reason
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n > 0) text.append(buffer.data(), static_cast<size_t>(n));
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    // a pipe that nobody has begun to write to looks like its end
    const bool wait = n < 0 ? errno == EAGAIN : text.empty() && S_ISFIFO(st.st_mode);
    if (n < 0 && !wait) return Error{"read the device profile " + path, errno, ""};
    if (!wait) break;
    pollfd writer{fd.get(), POLLIN, 0};
    const int ready = poll(&writer, 1, static_cast<int>(std::chrono::milliseconds(kProfilePatience).count()));
    if (ready == 0)
      return Error{"read the device profile " + path, ETIMEDOUT, "Whoever writes to the pipe has to be faster"};
    if (n == 0 && (writer.revents & POLLIN) == 0) break;
  }
  return text;
}

Result<DeviceProfile> loadProfile(const std::string &path, const std::string &node) {
  auto text = readProfileText(path);
  if (!text) return text.error();
  return parseProfile(*text, path, node);
}

PlaneVerdict testPlane(const DeviceProfile &profile, const PlaneTest &test) {
  const KmsSnapshot &s = profile.snapshot;
  if (test.plane >= s.planes.size()) return {EINVAL, "there is no such plane", false};
  const KmsPlane &plane = s.planes[test.plane];
  FrameNeed need;
  need.format = test.format;
  need.width = test.buffer_width > 0 ? test.buffer_width : test.source.x + test.source.width;
  need.height = test.buffer_height > 0 ? test.buffer_height : test.source.y + test.source.height;
  need.crop = test.source;
  need.rotation = test.rotation;
  need.target_width = test.target.width;
  need.target_height = test.target.height;
  const bool scaled = scalingOf(need) != Scaling::None;
  for (const ProfileRefusal &r : profile.refusals)
    if (appliesTo(r, plane, test, scaled))
      return {r.error, r.why.empty() ? "the profile says that its driver refuses this" : r.why, false};

  // the plane alone, on a CRTC that it has, so that nothing but the plane speaks
  KmsSnapshot alone;
  alone.path = s.path;
  alone.driver = s.driver;
  alone.min_width = s.min_width;
  alone.min_height = s.min_height;
  alone.max_width = s.max_width;
  alone.max_height = s.max_height;
  alone.addfb2_modifiers = s.addfb2_modifiers;
  alone.crtcs.resize(1);
  alone.planes.push_back(plane);
  alone.planes.front().possible_crtcs = 1;
  alone.planes.front().crtc = 0;
  if (plane.type == DRM_PLANE_TYPE_CURSOR) alone.planes.front().type = DRM_PLANE_TYPE_OVERLAY; // limits say its sizes
  std::vector<Refusal> refusals;
  const auto options = propose(alone, 0, need, {}, &refusals);
  if (!options.empty()) return {0, "nothing speaks against it", options.front().open.any()};
  return {refusals.empty() ? EINVAL : errnoOfReason(refusals.front().reason),
          refusals.empty() ? "it is refused" : refusals.front().sentence, false};
}

} // namespace gstzc
