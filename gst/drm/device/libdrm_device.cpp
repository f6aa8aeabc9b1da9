// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/device/libdrm_device.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <drm_fourcc.h>
#include <grp.h>
#include <linux/kcmp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <xf86drm.h>
#include <xf86drmMode.h>

#include "gst/drm/device/hotplug_watch.h"
#include "gst/zerocopy/core/dma_alloc.h"
#include "gst/zerocopy/core/sync_file.h"

namespace gstzc {
namespace {

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
  return {"open " + path, code, "Set device= to one of the card nodes under /dev/dri"};
}

Error masterError(const std::string &path) {
  return {
      "another process is master of " + path, EBUSY,
      "Stop it (a compositor, an X server, another sink), switch to a free virtual terminal, or pass its descriptor "
      "with fd="};
}

// The open devices of this process.
std::mutex registry_mutex;
std::vector<std::weak_ptr<LibdrmDevice>> &registry() {
  static std::vector<std::weak_ptr<LibdrmDevice>> devices;
  return devices;
}

// The first file of a device without a master becomes it.
UniqueFd openWithoutMaster(const std::string &path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (fd.isValid() && drmIsMaster(fd.get())) drmDropMaster(fd.get());
  return fd;
}

// Without the system call (a kernel built without it, a sandbox) no two are the same.
bool sameOpenFile(int a, int b) { return syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b) == 0; }

} // namespace

std::shared_ptr<LibdrmDevice> LibdrmDevice::known(const std::function<bool(const LibdrmDevice &)> &is) {
  std::erase_if(registry(), [](const auto &device) { return device.expired(); });
  for (const auto &weak : registry())
    if (auto device = weak.lock(); device && is(*device)) return device;
  return nullptr;
}

Result<std::shared_ptr<KmsDevice>> LibdrmDevice::openPath(const std::string &path) {
  const std::lock_guard lock(registry_mutex);
  // not by opening it again: that file would become master where nobody is
  struct stat node = {};
  std::shared_ptr<LibdrmDevice> device;
  if (stat(path.c_str(), &node) == 0 && S_ISCHR(node.st_mode))
    device = known([&](const LibdrmDevice &other) {
      struct stat open_node = {};
      return !other.shared_ && fstat(other.fd_.get(), &open_node) == 0 && open_node.st_rdev == node.st_rdev;
    });
  const bool is_new = device == nullptr;
  if (is_new) {
    device.reset(new LibdrmDevice);
    device->path_ = path;
    device->fd_ = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (!device->fd_.isValid()) return openError(path, errno);
    if (const auto error = renderNodeError(device->fd_.get(), path, "device=")) return *error;
    if (auto ready = device->prepare(); !ready) return ready.error();
  }
  if (auto entered = device->enter(); !entered) return entered.error();
  if (is_new) registry().push_back(device);
  return std::shared_ptr<KmsDevice>(std::move(device));
}

Result<std::shared_ptr<KmsDevice>> LibdrmDevice::fromFd(int fd) {
  const std::lock_guard lock(registry_mutex);
  auto device = known([&](const LibdrmDevice &other) { return other.shared_ && sameOpenFile(other.fd_.get(), fd); });
  const bool is_new = device == nullptr;
  if (is_new) {
    device.reset(new LibdrmDevice);
    device->shared_ = true;
    device->path_ = "fd=" + std::to_string(fd);
    device->fd_ = UniqueFd::duplicate(fd);
    if (!device->fd_.isValid()) return Error{"duplicate the descriptor of " + device->path_, errno, "Pass an open one"};
    char *node = drmGetDeviceNameFromFd2(device->fd_.get());
    if (node != nullptr) device->path_ = node;
    std::free(node);
    if (auto ready = device->prepare(); !ready) return ready.error();
  }
  if (auto entered = device->enter(); !entered) return entered.error();
  if (is_new) {
    device->memory_fd_ = openWithoutMaster(device->path_);
    registry().push_back(device);
  }
  return std::shared_ptr<KmsDevice>(std::move(device));
}

