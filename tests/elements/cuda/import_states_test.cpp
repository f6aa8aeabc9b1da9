// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufcudaimport over the life of a pipeline: other caps, other pools, other contexts, starts and ends.
#include "tests/elements/cuda/import_pipeline.h"

#include <vector>

#include "gst/zerocopy/gstzcfencemeta.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

class ImportStates : public CudaImport {
protected:
  void showsRight(const Layout &layout, unsigned seed) {
    const Picture picture(infoOf(layout), seed);
    push(frames.buffer(layout, picture));
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(layout)));
    gst_sample_unref(sample);
  }
  void setCaps(const Layout &layout) {
    GstCaps *caps = gst_caps_from_string(dmabufCaps(layout).c_str());
    gst_app_src_set_caps(GST_APP_SRC(pipeline->element("src")), caps);
    gst_caps_unref(caps);
  }
};

TEST_F(ImportStates, SurviveManyStarts) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  for (unsigned i = 0; i < 5; ++i) {
    showsRight(kSmall, i);
    EXPECT_EQ(pipeline->stat("frames"), 1u) << "counted since the last start";
    pipeline->setState(i % 2 == 0 ? GST_STATE_NULL : GST_STATE_READY);
    EXPECT_EQ(pipeline->stat("pending"), 0u);
    pipeline->setState(GST_STATE_PLAYING);
  }
}

TEST_F(ImportStates, FollowOtherCaps) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  const Layout layouts[] = {
      kSmall, {"", GST_VIDEO_FORMAT_RGBA, 320, 240}, {"", GST_VIDEO_FORMAT_I420, 63, 47}, kTelling};
  for (unsigned i = 0; i < 8; ++i) {
    setCaps(layouts[i % 4]);
    showsRight(layouts[i % 4], i);
  }
}

// The same memory as another picture is not the same import
TEST_F(ImportStates, FollowOtherCapsInTheSameMemory) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  const Layout other = {"", GST_VIDEO_FORMAT_I420, 32, 32};
  GstMemory *memory = frames.memory(infoOf(kSmall).size);
  for (unsigned i = 0; i < 4; ++i) {
    const Layout &layout = i % 2 == 0 ? kSmall : other;
    const Picture picture(infoOf(layout), i);
    Frames::write(memory, picture);
    setCaps(layout);
    push(Frames::buffer(layout, gst_memory_ref(memory)));
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(layout))) << i;
    gst_sample_unref(sample);
  }
  gst_memory_unref(memory);
}

TEST_F(ImportStates, ImportAPoolOnceAndLetItGoWithItsBuffers) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  const Picture picture(infoOf(kSmall), 3);
  const auto rounds = [&](std::vector<GstMemory *> &pool, int n) {
    for (int i = 0; i < n; ++i) {
      push(Frames::buffer(kSmall, gst_memory_ref(pool[static_cast<size_t>(i) % pool.size()])));
      GstSample *sample = pipeline->pull();
      ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
      gst_sample_unref(sample);
    }
  };
  const auto make = [&] {
    std::vector<GstMemory *> pool;
    for (int i = 0; i < 4; ++i) {
      pool.push_back(frames.memory(picture.bytes.size()));
      Frames::write(pool.back(), picture);
    }
    return pool;
  };
  auto first = make();
  rounds(first, 40);
  EXPECT_EQ(pipeline->stat("imports"), 4u);
  EXPECT_EQ(pipeline->stat("hits"), 36u);
  for (GstMemory *memory : first) gst_memory_unref(memory);
  // held until the device is done, which is noticed some time later
  for (int i = 0; i < 20'000 && pipeline->stat("pending") > 0; ++i) g_usleep(1000);
  auto second = make();
  rounds(second, 60);
  EXPECT_EQ(pipeline->stat("imports"), 8u);
  EXPECT_EQ(pipeline->stat("entries"), 4u) << "those of the old pool are gone";
  for (GstMemory *memory : second) gst_memory_unref(memory);
}

// As with a long queue, or a producer of many buffers
TEST_F(ImportStates, ImportEachBufferOfALargePoolOnce) {
  constexpr size_t kBuffers = 100, kRounds = 30;
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  const Picture picture(infoOf(kSmall), 3);
  std::vector<GstMemory *> pool;
  for (size_t i = 0; i < kBuffers; ++i) {
    pool.push_back(frames.memory(picture.bytes.size()));
    Frames::write(pool.back(), picture);
  }
  for (size_t round = 0; round < kRounds && !HasFailure(); ++round) {
    std::vector<GstSample *> in_flight;
    for (GstMemory *memory : pool) push(Frames::buffer(kSmall, gst_memory_ref(memory)));
    for (size_t i = 0; i < kBuffers; ++i)
      if (GstSample *sample = pipeline->pull()) in_flight.push_back(sample);
    EXPECT_EQ(in_flight.size(), kBuffers) << message(GST_MESSAGE_ERROR);
    for (GstSample *sample : in_flight) gst_sample_unref(sample);
  }
  EXPECT_EQ(pipeline->stat("imports"), kBuffers);
  EXPECT_EQ(pipeline->stat("hits"), kBuffers * (kRounds - 1));
  EXPECT_EQ(pipeline->stat("entries"), kBuffers);
  for (GstMemory *memory : pool) gst_memory_unref(memory);
}

