// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport where there are two devices: which one it uses, and what it says where its neighbours use another.
#include "tests/elements/cuda/import_pipeline.h"

#include <cstdlib>

using namespace gstzc;
using namespace gstzc::test;

namespace {

const int g_two_devices = setenv("SOFTCUDA_DEVICES", "2", 0); // before the stand-in is loaded

class ImportDevices : public CudaImport {
protected:
  // Plays a frame in a pipeline that was given the context of a device; the warnings that came.
  std::string play(const std::string &properties, guint given) {
    GstCudaContext *context = gst_cuda_context_new(given);
    EXPECT_NE(context, nullptr) << g_two_devices;
    if (context == nullptr) return "";
    start(sourceLine(kSmall, properties) + " ! appsink name=sink sync=false", context);
    push(frames.buffer(kSmall, Picture(infoOf(kSmall))));
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    if (sample != nullptr) {
      GstMemory *memory = gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0);
      g_object_get(GST_CUDA_MEMORY_CAST(memory)->context, "cuda-device-id", &used_, nullptr);
      gst_sample_unref(sample);
    }
    const std::string said = message(GST_MESSAGE_WARNING);
    pipeline.reset();
    gst_object_unref(context);
    return said;
  }
  guint used_ = 99;
};

TEST_F(ImportDevices, ThePipelinesIsUsedWhereNoneIsNamed) {
  for (guint device : {0u, 1u}) {
    EXPECT_EQ(play("", device), "");
    EXPECT_EQ(used_, device);
  }
}

TEST_F(ImportDevices, OneThatIsNamedIsUsed) {
  EXPECT_EQ(play("cuda-device-id=1", 1), "");
  EXPECT_EQ(used_, 1u);
}

TEST_F(ImportDevices, AnotherThanThePipelinesIsUsedAndSaid) {
  const std::string said = play("cuda-device-id=1", 0);
  EXPECT_EQ(used_, 1u);
  EXPECT_NE(said.find("context is on device 0, and cuda-device-id=1"), std::string::npos) << said;
  EXPECT_NE(said.find("Set the same cuda-device-id"), std::string::npos) << said;
}

// Nobody has asked for the context that this element has: what downstream offers a pool of tells its device.
TEST_F(ImportDevices, AnotherThanThatOfWhoComesBehindIsSaid) {
  if (!has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  for (const char *between : {"", "queue ! "}) {
    GstCudaContext *context = gst_cuda_context_new(0);
    start(sourceLine(kSmall) + " ! " + between + "cudadownload cuda-device-id=1 ! video/x-raw ! fakesink", context);
    gst_object_unref(context);
    for (unsigned i = 0; i < 3; ++i) push(frames.buffer(kSmall, Picture(infoOf(kSmall), i), i));
    end();
    const std::string said = message(GST_MESSAGE_WARNING, 20 * GST_SECOND);
    EXPECT_NE(said.find("memory of CUDA device 0, and who comes behind works on device 1"), std::string::npos) << said;
    EXPECT_NE(said.find("Set the same cuda-device-id"), std::string::npos) << said;
    EXPECT_EQ(pipeline->waitEnd(), "");
    EXPECT_EQ(message(GST_MESSAGE_WARNING), "") << "once";
    pipeline.reset();
  }
}

TEST_F(ImportDevices, TheSameAsThatOfWhoComesBehindIsNoMatter) {
  if (!has("cudadownload")) GTEST_SKIP() << "no element cudadownload: plugin nvcodec found no libnvcuvid";
  start(sourceLine(kSmall, "cuda-device-id=1") + " ! cudadownload cuda-device-id=1 ! video/x-raw ! fakesink");
  push(frames.buffer(kSmall, Picture(infoOf(kSmall))));
  end();
  EXPECT_EQ(pipeline->waitEnd(), "");
  EXPECT_EQ(message(GST_MESSAGE_WARNING), "");
}

} // namespace
