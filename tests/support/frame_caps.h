// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gst/gst.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/frame_layout.h"

namespace gstzc::test {

// Of caps written as text; fails the test where they are none.
inline FrameCaps frameCaps(const char *text) {
  GstCaps *caps = gst_caps_from_string(text);
  auto parsed = parseFrameCaps(caps);
  gst_clear_caps(&caps);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : FrameCaps{};
}

} // namespace gstzc::test
