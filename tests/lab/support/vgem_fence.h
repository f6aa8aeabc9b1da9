// SPDX-License-Identifier: LGPL-2.1-or-later
// A dma-buf with a producer or reader that a test plays: vgem's fences.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

// Memory of the vgem card, exported. Fences go with it: what is pending then signals.
class VgemBuffer {
public:
  // At least `size` bytes. Each buffer has a file of the card of its own.
  static Result<VgemBuffer> create(size_t size);

  int dmabuf() const { return dmabuf_.get(); } // borrowed

  // Begins a read or a write by a device, until signal() or for 10 s: then the driver lets the fence signal, without an
  // error. Errors: EBUSY while a conflicting access is pending.
  Result<uint32_t> attach(Access access);
  // Errors: ENOENT for a fence that is not pending; ETIMEDOUT for one that came too late.
  Status signal(uint32_t fence);

private:
  VgemBuffer(UniqueFd card, uint32_t handle, UniqueFd dmabuf)
      : card_(std::move(card)), handle_(handle), dmabuf_(std::move(dmabuf)) {}
  UniqueFd card_;
  uint32_t handle_ = 0; // goes with the card's file
  UniqueFd dmabuf_;
};

} // namespace gstzc::lab
