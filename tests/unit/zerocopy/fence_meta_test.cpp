// SPDX-License-Identifier: LGPL-2.1-or-later
// What can be said of the meta without a sync_file: events stand in. Real ones: tests/lab/zerocopy.
#include "gst/zerocopy/gstzcfencemeta.h"

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include <gst/base/gstbasetransform.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcpool.h"
#include "gst/zerocopy/shallow_copy.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace std::chrono_literals;
using gstzc::test::openFds;

namespace {

// An eventfd and the event over it.
struct Signal {
  Signal() : fd(eventfd(0, EFD_CLOEXEC)) {
    event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(fd.get()).release(), nullptr);
  }
  ~Signal() { gst_zc_device_event_unref(event); }
  void give() { eventfd_write(fd.get(), 1); }
  UniqueFd fd;
  GstZcDeviceEvent *event;
};

class FenceMeta : public testing::Test {
protected:
  static void SetUpTestSuite() {
    // the process's poller keeps its own descriptors from its first wait on
    Signal never;
    GstBuffer *frame = gst_buffer_new();
    gst_buffer_add_zc_event_meta(frame, never.event, 0);
    EXPECT_FALSE(wait(frame, GST_MSECOND));
    gst_buffer_unref(frame);
  }
  void SetUp() override {
    fds = openFds();
    buffer = gst_buffer_new_allocate(nullptr, 4096, nullptr);
  }
  void TearDown() override {
    gst_clear_buffer(&buffer);
    // a streaming thread that ends may hold its pipeline's bus a moment longer than whoever stopped it
    for (int i = 0; i < 2000 && openFds() != fds; ++i) g_usleep(1000);
    EXPECT_EQ(openFds(), fds);
  }
  static std::vector<guint64> sequences(GstBuffer *of) {
    std::vector<guint64> found;
    gpointer state = nullptr;
    while (GstMeta *meta = gst_buffer_iterate_meta_filtered(of, &state, GST_ZC_FENCE_META_API_TYPE))
      found.push_back(gst_zc_fence_meta_get_sequence(reinterpret_cast<GstZcFenceMeta *>(meta)));
    return found;
  }
  static bool wait(GstBuffer *of, GstClockTime timeout, std::string *why = nullptr) {
    GError *error = nullptr;
    const bool ready = gst_buffer_wait_zc_fences(of, GST_ZC_FENCE_ACCESS_READ, timeout, &error);
    EXPECT_EQ(ready, error == nullptr);
    if (why != nullptr && error != nullptr) *why = error->message;
    g_clear_error(&error);
    return ready;
  }

  size_t fds = 0;
  GstBuffer *buffer = nullptr;
};

TEST_F(FenceMeta, OnlyASequence) {
  EXPECT_EQ(gst_buffer_get_zc_fence_meta(buffer), nullptr);
  GError *error = nullptr;
  GstZcFenceMeta *meta = gst_buffer_add_zc_fence_meta(buffer, -1, 42, &error);
  ASSERT_NE(meta, nullptr) << error->message;
  EXPECT_EQ(gst_buffer_get_zc_fence_meta(buffer), meta);
  EXPECT_EQ(gst_zc_fence_meta_get_sequence(meta), 42u);
  EXPECT_EQ(gst_zc_fence_meta_get_event(meta), nullptr);
  EXPECT_EQ(gst_zc_fence_meta_dup_fd(meta), -1);
  EXPECT_TRUE(wait(buffer, 0));
  gint fd = 7;
  EXPECT_TRUE(gst_buffer_get_zc_ready_fence(buffer, GST_ZC_FENCE_ACCESS_WRITE, &fd, nullptr));
  EXPECT_EQ(fd, -1);
}

TEST_F(FenceMeta, AnEventIsWaitedFor) {
  Signal signal;
  gst_buffer_add_zc_event_meta(buffer, signal.event, 1);
  std::string why;
  EXPECT_FALSE(wait(buffer, 0, &why));
  EXPECT_FALSE(wait(buffer, 5 * GST_MSECOND, &why));
  EXPECT_NE(why.find("5 ms"), std::string::npos) << why;
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    signal.give();
  });
  EXPECT_TRUE(wait(buffer, 30 * GST_SECOND));
  later.join();
  EXPECT_TRUE(wait(buffer, 0)) << "now it is over";
}

TEST_F(FenceMeta, NoSyncFileStandsForAPendingEvent) {
  Signal signal;
  gst_buffer_add_zc_event_meta(buffer, signal.event, 1);
  gint fd = 7;
  GError *error = nullptr;
  EXPECT_FALSE(gst_buffer_get_zc_ready_fence(buffer, GST_ZC_FENCE_ACCESS_READ, &fd, &error));
  EXPECT_EQ(fd, -1);
  ASSERT_TRUE(g_error_matches(error, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_BUSY)) << error->message;
  g_clear_error(&error);
  signal.give();
  EXPECT_TRUE(gst_buffer_get_zc_ready_fence(buffer, GST_ZC_FENCE_ACCESS_READ, &fd, &error));
  EXPECT_EQ(fd, -1);
}

