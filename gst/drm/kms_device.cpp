// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/kms_device.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include <dirent.h>
#include <drm_fourcc.h>
#include <grp.h>
#include <sys/stat.h>
#include <xf86drm.h>

#include "gst/drm/format_blob.h"
#include "gst/drm/planning.h"
#include "gst/zerocopy/core/dma_alloc.h"

namespace gstzc {
namespace {

template <typename T, void (*Free)(T *)> struct Freer {
  void operator()(T *p) const { Free(p); }
};
template <typename T, void (*Free)(T *)> using Owned = std::unique_ptr<T, Freer<T, Free>>;
using OwnedResources = Owned<drmModeRes, drmModeFreeResources>;
using OwnedPlanes = Owned<drmModePlaneRes, drmModeFreePlaneResources>;
using OwnedPlane = Owned<drmModePlane, drmModeFreePlane>;
using OwnedConnector = Owned<drmModeConnector, drmModeFreeConnector>;
using OwnedEncoder = Owned<drmModeEncoder, drmModeFreeEncoder>;
using OwnedBlob = Owned<drmModePropertyBlobRes, drmModeFreePropertyBlob>;
using OwnedProperties = Owned<drmModeObjectProperties, drmModeFreeObjectProperties>;
using OwnedProperty = Owned<drmModePropertyRes, drmModeFreeProperty>;

std::string groupOf(const std::string &path) {
  struct stat st = {};
  if (stat(path.c_str(), &st) != 0) return "video";
  struct group entry = {}, *found = nullptr;
  std::vector<char> buffer(4096);
  if (getgrgid_r(st.st_gid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
    return std::to_string(st.st_gid);
  return entry.gr_name;
}

Error openError(const std::string &path, int code) {
  if (code == EACCES || code == EPERM) {
    const std::string group = groupOf(path);
    if (group == "root")
      return {"open " + path, code,
              "Only root may use it: run as root, or have udev give the node a group such as video"};
    return {"open " + path, code,
            "Only root and the group " + group + " may use it: `sudo usermod -aG " + group +
                " $USER`, then log in again"};
  }
  if (code == ENOENT) return {"open " + path, code, "Set device= to one of the nodes under /dev/dri"};
  return {"open " + path, code, ""};
}

Error masterError(const std::string &path) {
  return {
      "another process is master of " + path, EBUSY,
      "Stop it (a compositor, an X server, another sink), switch to a free virtual terminal, or pass its descriptor "
      "with fd="};
}

KmsConnector readConnector(int fd, const drmModeConnector &c) {
  KmsConnector result;
  result.id = c.connector_id;
  result.type = c.connector_type;
  const char *type = drmModeGetConnectorTypeName(c.connector_type);
  result.name = std::string(type != nullptr ? type : "Unknown") + "-" + std::to_string(c.connector_type_id);
  result.status = c.connection;
  result.modes.assign(c.modes, c.modes + c.count_modes);
  for (int e = 0; e < c.count_encoders; ++e) {
    OwnedEncoder encoder(drmModeGetEncoder(fd, c.encoders[e]));
    if (encoder) result.possible_crtcs |= encoder->possible_crtcs;
  }
  if (c.count_encoders == 0) result.possible_crtcs = ~0u; // bits past the last CRTC mean nothing
  result.properties = readProperties(fd, c.connector_id, DRM_MODE_OBJECT_CONNECTOR);
  if (const auto p = result.properties.find("CRTC_ID"); p != result.properties.end())
    result.crtc = static_cast<uint32_t>(p->second.value);
  return result;
}

KmsCrtc readCrtc(int fd, uint32_t id) {
  KmsCrtc result;
  result.id = id;
  result.properties = readProperties(fd, id, DRM_MODE_OBJECT_CRTC);
  if (const auto p = result.properties.find("ACTIVE"); p != result.properties.end())
    result.active = p->second.value != 0;
  if (const auto p = result.properties.find("MODE_ID"); p != result.properties.end() && p->second.value != 0) {
    OwnedBlob blob(drmModeGetPropertyBlob(fd, static_cast<uint32_t>(p->second.value)));
    if (blob && blob->length >= sizeof(drmModeModeInfo))
      result.mode = *static_cast<const drmModeModeInfo *>(blob->data);
  }
  return result;
}

KmsPlane readPlane(int fd, const drmModePlane &p) {
  KmsPlane result;
  result.id = p.plane_id;
  result.possible_crtcs = p.possible_crtcs;
  result.crtc = p.crtc_id;
  result.properties = readProperties(fd, p.plane_id, DRM_MODE_OBJECT_PLANE);
  if (const auto t = result.properties.find("type"); t != result.properties.end())
    result.type = static_cast<uint32_t>(t->second.value);
  if (const auto f = result.properties.find("IN_FORMATS"); f != result.properties.end() && f->second.value != 0) {
    OwnedBlob blob(drmModeGetPropertyBlob(fd, static_cast<uint32_t>(f->second.value)));
    if (blob) {
      if (auto formats = parseInFormats(blob->data, blob->length)) result.formats = std::move(*formats);
    }
  }
  // Drivers without IN_FORMATS (and blobs that hold nothing) say what they take in the older list: layouts implicit,
  // and a linear one is what a driver without modifiers understands.
  if (result.formats.empty())
    for (uint32_t f = 0; f < p.count_formats; ++f) result.formats.push_back({p.formats[f], DRM_FORMAT_MOD_LINEAR});
  return result;
}

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

KmsProperties readProperties(int fd, uint32_t object, uint32_t type) {
  KmsProperties result;
  OwnedProperties list(drmModeObjectGetProperties(fd, object, type));
  if (!list) return result;
  for (uint32_t i = 0; i < list->count_props; ++i) {
    OwnedProperty p(drmModeGetProperty(fd, list->props[i]));
    if (!p) continue;
    KmsProperty property;
    property.id = p->prop_id;
    property.flags = p->flags;
    property.value = list->prop_values[i];
    for (int e = 0; e < p->count_enums; ++e) property.values.emplace_back(p->enums[e].name, p->enums[e].value);
    if (drm_property_type_is(p.get(), DRM_MODE_PROP_RANGE) && p->count_values == 2) {
      property.values.emplace_back("min", p->values[0]);
      property.values.emplace_back("max", p->values[1]);
    }
    result.emplace(p->name, std::move(property));
  }
  return result;
}

Result<std::shared_ptr<KmsDevice>> KmsDevice::openPath(const std::string &path) {
  std::shared_ptr<KmsDevice> device(new KmsDevice);
  device->path_ = path;
  device->fd_ = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!device->fd_.isValid()) return openError(path, errno);
  if (auto ready = device->prepare(); !ready) return ready.error();
  return device;
}

Result<std::shared_ptr<KmsDevice>> KmsDevice::fromFd(int fd) {
  std::shared_ptr<KmsDevice> device(new KmsDevice);
  device->shared_ = true;
  device->path_ = "fd=" + std::to_string(fd);
  device->fd_ = UniqueFd::duplicate(fd);
  if (!device->fd_.isValid()) return Error{"duplicate the descriptor of " + device->path_, errno, "Pass an open one"};
  char *node = drmGetDeviceNameFromFd2(device->fd_.get());
  if (node != nullptr) device->path_ = node;
  std::free(node);
  if (auto ready = device->prepare(); !ready) return ready.error();
  device->memory_fd_ = UniqueFd(open(device->path_.c_str(), O_RDWR | O_CLOEXEC));
  // the first file of a device without a master becomes it: not wanted for this one
  if (device->memory_fd_.isValid() && drmIsMaster(device->memory_fd_.get())) drmDropMaster(device->memory_fd_.get());
  return device;
}

KmsDevice::~KmsDevice() { dropMaster(); }

void KmsDevice::dropMaster() {
  if (became_master_) drmDropMaster(fd_.get());
  became_master_ = false;
}

Status KmsDevice::prepare() {
  drmVersion *version = drmGetVersion(fd_.get());
  if (version == nullptr)
    return Error{"ask " + path_ + " for its driver", errno, "It has to be a card node under /dev/dri"};
  driver_.assign(version->name, static_cast<size_t>(version->name_len));
  drmFreeVersion(version);
  if (drmSetClientCap(fd_.get(), DRM_CLIENT_CAP_UNIVERSAL_PLANES, 1) != 0 ||
      drmSetClientCap(fd_.get(), DRM_CLIENT_CAP_ATOMIC, 1) != 0)
    return Error{path_ + " (" + driver_ + ") has no atomic modesetting", errno,
                 "Choose another device with device=, or use kmssink"};
  if (!drmIsMaster(fd_.get())) {
    if (drmSetMaster(fd_.get()) != 0) return masterError(path_);
    became_master_ = true;
  }
  became_master_ |= !shared_;
  return Nothing{};
}

ForeignMemory KmsDevice::foreignMemory() const {
  std::call_once(foreign_once_, [this] {
    const auto imports = [this](const Result<DmaBuffer> &buffer) {
      uint32_t handle = 0;
      if (!buffer || drmPrimeFDToHandle(memoryFd(), buffer->fd.get(), &handle) != 0) return false;
      drmCloseBufferHandle(memoryFd(), handle); // of a new buffer: nobody else has this handle
      return true;
    };
    const auto allocator = DmaAllocator::open(DmaSource::Auto, "system");
    if (!allocator || !imports(allocator->alloc(1))) return;
    const auto scattered = allocator->allocScattered();
    foreign_ = !scattered || imports(scattered) ? ForeignMemory::Any : ForeignMemory::Contiguous;
  });
  return foreign_;
}

Result<KmsSnapshot> KmsDevice::snapshot(Outputs outputs) const {
  KmsSnapshot result;
  result.path = path_;
  result.driver = driver_;
  uint64_t value = 0;
  result.addfb2_modifiers = drmGetCap(fd(), DRM_CAP_ADDFB2_MODIFIERS, &value) == 0 && value != 0;
  result.dumb_buffers = drmGetCap(fd(), DRM_CAP_DUMB_BUFFER, &value) == 0 && value != 0;

  OwnedResources resources(drmModeGetResources(fd()));
  if (!resources) return Error{"read the outputs of " + path_, errno, "It has to be a display device"};
  result.min_width = resources->min_width;
  result.max_width = resources->max_width;
  result.min_height = resources->min_height;
  result.max_height = resources->max_height;
  for (int i = 0; i < resources->count_crtcs; ++i) result.crtcs.push_back(readCrtc(fd(), resources->crtcs[i]));
  for (int i = 0; i < resources->count_connectors; ++i) {
    const uint32_t id = resources->connectors[i];
    OwnedConnector c(outputs == Outputs::Probe ? drmModeGetConnector(fd(), id) : drmModeGetConnectorCurrent(fd(), id));
    if (c) result.connectors.push_back(readConnector(fd(), *c));
  }
  OwnedPlanes planes(drmModeGetPlaneResources(fd()));
  for (uint32_t i = 0; planes && i < planes->count_planes; ++i) {
    OwnedPlane p(drmModeGetPlane(fd(), planes->planes[i]));
    if (p) result.planes.push_back(readPlane(fd(), *p));
  }
  return result;
}

Result<std::shared_ptr<KmsDevice>> openDisplay(const OpenRequest &request) {
  if (request.fd >= 0) return KmsDevice::fromFd(request.fd);
  if (!request.path.empty()) return KmsDevice::openPath(request.path);

  std::string passed_over;
  std::optional<Error> denied;
  for (const std::string &path : cardNodes()) {
    auto device = KmsDevice::openPath(path);
    std::string reason;
    if (!device) {
      reason =
          device.error().what + (device.error().code != 0 ? std::string(": ") + strerror(device.error().code) : "");
      // a card that is there and refuses itself to us is the likeliest to be the one that was meant
      if (!denied && (device.error().code == EACCES || device.error().code == EBUSY)) denied = device.error();
    } else if (auto snapshot = (*device)->snapshot(); !snapshot) {
      reason = snapshot.error().message();
    } else if (auto output = chooseOutput(*snapshot, request.connector); !output) {
      reason = output.error().what;
    } else {
      return device;
    }
    passed_over +=
        (passed_over.empty() ? "" : "; ") + (reason.find(path) == std::string::npos ? path + ": " : "") + reason;
  }
  if (passed_over.empty())
    return Error{"no display device: /dev/dri has no card nodes", ENOENT,
                 "Load the display driver's module, or give this container the node"};
  return Error{"no usable display (" + passed_over + ")", denied ? denied->code : 0,
               denied ? denied->remedy : "Connect an output, or choose with device= and connector="};
}

} // namespace gstzc
