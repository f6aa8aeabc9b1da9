// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames whose producer is not done when they come. A memory of dma-buf type over an eventfd, beside the one with the
// pixels, polls like a dma-buf that somebody still writes: the frame is read from memory that the CPU can see, and its
// fence is the test's.
#include "tests/elements/infer/fixture.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <future>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <gst/allocators/allocators.h>
#include <sys/eventfd.h>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char *kRgb = "video/x-raw,format=RGB,width=64,height=64,framerate=30/1";
constexpr auto kAtOnce = 5s;    // what nobody waits for, on a busy machine
constexpr auto kAWhile = 100ms; // in which what has to wait does not come

class Producer {
public:
  Producer() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void finish() { eventfd_write(fd_.get(), 1); }
  void beginAgain() {
    eventfd_t count = 0;
    eventfd_read(fd_.get(), &count);
  }

  // Takes the frame; the same one, which the producer still writes into.
  GstBuffer *writes(GstBuffer *frame) {
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    frame = gst_buffer_make_writable(frame);
    gst_buffer_append_memory(frame,
                             gst_dmabuf_allocator_alloc(allocator, UniqueFd::duplicate(fd_.get()).release(), 16));
    gst_object_unref(allocator);
    return frame;
  }

private:
  UniqueFd fd_;
};

// A frame of which nobody can say whether it is finished: its descriptor is closed.
GstBuffer *withClosedDescriptor(GstBuffer *frame) {
  GstAllocator *allocator = gst_dmabuf_allocator_new();
  const int closed = fcntl(0, F_DUPFD_CLOEXEC, 900); // out of the way of those that are opened next
  gst_buffer_append_memory(frame,
                           gst_dmabuf_allocator_alloc_with_flags(allocator, closed, 16, GST_FD_MEMORY_FLAG_DONT_CLOSE));
  close(closed);
  gst_object_unref(allocator);
  return frame;
}

GstBuffer *frame(GstClockTime pts = GST_CLOCK_TIME_NONE) {
  GstBuffer *buffer = solid("RGB", 64, 64, {1, 2, 3});
  GST_BUFFER_PTS(buffer) = pts;
  return buffer;
}

// An event of a device of this process, which the test ends.
class DeviceEvent {
public:
  DeviceEvent() : event_(gst_zc_device_event_new(&kFuncs, new std::shared_ptr<State>(state_))) {}
  ~DeviceEvent() { gst_zc_device_event_unref(event_); }
  DeviceEvent(const DeviceEvent &) = delete;
  DeviceEvent &operator=(const DeviceEvent &) = delete;

  void end(gint status) {
    state_->status = status;
    eventfd_write(state_->fd.get(), 1);
  }

  // Takes the frame; the same one, which the device still writes into.
  GstBuffer *writes(GstBuffer *frame) {
    frame = gst_buffer_make_writable(frame);
    gst_buffer_add_zc_event_meta(frame, event_, 0);
    return frame;
  }

private:
  struct State {
    std::atomic<gint> status = 0;
    UniqueFd fd{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  };
  static State &state(gpointer data) { return **static_cast<std::shared_ptr<State> *>(data); }
  static constexpr GstZcDeviceEventFuncs kFuncs = {
      .kind = "test",
      .status = [](gpointer data) { return state(data).status.load(); },
      .make_fd = [](gpointer data) { return UniqueFd::duplicate(state(data).fd.get()).release(); },
      .native = nullptr,
      .free = [](gpointer data) { delete static_cast<std::shared_ptr<State> *>(data); },
      ._gst_reserved = {},
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
  GstZcDeviceEvent *event_;
};

struct Unref {
  void operator()(GstElement *element) const {
    gst_element_set_state(element, GST_STATE_NULL);
    gst_object_unref(element);
  }
};
using Pipeline = std::unique_ptr<GstElement, Unref>;

class Fences : public FenceInferTest {
protected:
  ~Fences() override {
    stop();
    EXPECT_EQ(waiting(), 0u) << "a wait outlives the element";
  }

