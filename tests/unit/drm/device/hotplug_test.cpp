// SPDX-License-Identifier: LGPL-2.1-or-later
#include <string>

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include "gst/drm/device/hotplug_watch.h"

using gstzc::isHotplug;

namespace {

std::string event(const char *subsystem, const char *hotplug, const char *major, const char *minor) {
  std::string text = "change@/devices/faux/vkms/drm/card1";
  for (const std::string entry : {"ACTION=change", "DEVNAME=dri/card1", subsystem, hotplug, major, minor})
    text += std::string(1, '\0') + entry;
  return text + '\0';
}

TEST(Hotplug, IsOfThisDevice) {
  const dev_t card = makedev(226, 1);
  EXPECT_TRUE(isHotplug(event("SUBSYSTEM=drm", "HOTPLUG=1", "MAJOR=226", "MINOR=1"), card));
  EXPECT_FALSE(isHotplug(event("SUBSYSTEM=drm", "HOTPLUG=1", "MAJOR=226", "MINOR=10"), card));
  EXPECT_FALSE(isHotplug(event("SUBSYSTEM=drm", "HOTPLUG=1", "MAJOR=22", "MINOR=1"), card));
  EXPECT_FALSE(isHotplug(event("SUBSYSTEM=drm", "LEASE=1", "MAJOR=226", "MINOR=1"), card));
  EXPECT_FALSE(isHotplug(event("SUBSYSTEM=usb", "HOTPLUG=1", "MAJOR=226", "MINOR=1"), card));
  EXPECT_FALSE(isHotplug("", card));
  EXPECT_FALSE(isHotplug(std::string(3, '\0'), card));
}

TEST(Hotplug, StartsAndStops) {
  // where the kernel's events cannot be had there is none
  for (int i = 0; i < 3; ++i) (void)gstzc::HotplugWatch::start(makedev(226, 1), [] {});
}

} // namespace