LibdrmDevice::~LibdrmDevice() {
  if (became_master_) drmDropMaster(fd_.get());
}

Status LibdrmDevice::enter() {
  const std::lock_guard lock(users_mutex_);
  if (users_ == 0) {
    // opening a device without a master has made us it
    became_master_ = !shared_;
    if (!drmIsMaster(fd_.get())) {
      if (drmSetMaster(fd_.get()) != 0) return masterError(path_);
      became_master_ = true;
    }
  }
  ++users_;
  return Nothing{};
}

void LibdrmDevice::leave() {
  const std::lock_guard lock(users_mutex_);
  if (users_ == 0 || --users_ > 0) return;
  if (became_master_) drmDropMaster(fd_.get());
  became_master_ = false;
}

bool LibdrmDevice::regainMaster() {
  const std::lock_guard lock(users_mutex_);
  return drmIsMaster(fd_.get()) || drmSetMaster(fd_.get()) == 0;
}

std::shared_ptr<void> LibdrmDevice::watchOutputs(std::function<void()> changed) {
  struct stat st = {};
  if (fstat(fd_.get(), &st) != 0) return nullptr;
  return HotplugWatch::start(st.st_rdev, std::move(changed));
}

Status LibdrmDevice::prepare() {
  drmVersion *version = drmGetVersion(fd_.get());
  if (version == nullptr)
    return Error{"ask " + path_ + " for its driver", errno, "It has to be a card node under /dev/dri"};
  driver_.assign(version->name, static_cast<size_t>(version->name_len));
  drmFreeVersion(version);
  if (drmSetClientCap(fd_.get(), DRM_CLIENT_CAP_UNIVERSAL_PLANES, 1) != 0 ||
      drmSetClientCap(fd_.get(), DRM_CLIENT_CAP_ATOMIC, 1) != 0)
    return Error{path_ + " (" + driver_ + ") has no atomic modesetting", errno,
                 "Choose another device with device=, or use kmssink"};
  return Nothing{};
}

std::optional<Error> renderNodeError(int fd, const std::string &path, const std::string &option) {
  if (drmGetNodeTypeFromFd(fd) != DRM_NODE_RENDER) return std::nullopt;
  char *name = drmGetPrimaryDeviceNameFromFd(fd);
  const std::string card = name != nullptr ? name : "";
  std::free(name);
  return Error{path + " is a render node: it makes pictures and shows none", 0,
               card.empty() ? "Set " + option + " to a card node under /dev/dri"
                            : "Set " + option + card + ", the card node of the same device"};
}

std::optional<ForeignMemory> probeForeignMemory(int fd) {
  const auto imports = [fd](const Result<DmaBuffer> &buffer) {
    uint32_t handle = 0;
    if (!buffer || drmPrimeFDToHandle(fd, buffer->fd.get(), &handle) != 0) return false;
    drmCloseBufferHandle(fd, handle); // of a new buffer: nobody else has this handle
    return true;
  };
  const auto allocator = DmaAllocator::open(DmaSource::Auto, "system");
  if (!allocator) return std::nullopt;
  const auto contiguous = allocator->alloc(1);
  if (!contiguous) return std::nullopt;
  if (!imports(contiguous)) return ForeignMemory::None;
  const auto scattered = allocator->allocScattered();
  return !scattered || imports(scattered) ? ForeignMemory::Any : ForeignMemory::Contiguous;
}

ForeignMemory LibdrmDevice::foreignMemory() const {
  std::call_once(foreign_once_, [this] { foreign_ = probeForeignMemory(memoryFd()).value_or(ForeignMemory::None); });
  return foreign_;
}

UniqueFd LibdrmDevice::openAgain() const { return openWithoutMaster(path_); }

Result<KmsSnapshot> LibdrmDevice::snapshot(Outputs outputs) const {
  return readSnapshot(fd(), path_, driver_, outputs);
}

