// SPDX-License-Identifier: LGPL-2.1-or-later
// A display device that exists only as a profile: takes what the described one would take, refuses the rest with the
// kernel's errno, flips at the mode's refresh, shows nothing, counts.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "gst/drm/device/profile_check.h"
#include "gst/drm/device/profile_memory.h"
#include "gst/drm/kms_device.h"
#include "gst/drm/profile/device_profile.h"

namespace gstzc {

class ProfileDevice : public KmsDevice {
public:
  struct Counters {
    uint64_t tests = 0, commits = 0; // taken ones
    uint64_t async_flips = 0;        // of the commits
    uint64_t framebuffers = 0;       // made
    uint64_t open_tests = 0;         // taken because the profile does not say otherwise
    uint64_t shown_removed = 0;      // framebuffers removed while a plane showed them: that plane went off
    uint64_t bad_closes = 0;         // of handles that were none
    std::map<int, uint64_t> refused; // by errno: tests, commits, framebuffers
    size_t live_framebuffers = 0, live_blobs = 0, live_handles = 0;
  };

  // Properties that every atomic driver has are added where the profile lacks them.
  static std::shared_ptr<ProfileDevice> create(DeviceProfile profile);

  Result<KmsSnapshot> snapshot(Outputs outputs = Outputs::Probe) const override;
  ForeignMemory foreignMemory() const override;
  UniqueFd openAgain() const override; // a memfd: no library of real devices takes it
  int addFramebuffer(const FramebufferRequest &request, uint32_t *id) override;
  void removeFramebuffer(uint32_t id) override;
  int importHandle(int dmabuf, uint32_t *handle) override;
  void closeHandle(uint32_t handle) override;
  int createBlob(const void *data, size_t size, uint32_t *id) override;
  void destroyBlob(uint32_t id) override;
  int commit(const AtomicRequest &request, uint32_t flags, UniqueFd *flipped) override;
  int64_t flipTime(int flipped) const override;
  int signalledFence() override;
  int createDumb(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory) override;
  void destroyDumb(uint32_t handle) override;
  int mapDumb(const DumbMemory &memory, void **data) override;
  int exportDumb(uint32_t handle, UniqueFd *dmabuf) override;
  Status enter() override;
  void leave() override;
  bool regainMaster() override;
  std::shared_ptr<void> watchOutputs(std::function<void()> changed) override;

  Counters counters() const;
  std::string lastRefusal() const;                          // why the last thing that was refused was
  const DeviceProfile &profile() const { return profile_; } // not while others commit

  // What happens to a device: a plug is pulled or put in, another process becomes master and gives it back.
  void setConnection(const std::string &connector, drmModeConnection status);
  void setMaster(bool master);
  void refuseAsyncFlips(int error); // errno; although the device says that it has them

private:
  using Clock = std::chrono::steady_clock; // CLOCK_MONOTONIC
  struct Slot {
    const std::string *name = nullptr;
    KmsProperty *property = nullptr;
  };
  struct Flip {
    Clock::time_point base, last; // when the CRTC went on; the last flip, which may be to come
    std::chrono::nanoseconds period{16'666'667};
  };

  explicit ProfileDevice(DeviceProfile profile);
  void index();
  int refuse(const ProfileVerdict &verdict);
  // With the lock held. The CRTCs concerned as bits.
  int apply(const AtomicRequest &request, std::vector<std::pair<Slot, uint64_t>> *before);
  uint32_t concerned(const AtomicRequest &request) const;
  int checkFlip(const AtomicRequest &request, uint32_t crtcs, uint32_t flags, bool wants_flip);
  void settle(uint32_t crtcs); // the snapshot's other members follow the properties
  UniqueFd startFlip(size_t crtc, uint32_t flags);
  bool isValue(uint32_t blob) const; // of any property
  // The end of the last flip that is pending on any of them; the past where none is.
  Clock::time_point pendingUntil(uint32_t crtcs) const;
  size_t crtcIndex(uint32_t id) const;

  DeviceProfile profile_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Slot> slots_; // by object and property
  ProfileObjects objects_;
  ProfileMemory memory_;
  std::set<uint32_t> destroyed_;      // blobs without an owner that are still some property's value
  std::vector<Flip> flips_;           // of each CRTC
  std::map<int, int64_t> flip_times_; // by descriptor
  Counters counters_;
  std::string last_refusal_;
  uint32_t next_id_ = 1;
  bool master_ = true;
  int no_async_ = 0;                    // errno
  std::recursive_mutex watchers_mutex_; // held while they are called
  std::map<unsigned, std::function<void()>> watchers_;
  unsigned next_watcher_ = 0;
  UniqueFd signalled_;
};

} // namespace gstzc
