// SPDX-License-Identifier: LGPL-2.1-or-later
// That some test would notice if cudadmabufexport forgot to wait for those who do not know of fences: a build of the
// plugin in which the wait can be left out.
#include "tests/elements/cuda/export_pipeline.h"

#include <cstdlib>

using namespace gstzc;
using namespace gstzc::test;

namespace {

class ExportMutations : public CudaExport {
protected:
  void TearDown() override {
    unsetenv("GSTZC_SKIP_WAIT");
    CudaExport::TearDown();
  }

  // Whether a frame that the device still writes comes only when it is written; it is looked for for so long.
  bool waits(GstClockTime patience) {
    SoftCuda::get().setProfile("dgpu");
    const DeviceFrames device;
    const GstVideoInfo info = plainInfo(kFrame);
    start(framesSource("fence-timeout=60000"));
    GstBuffer *first = device.frame(info, Picture(info, 1)); // its content is compared
    GstMemory *memory = gst_memory_ref(gst_buffer_peek_memory(first, 0));
    push(first);
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    gst_clear_sample(&sample);

    GstBuffer *frame = DeviceFrames::frameIn(memory, 1);
    bool early = false;
    {
      const StreamBlock writer(device);
      GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
      push(frame);
      sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), patience);
      early = sample != nullptr;
    }
    if (sample == nullptr) sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    gst_clear_sample(&sample);
    pipeline.reset();
    gst_memory_unref(memory);
    return !early;
  }
};

TEST_F(ExportMutations, NothingIsLeftOut) { EXPECT_TRUE(waits(100 * GST_MSECOND)); }

TEST_F(ExportMutations, TheWaitOfTheHostIsNoticed) {
  setenv("GSTZC_SKIP_WAIT", "export-host", 1);
  EXPECT_FALSE(waits(30 * GST_SECOND));
}

} // namespace