int LibdrmDevice::addFramebuffer(const FramebufferRequest &r, uint32_t *id) {
  if (r.modifier == DRM_FORMAT_MOD_INVALID)
    return -drmModeAddFB2(memoryFd(), r.width, r.height, r.fourcc, r.handles.data(), r.pitches.data(), r.offsets.data(),
                          id, 0);
  uint64_t modifiers[kMaxFramebufferPlanes] = {};
  std::fill_n(modifiers, std::min(r.n_planes, kMaxFramebufferPlanes), r.modifier);
  return -drmModeAddFB2WithModifiers(memoryFd(), r.width, r.height, r.fourcc, r.handles.data(), r.pitches.data(),
                                     r.offsets.data(), modifiers, id, DRM_MODE_FB_MODIFIERS);
}

void LibdrmDevice::removeFramebuffer(uint32_t id) { drmModeRmFB(memoryFd(), id); }

int LibdrmDevice::importHandle(int dmabuf, uint32_t *handle) {
  return drmPrimeFDToHandle(memoryFd(), dmabuf, handle) == 0 ? 0 : errno;
}

void LibdrmDevice::closeHandle(uint32_t handle) {
  if (memory_fd_.isValid() || !shared_) drmCloseBufferHandle(memoryFd(), handle);
}

int LibdrmDevice::createBlob(const void *data, size_t size, uint32_t *id) {
  return -drmModeCreatePropertyBlob(fd(), data, size, id);
}

void LibdrmDevice::destroyBlob(uint32_t id) { drmModeDestroyPropertyBlob(fd(), id); }

int LibdrmDevice::commit(const AtomicRequest &request, uint32_t flags, UniqueFd *flipped) {
  // The kernel's four arrays. Its order is by object; ours stay between commits, so that a frame allocates nothing.
  struct Arrays {
    std::vector<PropertySetting> settings;
    std::vector<uint32_t> objects, counts, properties;
    std::vector<uint64_t> values;
  };
  thread_local Arrays a;
  a.settings = request.settings();
  int32_t fence = -1;
  const bool wants_flip =
      flipped != nullptr && request.flip().property != 0 && (flags & DRM_MODE_ATOMIC_TEST_ONLY) == 0;
  if (wants_flip && request.event() == 0)
    a.settings.push_back({request.flip().object, request.flip().property, reinterpret_cast<uintptr_t>(&fence)});
  a.objects.clear();
  a.counts.clear();
  a.properties.clear();
  a.values.clear();
  const auto before = [](const PropertySetting &x, const PropertySetting &y) {
    return std::pair(x.object, x.property) < std::pair(y.object, y.property);
  };
  // by insertion, since std::stable_sort allocates
  for (auto it = a.settings.begin(); it != a.settings.end(); ++it)
    std::rotate(std::upper_bound(a.settings.begin(), it, *it, before), it, it + 1);
  for (size_t i = 0; i < a.settings.size(); ++i) {
    const PropertySetting &s = a.settings[i];
    if (i + 1 < a.settings.size() && a.settings[i + 1].object == s.object && a.settings[i + 1].property == s.property)
      continue;
    if (a.objects.empty() || a.objects.back() != s.object) {
      a.objects.push_back(s.object);
      a.counts.push_back(0);
    }
    ++a.counts.back();
    a.properties.push_back(s.property);
    a.values.push_back(s.value);
  }
  drm_mode_atomic atomic = {};
  atomic.flags = flags;
  if (wants_flip && request.event() != 0) {
    atomic.flags |= DRM_MODE_PAGE_FLIP_EVENT;
    atomic.user_data = request.event();
  }
  atomic.count_objs = static_cast<uint32_t>(a.objects.size());
  atomic.objs_ptr = reinterpret_cast<uintptr_t>(a.objects.data());
  atomic.count_props_ptr = reinterpret_cast<uintptr_t>(a.counts.data());
  atomic.props_ptr = reinterpret_cast<uintptr_t>(a.properties.data());
  atomic.prop_values_ptr = reinterpret_cast<uintptr_t>(a.values.data());
  if (drmIoctl(fd(), DRM_IOCTL_MODE_ATOMIC, &atomic) != 0) return errno;
  if (wants_flip && request.event() == 0) *flipped = UniqueFd(fence);
  return 0;
}

