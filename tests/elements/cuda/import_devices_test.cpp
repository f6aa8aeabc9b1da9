// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport where there are two devices: which one it uses, and what it says where its neighbours use another.
#include "tests/elements/cuda/import_pipeline.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/elements/cuda/device_frames.h"

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

// Who reads on another device lets go of a frame before he has read it, too. The memory of stock elements comes from
// pools that outlive their readers; ours has to be kept.
class ReadersElsewhere : public ImportDevices, public testing::WithParamInterface<unsigned> {
protected:
  void SetUp() override {
    ImportDevices::SetUp();
    for (const char *element : {"cudadownload", "cudaconvertscale"})
      if (!IsSkipped() && !has(element))
        GTEST_SKIP() << "no element " << element << ": plugin nvcodec, or NVRTC, is not there";
  }
  static std::string converter(int device) {
    return "cudaconvertscale cuda-device-id=" + std::to_string(device) +
           " ! video/x-raw(memory:CUDAMemory),format=RGBA,width=320,height=240 ! ";
  }
  // What a chain makes of each frame where all is on one device.
  std::vector<std::vector<guint8>> pictures(const std::string &line) {
    std::vector<std::vector<guint8>> all;
    start(line);
    while (GstSample *sample = pipeline->pull()) {
      all.push_back(pixels(sample));
      gst_sample_unref(sample);
    }
    EXPECT_EQ(pipeline->waitEnd(), "") << line;
    pipeline.reset();
    return all;
  }
  static std::string source(int device) {
    return "videotestsrc num-buffers=6 horizontal-speed=37 ! video/x-raw,format=NV12,width=640,height=480 ! "
           "dmabufupload memory=memfd ! dmabufcudaimport name=up cuda-device-id=" +
           std::to_string(device) + " ! ";
  }
};

INSTANTIATE_TEST_SUITE_P(, ReadersElsewhere, testing::Values(0u, 2000u),
                         [](const auto &test) { return test.param != 0 ? "Slow" : "Quick"; });

TEST_P(ReadersElsewhere, AreWaitedFor) {
  const std::string down = "cudadownload ! video/x-raw ! appsink sync=false name=sink";
  const auto want = pictures(source(0) + converter(0) + down);
  ASSERT_EQ(want.size(), 6u);
  SoftCuda::get().setDelay(GetParam());
  for (const std::string &way :
       {converter(0), "queue ! " + converter(0), "identity ! queue ! identity ! " + converter(0),
        "tee name=t t. ! queue ! " + converter(1) + "fakesink t. ! queue ! " + converter(0),
        "tee name=t t. ! queue ! " + converter(0) + "fakesink t. ! queue ! " + converter(0)}) {
    SCOPED_TRACE(way);
    ASSERT_TRUE(pictures(source(1) + way + down) == want) << "other pixels"; // of a lost device nothing comes
    ASSERT_EQ(SoftCuda::get().misuses(), 0u) << SoftCuda::get().misuseList();
  }
}

TEST_P(ReadersElsewhere, WhoseResultsNobodyTakes) {
  SoftCuda::get().setDelay(GetParam());
  for (const std::string way : {"", "queue ! ", "tee name=t t. ! queue ! fakesink t. ! queue ! "}) {
    SCOPED_TRACE(way);
    start(source(1) + way + converter(0) + "fakesink");
    ASSERT_EQ(pipeline->waitEnd(), "");
    ASSERT_EQ(SoftCuda::get().misuses(), 0u) << SoftCuda::get().misuseList();
    pipeline.reset();
  }
}

} // namespace
