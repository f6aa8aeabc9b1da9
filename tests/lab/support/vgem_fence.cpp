// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/vgem_fence.h"

#include <cerrno>
#include <string>

#include <drm/vgem_drm.h>

#include "tests/lab/support/card.h"

namespace gstzc::lab {

Result<VgemBuffer> VgemBuffer::create(size_t size) {
  auto card = openCard("vgem");
  if (!card) return card.error();
  constexpr uint32_t kBytesPerLine = 4096; // 1024 pixels of 32 bit
  const auto lines = static_cast<uint32_t>((size + kBytesPerLine - 1) / kBytesPerLine);
  uint32_t handle = 0, stride = 0;
  uint64_t bytes = 0;
  if (int rc = drmModeCreateDumbBuffer(card->get(), kBytesPerLine / 4, lines, 32, 0, &handle, &stride, &bytes); rc != 0)
    return Error{"create a vgem buffer of " + std::to_string(size) + " bytes", -rc, ""};
  int dmabuf = -1;
  if (drmPrimeHandleToFD(card->get(), handle, DRM_CLOEXEC | DRM_RDWR, &dmabuf) != 0)
    return Error{"export a vgem buffer", errno, ""};
  return VgemBuffer(card.take(), handle, UniqueFd(dmabuf));
}

Result<uint32_t> VgemBuffer::attach(Access access) {
  drm_vgem_fence_attach request = {};
  request.handle = handle_;
  request.flags = access == Access::Read ? 0 : VGEM_FENCE_WRITE;
  if (drmIoctl(card_.get(), DRM_IOCTL_VGEM_FENCE_ATTACH, &request) != 0)
    return Error{"attach a fence to a vgem buffer", errno, ""};
  return request.out_fence;
}

Status VgemBuffer::signal(uint32_t fence) {
  drm_vgem_fence_signal request = {};
  request.fence = fence;
  if (drmIoctl(card_.get(), DRM_IOCTL_VGEM_FENCE_SIGNAL, &request) != 0)
    return Error{"signal the vgem fence " + std::to_string(fence), errno, ""};
  return Nothing{};
}

} // namespace gstzc::lab