  static uint64_t waiting() { return FencePoller::process().counters().pending; }
  std::string fast() { return save(constantFaces(128, {kMiddleFace}, 3.0f), "fast.onnx"); }

  // The frame that leaves, within 10 s; null where none does.
  GstBuffer *pull() {
    const auto until = Clock::now() + 10s;
    GstBuffer *buffer = nullptr;
    while (buffer == nullptr && Clock::now() < until) {
      buffer = gst_harness_try_pull(harness_);
      if (buffer == nullptr) std::this_thread::sleep_for(1ms);
    }
    return buffer;
  }

  bool nothingLeaves() {
    std::this_thread::sleep_for(kAWhile);
    GstBuffer *buffer = gst_harness_try_pull(harness_);
    const bool nothing = buffer == nullptr;
    gst_clear_buffer(&buffer);
    return nothing;
  }

  void expectResult(GstClockTime pts = GST_CLOCK_TIME_NONE) {
    GstBuffer *out = pull();
    ASSERT_NE(out, nullptr) << "no frame left";
    EXPECT_EQ(boxesOf(out).size(), 1u);
    EXPECT_EQ(GST_BUFFER_PTS(out), pts);
    gst_buffer_unref(out);
  }

  // The text of the next message of the kind, which is the only one.
  std::string onlyMessage(GstMessageType type, GQuark domain, gint code) {
    GstMessage *posted = message(type);
    if (posted == nullptr) return "no message";
    GError *error = nullptr;
    (type == GST_MESSAGE_ERROR ? gst_message_parse_error : gst_message_parse_warning)(posted, &error, nullptr);
    const std::string text = error->message;
    EXPECT_TRUE(g_error_matches(error, domain, code)) << g_quark_to_string(error->domain) << " " << error->code;
    g_error_free(error);
    gst_message_unref(posted);
    GstMessage *second = message(type, 0);
    EXPECT_EQ(second, nullptr) << "a second message";
    gst_clear_message(&second);
    return text;
  }

  // videotestsrc ! fenceinfer ! fakesink, where `producer` still writes frame number `nth`.
  Pipeline pipeline(Producer &producer, int nth, const std::string &properties) {
    GError *error = nullptr;
    GstElement *made = gst_parse_launch(("videotestsrc ! video/x-raw,format=RGB,width=64,height=48,framerate=100/1 ! "
                                         "fenceinfer name=infer model-file=\"" +
                                         fast() + "\" " + properties + " ! fakesink name=sink sync=false")
                                            .c_str(),
                                        &error);
    EXPECT_EQ(error, nullptr) << error->message;
    left_ = nth;
    producer_ = &producer;
    GstElement *infer = gst_bin_get_by_name(GST_BIN(made), "infer");
    GstPad *sink = gst_element_get_static_pad(infer, "sink");
    const auto attach = [](GstPad *, GstPadProbeInfo *info, gpointer data) {
      auto *self = static_cast<Fences *>(data);
      if (self->left_-- == 0) info->data = self->producer_->writes(GST_PAD_PROBE_INFO_BUFFER(info));
      return GST_PAD_PROBE_OK;
    };
    gst_pad_add_probe(sink, GST_PAD_PROBE_TYPE_BUFFER, attach, this, nullptr);
    gst_object_unref(sink);
    gst_object_unref(infer);
    return Pipeline(made);
  }

  static bool untilWaiting(uint64_t n) {
    const auto until = Clock::now() + 10s;
    while (waiting() != n && Clock::now() < until) std::this_thread::sleep_for(1ms);
    return waiting() == n;
  }

