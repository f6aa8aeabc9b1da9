// SPDX-License-Identifier: LGPL-2.1-or-later
// What the kernel says of display devices whose outputs change.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include <sys/types.h>

#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc {

// Whether an event of the kernel ("change@/devices/…" and KEY=VALUE, each with a final 0) tells of a change of outputs
// of the device with that number.
bool isHotplug(std::string_view event, dev_t device);

// Listens to the kernel's own events, so that it needs no udev; a thread of its own, since it asks nobody to poll.
class HotplugWatch {
public:
  // Null where the kernel's events cannot be had (some sandboxes).
  static std::shared_ptr<HotplugWatch> start(dev_t device, std::function<void()> changed);
  ~HotplugWatch();
  HotplugWatch(const HotplugWatch &) = delete;
  HotplugWatch &operator=(const HotplugWatch &) = delete;

private:
  HotplugWatch() = default;
  void run();

  dev_t device_ = 0;
  std::function<void()> changed_;
  UniqueFd socket_, stop_;
  std::thread thread_;
};

} // namespace gstzc