int LibdrmDevice::takeFlipEvents() {
  if (shared_ || events_taken_.exchange(true)) return -1;
  uint64_t monotonic = 0;
  if (drmGetCap(fd_.get(), DRM_CAP_TIMESTAMP_MONOTONIC, &monotonic) == 0 && monotonic == 1) return fd_.get();
  events_taken_ = false;
  return -1;
}

std::optional<KmsDevice::FlipEvent> LibdrmDevice::readFlipEvents() {
  alignas(drm_event_vblank) char buffer[256];
  std::optional<FlipEvent> latest;
  while (true) {
    const ssize_t n = read(fd_.get(), buffer, sizeof buffer); // whole events only
    if (n <= 0) return latest;
    for (ssize_t at = 0; at + static_cast<ssize_t>(sizeof(drm_event)) <= n;) {
      drm_event head;
      std::memcpy(&head, buffer + at, sizeof head);
      if (head.type == DRM_EVENT_FLIP_COMPLETE && at + static_cast<ssize_t>(sizeof(drm_event_vblank)) <= n) {
        drm_event_vblank flip;
        std::memcpy(&flip, buffer + at, sizeof flip);
        latest = {flip.user_data, int64_t{flip.tv_sec} * 1'000'000'000 + int64_t{flip.tv_usec} * 1000};
      }
      at += std::max<ssize_t>(head.length, sizeof head);
    }
    if (n + static_cast<ssize_t>(sizeof(drm_event_crtc_sequence)) < static_cast<ssize_t>(sizeof buffer)) return latest;
  }
}

int64_t LibdrmDevice::flipTime(int flipped) const {
  uint64_t when = 0;
  const FenceStatus status = syncFileStatus(flipped, &when);
  return status.error != 0 ? -status.error : static_cast<int64_t>(when);
}

UniqueFd LibdrmDevice::makeSignalledFence() {
  DumbMemory memory;
  if (createDumb(64, 64, 32, &memory) != 0) return {};
  UniqueFd dmabuf;
  const int rc = exportDumb(memory.handle, &dmabuf);
  destroyDumb(memory.handle);
  if (rc != 0) return {};
  auto fence = exportSyncFile(dmabuf.get(), Access::Read);
  return fence && fence->status().signalled() ? fence->release() : UniqueFd();
}

int LibdrmDevice::signalledFence() {
  std::call_once(signalled_once_, [this] { signalled_ = makeSignalledFence(); });
  return signalled_.get();
}

int LibdrmDevice::createDumb(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory) {
  return -drmModeCreateDumbBuffer(memoryFd(), width, height, bits, 0, &memory->handle, &memory->pitch, &memory->size);
}

void LibdrmDevice::destroyDumb(uint32_t handle) { drmModeDestroyDumbBuffer(memoryFd(), handle); }

int LibdrmDevice::mapDumb(const DumbMemory &memory, void **data) {
  uint64_t offset = 0;
  if (const int rc = drmModeMapDumbBuffer(memoryFd(), memory.handle, &offset); rc != 0) return -rc;
  void *mapped = mmap(nullptr, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, memoryFd(), static_cast<off_t>(offset));
  if (mapped == MAP_FAILED) return errno;
  *data = mapped;
  return 0;
}

int LibdrmDevice::exportDumb(uint32_t handle, UniqueFd *dmabuf) {
  int exported = -1;
  if (drmPrimeHandleToFD(memoryFd(), handle, DRM_CLOEXEC | DRM_RDWR, &exported) != 0) return errno;
  *dmabuf = UniqueFd(exported);
  return 0;
}

} // namespace gstzc
