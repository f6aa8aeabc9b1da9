// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/unused_settings.h"

namespace gstzc {

std::string unusedSettings(const OpenRequest &request) {
  const bool profile = !request.profile.empty(), fd = request.fd >= 0, device = !request.path.empty();
  std::string unused;
  if (fd && profile) unused = "fd=" + std::to_string(request.fd);
  if (device && (fd || profile)) unused += (unused.empty() ? "" : " and ") + ("device=" + request.path);
  if (unused.empty()) return "";
  const bool two = fd && device && profile;
  return unused + (two ? " are" : " is") + " not used: " + (profile ? "device-profile=" : "fd=") + " is set";
}

} // namespace gstzc