TEST_F(FenceMeta, AllMetasCount) {
  Signal first, second;
  gst_buffer_add_zc_event_meta(buffer, first.event, 1);
  gst_buffer_add_zc_event_meta(buffer, second.event, 2);
  EXPECT_EQ(sequences(buffer), (std::vector<guint64>{1, 2}));
  first.give();
  EXPECT_FALSE(wait(buffer, 0));
  second.give();
  EXPECT_TRUE(wait(buffer, 0));
}

// What fails before it can be waited for: status says so, and there is no descriptor any more.
const GstZcDeviceEventFuncs failed_funcs = {
    "lost-device", [](gpointer) { return -EIO; }, [](gpointer) { return -ENODEV; }, nullptr, nullptr, {},
};
const GstZcDeviceEventFuncs without_fd_funcs = {
    "no-descriptor", [](gpointer) { return 0; }, [](gpointer) { return -EMFILE; }, nullptr, nullptr, {},
};
// readable at once, though its status says pending
const GstZcDeviceEventFuncs contradictory_funcs = {
    "contradictory", [](gpointer) { return 0; }, [](gpointer) { return eventfd(1, EFD_CLOEXEC); }, nullptr, nullptr, {},
};

TEST_F(FenceMeta, EventsThatFail) {
  const struct {
    const GstZcDeviceEventFuncs *funcs;
    int error;
  } rows[] = {{&failed_funcs, EIO}, {&without_fd_funcs, EMFILE}, {&contradictory_funcs, EPROTO}};
  for (const auto &row : rows) {
    GstBuffer *frame = gst_buffer_new();
    GstZcDeviceEvent *event = gst_zc_device_event_new(row.funcs, nullptr);
    gst_buffer_add_zc_event_meta(frame, event, 0);
    gst_zc_device_event_unref(event);
    std::string why;
    EXPECT_FALSE(wait(frame, GST_SECOND, &why));
    EXPECT_NE(why.find("(" + std::to_string(row.error) + ")"), std::string::npos) << row.funcs->kind << ": " << why;
    gint fd = 7;
    GError *error = nullptr;
    EXPECT_FALSE(gst_buffer_get_zc_ready_fence(frame, GST_ZC_FENCE_ACCESS_READ, &fd, &error));
    ASSERT_NE(error, nullptr);
    EXPECT_NE(std::string(error->message).find("(" + std::to_string(row.error) + ")"), std::string::npos)
        << row.funcs->kind << ": " << error->message;
    g_clear_error(&error);
    gst_buffer_unref(frame);
  }
}

TEST_F(FenceMeta, FrameFencesHaveTheEvents) {
  Signal done, pending;
  done.give();
  gst_buffer_add_zc_event_meta(buffer, done.event, 0);
  gst_buffer_add_zc_event_meta(buffer, pending.event, 1);
  for (const Access access : {Access::Read, Access::Write}) {
    auto fences = frameFences(buffer, access);
    ASSERT_TRUE(fences.ok());
    EXPECT_TRUE(fences->sync.isEmpty());
    ASSERT_EQ(fences->others.size(), 1u);
    EXPECT_EQ(fences->others[0].kind, Fence::Kind::Event);
    EXPECT_FALSE(fenceNow(fences->others[0]).has_value());
  }
}

TEST_F(FenceMeta, CopiesThatShareTheMemoryCarryIt) {
  Signal signal;
  gst_buffer_add_zc_event_meta(buffer, signal.event, 1);
  gst_buffer_add_zc_fence_meta(buffer, -1, 2, nullptr);
  GstBuffer *copies[] = {
      gst_buffer_copy(buffer),
      gst_buffer_copy_region(buffer, GST_BUFFER_COPY_ALL, 0, static_cast<gsize>(-1)),
      gst_buffer_copy_region(buffer, GST_BUFFER_COPY_ALL, 1024, 512),
      gst_buffer_make_writable(gst_buffer_ref(buffer)),
      writableShallow(gst_buffer_ref(buffer)),
  };
  gst_clear_buffer(&buffer);
  for (GstBuffer *copy : copies) {
    ASSERT_EQ(sequences(copy), (std::vector<guint64>{1, 2}));
    EXPECT_EQ(gst_zc_fence_meta_get_event(gst_buffer_get_zc_fence_meta(copy)), signal.event);
    EXPECT_FALSE(wait(copy, 0));
  }
  signal.give();
  for (GstBuffer *copy : copies) {
    EXPECT_TRUE(wait(copy, 0));
    gst_buffer_unref(copy);
  }
}

TEST_F(FenceMeta, DeepCopiesDoNot) {
  Signal signal;
  gst_buffer_add_zc_event_meta(buffer, signal.event, 1);
  GstBuffer *deep = gst_buffer_copy_deep(buffer);
  EXPECT_TRUE(sequences(deep).empty());
  gst_buffer_unref(deep);
}

