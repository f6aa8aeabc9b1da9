// SPDX-License-Identifier: LGPL-2.1-or-later
// That some test would notice if the element forgot a wait: a build of the plugin in which each can be left out.
#include "tests/elements/cuda/import_pipeline.h"

#include <cstdlib>

#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/fence_events.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

class ImportMutations : public CudaImport, public testing::WithParamInterface<const char *> {
protected:
  void TearDown() override {
    unsetenv("GSTZC_SKIP_WAIT");
    CudaImport::TearDown();
  }

  // Whether a frame whose producer is not done is one, for those who know of fences and for those who do not.
  bool waits() {
    start(sourceLine(kTelling, "fence-timeout=60000") + " ! appsink name=sink sync=false async=false");
    warmUp();
    EventSource producer;
    GstBuffer *frame = Frames::buffer(kTelling, frames.memory(infoOf(kTelling).size));
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(producer.fd()).release(), nullptr);
    gst_buffer_add_zc_event_meta(frame, event, 0);
    gst_zc_device_event_unref(event);
    push(frame);
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    if (sample == nullptr) return false;
    GstBuffer *buffer = gst_sample_get_buffer(sample);
    const bool early = gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 500 * GST_MSECOND, nullptr);
    const bool marked = GST_MEMORY_FLAG_IS_SET(gst_buffer_peek_memory(buffer, 0), GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    producer.signal();
    gst_sample_unref(sample);
    return !early && marked;
  }
};

TEST_F(ImportMutations, NothingIsLeftOut) { EXPECT_TRUE(waits()); }

TEST_P(ImportMutations, AreNoticed) {
  setenv("GSTZC_SKIP_WAIT", GetParam(), 1);
  EXPECT_FALSE(waits());
}

INSTANTIATE_TEST_SUITE_P(, ImportMutations,
                         testing::Values("import-fences", "import-need-sync", "word-gate-wait", "gate-to-work"),
                         [](const auto &test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

} // namespace
