// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/device/profile_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <drm_fourcc.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <xf86drm.h>

#include "gst/drm/mode.h"

namespace gstzc {

using namespace std::chrono_literals;

namespace {

constexpr uint32_t kCommitFlags = DRM_MODE_PAGE_FLIP_EVENT | DRM_MODE_PAGE_FLIP_ASYNC | DRM_MODE_ATOMIC_TEST_ONLY |
                                  DRM_MODE_ATOMIC_NONBLOCK | DRM_MODE_ATOMIC_ALLOW_MODESET;

uint64_t slotKey(uint32_t object, uint32_t property) { return uint64_t{object} << 32 | property; }

// What the kernel's core gives every object of an atomic driver.
constexpr const char *kPlaneProperties[] = {"FB_ID",  "CRTC_ID", "SRC_X",  "SRC_Y",  "SRC_W",      "SRC_H",
                                            "CRTC_X", "CRTC_Y",  "CRTC_W", "CRTC_H", "IN_FENCE_FD"};
constexpr const char *kCrtcProperties[] = {"MODE_ID", "ACTIVE", "OUT_FENCE_PTR"};
constexpr const char *kConnectorProperties[] = {"CRTC_ID"};

template <typename Object> void forEach(std::vector<Object> &objects, const auto &act) {
  for (Object &object : objects) act(object.id, object.properties);
}

} // namespace

ProfileDevice::ProfileDevice(DeviceProfile profile)
    : profile_(std::move(profile)), signalled_(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)) {
  path_ = profile_.snapshot.path;
  driver_ = profile_.snapshot.driver;
}

std::shared_ptr<ProfileDevice> ProfileDevice::create(DeviceProfile profile) {
  std::shared_ptr<ProfileDevice> device(new ProfileDevice(std::move(profile)));
  device->index();
  return device;
}

void ProfileDevice::index() {
  KmsSnapshot &s = profile_.snapshot;
  const auto highest = [this](uint32_t id, const KmsProperties &properties) {
    next_id_ = std::max(next_id_, id + 1);
    for (const auto &[name, property] : properties) next_id_ = std::max(next_id_, property.id + 1);
  };
  forEach(s.planes, highest);
  forEach(s.crtcs, highest);
  forEach(s.connectors, highest);
  const auto complete = [this](KmsProperties &properties, auto &names) {
    for (const char *name : names)
      if (!properties.contains(name)) properties[name].id = next_id_++;
  };
  for (KmsPlane &plane : s.planes) {
    complete(plane.properties, kPlaneProperties);
    plane.properties["CRTC_ID"].value = plane.crtc = 0; // nothing is shown yet
    plane.properties["FB_ID"].value = 0;
    plane.properties["IN_FENCE_FD"].value = ~uint64_t{0};
  }
  for (KmsCrtc &crtc : s.crtcs) {
    complete(crtc.properties, kCrtcProperties);
    crtc.active = false;
    crtc.mode.reset();
    crtc.properties["ACTIVE"].value = crtc.properties["MODE_ID"].value = 0;
  }
  for (KmsConnector &connector : s.connectors) {
    complete(connector.properties, kConnectorProperties);
    connector.properties["CRTC_ID"].value = connector.crtc = 0;
  }
  const auto add = [this](uint32_t id, KmsProperties &properties) {
    for (auto &[name, property] : properties) slots_[slotKey(id, property.id)] = {&name, &property};
  };
  forEach(s.planes, add);
  forEach(s.crtcs, add);
  forEach(s.connectors, add);
  flips_.resize(s.crtcs.size());
}

int ProfileDevice::refuse(const ProfileVerdict &verdict) {
  ++counters_.refused[verdict.error];
  last_refusal_ = verdict.why;
  return verdict.error;
}

Result<KmsSnapshot> ProfileDevice::snapshot(Outputs) const {
  const std::lock_guard lock(mutex_);
  return profile_.snapshot;
}

ForeignMemory ProfileDevice::foreignMemory() const {
  return profile_.quirks.no_foreign_memory ? ForeignMemory::None : ForeignMemory::Any;
}

UniqueFd ProfileDevice::openAgain() const { return UniqueFd(memfd_create("profile-node", MFD_CLOEXEC)); }

