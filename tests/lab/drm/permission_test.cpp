// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs as an ordinary user without rights on /dev/dri.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/lab/drm/player.h"

using namespace gstzc::lab;

namespace {

TEST(Permission, ErrorNamesTheNodeAndTheGroup) {
  ASSERT_NE(geteuid(), 0u);
  Player player("videotestsrc num-buffers=5 ! drmmodifiersink name=sink device=/dev/dri/card0");
  ASSERT_TRUE(player.play());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  for (const char *part : {"/dev/dri/card0", "Permission denied (13)", "Only root"})
    EXPECT_NE(player.errors().find(part), std::string::npos) << player.errors();
}

TEST(Permission, OfAllCardsTogether) {
  Player player("videotestsrc num-buffers=5 ! drmmodifiersink name=sink");
  ASSERT_TRUE(player.play());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  for (const char *part :
       {"no usable display", "/dev/dri/card0", "/dev/dri/card1", "Permission denied (13)", "Only root"})
    EXPECT_NE(player.errors().find(part), std::string::npos) << player.errors();
}

} // namespace