  std::atomic<int> left_ = 0;
  Producer *producer_ = nullptr;
};

TEST_F(Fences, ReadyBefore) {
  start(fast(), kRgb);
  Producer producer;
  producer.finish();
  ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame())), GST_FLOW_OK);
  expectResult();
  EXPECT_EQ(stat("fence-waits"), 0u);
  EXPECT_EQ(stat("fence-wait-us"), 0u);
  EXPECT_EQ(stat("errors"), 0u);
}

// Scores are the means of the channels, so they say when the pixels were read.
TEST_F(Fences, TheFrameIsReadOnlyAfterItsProducerIsDone) {
  start(save(channelMeans(128, {EncodedFace{0, 0, 0, 8, 8}, EncodedFace{14, 0, 0, 8, 8}, EncodedFace{28, 0, 0, 8, 8}}),
             "means.onnx"),
        kRgb, "threshold=0 fence-timeout=30000");
  std::vector<guint8> pixels(64 * 64 * 3, 0);
  GstBuffer *in = gst_buffer_new();
  gst_buffer_append_memory(in, gst_memory_new_wrapped(static_cast<GstMemoryFlags>(0), pixels.data(), pixels.size(), 0,
                                                      pixels.size(), nullptr, nullptr));
  Producer producer;
  ASSERT_EQ(gst_harness_push(harness_, producer.writes(in)), GST_FLOW_OK);
  EXPECT_TRUE(nothingLeaves());
  std::fill(pixels.begin(), pixels.end(), guint8{255});
  producer.finish();
  GstBuffer *out = pull();
  ASSERT_NE(out, nullptr);
  const auto boxes = boxesOf(out);
  EXPECT_EQ(boxes.size(), 3u);
  for (const Box &box : boxes) EXPECT_NEAR(box.score, 1 / (1 + std::exp(-1.0)), 1e-4); // white is 1
  gst_buffer_unref(out);
  EXPECT_EQ(stat("fence-waits"), 1u);
  EXPECT_GE(stat("fence-wait-us"), 100'000u);
  EXPECT_EQ(stat("fence-wait-p50-us"), stat("fence-wait-us"));
  EXPECT_EQ(stat("fence-wait-p95-us"), stat("fence-wait-us"));
  EXPECT_EQ(stat("fence-timeouts"), 0u);
  EXPECT_EQ(stat("fence-errors"), 0u);
  EXPECT_EQ(stat("dropped"), 0u);
}

TEST_F(Fences, LateFramesAreDroppedAndWarnedOfOnce) {
  start(fast(), kRgb, "fence-timeout=100");
  Producer producer;
  for (GstClockTime pts : {1, 2}) {
    ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame(pts))), GST_FLOW_OK);
    ASSERT_EQ(gst_harness_push(harness_, frame(pts + 10)), GST_FLOW_OK);
    expectResult(pts + 10);
  }
  const std::string warning = onlyMessage(GST_MESSAGE_WARNING, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ);
  EXPECT_NE(warning.find("100 ms"), std::string::npos) << warning;
  EXPECT_NE(warning.find("on-fence-error=drop"), std::string::npos) << warning;
  EXPECT_EQ(stat("fence-waits"), 2u);
  EXPECT_EQ(stat("fence-timeouts"), 2u);
  EXPECT_EQ(stat("fence-errors"), 0u);
  EXPECT_EQ(stat("dropped"), 2u);
  EXPECT_EQ(stat("errors"), 2u);
  EXPECT_EQ(stat("frames"), 2u);
}

