// SPDX-License-Identifier: LGPL-2.1-or-later
// cudadmabufexport: each way back, what is refused, and that nobody reads before the device is done.
#include "tests/elements/cuda/export_pipeline.h"

#include <chrono>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "gst/zerocopy/core/unique_fd.h"
#include "tests/support/fence_events.h"
#include "tests/support/quickest.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

TEST_F(CudaExport, ImportedFramesGoBackAsTheDmaBufsThatTheyWere) {
  start(sourceLine(kTelling) + " ! queue ! cudadmabufexport name=back ! video/x-raw(memory:DMABuf) ! "
                               "appsink name=sink sync=false");
  const GstVideoInfo info = infoOf(kTelling);
  for (unsigned i = 0; i < 4; ++i) {
    const Picture picture(info, i);
    GstBuffer *frame = frames.buffer(kTelling, picture, i);
    const BufferId id = idOf(frame);
    push(frame);
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    GstBuffer *out = gst_sample_get_buffer(sample);
    EXPECT_EQ(idOf(out), id) << "frame " << i;
    EXPECT_TRUE(picture.sameAs(out, plainInfo(kTelling)));
    EXPECT_EQ(GST_BUFFER_PTS(out), i * 40 * GST_MSECOND);
    gst_sample_unref(sample);
  }
  EXPECT_EQ(pipeline->stat("originals", "back"), 4u);
  EXPECT_EQ(pipeline->stat("copies", "back"), 0u);
  EXPECT_EQ(pipeline->stat("exports", "back"), 0u);
  EXPECT_EQ(pipeline->stat("copies"), 0u);
}

TEST_F(CudaExport, AFrameGivesItsBufferBackAfterWhoHasItsDmaBuf) {
  start(sourceLine(kTelling) + " ! cudadmabufexport name=back ! video/x-raw(memory:DMABuf) ! "
                               "appsink name=sink sync=false");
  GstBuffer *frame = frames.buffer(kTelling, Picture(infoOf(kTelling)));
  bool gone = false;
  gst_mini_object_weak_ref(
      GST_MINI_OBJECT_CAST(frame), [](gpointer data, GstMiniObject *) { *static_cast<bool *>(data) = true; }, &gone);
  push(frame);
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_FALSE(gone);
  gst_sample_unref(sample);
  pipeline.reset();
  EXPECT_TRUE(gone);
}

TEST_F(CudaExport, MemoryOfTheDeviceIsExportedOnce) {
  SoftCuda::get().setProfile("dgpu");
  start(deviceSource(""));
  std::set<BufferId> dmabufs;
  pass(12, [&](GstBuffer *buffer, unsigned) { dmabufs.insert(idOf(buffer)); });
  EXPECT_EQ(chosenRoute(), "address-range");
  EXPECT_EQ(pipeline->stat("exports"), dmabufs.size());
  EXPECT_EQ(pipeline->stat("exports") + pipeline->stat("hits"), 12u);
  EXPECT_LT(pipeline->stat("exports"), 6u) << "memories that come round again have their dma-buf";
  EXPECT_EQ(pipeline->stat("copies"), 0u);
}

// The producer would write the next frame into memory that is still read.
TEST_F(CudaExport, APoolGetsMemoryBackAfterWhoHasItsDmaBuf) {
  SoftCuda::get().setProfile("dgpu");
  const DeviceFrames device;
  const GstVideoInfo info = plainInfo(kFrame);
  GstBufferPool *pool = gst_cuda_buffer_pool_new(device.context());
  GstStructure *config = gst_buffer_pool_get_config(pool);
  GstCaps *caps = gst_video_info_to_caps(&info);
  gst_caps_set_features_simple(caps, gst_caps_features_new_single(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY));
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(GST_VIDEO_INFO_SIZE(&info)), 0, 0);
  gst_caps_unref(caps);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  const auto acquired = [&] {
    GstBuffer *buffer = nullptr;
    EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    return buffer;
  };

  start(framesSource("route=address-range"));
  GstBuffer *first = acquired();
  DeviceFrames::write(gst_buffer_peek_memory(first, 0), Picture(info, 1));
  const GstMemory *memory = gst_buffer_peek_memory(first, 0);
  push(first);
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  end();
  pipeline->drain(); // nobody has it but the sample, and the sink
  GstBuffer *held = gst_buffer_ref(gst_sample_get_buffer(sample));
  gst_sample_unref(sample);
  pipeline.reset();
  GstBuffer *next = acquired();
  EXPECT_NE(gst_buffer_peek_memory(next, 0), memory) << "its dma-buf is still downstream's";
  EXPECT_TRUE(Picture(info, 1).sameAs(held, info));
  gst_buffer_unref(held);
  GstBuffer *again = acquired();
  EXPECT_EQ(gst_buffer_peek_memory(again, 0), memory) << "it does not come back";
  gst_buffer_unref(again);
  gst_buffer_unref(next);
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