int ProfileDevice::addFramebuffer(const FramebufferRequest &request, uint32_t *id) {
  const std::lock_guard lock(mutex_);
  std::vector<std::optional<uint64_t>> sizes;
  for (unsigned p = 0; p < std::min(request.n_planes, kMaxFramebufferPlanes); ++p)
    sizes.push_back(memory_.size(request.handles[p]));
  if (const auto verdict = checkFramebuffer(profile_.snapshot, request, sizes); verdict.error != 0)
    return refuse(verdict);
  *id = next_id_++;
  objects_.framebuffers.emplace(*id, request);
  ++counters_.framebuffers;
  return 0;
}

void ProfileDevice::removeFramebuffer(uint32_t id) {
  const std::lock_guard lock(mutex_);
  if (objects_.framebuffers.erase(id) == 0) return;
  for (KmsPlane &plane : profile_.snapshot.planes)
    if (plane.properties["FB_ID"].value == id) {
      plane.properties["FB_ID"].value = plane.properties["CRTC_ID"].value = plane.crtc = 0;
      ++counters_.shown_removed;
    }
}

int ProfileDevice::importHandle(int dmabuf, uint32_t *handle) {
  const std::lock_guard lock(mutex_);
  return memory_.import(dmabuf, profile_.quirks.no_foreign_memory, handle);
}

void ProfileDevice::closeHandle(uint32_t handle) {
  const std::lock_guard lock(mutex_);
  if (memory_.close(handle) != 0) ++counters_.bad_closes;
}

int ProfileDevice::createBlob(const void *data, size_t size, uint32_t *id) {
  if (data == nullptr || size == 0) return EINVAL;
  const std::lock_guard lock(mutex_);
  *id = next_id_++;
  const auto *bytes = static_cast<const std::byte *>(data);
  objects_.blobs.emplace(*id, std::vector<std::byte>(bytes, bytes + size));
  return 0;
}

bool ProfileDevice::isValue(uint32_t blob) const {
  const auto has = [&](const auto &object) {
    return std::any_of(object.properties.begin(), object.properties.end(), [&](const auto &p) {
      return p.second.value == blob && (p.first == "MODE_ID" || (p.second.flags & DRM_MODE_PROP_BLOB));
    });
  };
  const KmsSnapshot &s = profile_.snapshot;
  return std::any_of(s.crtcs.begin(), s.crtcs.end(), has) || std::any_of(s.connectors.begin(), s.connectors.end(), has);
}

void ProfileDevice::destroyBlob(uint32_t id) {
  const std::lock_guard lock(mutex_);
  if (isValue(id))
    destroyed_.insert(id);
  else
    objects_.blobs.erase(id);
}

int ProfileDevice::apply(const AtomicRequest &request, std::vector<std::pair<Slot, uint64_t>> *before) {
  for (const PropertySetting &s : request.settings()) {
    const auto slot = slots_.find(slotKey(s.object, s.property));
    if (slot == slots_.end())
      return refuse(
          {ENOENT, "object " + std::to_string(s.object) + " has no property " + std::to_string(s.property), false});
    const std::string &name = *slot->second.name;
    if (name == "IN_FENCE_FD") { // not kept
      const auto fence = static_cast<int32_t>(s.value);
      if (fence >= 0 && fcntl(fence, F_GETFD) < 0) return refuse({EINVAL, "IN_FENCE_FD is no fence", false});
      if (fence >= 0 && profile_.quirks.in_fence_fd != 0)
        return refuse({profile_.quirks.in_fence_fd, "the driver takes no IN_FENCE_FD", false});
      continue;
    }
    KmsProperty &property = *slot->second.property;
    const auto verdict = checkValue(name, property, s.value, profile_.snapshot, objects_);
    if (verdict.error != 0) return refuse(verdict);
    before->emplace_back(slot->second, property.value);
    property.value = s.value;
  }
  return 0;
}

uint32_t ProfileDevice::concerned(const AtomicRequest &request) const {
  const KmsSnapshot &s = profile_.snapshot;
  uint32_t result = 0;
  const auto named = [&](uint32_t object) {
    return std::any_of(request.settings().begin(), request.settings().end(),
                       [&](const PropertySetting &p) { return p.object == object; });
  };
  const auto add = [&](uint64_t crtc) {
    for (size_t c = 0; c < s.crtcs.size(); ++c)
      if (s.crtcs[c].id == crtc) result |= 1u << c;
  };
  for (const KmsCrtc &crtc : s.crtcs)
    if (named(crtc.id) || request.flip().object == crtc.id) add(crtc.id);
  const auto user = [&](const auto &object) { // where it was and where it goes
    if (!named(object.id)) return;
    add(object.crtc);
    add(valueOf(object.properties, "CRTC_ID"));
  };
  for (const KmsConnector &connector : s.connectors) user(connector);
  for (const KmsPlane &plane : s.planes) user(plane);
  return result;
}

