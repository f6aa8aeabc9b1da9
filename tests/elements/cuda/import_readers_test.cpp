// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport before elements that read on streams of their own, and let go of a frame before they have read it.
#include "tests/elements/cuda/import_pipeline.h"

#include <atomic>
#include <functional>
#include <vector>

#include <cuda.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/elements/cuda/device_frames.h"
#include "tests/support/fence_events.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr int kFrames = 10;
// each frame differs from the one before it
const std::string kSource = "videotestsrc num-buffers=" + std::to_string(kFrames) +
                            " horizontal-speed=37 ! video/x-raw,format=NV12,width=640,height=480,framerate=25/1 ! ";
const std::string kUp = "cudaupload ! video/x-raw(memory:CUDAMemory) ! ";
const std::string kImported = "dmabufupload memory=memfd ! dmabufcudaimport name=up ! ";
const std::string kSmallRgba = "video/x-raw(memory:CUDAMemory),format=RGBA,width=320,height=240";
const std::string kSmallI420 = "video/x-raw(memory:CUDAMemory),format=I420,width=160,height=120";
const std::string kDown = " ! cudadownload ! video/x-raw ! ";

std::string sink(const char *name) { return std::string("appsink sync=false name=") + name + " "; }

class ImportReaders : public CudaImport, public testing::WithParamInterface<unsigned> {
protected:
  void SetUp() override {
    CudaImport::SetUp();
    for (const char *element : {"cudadownload", "cudaconvertscale"})
      if (!IsSkipped() && !has(element))
        GTEST_SKIP() << "no element " << element << ": plugin nvcodec, or NVRTC, is not there";
  }
  using Pictures = std::vector<std::vector<guint8>>;
  Pictures pictures(Pipeline &of, const char *name = "sink") {
    Pictures all;
    while (GstSample *sample = of.pull(name)) {
      all.push_back(pixels(sample));
      gst_sample_unref(sample);
    }
    return all;
  }
  // What a chain of elements makes of frames that it shares with nobody.
  Pictures expected(const std::string &chain) {
    SoftCuda::get().setDelay(0);
    Pipeline reference(kSource + kUp + chain + kDown + sink("sink"));
    reference.setState(GST_STATE_PLAYING);
    return pictures(reference);
  }
  void startSlowly(const std::string &line) {
    SoftCuda::get().setDelay(GetParam());
    start(line);
  }
  void expectEnd() {
    EXPECT_EQ(pipeline->waitEnd(), "");
    EXPECT_EQ(pipeline->stat("copies"), 0u) << chosenRoute();
  }
};

INSTANTIATE_TEST_SUITE_P(, ImportReaders, testing::Values(0u, 2000u),
                         [](const auto &test) { return test.param != 0 ? "Slow" : "Quick"; });

TEST_P(ImportReaders, GStreamersConverters) {
  const std::string small = "video/x-raw(memory:CUDAMemory),width=320,height=240";
  const std::string rgba = "video/x-raw(memory:CUDAMemory),format=RGBA";
  for (const std::string &chain :
       {"cudaconvertscale ! " + kSmallRgba, "cudascale ! " + small, "cudaconvert ! " + rgba,
        "queue ! cudaconvertscale ! " + kSmallRgba, "queue ! cudascale ! " + small + " ! queue ! cudaconvert ! " + rgba,
        "identity ! cudaconvertscale ! " + kSmallRgba}) {
    SCOPED_TRACE(chain);
    const Pictures want = expected(chain);
    startSlowly(kSource + kImported + chain + kDown + sink("sink"));
    const Pictures have = pictures(*pipeline);
    EXPECT_EQ(have.size(), static_cast<size_t>(kFrames)) << message(GST_MESSAGE_ERROR);
    EXPECT_TRUE(have == want) << "other pixels";
    expectEnd();
    pipeline.reset();
  }
}

// Frames that nobody waits for at the end of the pipeline
TEST_P(ImportReaders, WhoLeavesTheirResultsBehind) {
  startSlowly(kSource + kImported + "cudaconvertscale ! " + kSmallRgba + " ! fakesink");
  expectEnd();
}

