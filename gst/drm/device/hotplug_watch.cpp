// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/device/hotplug_watch.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include <linux/netlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace gstzc {

bool isHotplug(std::string_view event, dev_t device) {
  const std::string major_of = "MAJOR=" + std::to_string(major(device)),
                    minor_of = "MINOR=" + std::to_string(minor(device));
  bool drm = false, hotplug = false, same_major = false, same_minor = false;
  while (!event.empty()) {
    const size_t end = std::min(event.find('\0'), event.size());
    const std::string_view entry = event.substr(0, end);
    drm |= entry == "SUBSYSTEM=drm";
    hotplug |= entry == "HOTPLUG=1";
    same_major |= entry == major_of;
    same_minor |= entry == minor_of;
    event.remove_prefix(std::min(end + 1, event.size()));
  }
  return drm && hotplug && same_major && same_minor;
}

std::shared_ptr<HotplugWatch> HotplugWatch::start(dev_t device, std::function<void()> changed) {
  std::shared_ptr<HotplugWatch> watch(new HotplugWatch);
  watch->device_ = device;
  watch->changed_ = std::move(changed);
  watch->socket_ = UniqueFd(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  watch->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = 1; // the kernel's, not what udev makes of it
  if (!watch->socket_.isValid() || !watch->stop_.isValid() ||
      bind(watch->socket_.get(), reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
    return nullptr;
  watch->thread_ = std::thread([raw = watch.get()] { raw->run(); });
  return watch;
}

HotplugWatch::~HotplugWatch() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void HotplugWatch::run() {
  char buffer[8192]; // the kernel's events have 2048 bytes of variables at most
  while (true) {
    pollfd fds[2] = {{socket_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    poll(fds, 2, -1);
    if (fds[1].revents != 0) return;
    bool found = false;
    while (true) {
      sockaddr_nl from = {};
      socklen_t length = sizeof from;
      const ssize_t n = recvfrom(socket_.get(), buffer, sizeof buffer, 0, reinterpret_cast<sockaddr *>(&from), &length);
      if (n < 0 && errno == ENOBUFS) found = true; // events were lost: look
      if (n <= 0) break;
      if (from.nl_pid != 0) continue; // not from the kernel
      found |= isHotplug({buffer, static_cast<size_t>(n)}, device_);
    }
    if (found) changed_();
  }
}

} // namespace gstzc
