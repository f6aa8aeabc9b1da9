// SPDX-License-Identifier: LGPL-2.1-or-later
// dmabufupload with frames that have to be copied and whose producer is not done: the only wait of the element.
#include "tests/elements/upload/upload_pipeline.h"

#include <chrono>
#include <thread>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/fence_events.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

constexpr gsize kSize = 64 * 72;
// a wait that nothing ends takes a second; the streaming thread looks up every 20 ms
constexpr auto kSoon = std::chrono::milliseconds(500);

class UploadFences : public testing::Test {
protected:
  UploadFences()
      : pipeline("appsrc name=src format=time caps=video/x-raw,format=NV12,width=64,height=48,framerate=25/1 ! "
                 "dmabufupload name=up memory=memfd ! appsink name=sink sync=false async=false") {
    pipeline.setState(GST_STATE_PLAYING);
  }

  // A frame in memory that no device can import, written by an event of this process.
  GstBuffer *frameOf(const EventSource &producer) const {
    GstBuffer *frame = gst_buffer_new_allocate(nullptr, kSize, nullptr);
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(producer.fd()).release(), nullptr);
    gst_buffer_add_zc_event_meta(frame, event, 0);
    gst_zc_device_event_unref(event);
    return frame;
  }
  void push(GstBuffer *frame) { gst_app_src_push_buffer(GST_APP_SRC(pipeline.element("src")), frame); }

  // The streaming thread sleeps in a wait of its own.
  static bool waits() {
    for (int i = 0; i < 2000 && FencePoller::process().counters().pending == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FencePoller::process().counters().pending == 1;
  }
  std::string error() const {
    GstBus *bus = gst_element_get_bus(pipeline.get());
    GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    gst_object_unref(bus);
    std::string text;
    if (message != nullptr) {
      GError *error = nullptr;
      gst_message_parse_error(message, &error, nullptr);
      text = error->message;
      g_clear_error(&error);
      gst_message_unref(message);
    }
    return text;
  }

  Pipeline pipeline;
};

TEST_F(UploadFences, AFrameIsCopiedWhenItsProducerIsDone) {
  EventSource producer;
  push(frameOf(producer));
  ASSERT_TRUE(waits());
  EXPECT_EQ(pipeline.stat("copies"), 0u);
  producer.signal();
  GstSample *sample = pipeline.pull();
  ASSERT_NE(sample, nullptr);
  EXPECT_EQ(gst_buffer_get_zc_fence_meta(gst_sample_get_buffer(sample)), nullptr) << "a copy is complete";
  gst_sample_unref(sample);
  EXPECT_EQ(pipeline.stat("copies"), 1u);
}

TEST_F(UploadFences, AChangeOfStateEndsTheWait) {
  EventSource producer;
  push(frameOf(producer));
  ASSERT_TRUE(waits());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(pipeline.setState(GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
  EXPECT_EQ(error(), "");
  EXPECT_EQ(FencePoller::process().counters().pending, 0u);

  // and the next start waits again
  pipeline.setState(GST_STATE_PLAYING);
  push(frameOf(producer));
  ASSERT_TRUE(waits());
  producer.signal();
  GstSample *sample = pipeline.pull();
  ASSERT_NE(sample, nullptr);
  gst_sample_unref(sample);
}

TEST_F(UploadFences, AFlushEndsTheWait) {
  EventSource producer, next;
  push(frameOf(producer));
  ASSERT_TRUE(waits());
  const auto begin = std::chrono::steady_clock::now();
  GstElement *src = pipeline.element("src");
  EXPECT_TRUE(gst_element_send_event(src, gst_event_new_flush_start()));
  EXPECT_TRUE(gst_element_send_event(src, gst_event_new_flush_stop(TRUE)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
  EXPECT_EQ(error(), "");

  push(frameOf(next));
  ASSERT_TRUE(waits());
  next.signal();
  GstSample *sample = pipeline.pull();
  ASSERT_NE(sample, nullptr);
  gst_sample_unref(sample);
  EXPECT_EQ(pipeline.stat("copies"), 1u);
}

TEST_F(UploadFences, AProducerThatHangsIsAnError) {
  EventSource producer;
  push(frameOf(producer));
  const std::string text = pipeline.waitEnd();
  EXPECT_NE(text.find("was not done after 1000 ms"), std::string::npos) << text;
}

} // namespace