void ProfileDevice::settle(uint32_t crtcs) {
  KmsSnapshot &s = profile_.snapshot;
  for (size_t c = 0; c < s.crtcs.size(); ++c) {
    if (((crtcs >> c) & 1) == 0) continue;
    KmsCrtc &crtc = s.crtcs[c];
    const bool was_on = crtc.active;
    crtc.active = valueOf(crtc.properties, "ACTIVE") != 0;
    crtc.mode = modeOf(objects_, valueOf(crtc.properties, "MODE_ID"));
    if (!crtc.active || !crtc.mode) continue;
    Flip &flip = flips_[c];
    flip.period = std::chrono::nanoseconds(static_cast<int64_t>(1e9 / refreshOf(*crtc.mode)));
    if (!was_on) flip.base = flip.last = Clock::now();
  }
  for (KmsConnector &connector : s.connectors)
    connector.crtc = static_cast<uint32_t>(valueOf(connector.properties, "CRTC_ID"));
  for (KmsPlane &plane : s.planes) plane.crtc = static_cast<uint32_t>(valueOf(plane.properties, "CRTC_ID"));
  std::erase_if(destroyed_, [&](uint32_t id) { return !isValue(id) && objects_.blobs.erase(id) == 1; });
}

size_t ProfileDevice::crtcIndex(uint32_t id) const {
  const auto &crtcs = profile_.snapshot.crtcs;
  return static_cast<size_t>(std::find_if(crtcs.begin(), crtcs.end(), [&](const KmsCrtc &c) { return c.id == id; }) -
                             crtcs.begin());
}

ProfileDevice::Clock::time_point ProfileDevice::pendingUntil(uint32_t crtcs) const {
  Clock::time_point until;
  for (size_t c = 0; c < flips_.size(); ++c)
    if ((crtcs >> c) & 1) until = std::max(until, flips_[c].last);
  return until;
}

int ProfileDevice::checkFlip(const AtomicRequest &request, uint32_t crtcs, uint32_t flags, bool wants_flip) {
  const KmsSnapshot &s = profile_.snapshot;
  if (wants_flip) {
    const size_t c = crtcIndex(request.flip().object);
    if (c == s.crtcs.size()) return refuse({ENOENT, "an out-fence of a CRTC that is none", false});
    if (valueOf(s.crtcs[c].properties, "ACTIVE") == 0)
      return refuse({EINVAL, "an out-fence of a CRTC that is off", false});
  }
  if ((flags & DRM_MODE_ATOMIC_NONBLOCK) && pendingUntil(crtcs) > Clock::now())
    return refuse({EBUSY, "the flip of the commit before is pending", false});
  return 0;
}

UniqueFd ProfileDevice::startFlip(size_t crtc, uint32_t flags) {
  Flip &flip = flips_[crtc];
  const auto now = Clock::now();
  const KmsCrtc &object = profile_.snapshot.crtcs[crtc];
  Clock::time_point at;
  if (flags & DRM_MODE_PAGE_FLIP_ASYNC)
    at = now;
  else if (valueOf(object.properties, "VRR_ENABLED") != 0) // as soon as the fastest refresh allows
    at = std::max(now, flip.last + flip.period);
  else
    at = flip.base + ((now - flip.base) / flip.period + 1) * flip.period;
  flip.last = at;
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const auto ns = std::max<int64_t>(at.time_since_epoch() / 1ns, 1);
  itimerspec when = {};
  when.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
  if (!timer.isValid() || timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &when, nullptr) != 0) return {};
  flip_times_[timer.get()] = ns;
  return timer;
}