// though their buffers live, and could come again
TEST_F(ImportStates, OtherCapsLetTheImportsOfTheOldOnesGo) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  std::vector<GstMemory *> pool;
  const Picture picture(infoOf(kSmall), 3);
  for (int i = 0; i < 4; ++i) {
    pool.push_back(frames.memory(picture.bytes.size()));
    Frames::write(pool.back(), picture);
    push(Frames::buffer(kSmall, gst_memory_ref(pool.back())));
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    gst_sample_unref(sample);
  }
  EXPECT_EQ(pipeline->stat("entries"), 4u);
  const Layout other = {"", GST_VIDEO_FORMAT_I420, 320, 240};
  setCaps(other);
  showsRight(other, 1);
  EXPECT_EQ(pipeline->stat("entries"), 1u);
  EXPECT_EQ(pipeline->stat("imports"), 5u);
  for (GstMemory *memory : pool) gst_memory_unref(memory);
}

// Descriptor numbers are used again for other memory
TEST_F(ImportStates, NeverShowAStaleFrame) {
  start(sourceLine(kTelling) + " ! appsink name=sink sync=false");
  warmUp(); // a route that is trusted is not looked at again
  setCaps(kSmall);
  for (unsigned i = 0; i < 1000 && !HasFailure(); ++i) showsRight(kSmall, i);
}

TEST_F(ImportStates, FramesOutliveThePipeline) {
  start(sourceLine(kTelling) + " ! appsink name=sink sync=false");
  const Picture picture(infoOf(kTelling), 3);
  push(frames.buffer(kTelling, picture));
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  pipeline.reset();
  EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(kTelling)));
  gst_sample_unref(sample);
}

TEST_F(ImportStates, UseTheContextOfTheApplication) {
  GstCudaContext *context = gst_cuda_context_new(0);
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false", context);
  push(frames.buffer(kSmall, Picture(infoOf(kSmall))));
  GstSample *sample = pipeline->pull();
  ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
  EXPECT_EQ(GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0))->context, context);
  gst_sample_unref(sample);
  pipeline.reset();
  gst_object_unref(context);
}

TEST_F(ImportStates, AnswerContextQueries) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  showsRight(kSmall, 0);
  GstQuery *query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
  GstPad *pad = gst_element_get_static_pad(pipeline->element("up"), "src");
  EXPECT_TRUE(gst_pad_query(pad, query));
  gst_object_unref(pad);
  gst_query_unref(query);
}

TEST_F(ImportStates, NameADeviceThatIsNotThere) {
  pipeline = std::make_unique<Pipeline>(sourceLine(kSmall, "cuda-device-id=99") + " ! fakesink");
  const std::string text = pipeline->run();
  EXPECT_NE(text.find("cuda-device-id=99"), std::string::npos) << text;
}

TEST_F(ImportStates, NameARouteThatIsNotThere) {
  pipeline = std::make_unique<Pipeline>(sourceLine(kSmall, "route=teleport") + " ! fakesink");
  const std::string text = pipeline->run();
  EXPECT_NE(text.find("route=teleport"), std::string::npos) << text;
  EXPECT_NE(text.find("host-register"), std::string::npos) << "those that are: " << text;
}

TEST_F(ImportStates, TellOfTheRoute) {
  start(sourceLine(kTelling) + " ! appsink name=sink sync=false");
  showsRight(kTelling, 0);
  GstBus *bus = gst_element_get_bus(pipeline->get());
  GstMessage *found = nullptr;
  while ((found = gst_bus_pop_filtered(bus, GST_MESSAGE_ELEMENT)) != nullptr &&
         !gst_message_has_name(found, "dmabufcudaimport-route"))
    gst_message_unref(found);
  gst_object_unref(bus);
  ASSERT_NE(found, nullptr);
  const GstStructure *structure = gst_message_get_structure(found);
  EXPECT_EQ(gst_structure_get_string(structure, "route"), chosenRoute());
  gboolean trusted = FALSE;
  EXPECT_TRUE(gst_structure_get_boolean(structure, "trusted", &trusted));
  EXPECT_TRUE(trusted) << "its content was compared";
  const GValue *routes = gst_structure_get_value(structure, "routes");
  ASSERT_TRUE(routes != nullptr && GST_VALUE_HOLDS_ARRAY(routes));
  unsigned chosen = 0;
  for (guint i = 0; i < gst_value_array_get_size(routes); ++i) {
    const GstStructure *route = gst_value_get_structure(gst_value_array_get_value(routes, i));
    const std::string stage = gst_structure_get_string(route, "stage");
    if (stage == "chosen") ++chosen;
    if (stage == "chosen" || stage == "not-tried") continue;
    EXPECT_STRNE(gst_structure_get_string(route, "reason"), "") << gst_structure_get_string(route, "route");
  }
  EXPECT_EQ(chosen, 1u);
  gst_message_unref(found);
}

