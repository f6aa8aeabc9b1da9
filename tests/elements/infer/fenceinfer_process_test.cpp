// SPDX-License-Identifier: LGPL-2.1-or-later
// What elements leave behind in their process, and whose results are whose when many workers run.
#include "tests/elements/infer/fixture.h"

#include <fstream>

#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcinferencemeta.h"
#include "tests/elements/infer/pipeline.h"
#include "tests/support/open_fds.h"
#include "tests/support/scale.h"
#include "tests/support/small_models.h"
#include "tests/support/worker_threads.h"

namespace gstzc::test {
namespace {

constexpr const char *kCaps = "video/x-raw,format=RGB,width=16,height=16,framerate=30/1";
constexpr const char *kMeans = "decoder=none output=tensor-meta mean=0 scale=1 ";

class Process : public FenceInferTest {
protected:
  std::string means() { return save(colourClassifier({1, 3, 16, 16}), "means.onnx"); }
};

// Whatever was done with the pictures meanwhile, a frame has the numbers of its own picture and says so.
TEST_F(Process, AFramesResultsAreItsOwn) {
  for (const char *properties : {"workers=4 max-in-flight=8", "workers=1", "workers=3 inference-interval=1"}) {
    SCOPED_TRACE(properties);
    start(means(), kCaps, std::string(kMeans) + properties);
    const int count = rounds(200);
    int pulled = 0;
    const auto pull = [&] {
      GstBuffer *out = gst_harness_pull(harness_);
      ASSERT_NE(out, nullptr);
      GstTensorMeta *meta = gst_buffer_get_tensor_meta(out);
      ASSERT_NE(meta, nullptr);
      float mean = -1;
      gst_buffer_extract(gst_tensor_meta_get(meta, 0)->data, 0, &mean, sizeof mean);
      EXPECT_EQ(GST_BUFFER_PTS(out), pulled * GST_MSECOND);
      EXPECT_FLOAT_EQ(mean, static_cast<float>(pulled % 251));
      const GstZcInferenceMeta *inference = gst_buffer_get_zc_inference_meta(out, nullptr);
      ASSERT_NE(inference, nullptr);
      EXPECT_EQ(inference->timestamp, GST_BUFFER_PTS(out));
      EXPECT_EQ(inference->age, 0u);
      gst_buffer_unref(out);
      ++pulled;
    };
    for (int i = 0; i < count; ++i) {
      const auto value = static_cast<guint8>(i % 251);
      GstBuffer *in = solid("RGB", 16, 16, {value, value, value});
      GST_BUFFER_PTS(in) = i * GST_MSECOND;
      ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
      if (i >= 8) pull();
    }
    gst_harness_push_event(harness_, gst_event_new_eos());
    while (pulled < count && !HasFatalFailure()) pull();
    stop();
  }
}

// Pipelines that play, that fail to and that are stopped at once: no descriptor, thread or mapping of theirs stays.
TEST_F(Process, PipelinesComeAndGo) {
  std::ofstream(dir_.file("garbage.onnx")) << "no model";
  const std::string line = "videotestsrc num-buffers=3 ! " + std::string(kCaps) + " ! fenceinfer " + kMeans;
  const auto round = [&] {
    for (const char *properties : {"workers=2", "model-instance-id=one", "batch-timeout=5"}) {
      Pipeline first(line + "model-file=\"" + means() + "\" " + properties + " ! fakesink");
      Pipeline second(line + "model-file=\"" + means() + "\" " + properties + " ! fakesink");
      second.play(); // and is not waited for
      EXPECT_EQ(first.run(), "");
    }
    Pipeline failing(line + "model-file=\"" + dir_.file("garbage.onnx") + "\" ! fakesink");
    EXPECT_NE(failing.run(), "");
  };
  round(); // what the libraries open once
  const size_t fds = openFds();
  for (int i = 0; i < rounds(20); ++i) round();
  EXPECT_LE(settled(openFds, fds), fds);
  EXPECT_EQ(settled(workerCount, 0), 0u);
}

// Mappings of dma-bufs are kept for frames that come again, but not longer than the element that made them.
TEST_F(Process, MappingsGoWithTheElement) {
  const auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string text; std::getline(maps, text);) count += text.find("memfd:gstzc") != std::string::npos ? 1 : 0;
    return count;
  };
  GstAllocator *memfds = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  ASSERT_NE(memfds, nullptr);
  std::vector<GstBuffer *> buffers;
  for (int i = 0; i < 4; ++i) {
    buffers.push_back(gst_buffer_new());
    gst_buffer_append_memory(buffers.back(), gst_allocator_alloc(memfds, 16 * 16 * 3, nullptr));
  }
  gst_object_unref(memfds);
  const size_t before = mappings();
  start(means(), "video/x-raw(memory:DMABuf),format=RGB,width=16,height=16,framerate=30/1", kMeans);
  for (GstBuffer *buffer : buffers) {
    ASSERT_EQ(gst_harness_push(harness_, gst_buffer_ref(buffer)), GST_FLOW_OK);
    gst_buffer_unref(gst_harness_pull(harness_));
  }
  EXPECT_EQ(stat("mappings"), 4u);
  stop();
  EXPECT_EQ(mappings(), before);
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer);
}

} // namespace
} // namespace gstzc::test
