// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/unused_settings.h"

#include <gtest/gtest.h>

using namespace gstzc;

TEST(UnusedSettings, AreThoseThatAnotherOneReplaces) {
  const auto of = [](const char *device, const char *profile, int fd) {
    OpenRequest request;
    request.path = device;
    request.profile = profile;
    request.fd = fd;
    return unusedSettings(request);
  };
  EXPECT_EQ(of("", "", -1), "");
  EXPECT_EQ(of("/dev/dri/card1", "", -1), "");
  EXPECT_EQ(of("", "a.json", -1), "");
  EXPECT_EQ(of("", "", 0), "");
  EXPECT_EQ(of("/dev/dri/card1", "a.json", -1), "device=/dev/dri/card1 is not used: device-profile= is set");
  EXPECT_EQ(of("", "a.json", 5), "fd=5 is not used: device-profile= is set");
  EXPECT_EQ(of("/dev/dri/card1", "", 5), "device=/dev/dri/card1 is not used: fd= is set");
  EXPECT_EQ(of("/dev/dri/card1", "a.json", 0), "fd=0 and device=/dev/dri/card1 are not used: device-profile= is set");
}