TEST_F(Fences, LateFramesPassUnread) {
  start(fast(), kRgb, "fence-timeout=100 on-fence-error=pass message-results=true");
  Producer producer;
  GstBuffer *in = producer.writes(frame());
  GstMemory *memory = gst_buffer_peek_memory(in, 0);
  ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
  GstBuffer *out = pull();
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(out, in);
  EXPECT_EQ(gst_buffer_peek_memory(out, 0), memory);
  EXPECT_EQ(gst_buffer_get_analytics_relation_meta(out), nullptr);
  gst_buffer_unref(out);
  GstMessage *posted = message(static_cast<GstMessageType>(GST_MESSAGE_WARNING | GST_MESSAGE_ELEMENT));
  ASSERT_NE(posted, nullptr);
  ASSERT_EQ(GST_MESSAGE_TYPE(posted), GST_MESSAGE_WARNING) << "a result of a frame that nobody read";
  GError *error = nullptr;
  gst_message_parse_warning(posted, &error, nullptr);
  EXPECT_NE(std::string(error->message).find("on-fence-error=pass"), std::string::npos) << error->message;
  g_error_free(error);
  gst_message_unref(posted);
  EXPECT_EQ(message(GST_MESSAGE_ANY, 0), nullptr);
  EXPECT_EQ(stat("frames"), 1u);
  EXPECT_EQ(stat("inferred"), 0u);
  EXPECT_EQ(stat("dropped"), 0u);
  EXPECT_EQ(stat("fence-timeouts"), 1u);
}

TEST_F(Fences, LateFramesEndTheStreamWhereAsked) {
  start(fast(), kRgb, "fence-timeout=100 on-fence-error=error");
  Producer producer;
  GstFlowReturn flow = gst_harness_push(harness_, producer.writes(frame()));
  for (int i = 0; i < 100 && flow == GST_FLOW_OK; ++i) flow = gst_harness_push(harness_, frame());
  EXPECT_EQ(flow, GST_FLOW_ERROR);
  const std::string error = onlyMessage(GST_MESSAGE_ERROR, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ);
  EXPECT_NE(error.find("100 ms"), std::string::npos) << error;
  EXPECT_NE(error.find("on-fence-error"), std::string::npos) << error;
  EXPECT_EQ(stat("frames"), 0u);
}

TEST_F(Fences, AFrameThatCannotBeAskedIsOneWhoseFenceFailed) {
  struct {
    const char *policy;
    guint64 frames, dropped;
  } const rows[] = {{"drop", 0, 1}, {"pass", 1, 0}, {"error", 0, 1}};
  for (const auto &row : rows) {
    SCOPED_TRACE(row.policy);
    start(fast(), kRgb, std::string("on-fence-error=") + row.policy);
    ASSERT_EQ(gst_harness_push(harness_, withClosedDescriptor(frame())), GST_FLOW_OK);
    const bool fails = row.policy == std::string("error");
    const std::string text =
        onlyMessage(fails ? GST_MESSAGE_ERROR : GST_MESSAGE_WARNING, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ);
    EXPECT_NE(text.find("memory 1 of the frame"), std::string::npos) << text;
    EXPECT_EQ(stat("fence-errors"), 1u);
    EXPECT_EQ(stat("fence-timeouts"), 0u);
    EXPECT_EQ(stat("dropped"), row.dropped);
    if (row.frames > 0) {
      GstBuffer *out = pull();
      ASSERT_NE(out, nullptr);
      EXPECT_EQ(gst_buffer_get_analytics_relation_meta(out), nullptr);
      gst_buffer_unref(out);
    }
    EXPECT_EQ(stat("frames"), row.frames);
    stop();
  }
}

TEST_F(Fences, AFrameWithAnEventIsReadOnlyAfterIt) {
  start(fast(), kRgb, "fence-timeout=30000");
  DeviceEvent event;
  ASSERT_EQ(gst_harness_push(harness_, event.writes(frame(1))), GST_FLOW_OK);
  EXPECT_TRUE(nothingLeaves());
  event.end(1);
  expectResult(1);
  EXPECT_EQ(stat("fence-waits"), 1u);
}

TEST_F(Fences, EventsAndMemoriesAreWaitedForTogether) {
  start(fast(), kRgb, "fence-timeout=30000");
  DeviceEvent event;
  Producer producer;
  ASSERT_EQ(gst_harness_push(harness_, producer.writes(event.writes(frame(1)))), GST_FLOW_OK);
  event.end(1);
  EXPECT_TRUE(nothingLeaves());
  producer.finish();
  expectResult(1);
}