TEST_P(ImportReaders, TwoConvertersBehindATee) {
  const std::string one = "cudaconvertscale ! " + kSmallRgba, other = "cudaconvertscale ! " + kSmallI420;
  const Pictures want_one = expected(one), want_other = expected(other);
  startSlowly(kSource + kImported + "tee name=t t. ! queue ! " + one + kDown + sink("one") + "t. ! queue ! " + other +
              kDown + sink("other") + "t. ! queue ! fakesink");
  // by turns: what waits in an appsink keeps no frame of ours
  const Pictures have_one = pictures(*pipeline, "one"), have_other = pictures(*pipeline, "other");
  EXPECT_TRUE(have_one == want_one) << have_one.size() << " pictures" << message(GST_MESSAGE_ERROR);
  EXPECT_TRUE(have_other == want_other) << have_other.size() << " pictures" << message(GST_MESSAGE_ERROR);
  expectEnd();
}

TEST_P(ImportReaders, AConverterBesideTheWayBack) {
  startSlowly(kSource + kImported + "tee name=t t. ! queue ! cudaconvertscale ! " + kSmallRgba +
              " ! fakesink t. ! queue ! cudadmabufexport name=back ! video/x-raw(memory:DMABuf) ! " + sink("sink"));
  Pipeline reference(kSource + sink("sink"));
  reference.setState(GST_STATE_PLAYING);
  EXPECT_TRUE(pictures(*pipeline) == pictures(reference)) << message(GST_MESSAGE_ERROR);
  EXPECT_EQ(pipeline->stat("originals", "back"), static_cast<guint64>(kFrames));
  expectEnd();
}

TEST_P(ImportReaders, TheWayBackBehindAConverter) {
  if (!SoftCuda::get().there()) GTEST_SKIP() << "the CPU cannot look into the memory of many devices";
  for (const std::string &caps : {kSmallRgba, kSmallI420}) {
    SCOPED_TRACE(caps);
    const Pictures want = expected("cudaconvertscale ! " + caps);
    startSlowly(kSource + kImported + "cudaconvertscale ! " + caps +
                " ! cudadmabufexport name=back route=address-range ! video/x-raw(memory:DMABuf) ! " + sink("sink"));
    const Pictures have = pictures(*pipeline);
    const std::string error = pipeline->waitEnd();
    if (error.find("attribute 124") != std::string::npos) GTEST_SKIP() << error;
    EXPECT_EQ(error, "");
    EXPECT_TRUE(have == want) << have.size() << " pictures";
    pipeline.reset();
  }
}

// The converter has nothing to do: what comes back is the dma-buf
TEST_P(ImportReaders, TheWayBackBehindAConverterThatPassesFramesOn) {
  startSlowly(kSource + kImported + "cudaconvertscale ! cudadmabufexport name=back ! video/x-raw(memory:DMABuf) ! " +
              sink("sink"));
  Pipeline reference(kSource + sink("sink"));
  reference.setState(GST_STATE_PLAYING);
  EXPECT_TRUE(pictures(*pipeline) == pictures(reference)) << message(GST_MESSAGE_ERROR);
  EXPECT_EQ(pipeline->stat("originals", "back"), static_cast<guint64>(kFrames));
  expectEnd();
}

TEST_P(ImportReaders, OfFramesThatWereCopiedUp) {
  const std::string chain = "cudaconvertscale ! " + kSmallRgba;
  const Pictures want = expected(chain);
  for (const std::string &way :
       {chain + kDown + sink("sink"),
        "tee name=t t. ! queue ! " + chain + kDown + sink("sink") + "t. ! queue ! " + chain + " ! fakesink"}) {
    SCOPED_TRACE(way);
    startSlowly(kSource + "dmabufcudaimport name=up allow-copy=true ! " + way);
    EXPECT_TRUE(pictures(*pipeline) == want) << message(GST_MESSAGE_ERROR);
    EXPECT_EQ(pipeline->waitEnd(), "");
    pipeline.reset();
  }
}

