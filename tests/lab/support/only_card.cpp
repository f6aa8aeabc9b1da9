// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/only_card.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/lab/support/card.h"

namespace gstzc::lab {

Result<OnlyCard> OnlyCard::create(const std::string &driver) {
  auto path = cardPath(driver);
  if (!path) return path.error();
  struct stat node = {};
  if (stat(path->c_str(), &node) != 0) return Error{"stat " + *path, errno, ""};
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
  if (!before_.isValid()) return;
  // Threads that were started meanwhile (GLib keeps those of its pools for a while) share what the kernel calls our
  // file system view, and nobody who shares it may enter a namespace. Entering one makes its root ours, which is the
  // initramfs in the laboratory.
  if (unshare(CLONE_FS) != 0 || setns(before_.get(), CLONE_NEWNS) != 0 || fchdir(root_.get()) != 0 ||
      chroot(".") != 0) {
    std::fprintf(stderr, "the other displays stay hidden: %s\n", std::strerror(errno));
    std::abort(); // every test that follows would fail, and say something else
  }
}

} // namespace gstzc::lab