TEST_F(Fences, FencesThatFail) {
  struct {
    const char *policy;
    bool before; // the frame came
    guint64 frames, dropped;
  } const rows[] = {{"drop", false, 0, 1}, {"drop", true, 0, 1},   {"pass", false, 1, 0},
                    {"pass", true, 1, 0},  {"error", false, 0, 1}, {"error", true, 0, 1}};
  for (const auto &row : rows) {
    SCOPED_TRACE(std::string(row.policy) + (row.before ? " before" : " after"));
    start(fast(), kRgb, std::string("fence-timeout=30000 on-fence-error=") + row.policy);
    DeviceEvent event;
    if (row.before) event.end(-EIO);
    ASSERT_EQ(gst_harness_push(harness_, event.writes(frame(1))), GST_FLOW_OK);
    if (!row.before) event.end(-EIO);
    const bool fails = row.policy == std::string("error");
    const std::string text =
        onlyMessage(fails ? GST_MESSAGE_ERROR : GST_MESSAGE_WARNING, GST_RESOURCE_ERROR, GST_RESOURCE_ERROR_READ);
    EXPECT_NE(text.find("Input/output error"), std::string::npos) << text;
    if (row.frames > 0) {
      GstBuffer *out = pull();
      ASSERT_NE(out, nullptr);
      EXPECT_EQ(gst_buffer_get_analytics_relation_meta(out), nullptr);
      gst_buffer_unref(out);
    }
    if (!fails) { // and the stream goes on
      ASSERT_EQ(gst_harness_push(harness_, frame(2)), GST_FLOW_OK);
      expectResult(2);
    }
    EXPECT_EQ(stat("fence-errors"), 1u);
    EXPECT_EQ(stat("fence-timeouts"), 0u);
    EXPECT_EQ(stat("fence-waits"), row.before ? 0u : 1u);
    EXPECT_EQ(stat("dropped"), row.dropped);
    EXPECT_EQ(stat("errors"), 1u);
    stop();
  }
}

TEST_F(Fences, TheFrameAfterADroppedOneIsMarked) {
  start(fast(), kRgb);
  for (const GstClockTime pts : {0, 1, 2}) {
    DeviceEvent event;
    event.end(-EIO);
    ASSERT_EQ(gst_harness_push(harness_, pts == 1 ? event.writes(frame(pts)) : frame(pts)), GST_FLOW_OK);
  }
  ASSERT_EQ(gst_harness_push(harness_, frame(3)), GST_FLOW_OK);
  for (const GstClockTime pts : {0, 2, 3}) {
    GstBuffer *out = pull();
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(GST_BUFFER_PTS(out), pts);
    EXPECT_EQ(GST_BUFFER_FLAG_IS_SET(out, GST_BUFFER_FLAG_DISCONT), pts == 2) << pts;
    gst_buffer_unref(out);
  }
}

TEST_F(Fences, ThePropertiesCountWhilePlaying) {
  start(fast(), kRgb, "fence-timeout=30000");
  Producer producer;
  ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame(1))), GST_FLOW_OK);
  g_object_set(harness_->element, "fence-timeout", 50u, nullptr); // of the frames to come
  gst_util_set_object_arg(G_OBJECT(harness_->element), "on-fence-error", "pass");
  Producer second;
  ASSERT_EQ(gst_harness_push(harness_, second.writes(frame(2))), GST_FLOW_OK);
  EXPECT_TRUE(nothingLeaves());
  producer.finish();
  expectResult(1);
  GstBuffer *out = pull();
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(GST_BUFFER_PTS(out), 2u);
  EXPECT_EQ(gst_buffer_get_analytics_relation_meta(out), nullptr);
  gst_buffer_unref(out);
  guint timeout = 0;
  g_object_get(harness_->element, "fence-timeout", &timeout, nullptr);
  EXPECT_EQ(timeout, 50u);
}

