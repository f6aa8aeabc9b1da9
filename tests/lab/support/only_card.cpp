// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/only_card.h"

#include <cerrno>

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "tests/lab/support/card.h"

namespace gstzc::lab {

namespace {

// A thread that is started in a namespace of ours shares it for as long as it lives, and nobody who shares one may go
// back: the poller's, which lives on, has to be there before.
void startPoller() {
  UniqueFd over(eventfd(1, EFD_CLOEXEC));
  (void)FencePoller::process().watch({Fence::Kind::Event, std::move(over), {}}, FencePoller::Clock::now(),
                                     [](const FenceResult &) {});
}

} // namespace

Result<OnlyCard> OnlyCard::create(const std::string &driver) {
  auto path = cardPath(driver);
  if (!path) return path.error();
  struct stat node = {};
  if (stat(path->c_str(), &node) != 0) return Error{"stat " + *path, errno, ""};
  startPoller();
  UniqueFd before(open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC));
  UniqueFd root(open("/", O_PATH | O_CLOEXEC));
  if (!before.isValid() || !root.isValid() || unshare(CLONE_NEWNS) != 0)
    return Error{"a mount namespace for one display", errno, ""};
  OnlyCard only(std::move(before), std::move(root));
  // mounts of the laboratory are private to their namespace: nobody else's /dev/dri changes
  if (mount("tmpfs", "/dev/dri", "tmpfs", 0, nullptr) != 0 || mknod(path->c_str(), node.st_mode, node.st_rdev) != 0)
    return Error{"hide the other displays in /dev/dri", errno, ""};
  return only;
}

OnlyCard::~OnlyCard() {
  // entering a namespace makes its root ours, which is the initramfs in the laboratory
  if (!before_.isValid() || setns(before_.get(), CLONE_NEWNS) != 0 || fchdir(root_.get()) != 0) return;
  [[maybe_unused]] const int rc = chroot(".");
}

} // namespace gstzc::lab
