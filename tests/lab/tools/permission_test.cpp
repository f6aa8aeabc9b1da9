// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs as an ordinary user without rights on /dev/dri.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tool.h"

namespace {

using namespace gstzc::inspect;

TEST(Permission, IsNamed) {
  ASSERT_NE(geteuid(), 0u);
  for (const char *command : {"caps", "record"}) {
    const Outcome one = runTool({command, "--device", "/dev/dri/card0"});
    EXPECT_EQ(one.exit, Exit::BadInput);
    for (const char *part : {"/dev/dri/card0", "Permission denied (13)", "Join the group"})
      EXPECT_NE(one.err.find(part), std::string::npos) << one.err;
    const Outcome any = runTool({command});
    EXPECT_EQ(any.exit, Exit::BadInput);
    for (const char *part : {"/dev/dri/card0", "/dev/dri/card1", "Permission denied", "--profile"})
      EXPECT_NE(any.err.find(part), std::string::npos) << any.err;
  }
}

} // namespace
