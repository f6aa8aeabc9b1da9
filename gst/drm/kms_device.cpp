// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/kms_device.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include <dirent.h>

#include "gst/drm/device/libdrm_device.h"
#include "gst/drm/device/profile_device.h"
#include "gst/drm/planning.h"

namespace gstzc {
namespace {

std::vector<std::string> cardNodes() {
  std::vector<std::pair<long, std::string>> found;
  if (DIR *dir = opendir("/dev/dri")) {
    while (const dirent *entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name.rfind("card", 0) == 0 && name.size() > 4)
        found.emplace_back(std::strtol(name.c_str() + 4, nullptr, 10), "/dev/dri/" + name);
    }
    closedir(dir);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> nodes;
  for (auto &[number, path] : found) nodes.push_back(std::move(path));
  return nodes;
}

} // namespace

Result<std::shared_ptr<KmsDevice>> openDisplay(const OpenRequest &request) {
  if (request.device) {
    if (auto entered = request.device->enter(); !entered) return entered.error();
    return request.device;
  }
  if (!request.profile.empty()) {
    auto profile = loadProfile(request.profile);
    if (!profile) return profile.error();
    return std::shared_ptr<KmsDevice>(ProfileDevice::create(profile.take()));
  }
  if (request.fd >= 0) return LibdrmDevice::fromFd(request.fd);
  if (!request.path.empty()) return LibdrmDevice::openPath(request.path);

  std::string passed_over;
  std::string shared; // where this process shows already
  std::optional<Error> denied;
  for (const std::string &path : cardNodes()) {
    auto device = LibdrmDevice::openPath(path);
    std::string reason;
    if (!device) {
      reason =
          device.error().what + (device.error().code != 0 ? std::string(": ") + strerror(device.error().code) : "");
      // a card that is there and refuses itself to us is the likeliest to be the one that was meant
      if (!denied && (device.error().code == EACCES || device.error().code == EBUSY)) denied = device.error();
    } else if (auto snapshot = (*device)->snapshot(); !snapshot) {
      reason = snapshot.error().message();
    } else {
      (*device)->claims().mark(*snapshot, nullptr);
      auto output = chooseOutput(*snapshot, request.connector);
      if (output && !snapshot->connectors[output->connector].claimed) return device;
      if (output && shared.empty()) shared = path;
      if (!output) reason = output.error().what;
    }
    if (device) (*device)->leave();
    passed_over +=
        (passed_over.empty() ? "" : "; ") + (reason.find(path) == std::string::npos ? path + ": " : "") + reason;
  }
  if (!shared.empty()) return LibdrmDevice::openPath(shared);
  if (passed_over.empty())
    return Error{"no display device: /dev/dri has no card nodes", ENOENT,
                 "Load the display driver's module, or give this container the node"};
  return Error{"no usable display (" + passed_over + ")", denied ? denied->code : 0,
               denied ? denied->remedy : "Connect an output, or choose with device= and connector="};
}

} // namespace gstzc
