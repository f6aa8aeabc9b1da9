// SPDX-License-Identifier: LGPL-2.1-or-later
#include "display_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <xf86drm.h>

#include "gst/drm/device/libdrm_device.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::inspect {
namespace {

constexpr const char *kSink = "drmmodifiersink";

std::string baseName(const std::string &path) { return path.substr(path.find_last_of('/') + 1); }

std::vector<std::string> cardNodes() {
  std::vector<std::string> nodes;
  if (DIR *dir = opendir("/dev/dri")) {
    while (const dirent *entry = readdir(dir))
      if (std::string(entry->d_name).starts_with("card")) nodes.push_back(std::string("/dev/dri/") + entry->d_name);
    closedir(dir);
  }
  std::sort(nodes.begin(), nodes.end(), [](const std::string &a, const std::string &b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b; // card2 before card10
  });
  return nodes;
}

// Reading needs no master. What the sink finds out by trying is tried likewise.
Result<DeviceProfile> readNode(const std::string &path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.isValid())
    return Error{"open " + path, errno,
                 errno == EACCES ? "Join the group that may (see ls -l " + path + "), or run as root"
                                 : "List the nodes with ls /dev/dri, or use --profile"};
  if (const auto error = renderNodeError(fd.get(), path, "--device=")) return *error;
  // the first file of a device without a master becomes it: a sink would find it taken
  if (drmIsMaster(fd.get())) drmDropMaster(fd.get());
  drmVersion *version = drmGetVersion(fd.get());
  if (version == nullptr)
    return Error{"ask " + path + " for its driver", errno, "It has to be a card node under /dev/dri"};
  const std::string driver(version->name, static_cast<size_t>(version->name_len));
  drmFreeVersion(version);
  if (drmSetClientCap(fd.get(), DRM_CLIENT_CAP_UNIVERSAL_PLANES, 1) != 0 ||
      drmSetClientCap(fd.get(), DRM_CLIENT_CAP_ATOMIC, 1) != 0)
    return Error{path + " (" + driver + ") has no atomic modesetting", errno, "Choose another device with --device"};
  auto snapshot = readSnapshot(fd.get(), path, driver, KmsDevice::Outputs::Probe);
  if (!snapshot) return snapshot.error();
  DeviceProfile profile;
  profile.snapshot = snapshot.take();
  profile.quirks.no_foreign_memory = probeForeignMemory(fd.get()) == ForeignMemory::None;
  return profile;
}

Result<DeviceProfile> readMachine(const DisplayRequest &request) {
  if (!request.device.empty()) return readNode(request.device);
  std::string passed_over;
  for (const std::string &path : cardNodes()) {
    auto device = readNode(path);
    std::string reason;
    if (!device)
      reason = device.error().what +
               (device.error().code != 0 ? std::string(": ") + std::strerror(device.error().code) : std::string());
    else if (auto output = chooseOutput(device->snapshot, request.connector); !output)
      reason = output.error().what;
    else
      return device;
    passed_over += (passed_over.empty() ? "" : "; ") + reason;
  }
  if (passed_over.empty())
    return Error{"this machine has no display device: /dev/dri has no card nodes", ENOENT,
                 "Describe one with --profile FILE, or load the display driver's module"};
  return Error{"this machine has no usable display (" + passed_over + ")", 0,
               "Describe one with --profile FILE, or choose with --device and --connector"};
}

} // namespace

Result<DeviceProfile> readDevice(const DisplayRequest &request) {
  if (!request.profile.empty()) return loadProfile(request.profile, request.device);
  return readMachine(request);
}

Result<DisplaySource> openDisplaySource(const DisplayRequest &request) {
  auto profile = readDevice(request);
  if (!profile) return profile.error();
  DisplaySource source;
  source.profile = profile.take();
  source.described = !request.profile.empty();
  const KmsSnapshot &snapshot = source.profile.snapshot;
  std::string of = snapshot.driver;
  if (source.described && !source.profile.device.empty()) of += (of.empty() ? "" : ", ") + source.profile.device;
  source.name = (source.described ? baseName(request.profile) : snapshot.path) + (of.empty() ? "" : " (" + of + ")");
  auto output = chooseOutput(snapshot, request.connector);
  if (!output) {
    Error error = output.error();
    // the library speaks of the element's properties
    for (const std::string option : {"device", "connector"})
      if (const size_t at = error.remedy.find(option + "="); at != std::string::npos)
        error.remedy.replace(at, option.size() + 1, "--" + option);
    return error;
  }
  source.output = *output;
  return source;
}

MakeSink displaySink(const DisplayRequest &request) {
  return [request]() -> Result<GstElement *> {
    GstElement *sink = gst_element_factory_make(kSink, kSink);
    if (sink == nullptr)
      return Error{"GStreamer does not find the element " + std::string(kSink), 0,
                   "Install gst-zerocopy's plugin, or set GST_PLUGIN_PATH to its folder (scripts/run does)"};
    const auto set = [&](const char *property, const std::string &value) {
      if (value.empty()) return true;
      if (g_object_class_find_property(G_OBJECT_GET_CLASS(sink), property) == nullptr) return false;
      g_object_set(sink, property, value.c_str(), nullptr);
      return true;
    };
    const bool described = !request.profile.empty();
    if (!set("device-profile", request.profile) || !set("device", described ? "" : request.device) ||
        !set("connector", request.connector)) {
      gst_object_unref(gst_object_ref_sink(sink));
      return Error{"the installed " + std::string(kSink) + " has no property device-profile", 0,
                   "It is of an older version than this tool: install the same version of both"};
    }
    return sink;
  };
}

} // namespace gstzc::inspect