int ProfileDevice::commit(const AtomicRequest &request, uint32_t flags, UniqueFd *flipped) {
  std::unique_lock lock(mutex_);
  const bool test = (flags & DRM_MODE_ATOMIC_TEST_ONLY) != 0;
  const bool wants_flip = !test && flipped != nullptr && request.flip().object != 0;
  if (!test && (flags & DRM_MODE_ATOMIC_NONBLOCK) == 0)
    for (auto until = pendingUntil(~0u); until > Clock::now(); until = pendingUntil(~0u)) {
      lock.unlock();
      std::this_thread::sleep_until(until);
      lock.lock();
    }
  if (!master_) return refuse({EACCES, "this file is not master", false});
  if ((flags & ~kCommitFlags) != 0 || (test && (flags & DRM_MODE_PAGE_FLIP_EVENT)))
    return refuse({EINVAL, "flags of the commit", false});
  if ((flags & DRM_MODE_PAGE_FLIP_ASYNC) && !profile_.snapshot.async_flips)
    return refuse({EINVAL, "the device has no asynchronous flips", false});

  if ((flags & DRM_MODE_PAGE_FLIP_ASYNC) && no_async_ != 0)
    return refuse({no_async_, "the driver takes no asynchronous flip", false});

  std::vector<std::pair<Slot, uint64_t>> before;
  int rc = apply(request, &before);
  uint32_t crtcs = 0;
  bool open = false;
  if (rc == 0) {
    crtcs = concerned(request);
    const auto verdict = checkState(profile_, objects_, crtcs, (flags & DRM_MODE_ATOMIC_ALLOW_MODESET) != 0);
    open = verdict.open;
    if (verdict.error != 0) rc = refuse(verdict);
  }
  if (rc == 0 && (flags & DRM_MODE_PAGE_FLIP_ASYNC))
    for (const auto &[slot, value] : before)
      if (rc == 0 && slot.property->value != value && *slot.name != "FB_ID")
        rc = refuse({EINVAL, "an asynchronous flip changes " + *slot.name, false});
  if (rc == 0 && !test) rc = checkFlip(request, crtcs, flags, wants_flip);
  if (rc != 0 || test)
    for (auto it = before.rbegin(); it != before.rend(); ++it) it->first.property->value = it->second;
  if (rc != 0) return rc;
  counters_.open_tests += test && open;
  ++(test ? counters_.tests : counters_.commits);
  if (test) return 0;
  counters_.async_flips += (flags & DRM_MODE_PAGE_FLIP_ASYNC) != 0;
  settle(crtcs);
  if (wants_flip) *flipped = startFlip(crtcIndex(request.flip().object), flags);
  return 0;
}

int64_t ProfileDevice::flipTime(int flipped) const {
  const std::lock_guard lock(mutex_);
  const auto it = flip_times_.find(flipped);
  return it == flip_times_.end() ? -EINVAL : it->second;
}

int ProfileDevice::signalledFence() { return signalled_.get(); }

int ProfileDevice::createDumb(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory) {
  const std::lock_guard lock(mutex_);
  return profile_.snapshot.dumb_buffers ? memory_.create(width, height, bits, memory) : ENOSYS;
}

void ProfileDevice::destroyDumb(uint32_t handle) { closeHandle(handle); }

int ProfileDevice::mapDumb(const DumbMemory &memory, void **data) {
  const std::lock_guard lock(mutex_);
  return memory_.map(memory, data);
}

int ProfileDevice::exportDumb(uint32_t handle, UniqueFd *dmabuf) {
  const std::lock_guard lock(mutex_);
  return memory_.exportMemory(handle, dmabuf);
}

Status ProfileDevice::enter() { return Nothing{}; }

void ProfileDevice::leave() {}

bool ProfileDevice::regainMaster() {
  const std::lock_guard lock(mutex_);
  return master_;
}

std::shared_ptr<void> ProfileDevice::watchOutputs(std::function<void()> changed) {
  const std::lock_guard lock(watchers_mutex_);
  const unsigned id = next_watcher_++;
  watchers_.emplace(id, std::move(changed));
  return {nullptr, [this, id](void *) {
            const std::lock_guard guard(watchers_mutex_);
            watchers_.erase(id);
          }};
}

ProfileDevice::Counters ProfileDevice::counters() const {
  const std::lock_guard lock(mutex_);
  Counters result = counters_;
  result.live_framebuffers = objects_.framebuffers.size();
  result.live_blobs = objects_.blobs.size();
  result.live_handles = memory_.handles();
  return result;
}

std::string ProfileDevice::lastRefusal() const {
  const std::lock_guard lock(mutex_);
  return last_refusal_;
}

void ProfileDevice::setConnection(const std::string &connector, drmModeConnection status) {
  {
    const std::lock_guard lock(mutex_);
    for (KmsConnector &c : profile_.snapshot.connectors)
      if (c.name == connector) c.status = status;
  }
  const std::lock_guard lock(watchers_mutex_);
  for (const auto &[id, changed] : watchers_) changed();
}

void ProfileDevice::refuseAsyncFlips(int error) {
  const std::lock_guard lock(mutex_);
  no_async_ = error;
}

void ProfileDevice::setMaster(bool master) {
  const std::lock_guard lock(mutex_);
  master_ = master;
}

} // namespace gstzc