// A downstream that offers a pool, as GStreamer's elements do, and reads on `reads`.
class ReadersStream : public CudaImport {
protected:
  void SetUp() override {
    CudaImport::SetUp();
    if (IsSkipped()) return;
    context_ = gst_cuda_context_new(0);
    offered_ = gst_cuda_stream_new(context_);
    other_ = gst_cuda_stream_new(context_);
  }
  void TearDown() override {
    pipeline.reset();
    gst_clear_cuda_stream(&offered_);
    gst_clear_cuda_stream(&other_);
    gst_clear_object(&context_);
    CudaImport::TearDown();
  }
  void startOffering(GstCudaStream *stream) {
    pipeline = std::make_unique<Pipeline>(sourceLine(kTelling) +
                                          " ! appsink name=sink sync=false async=false enable-last-sample=false");
    offering_ = stream;
    downstream_ = std::make_unique<Downstream>(*pipeline, [this](GstQuery *query) { offer(query, offering_); });
    GstContext *shared = gst_context_new_cuda_context(context_);
    gst_element_set_context(pipeline->get(), shared);
    gst_context_unref(shared);
    pipeline->setState(GST_STATE_PLAYING);
  }
  void offer(GstQuery *query, GstCudaStream *stream) const {
    GstCaps *caps = nullptr;
    gst_query_parse_allocation(query, &caps, nullptr);
    GstBufferPool *pool = gst_cuda_buffer_pool_new(stream->context);
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, 1, 0, 0);
    gst_buffer_pool_config_set_cuda_stream(config, stream);
    EXPECT_TRUE(gst_buffer_pool_set_config(pool, config));
    gst_query_add_allocation_pool(query, pool, 1, 0, 0);
    gst_object_unref(pool);
  }
  GstSample *pass(unsigned number = 1) {
    push(frames.buffer(kTelling, Picture(infoOf(kTelling), number), number));
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    return sample;
  }
  static GstCudaMemory *memoryOf(GstSample *sample) {
    return GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0));
  }
  static void useOnDevice(GstCudaMemory *memory) {
    GstMapInfo map;
    EXPECT_TRUE(gst_memory_map(GST_MEMORY_CAST(memory), &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
    gst_memory_unmap(GST_MEMORY_CAST(memory), &map);
  }
  // Whether the frame is given back while `stream` has something to do that a reader enqueued, as far as that shows
  // within the patience.
  bool goesEarly(GstSample *sample, GstCudaStream *stream, int patience_ms = 30) {
    GstSample *next = pass(9); // the appsink keeps the one that it gave out last
    const guint64 before = pipeline->stat("retired");
    bool early = false;
    {
      const StreamBlock block(context_, gst_cuda_stream_get_handle(stream));
      gst_sample_unref(sample);
      for (int i = 0; i < patience_ms && !early; ++i) {
        g_usleep(1000);
        early = pipeline->stat("retired") > before;
      }
    }
    for (int i = 0; i < 10000 && pipeline->stat("retired") == before; ++i) g_usleep(1000);
    EXPECT_EQ(pipeline->stat("retired"), before + 1);
    gst_sample_unref(next);
    return early;
  }

  GstCudaContext *context_ = nullptr;
  GstCudaStream *offered_ = nullptr, *other_ = nullptr;
  std::atomic<GstCudaStream *> offering_ = nullptr;
  std::unique_ptr<Downstream> downstream_;
};

TEST_F(ReadersStream, IsTakenFromThePoolThatIsOffered) {
  startOffering(offered_);
  GstSample *sample = pass();
  EXPECT_EQ(gst_cuda_memory_get_stream(memoryOf(sample)), offered_);
  useOnDevice(memoryOf(sample));
  EXPECT_FALSE(goesEarly(sample, offered_));
}

// who reads on the stream that he asked for holds up nobody
TEST_F(ReadersStream, IsTheOnlyOneThatAReleaseWaitsFor) {
  startOffering(offered_);
  GstSample *sample = pass();
  useOnDevice(memoryOf(sample));
  EXPECT_TRUE(goesEarly(sample, other_, 20'000));
}

// it has another one by now than the one that it offered
TEST_F(ReadersStream, IsAnotherThanTheOneOffered) {
  startOffering(offered_);
  GstSample *sample = pass();
  gst_cuda_memory_sync(memoryOf(sample));
  useOnDevice(memoryOf(sample));
  EXPECT_FALSE(goesEarly(sample, other_));
}

TEST_F(ReadersStream, IsUnknown) {
  start(sourceLine(kTelling) + " ! appsink name=sink sync=false async=false enable-last-sample=false", context_);
  GstSample *sample = pass();
  EXPECT_NE(gst_cuda_memory_get_stream(memoryOf(sample)), nullptr);
  EXPECT_FALSE(GST_MEMORY_FLAG_IS_SET(memoryOf(sample), GST_CUDA_MEMORY_TRANSFER_NEED_SYNC));
  useOnDevice(memoryOf(sample));
  EXPECT_FALSE(goesEarly(sample, other_));
}

TEST_F(ReadersStream, OfAnotherContextIsNotTaken) {
  GstCudaContext *context = gst_cuda_context_new(0);
  GstCudaStream *foreign = gst_cuda_stream_new(context);
  startOffering(foreign);
  GstSample *sample = pass();
  EXPECT_NE(gst_cuda_memory_get_stream(memoryOf(sample)), foreign);
  gst_sample_unref(sample);
  pipeline.reset();
  gst_clear_cuda_stream(&foreign);
  gst_object_unref(context);
}

TEST_F(ReadersStream, ChangesWhereDownstreamDoes) {
  startOffering(offered_);
  GstSample *first = pass(1);
  EXPECT_EQ(gst_cuda_memory_get_stream(memoryOf(first)), offered_);
  offering_ = other_;
  GstPad *pad = gst_element_get_static_pad(pipeline->element("sink"), "sink");
  gst_pad_push_event(pad, gst_event_new_reconfigure());
  gst_object_unref(pad);
  GstSample *second = pass(2);
  EXPECT_EQ(gst_cuda_memory_get_stream(memoryOf(second)), other_);
  EXPECT_FALSE(goesEarly(first, offered_)) << "it keeps its stream";
  gst_sample_unref(second);
}

// what downstream enqueues on its own stream runs after the frame's producer
TEST_F(ReadersStream, WaitsForTheFramesFences) {
  startOffering(offered_);
  gst_sample_unref(pass());
  EventSource producer;
  GstBuffer *frame = frames.buffer(kTelling, Picture(infoOf(kTelling), 2), 2);
  GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(producer.fd()).release(), nullptr);
  gst_buffer_add_zc_event_meta(frame, event, 0);
  gst_zc_device_event_unref(event);
  push(frame);
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_EQ(gst_cuda_memory_get_stream(memoryOf(sample)), offered_);
  EXPECT_TRUE(GST_MEMORY_FLAG_IS_SET(memoryOf(sample), GST_CUDA_MEMORY_TRANSFER_NEED_SYNC));
  EXPECT_FALSE(
      gst_buffer_wait_zc_fences(gst_sample_get_buffer(sample), GST_ZC_FENCE_ACCESS_READ, 20 * GST_MSECOND, nullptr));
  producer.signal();
  EXPECT_TRUE(gst_buffer_wait_zc_fences(gst_sample_get_buffer(sample), GST_ZC_FENCE_ACCESS_READ, kDeadline, nullptr));
  gst_sample_unref(sample);
}

// The element is gone, what it gave out is not: it is good until the device is done
TEST_F(ReadersStream, OutlivesTheElement) {
  start(sourceLine(kTelling) + " ! appsink name=sink sync=false async=false enable-last-sample=false", context_);
  GstSample *sample = pass();
  useOnDevice(memoryOf(sample));
  const auto block = std::make_unique<StreamBlock>(context_, gst_cuda_stream_get_handle(other_));
  pipeline.reset();
  GThread *releases = g_thread_new(
      "release",
      [](gpointer data) -> gpointer {
        gst_sample_unref(static_cast<GstSample *>(data));
        return nullptr;
      },
      sample);
  g_usleep(20'000);
  block->release();
  g_thread_join(releases);
}

} // namespace