TEST_F(ImportStates, RefuseMemoryThatIsNoDmaBuf) {
  start("appsrc name=src format=time caps=video/x-raw,format=NV12,width=64,height=48,framerate=25/1 ! "
        "dmabufcudaimport name=up ! appsink name=sink sync=false");
  push(gst_buffer_new_allocate(nullptr, 64 * 72, nullptr));
  const std::string text = message(GST_MESSAGE_ERROR, 20 * GST_SECOND);
  EXPECT_NE(text.find("dmabufupload"), std::string::npos) << text;
}

TEST_F(ImportStates, CopyMemoryThatIsNoDmaBufWhereItIsAllowed) {
  for (const Layout &layout :
       {kSmall, Layout{"", GST_VIDEO_FORMAT_I420, 63, 47}, Layout{"", GST_VIDEO_FORMAT_RGBA, 65, 31}}) {
    const GstVideoInfo info = infoOf(layout);
    start("appsrc name=src format=time caps=video/x-raw,format=" +
          std::string(gst_video_format_to_string(layout.format)) + ",width=" + std::to_string(layout.width) +
          ",height=" + std::to_string(layout.height) +
          ",framerate=25/1 ! dmabufcudaimport name=up allow-copy=true ! appsink name=sink sync=false");
    const Picture picture(info, 3);
    GstBuffer *frame = gst_buffer_new_allocate(nullptr, info.size, nullptr);
    gst_buffer_fill(frame, 0, picture.bytes.data(), info.size);
    gst_buffer_add_video_meta_full(frame, GST_VIDEO_FRAME_FLAG_NONE, layout.format, static_cast<guint>(layout.width),
                                   static_cast<guint>(layout.height), GST_VIDEO_INFO_N_PLANES(&info), info.offset,
                                   info.stride);
    push(frame);
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    EXPECT_TRUE(gst_is_cuda_memory(gst_buffer_peek_memory(gst_sample_get_buffer(sample), 0)));
    EXPECT_TRUE(picture.sameAs(gst_sample_get_buffer(sample), plainInfo(layout)));
    gst_sample_unref(sample);
    EXPECT_EQ(pipeline->stat("copies"), 1u);
    EXPECT_GT(pipeline->stat("bytes-copied"), 0u);
    pipeline.reset();
  }
}

TEST_F(ImportStates, CountWhatTheStagedCopyCopies) {
  start(sourceLine(kTelling, "route=staged-copy") + " ! appsink name=sink sync=false");
  for (unsigned i = 0; i < 3; ++i) showsRight(kTelling, i);
  EXPECT_EQ(chosenRoute(), "staged-copy");
  EXPECT_EQ(pipeline->stat("copies"), 3u);
  EXPECT_GE(pipeline->stat("bytes-copied"), 3u * 1920 * 1080 * 3 / 2);
}

TEST_F(ImportStates, NameAFormatThatNobodyKnows) {
  start(
      "appsrc name=src format=time caps=\"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XXXX,width=64,height=48,"
      "framerate=25/1\" ! dmabufcudaimport name=up ! fakesink");
  push(frames.buffer(kSmall, Picture(infoOf(kSmall))));
  const std::string error = pipeline->waitEnd();
  EXPECT_NE(error.find("format XXXX"), std::string::npos) << error;
}

TEST_F(ImportStates, AnswerAllocationQueries) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  showsRight(kSmall, 0);
  GstCaps *caps = gst_caps_from_string(dmabufCaps(kSmall).c_str());
  GstQuery *query = gst_query_new_allocation(caps, TRUE);
  GstPad *pad = gst_element_get_static_pad(pipeline->element("up"), "sink");
  EXPECT_TRUE(gst_pad_query(pad, query));
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr));
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr));
  EXPECT_EQ(gst_query_get_n_allocation_pools(query), 1u);
  gst_object_unref(pad);
  gst_query_unref(query);
  gst_caps_unref(caps);
}

TEST_F(ImportStates, SurviveSeeks) {
  start(sourceLine(kSmall) + " ! appsink name=sink sync=false");
  for (unsigned i = 0; i < 5; ++i) {
    showsRight(kSmall, i);
    // a flush between PAUSED and PLAYING would leave the pipeline there
    ASSERT_EQ(gst_element_get_state(pipeline->get(), nullptr, nullptr, 20 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
    EXPECT_TRUE(gst_element_send_event(pipeline->element("src"), gst_event_new_flush_start()));
    EXPECT_TRUE(gst_element_send_event(pipeline->element("src"), gst_event_new_flush_stop(TRUE)));
  }
}

} // namespace