TEST_F(Fences, OrderIsKeptWhateverSignalsFirst) {
  start(fast(), kRgb, "max-in-flight=4 fence-timeout=30000");
  std::array<Producer, 4> producers;
  const auto before = Clock::now();
  for (guint64 n = 0; n < 4; ++n) ASSERT_EQ(gst_harness_push(harness_, producers[n].writes(frame(n))), GST_FLOW_OK);
  EXPECT_LT(Clock::now() - before, kAtOnce) << "the streaming thread waited for a fence";
  for (size_t n : {2, 3, 1}) producers[n].finish();
  EXPECT_TRUE(nothingLeaves());
  producers[0].finish();
  for (GstClockTime n = 0; n < 4; ++n) expectResult(n);
  EXPECT_EQ(stat("fence-waits"), 4u);
}

// The frame was ready when it came; while it waits for a worker somebody writes into it again.
TEST_F(Fences, AFrameIsLookedAtAgainBeforeItIsRead) {
  // the one worker has half a second to do for each frame
  start(save(slowFaces({{0, 124, 124, 64, 48}}, 3.0f, 500), "slow.onnx"), kRgb, "workers=1 fence-timeout=30000");
  Producer second;
  second.finish();
  ASSERT_EQ(gst_harness_push(harness_, frame(1)), GST_FLOW_OK);
  ASSERT_EQ(gst_harness_push(harness_, second.writes(frame(2))), GST_FLOW_OK);
  second.beginAgain();
  expectResult(1);
  ASSERT_TRUE(untilWaiting(1));
  EXPECT_TRUE(nothingLeaves());
  second.finish();
  expectResult(2);
  EXPECT_EQ(stat("fence-waits"), 1u);
  EXPECT_EQ(stat("errors"), 0u);

  // and a flush ends that wait, too
  Producer fourth;
  fourth.finish();
  ASSERT_EQ(gst_harness_push(harness_, frame(3)), GST_FLOW_OK);
  ASSERT_EQ(gst_harness_push(harness_, fourth.writes(frame(4))), GST_FLOW_OK);
  fourth.beginAgain();
  expectResult(3);
  ASSERT_TRUE(untilWaiting(1));
  const auto before = Clock::now();
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_start()));
  ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE)));
  EXPECT_LT(Clock::now() - before, kAtOnce);
  EXPECT_EQ(waiting(), 0u);
  EXPECT_EQ(stat("dropped"), 1u);
  EXPECT_EQ(stat("errors"), 0u);
}

// Who comes next may know nothing of fences: the ALLOCATION query promised the producer that we wait.
TEST_F(Fences, AFrameThatNobodyLooksAtWaitsTooForItsProducer) {
  for (const bool comes : {true, false}) {
    SCOPED_TRACE(comes);
    start(fast(), kRgb, comes ? "inference-interval=2 fence-timeout=30000" : "inference-interval=2 fence-timeout=300");
    Producer producer;
    ASSERT_EQ(gst_harness_push(harness_, frame(1)), GST_FLOW_OK);
    expectResult(1);
    ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame(2))), GST_FLOW_OK);
    if (comes) {
      EXPECT_TRUE(nothingLeaves());
      producer.finish();
      GstBuffer *out = gst_harness_pull(harness_);
      ASSERT_NE(out, nullptr);
      EXPECT_EQ(gst_buffer_get_analytics_relation_meta(out), nullptr) << "it was looked at";
      gst_buffer_unref(out);
      EXPECT_EQ(stat("skipped"), 1u);
    } else {
      ASSERT_EQ(gst_harness_push(harness_, frame(3)), GST_FLOW_OK);
      expectResult(3);
      EXPECT_EQ(stat("fence-timeouts"), 1u);
      EXPECT_EQ(stat("dropped"), 1u);
    }
    stop();
  }
}