TEST_F(CudaExport, WhoDoesNotKnowFencesGetsFramesThatAreDone) {
  SoftCuda::get().setProfile("dgpu");
  start(deviceSource(""));
  keepBusy();
  SoftCuda::get().setDelay(20'000);
  pass(4);
  EXPECT_EQ(pipeline->stat("waits"), 4u);
}

TEST_F(CudaExport, WhoKnowsFencesGetsFramesAtOnceWithAnEvent) {
  SoftCuda::get().setProfile("dgpu");
  const auto downstream = startWith(deviceSource(""), knowsFences);
  keepBusy();
  SoftCuda::get().setDelay(20'000);
  pass(4, [](GstBuffer *buffer, unsigned) {
    GstZcFenceMeta *meta = gst_buffer_get_zc_fence_meta(buffer);
    ASSERT_NE(meta, nullptr);
    ASSERT_NE(gst_zc_fence_meta_get_event(meta), nullptr);
    GError *error = nullptr;
    EXPECT_TRUE(gst_buffer_wait_zc_fences(buffer, GST_ZC_FENCE_ACCESS_READ, 10 * GST_SECOND, &error)) << error->message;
    EXPECT_EQ(gst_zc_device_event_get_status(gst_zc_fence_meta_get_event(meta)), 1);
  });
  EXPECT_EQ(pipeline->stat("waits"), 0u);
}

// It would not be the same on both sides, and who looked would wait for its writer.
TEST_F(CudaExport, AFrameThatIsStillWrittenIsNotCompared) {
  SoftCuda::get().setProfile("dgpu");
  const DeviceFrames device;
  const GstVideoInfo info = plainInfo(kFrame);
  const auto downstream = startWith(framesSource(""), knowsFences);
  const auto pass = [&](GstBuffer *frame) {
    push(frame);
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    gst_clear_sample(&sample);
  };
  Picture plain(info);
  std::fill(plain.bytes.begin(), plain.bytes.end(), 16);
  GstBuffer *first = device.frame(info, plain); // the stand-in cannot export memory that is in use
  GstMemory *memory = gst_memory_ref(gst_buffer_peek_memory(first, 0));
  pass(first);
  EXPECT_FALSE(tells("trusted")) << "too plain to tell";
  DeviceFrames::write(memory, Picture(info, 1));
  {
    const StreamBlock writer(device);
    GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    pass(DeviceFrames::frameIn(memory, 1));
    EXPECT_FALSE(tells("trusted")) << "still written";
  }
  pass(DeviceFrames::frameIn(memory, 2));
  EXPECT_TRUE(tells("trusted"));
  EXPECT_EQ(stageOf("address-range"), "chosen");
  pipeline.reset();
  gst_memory_unref(memory);
}

TEST_F(CudaExport, ADeviceThatCannotExportSaysSoAndWhatToDo) {
  SoftCuda::get().setProfile("orin");
  start(deviceSource(""));
  push(systemFrame(Picture(plainInfo(kFrame)), 0));
  const std::string error = pipeline->waitEnd();
  EXPECT_NE(error.find("address-range: the device cannot make dma-bufs"), std::string::npos) << error;
  EXPECT_NE(error.find("original: the frame did not come from dmabufcudaimport"), std::string::npos) << error;
  EXPECT_NE(error.find("allow-copy=true"), std::string::npos) << error;
  EXPECT_EQ(error.find("Operation not supported"), std::string::npos) << "the last reason's own end: " << error;
}

TEST_F(CudaExport, ARouteThatWasNamedIsWhatToChange) {
  for (const char *properties : {"route=original", "route=original allow-copy=true"}) {
    start(deviceSource(properties));
    push(systemFrame(Picture(plainInfo(kFrame)), 0));
    const std::string error = pipeline->waitEnd();
    EXPECT_NE(error.find("original: the frame did not come from dmabufcudaimport"), std::string::npos) << error;
    EXPECT_NE(error.find("route=auto"), std::string::npos) << error;
    EXPECT_EQ(error.find("allow-copy"), std::string::npos) << "it changes nothing: " << error;
    pipeline.reset();
  }
}

// A device that hangs does so for frame after frame.
TEST_F(CudaExport, OneWarningTellsOfFramesThatAreLate) {
  const DeviceFrames device;
  start(framesSource("fence-timeout=20"));
  const GstVideoInfo info = plainInfo(kFrame);
  GstBuffer *first = device.frame(info, Picture(info, 0));
  GstMemory *memory = gst_memory_ref(gst_buffer_peek_memory(first, 0));
  push(first);
  GstSample *ready = pipeline->pull();
  gst_clear_sample(&ready);
  std::vector<GstBuffer *> late;
  {
    const StreamBlock writer(device);
    GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    for (guint64 i = 1; i < 4; ++i) {
      late.push_back(DeviceFrames::frameIn(memory, i));
      push(gst_buffer_ref(late.back()));
    }
    end();
    pipeline->drain();
    GstBus *bus = gst_element_get_bus(pipeline->get());
    int warnings = 0;
    while (GstMessage *found = gst_bus_pop_filtered(bus, GST_MESSAGE_WARNING)) {
      ++warnings;
      gst_message_unref(found);
    }
    gst_object_unref(bus);
    EXPECT_EQ(warnings, 1);
    EXPECT_EQ(pipeline->stat("waits"), 3u);
  }
  pipeline.reset();
  gst_memory_unref(memory);
  for (GstBuffer *buffer : late) gst_buffer_unref(buffer);
}

TEST_F(CudaExport, WhereCopiesAreAllowedTheDeviceCopies) {
  // dgpu is one that knows pages which it may only read
  for (const auto &[profile, properties, delay] :
       {std::tuple("orin", "allow-copy=true", 0u), std::tuple("orin", "allow-copy=true", 5'000u),
        std::tuple("dgpu", "route=device-copy", 0u)}) {
    SCOPED_TRACE(profile);
    SoftCuda::get().setProfile(profile);
    SoftCuda::get().setDelay(delay);
    const auto downstream = startWith(deviceSource(properties), offerPool);
    pass(5);
    EXPECT_EQ(chosenRoute(), "device-copy");
    EXPECT_EQ(stageOf("address-range"), profile == std::string("orin") ? "refused-buffer" : "not-tried");
    EXPECT_EQ(pipeline->stat("copies"), 5u);
    EXPECT_EQ(pipeline->stat("bytes-copied"), 5u * 1920 * 1080 * 3 / 2);
    pipeline.reset();
  }
}

// ---- who reads no GstVideoMeta takes planes to lie where the caps' format has them ----

constexpr Layout kOdd = {"odd", GST_VIDEO_FORMAT_NV12, 1921, 1080};   // whose strides no device has
constexpr Layout kEven = {"even", GST_VIDEO_FORMAT_NV12, 2048, 1080}; // whose strides it has

class PlainCaps : public CudaExport {
protected:
  static std::string lineOf(const Layout &layout, const std::string &properties) {
    return "appsrc name=src format=time caps=video/x-raw,format=NV12,width=" + std::to_string(layout.width) +
           ",height=" + std::to_string(layout.height) +
           ",framerate=25/1 ! cudaupload ! video/x-raw(memory:CUDAMemory) ! queue ! cudadmabufexport name=up " +
           properties + " ! video/x-raw ! appsink name=sink sync=false";
  }
  // One frame comes, all of whose bytes are those of the caps' layout.
  void comesPlain(const Layout &layout) {
    const GstVideoInfo info = plainInfo(layout);
    const Picture picture(info, 1);
    push(systemFrame(picture, 0));
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    GstMapInfo map;
    ASSERT_TRUE(gst_buffer_map(gst_sample_get_buffer(sample), &map, GST_MAP_READ));
    EXPECT_EQ(map.size, picture.bytes.size());
    EXPECT_TRUE(map.size >= picture.bytes.size() && picture.sameAs(map.data));
    gst_buffer_unmap(gst_sample_get_buffer(sample), &map);
    gst_sample_unref(sample);
  }
};

TEST_F(PlainCaps, AnotherLayoutIsRefused) {
  SoftCuda::get().setProfile("dgpu");
  for (const char *properties : {"", "route=address-range"}) {
    SCOPED_TRACE(properties);
    start(lineOf(kOdd, properties));
    push(systemFrame(Picture(plainInfo(kOdd)), 0));
    end();
    const std::string error = pipeline->waitEnd();
    const GstVideoInfo info = plainInfo(kOdd);
    const std::string expected = "expects strides " + std::to_string(info.stride[0]) + ", " +
                                 std::to_string(info.stride[1]) + " and offsets 0, " + std::to_string(info.offset[1]);
    for (const std::string &part : {expected, std::string("the planes have strides "), std::string("GstVideoMeta"),
                                    std::string("use cudadownload")})
      EXPECT_NE(error.find(part), std::string::npos) << part << ": " << error;
    EXPECT_EQ(pipeline->stat("exports"), 0u);
    pipeline.reset();
  }
}

TEST_F(PlainCaps, OriginalsOfAnotherLayoutAreRefused) {
  Layout padded = kFrame;
  padded.stride = 2048;
  start(sourceLine(kFrame) + " ! cudadmabufexport name=back ! video/x-raw ! appsink name=sink sync=false");
  push(frames.buffer(padded, Picture(infoOf(padded))));
  end();
  const std::string error = pipeline->waitEnd();
  EXPECT_NE(error.find("original: the planes have strides 2048, 2048"), std::string::npos) << error;
}

TEST_F(PlainCaps, WhoReadsItGetsAnyLayout) {
  SoftCuda::get().setProfile("dgpu");
  const auto downstream = startWith(lineOf(kOdd, ""), knowsFences);
  const GstVideoInfo info = plainInfo(kOdd);
  const Picture picture(info, 1);
  push(systemFrame(picture, 0));
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), info));
  EXPECT_EQ(chosenRoute(), "address-range");
  gst_sample_unref(sample);
}

