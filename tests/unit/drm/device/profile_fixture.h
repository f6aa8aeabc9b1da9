// SPDX-License-Identifier: LGPL-2.1-or-later
// Devices that exist only as profiles, and frames for them.
#pragma once

#include <chrono>
#include <memory>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#include "gst/drm/device/profile_device.h"
#include "gst/drm/framebuffer.h"
#include "gst/drm/screen_state.h"
#include "tests/unit/drm/snapshots.h"

namespace gstzc::testdata {

inline DeviceProfile profileOf(KmsSnapshot snapshot) {
  DeviceProfile profile;
  profile.snapshot = std::move(snapshot);
  profile.device = "invented";
  return profile;
}

inline UniqueFd memory(size_t bytes) {
  UniqueFd fd(memfd_create("frame", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

// A device with its snapshot, and shortcuts of what a commit is made of.
class ProfileTest : public testing::Test {
protected:
  explicit ProfileTest(DeviceProfile profile = profileOf(desk())) { use(std::move(profile)); }

  void use(DeviceProfile profile) {
    device_ = ProfileDevice::create(std::move(profile));
    snapshot_ = device_->snapshot().take();
  }

  KmsPlane plane(uint32_t id) const {
    for (const KmsPlane &p : snapshot_.planes)
      if (p.id == id) return p;
    ADD_FAILURE() << "no plane " << id;
    return snapshot_.planes[0];
  }

  // 0 where it is refused; then `error_` has the errno
  uint32_t framebuffer(const DrmFormat &format, uint32_t width, uint32_t height, unsigned planes = 1) {
    const UniqueFd fd = memory(size_t{width} * height * 8 + 4096);
    FramebufferRequest r;
    r.width = width;
    r.height = height;
    r.fourcc = format.fourcc;
    r.modifier = format.modifier;
    r.n_planes = planes;
    for (unsigned p = 0; p < planes; ++p) {
      EXPECT_EQ(device_->importHandle(fd.get(), &r.handles[p]), 0);
      r.pitches[p] = width * 4;
      r.offsets[p] = p * width * height * 4;
    }
    uint32_t id = 0;
    error_ = device_->addFramebuffer(r, &id);
    device_->closeHandle(r.handles[0]);
    return error_ == 0 ? id : 0;
  }

  void output(AtomicRequest &request, const drmModeModeInfo &mode) {
    uint32_t blob = 0;
    EXPECT_EQ(device_->createBlob(&mode, sizeof mode, &blob), 0);
    const KmsConnector &c = snapshot_.connectors[0];
    const KmsCrtc &crtc = snapshot_.crtcs[0];
    request.set(c.id, c.properties, "CRTC_ID", crtc.id);
    request.set(crtc.id, crtc.properties, "MODE_ID", blob);
    request.set(crtc.id, crtc.properties, "ACTIVE", 1);
  }

  void show(AtomicRequest &request, const KmsPlane &p, uint32_t fb, const Rect &source, const Rect &target) {
    const auto set = [&](const char *name, uint64_t value) { request.set(p.id, p.properties, name, value); };
    set("FB_ID", fb);
    set("CRTC_ID", fb != 0 ? snapshot_.crtcs[0].id : 0);
    set("SRC_X", static_cast<uint64_t>(source.x) << 16);
    set("SRC_Y", static_cast<uint64_t>(source.y) << 16);
    set("SRC_W", static_cast<uint64_t>(source.width) << 16);
    set("SRC_H", static_cast<uint64_t>(source.height) << 16);
    set("CRTC_X", static_cast<uint64_t>(target.x));
    set("CRTC_Y", static_cast<uint64_t>(target.y));
    set("CRTC_W", static_cast<uint64_t>(target.width));
    set("CRTC_H", static_cast<uint64_t>(target.height));
  }

  int test(const AtomicRequest &request, uint32_t flags = DRM_MODE_ATOMIC_ALLOW_MODESET) {
    return device_->commit(request, DRM_MODE_ATOMIC_TEST_ONLY | flags, nullptr);
  }

  // Output and primary plane on, 640x480.
  void switchOn() {
    AtomicRequest request;
    output(request, listed(640, 480));
    const Rect all{0, 0, 640, 480};
    show(request, plane(50), framebuffer(kXr24, 640, 480), all, all);
    ASSERT_EQ(device_->commit(request, DRM_MODE_ATOMIC_ALLOW_MODESET, nullptr), 0) << device_->lastRefusal();
  }

  std::shared_ptr<ProfileDevice> device_;
  KmsSnapshot snapshot_;
  int error_ = 0;
};

inline bool readable(int fd, std::chrono::milliseconds limit) {
  pollfd p{fd, POLLIN, 0};
  return poll(&p, 1, static_cast<int>(limit.count())) == 1;
}

} // namespace gstzc::testdata