TEST_F(Fences, TheStreamingThreadWaitsAtTheBoundOnly) {
  start(fast(), kRgb, "max-in-flight=2 fence-timeout=30000");
  Producer producer;
  for (GstClockTime n : {0, 1}) ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame(n))), GST_FLOW_OK);
  auto third = std::async(std::launch::async, [&] { return gst_harness_push(harness_, frame(2)); });
  EXPECT_EQ(third.wait_for(kAWhile), std::future_status::timeout) << "more frames are held than max-in-flight";
  producer.finish();
  ASSERT_EQ(third.wait_for(10s), std::future_status::ready);
  EXPECT_EQ(third.get(), GST_FLOW_OK);
  for (GstClockTime n = 0; n < 3; ++n) expectResult(n);
}

TEST_F(Fences, TheEndOfTheStreamLeavesAfterThePendingFrame) {
  for (const bool comes : {true, false}) {
    SCOPED_TRACE(comes);
    start(fast(), kRgb, comes ? "fence-timeout=30000" : "fence-timeout=300");
    Producer producer;
    ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame(1))), GST_FLOW_OK);
    ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_eos()));
    const auto ended = [this] {
      bool eos = false;
      while (GstEvent *event = gst_harness_try_pull_event(harness_)) {
        eos |= GST_EVENT_TYPE(event) == GST_EVENT_EOS;
        gst_event_unref(event);
      }
      return eos;
    };
    if (comes) { // the other one's time may be over on a busy machine
      EXPECT_TRUE(nothingLeaves());
      EXPECT_FALSE(ended()) << "the end overtook the last frame";
      producer.finish();
      expectResult(1);
    }
    const auto until = Clock::now() + 10s;
    bool eos = false;
    while (!(eos = ended()) && Clock::now() < until) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(eos);
    EXPECT_EQ(stat("dropped"), comes ? 0u : 1u);
    stop();
  }
}

TEST_F(Fences, AFlushWaitsForNoFence) {
  start(fast(), kRgb, "max-in-flight=2 fence-timeout=30000");
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  for (int round = 0; round < 3; ++round) {
    Producer producer;
    for (int n = 0; n < 2; ++n) ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame())), GST_FLOW_OK);
    auto third = std::async(std::launch::async, [&] { return gst_harness_push(harness_, producer.writes(frame())); });
    ASSERT_TRUE(untilWaiting(3));
    const auto before = Clock::now();
    ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_start()));
    ASSERT_EQ(third.wait_for(kAtOnce), std::future_status::ready);
    EXPECT_EQ(third.get(), GST_FLOW_FLUSHING);
    EXPECT_EQ(waiting(), 0u);
    ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_flush_stop(TRUE)));
    EXPECT_LT(Clock::now() - before, kAtOnce);
    ASSERT_TRUE(gst_harness_push_event(harness_, gst_event_new_segment(&segment)));
    ASSERT_EQ(gst_harness_push(harness_, frame(7)), GST_FLOW_OK);
    expectResult(7);
  }
  EXPECT_EQ(stat("dropped"), 9u) << "the one that waited for room, too";
  EXPECT_EQ(stat("errors"), 0u);
  EXPECT_EQ(stat("fence-timeouts"), 0u);
  EXPECT_EQ(message(GST_MESSAGE_WARNING, 0), nullptr) << "a flush is no fence error";
}

TEST_F(Fences, StoppingWaitsForNoFence) {
  for (const GstState state : {GST_STATE_READY, GST_STATE_NULL}) {
    start(fast(), kRgb, "fence-timeout=30000");
    Producer producer;
    for (int n = 0; n < 3; ++n) ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame())), GST_FLOW_OK);
    EXPECT_EQ(waiting(), 3u);
    const auto before = Clock::now();
    EXPECT_EQ(gst_element_set_state(harness_->element, state), GST_STATE_CHANGE_SUCCESS);
    EXPECT_LT(Clock::now() - before, kAtOnce);
    EXPECT_EQ(waiting(), 0u);
    stop();
  }
}

