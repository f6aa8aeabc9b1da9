// SPDX-License-Identifier: LGPL-2.1-or-later
// A descriptor that is given to a driver of which nobody knows whether it takes it.
#pragma once

#include <functional>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

// CUDA's documentation says that an opaque descriptor belongs to the driver once it was imported, and nothing of the
// kind about a dma-buf's. Closing one that the driver took would close whatever got its number since; not closing one
// that it left would lose a descriptor for each import. So the driver gets a duplicate, and when it has let go of the
// import we look: if the number still is that dma-buf, it is ours to close.
//
// The duplicate has a high number, which no open() of others gets while there are lower ones, and all that happens to
// such numbers is under one lock. Hence nobody can have been given the number between the driver's closing it and our
// looking.
class LentFd {
public:
  // Duplicates and calls give(); the number in it is the driver's, if that is ok.
  static Result<LentFd> lend(int fd, const std::function<Status(int)> &give);

  LentFd() = default;
  LentFd(LentFd &&other) noexcept;
  LentFd &operator=(LentFd &&) = delete;
  ~LentFd(); // as giveBack() with nothing to do

  // Calls let_go(), after which the driver does not use the descriptor any more, and closes it if it is still there.
  void giveBack(const std::function<void()> &let_go);

private:
  LentFd(int fd, const BufferId &id) : fd_(fd), id_(id) {}
  bool isStillThere() const;
  int fd_ = -1;
  BufferId id_;
};

} // namespace gstzc::cuda