TEST_F(PlainCaps, TheLayoutOfTheCapsPasses) {
  SoftCuda::get().setProfile("dgpu");
  start(lineOf(kEven, ""));
  comesPlain(kEven);
  EXPECT_EQ(chosenRoute(), "address-range");
}

TEST_F(PlainCaps, OriginalsPassWithoutWhatComesBehindThem) {
  start(sourceLine(kFrame) + " ! cudadmabufexport name=back ! video/x-raw ! appsink name=sink sync=false");
  const GstVideoInfo info = plainInfo(kFrame);
  const Picture picture(info, 1);
  GstMemory *memory = frames.memory(picture.bytes.size() + 4096);
  Frames::write(memory, picture);
  push(Frames::buffer(kFrame, memory));
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_EQ(gst_buffer_get_size(gst_sample_get_buffer(sample)), picture.bytes.size());
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), info));
  gst_sample_unref(sample);
}

TEST_F(PlainCaps, ACopyHasTheLayoutOfTheCaps) {
  SoftCuda::get().setProfile("dgpu");
  const auto downstream = startWith(lineOf(kOdd, "allow-copy=true"), offerOnlyPool);
  comesPlain(kOdd);
  EXPECT_EQ(chosenRoute(), "device-copy");
}

TEST_F(CudaExport, ARouteThatDoesNotExistIsNamed) {
  start("appsrc name=src ! cudadmabufexport name=up route=teleport ! fakesink");
  const std::string error = pipeline->waitEnd();
  EXPECT_NE(error.find("route=teleport"), std::string::npos) << error;
  EXPECT_NE(error.find("address-range"), std::string::npos) << error;
}