TEST_F(Fences, PrerollWaitsForTheFirstFrame) {
  Producer producer;
  Pipeline playing = pipeline(producer, 0, "fence-timeout=30000");
  EXPECT_EQ(gst_element_set_state(playing.get(), GST_STATE_PAUSED), GST_STATE_CHANGE_ASYNC);
  ASSERT_TRUE(untilWaiting(1));
  EXPECT_EQ(gst_element_get_state(playing.get(), nullptr, nullptr, 100 * GST_MSECOND), GST_STATE_CHANGE_ASYNC);
  producer.finish();
  EXPECT_EQ(gst_element_get_state(playing.get(), nullptr, nullptr, 10 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
}

TEST_F(Fences, PrerollIsTheNextFramesWhereTheFirstNeverComes) {
  Producer producer;
  Pipeline playing = pipeline(producer, 0, "fence-timeout=100");
  EXPECT_EQ(gst_element_set_state(playing.get(), GST_STATE_PAUSED), GST_STATE_CHANGE_ASYNC);
  EXPECT_EQ(gst_element_get_state(playing.get(), nullptr, nullptr, 10 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
}

TEST_F(Fences, APrerollThatWaitsCanBeGivenUp) {
  Producer producer;
  Pipeline playing = pipeline(producer, 0, "fence-timeout=30000");
  EXPECT_EQ(gst_element_set_state(playing.get(), GST_STATE_PAUSED), GST_STATE_CHANGE_ASYNC);
  ASSERT_TRUE(untilWaiting(1));
  const auto before = Clock::now();
  EXPECT_EQ(gst_element_set_state(playing.get(), GST_STATE_READY), GST_STATE_CHANGE_SUCCESS);
  EXPECT_LT(Clock::now() - before, kAtOnce);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(Fences, ASeekWaitsForNoFence) {
  Producer producer;
  Pipeline playing = pipeline(producer, 5, "fence-timeout=30000");
  gst_element_set_state(playing.get(), GST_STATE_PLAYING);
  ASSERT_TRUE(untilWaiting(1));
  const auto before = Clock::now();
  EXPECT_TRUE(gst_element_seek_simple(playing.get(), GST_FORMAT_TIME, GST_SEEK_FLAG_FLUSH, 0));
  EXPECT_LT(Clock::now() - before, kAtOnce);
  EXPECT_EQ(gst_element_get_state(playing.get(), nullptr, nullptr, 10 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  EXPECT_EQ(waiting(), 0u);
}

TEST_F(Fences, AStuckBranchDoesNotHoldUpAnother) {
  start(fast(), kRgb, "fence-timeout=30000");
  Producer producer;
  for (int n = 0; n < 3; ++n) ASSERT_EQ(gst_harness_push(harness_, producer.writes(frame())), GST_FLOW_OK);
  GstHarness *other = gst_harness_new_parse(("fenceinfer model-file=\"" + fast() + "\"").c_str());
  gst_harness_set_src_caps_str(other, kRgb);
  const auto before = Clock::now();
  for (int n = 0; n < 20; ++n) {
    Producer quick;
    ASSERT_EQ(gst_harness_push(other, quick.writes(frame())), GST_FLOW_OK);
    quick.finish();
    GstBuffer *out = gst_harness_pull(other);
    ASSERT_NE(out, nullptr);
    gst_buffer_unref(out);
  }
  EXPECT_LT(Clock::now() - before, 2 * kAtOnce);
  gst_harness_teardown(other);
  EXPECT_TRUE(nothingLeaves());
  EXPECT_EQ(waiting(), 3u);
}

} // namespace
} // namespace gstzc::test
