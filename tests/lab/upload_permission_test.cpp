// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufupload where the devices exist and this user may not open them. Runs as an ordinary user.
#include "tests/elements/upload/upload_pipeline.h"

#include <unistd.h>

using namespace gstzc::test;

namespace {

TEST(LabUploadPermission, TheErrorNamesNodeErrnoAndGroup) {
  ASSERT_NE(geteuid(), 0u);
  ASSERT_EQ(access("/dev/udmabuf", F_OK), 0);
  Pipeline p("videotestsrc num-buffers=3 ! dmabufupload name=up ! fakesink");
  const std::string error = p.run();
  EXPECT_EQ(p.errorSource(), "up");
  for (const char *part :
       {"/dev/udmabuf: Permission denied (13)", "/dev/dma_heap/system: Permission denied (13)", "group"})
    EXPECT_NE(error.find(part), std::string::npos) << part << " in " << error;
  EXPECT_EQ(error.find("modprobe"), std::string::npos) << "the driver is there: " << error;

  Pipeline named("videotestsrc ! dmabufupload name=up memory=udmabuf ! fakesink");
  EXPECT_EQ(named.setState(GST_STATE_PAUSED), GST_STATE_CHANGE_FAILURE);
  EXPECT_NE(named.waitEnd().find("Permission denied (13)"), std::string::npos);
  EXPECT_EQ(named.errorCode(), GST_RESOURCE_ERROR_NOT_AUTHORIZED);
}

} // namespace