// ---- nothing waits when the pipeline goes down ----

class ExportTeardown : public CudaExport, public testing::WithParamInterface<std::tuple<const char *, const char *>> {
protected:
  // Stops a pipeline with a frame that the device does not end to write: how long that takes.
  std::chrono::steady_clock::duration stopUnderAWriter(const DeviceFrames &device) {
    const auto &[profile, properties] = GetParam();
    SoftCuda::get().setProfile(profile);
    const GstVideoInfo info = plainInfo(kFrame);
    const auto downstream = startWith(framesSource("fence-timeout=60000 " + std::string(properties)), offerPool);
    GstBuffer *first = device.frame(info, Picture(info, 1)); // the stand-in cannot export memory that is in use
    GstMemory *memory = gst_memory_ref(gst_buffer_peek_memory(first, 0));
    push(first);
    GstSample *sample = pipeline->pull();
    EXPECT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    gst_clear_sample(&sample);

    // ours stays: gst-cuda waits for the stream of a memory that it frees
    GstBuffer *frame = DeviceFrames::frameIn(memory, 1);
    gst_memory_unref(memory);
    std::optional<StreamBlock> writer(std::in_place, device);
    GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    push(gst_buffer_ref(frame));
    for (int i = 0; i < 20'000 && pipeline->stat("frames") < 2; ++i) g_usleep(1000);
    g_usleep(50'000);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(pipeline->setState(GST_STATE_NULL), GST_STATE_CHANGE_SUCCESS);
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took, std::chrono::seconds(20));
    EXPECT_EQ(message(GST_MESSAGE_ERROR), "");
    pipeline.reset();
    writer.reset();
    gst_buffer_unref(frame);
    return took;
  }
};

TEST_P(ExportTeardown, UnderAWriterThatDoesNotEnd) {
  constexpr std::chrono::milliseconds kStop{200};
  {
    const DeviceFrames device;
    const auto took = quickest(kStop, [&] { return stopUnderAWriter(device); });
    if (measuresTime()) {
      EXPECT_LE(took, kStop);
    }
  }
  // what the device still had to do ends behind our back
  for (int i = 0; i < 20'000 && SoftCuda::get().live() > live; ++i) g_usleep(1000);
}

INSTANTIATE_TEST_SUITE_P(, ExportTeardown,
                         testing::Values(std::tuple("dgpu", ""), std::tuple("orin", "allow-copy=true")),
                         [](const auto &test) {
                           return *std::get<1>(test.param) == '\0' ? "AddressRange" : "DeviceCopy";
                         });

// Whose fence is none of the device's: the copy is enqueued, and nobody waits for it when the pipeline goes down.
class ExportFences : public CudaExport {
protected:
  GstBuffer *fenced(const DeviceFrames &device, const EventSource &writer) const {
    const GstVideoInfo info = plainInfo(kFrame);
    GstBuffer *frame = device.frame(info, Picture(info, 1));
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(writer.fd()).release(), nullptr);
    gst_buffer_add_zc_event_meta(frame, event, 1);
    gst_zc_device_event_unref(event);
    return frame;
  }
  // Until the element has the frame.
  void comes() const {
    for (int i = 0; i < 20'000 && pipeline->stat("frames") < 1; ++i) g_usleep(1000);
    g_usleep(50'000);
  }
};

TEST_F(ExportFences, ACopyComesWhenTheWriterIsDone) {
  SoftCuda::get().setProfile("orin");
  const DeviceFrames device;
  const EventSource writer;
  const auto downstream = startWith(framesSource("allow-copy=true fence-timeout=60000"), offerPool);
  push(fenced(device, writer));
  GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(pipeline->element("sink")), 100 * GST_MSECOND);
  EXPECT_EQ(sample, nullptr) << "read while it was written";
  writer.signal();
  if (sample == nullptr) sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  const GstVideoInfo info = plainInfo(kFrame);
  EXPECT_TRUE(Picture(info, 1).sameAs(gst_sample_get_buffer(sample), info));
  gst_sample_unref(sample);
}

TEST_F(ExportFences, ACopyWhoseWriterDoesNotEndIsDropped) {
  SoftCuda::get().setProfile("orin");
  const DeviceFrames device;
  const EventSource writer;
  const auto downstream = startWith(framesSource("allow-copy=true fence-timeout=20"), offerPool);
  push(fenced(device, writer));
  end();
  pipeline->drain();
  EXPECT_NE(message(GST_MESSAGE_WARNING), "");
  EXPECT_EQ(pipeline->waitEnd(), "");
}

TEST_F(ExportFences, StoppingAndFlushingOpenTheGate) {
  SoftCuda::get().setProfile("orin");
  const DeviceFrames device;
  const EventSource writer;
  for (const bool flush : {false, true}) {
    SCOPED_TRACE(flush);
    const auto downstream = startWith(framesSource("allow-copy=true fence-timeout=60000"), offerPool);
    push(fenced(device, writer));
    comes();
    const auto begin = std::chrono::steady_clock::now();
    if (flush)
      gst_element_send_event(pipeline->element("src"), gst_event_new_flush_start());
    else
      pipeline->setState(GST_STATE_NULL);
    gst_cuda_context_push(device.context());
    EXPECT_EQ(CuStreamSynchronize(device.stream()), CUDA_SUCCESS); // what the writer's own device waits for, say
    gst_cuda_context_pop(nullptr);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    pipeline.reset();
  }
}

} // namespace