TEST_F(FenceMeta, OnlyCopyingTransformsIt) {
  Signal signal;
  GstZcFenceMeta *meta = gst_buffer_add_zc_event_meta(buffer, signal.event, 1);
  GstBuffer *other = gst_buffer_new();
  EXPECT_FALSE(
      meta->meta.info->transform_func(other, &meta->meta, buffer, g_quark_from_string("gst-video-scale"), nullptr));
  EXPECT_EQ(gst_buffer_get_zc_fence_meta(other), nullptr);
  gst_buffer_unref(other);
}

TEST_F(FenceMeta, BufferLists) {
  Signal signal;
  gst_buffer_add_zc_event_meta(buffer, signal.event, 7);
  GstBufferList *list = gst_buffer_list_new();
  gst_buffer_list_add(list, gst_buffer_ref(buffer));
  gst_clear_buffer(&buffer);
  GstBufferList *copy = gst_buffer_list_copy(list);
  GstBuffer *writable = gst_buffer_list_get_writable(copy, 0); // another buffer: two lists have the first
  EXPECT_NE(writable, gst_buffer_list_get(list, 0));
  EXPECT_EQ(sequences(writable), (std::vector<guint64>{7}));
  EXPECT_EQ(sequences(gst_buffer_list_get(list, 0)), (std::vector<guint64>{7}));
  gst_buffer_list_unref(list);
  EXPECT_EQ(gst_zc_fence_meta_get_event(gst_buffer_get_zc_fence_meta(writable)), signal.event);
  gst_buffer_list_unref(copy);
}

TEST_F(FenceMeta, APoolTakesItOff) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  GstBufferPool *pool = gst_zc_pool_new(allocator, 0);
  GstCaps *caps = gst_caps_from_string("video/x-raw,format=GRAY8,width=64,height=64");
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, 0, 1, 1);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  size_t after_warm_up = 0;
  for (int i = 0; i < 1000; ++i) {
    GstBuffer *frame = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &frame, nullptr), GST_FLOW_OK);
    ASSERT_EQ(gst_buffer_get_zc_fence_meta(frame), nullptr);
    Signal signal;
    signal.give();
    ASSERT_NE(gst_buffer_add_zc_event_meta(frame, signal.event, static_cast<guint64>(i)), nullptr);
    ASSERT_NE(gst_buffer_add_zc_fence_meta(frame, -1, static_cast<guint64>(i), nullptr), nullptr);
    gst_buffer_unref(frame);
    if (i == 0) after_warm_up = openFds(); // the signal's two are among them, as at the end of each round
    if (i > 0) {
      ASSERT_EQ(openFds(), after_warm_up);
    }
  }
  EXPECT_EQ(gst_zc_pool_get_n_allocated(GST_ZC_POOL(pool)), 1u);
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
  gst_object_unref(allocator);
  gst_caps_unref(caps);
}

TEST_F(FenceMeta, AConsumerSaysInTheAllocationQueryThatItWaits) {
  GstCaps *caps = gst_caps_from_string("video/x-raw,format=GRAY8,width=64,height=64");
  GstQuery *query = gst_query_new_allocation(caps, TRUE);
  EXPECT_FALSE(gst_query_find_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr));
  gst_query_add_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr);
  EXPECT_TRUE(gst_query_find_allocation_meta(query, GST_ZC_FENCE_META_API_TYPE, nullptr));
  gst_query_unref(query);
  gst_caps_unref(caps);
}

// not a FenceMeta: what a pipeline opens, and when its threads close it, is GStreamer's business
TEST(FenceMetaInPipelines, ElementsThatWriteOtherMemoryDropIt) {
  Signal signal;
  signal.give();
  GError *error = nullptr;
  GstElement *pipeline =
      gst_parse_launch("appsrc name=src caps=video/x-raw,format=GRAY8,width=64,height=64,framerate=0/1 "
                       "format=time ! videoconvert ! video/x-raw,format=BGRx ! fakesink name=sink "
                       "enable-last-sample=true sync=false",
                       &error);
  ASSERT_NE(pipeline, nullptr) << error->message;
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstElement *src = gst_bin_get_by_name(GST_BIN(pipeline), "src"),
             *sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  GstBuffer *frame = gst_buffer_new_allocate(nullptr, 64 * 64, nullptr);
  gst_buffer_add_zc_event_meta(frame, signal.event, 1);
  GstFlowReturn flow;
  g_signal_emit_by_name(src, "push-buffer", frame, &flow);
  gst_buffer_unref(frame);
  g_signal_emit_by_name(src, "end-of-stream", &flow);
  GstBus *bus = gst_element_get_bus(pipeline);
  GstMessage *message = gst_bus_timed_pop_filtered(bus, 30 * GST_SECOND,
                                                   static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(GST_MESSAGE_TYPE(message), GST_MESSAGE_EOS);
  GstSample *last = nullptr;
  g_object_get(sink, "last-sample", &last, nullptr);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(gst_buffer_get_zc_fence_meta(gst_sample_get_buffer(last)), nullptr);
  gst_sample_unref(last);
  gst_message_unref(message);
  gst_object_unref(bus);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(src);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
}

} // namespace
