// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink against GStreamer's kmssink, a loop of atomic commits and a sink that only waits, in the laboratory:
// 64x48 dma-bufs at the 60 frames a second of a vkms output; CPU time a frame that is shown, and how many of them are.
// All sides are measured by turns and show the same eight buffers.
//
// With --instructions it is in a laboratory that counts them (GSTZC_LAB_ACCEL=icount), where a CPU time in nanoseconds
// is a number of instructions, the kernel's for the process among them.
//
// kmssink does not set modes of that size, so the mode is set before it plays, and whoever set it gives the card away.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/app/gstappsrc.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <poll.h>

#include "tests/bench/measure.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/screen.h"

using namespace gstzc;
using namespace std::chrono_literals;

namespace {

constexpr uint32_t kWidth = 64, kHeight = 48, kStride = kWidth * 4;
constexpr size_t kBytes = size_t{kStride} * kHeight;
constexpr int kBuffers = 8, kRounds = 4;
constexpr int kFrames = 240;     // four seconds: a round
constexpr int kLongFrames = 600; // ten seconds: none may be lost
constexpr uint64_t kPeriod = 1'000'000'000 / 60;

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

template <typename T> T orFail(Result<T> result) {
  if (!result) fail(result.error().message());
  return result.take();
}

struct Taken {
  double cpu_ns = 0;  // a frame that is shown
  double shown = 0;   // frames
  double wall_ns = 0; // a frame
};

class Buffers {
public:
  Buffers() {
    GstAllocator *allocator = gst_dmabuf_allocator_new();
    for (int i = 0; i < kBuffers; ++i) {
      UniqueFd fd = orFail(lab::allocateUdmabuf(kBytes));
      fds_.push_back(UniqueFd::duplicate(fd.get()));
      memories_.push_back(gst_dmabuf_allocator_alloc(allocator, fd.release(), kBytes));
    }
    gst_object_unref(allocator);
  }
  ~Buffers() {
    for (GstMemory *memory : memories_) gst_memory_unref(memory);
  }

  GstBuffer *frame(int n) const {
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_memory_ref(memories_[static_cast<size_t>(n % kBuffers)]));
    const gsize offset[GST_VIDEO_MAX_PLANES] = {0};
    const gint stride[GST_VIDEO_MAX_PLANES] = {kStride};
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_BGRx, kWidth, kHeight, 1, offset,
                                   stride);
    GST_BUFFER_PTS(buffer) = static_cast<uint64_t>(n) * kPeriod;
    GST_BUFFER_DURATION(buffer) = kPeriod;
    return buffer;
  }
  int dmabuf(int n) const { return fds_[static_cast<size_t>(n)].get(); }

private:
  std::vector<UniqueFd> fds_;
  std::vector<GstMemory *> memories_;
};

// The card with a mode of the frames' size; given away while somebody else is to be its master.
class Stage {
public:
  Stage()
      : card_(orFail(lab::openCard("vkms"))), path_(orFail(lab::cardPath("vkms"))),
        screen_(orFail(lab::Screen::find(card_.get()))) {
    black_.emplace(orFail(lab::DumbFramebuffer::create(card_.get(), kWidth, kHeight, DRM_FORMAT_XRGB8888)));
    setMode();
  }
  void setMode() {
    if (auto shown = screen_.show(black_->id(), lab::makeMode(kWidth, kHeight)); !shown) fail(shown.error().message());
  }
  void give() { drmDropMaster(card_.get()); }
  void take() {
    if (drmSetMaster(card_.get()) != 0) fail("the card does not come back");
    setMode();
  }
  int card() const { return card_.get(); }
  const std::string &path() const { return path_; }
  lab::Screen &screen() { return screen_; }

private:
  UniqueFd card_;
  std::string path_;
  lab::Screen screen_;
  std::optional<lab::DumbFramebuffer> black_;
};

uint64_t statOf(GstElement *sink, const char *name) {
  GstStructure *stats = nullptr;
  g_object_get(sink, "stats", &stats, nullptr);
  guint64 value = 0;
  if (stats != nullptr) gst_structure_get_uint64(stats, name, &value);
  gst_clear_structure(&stats);
  return value;
}

Taken play(Stage &stage, const Buffers &buffers, const std::string &sink, int frames) {
  stage.give();
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(
      ("appsrc name=src format=time max-bytes=0 caps=\"video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,"
       "width=64,height=48,framerate=60/1\" ! " +
       sink + " name=sink")
          .c_str(),
      &error);
  if (error != nullptr) fail(error->message);
  GstElement *src = gst_bin_get_by_name(GST_BIN(pipeline), "src"),
             *shown = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  for (int n = 0; n < frames; ++n) gst_app_src_push_buffer(GST_APP_SRC(src), buffers.frame(n));
  gst_app_src_end_of_stream(GST_APP_SRC(src));
  GstBus *bus = gst_element_get_bus(pipeline);
  gst_element_set_state(pipeline, GST_STATE_PAUSED);
  const auto expect = [&](GstMessageType wanted) {
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, static_cast<GstMessageType>(wanted | GST_MESSAGE_ERROR));
    if (message == nullptr) fail(sink + ": nothing happens");
    if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR) {
      gchar *debug = nullptr;
      gst_message_parse_error(message, &error, &debug);
      fail(sink + ": " + error->message + " (" + (debug != nullptr ? debug : "") + ")");
    }
    gst_message_unref(message);
  };
  expect(GST_MESSAGE_ASYNC_DONE);
  const uint64_t cpu = bench::clockNs(CLOCK_PROCESS_CPUTIME_ID), wall = bench::clockNs();
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  expect(GST_MESSAGE_EOS);
  Taken taken;
  const auto spent = static_cast<double>(bench::clockNs(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  taken.wall_ns = static_cast<double>(bench::clockNs() - wall) / frames;
  // of our own: what came on the screen; of kmssink: what it rendered
  const bool ours = sink.find("drmmodifiersink") == 0;
  taken.shown = static_cast<double>(statOf(shown, ours ? "shown" : "rendered"));
  taken.cpu_ns = spent / std::max(taken.shown, 1.0);
  if (ours && statOf(shown, "imports") > kBuffers) fail("framebuffers were made for frames that were known");
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(src);
  gst_object_unref(shown);
  gst_object_unref(pipeline);
  stage.take();
  return taken;
}

// Nothing but what the kernel asks for: a commit a frame that is not waited for, and its flip.
Taken bareLoop(Stage &stage, const Buffers &buffers, int frames) {
  const int card = stage.card();
  uint32_t framebuffers[kBuffers] = {};
  for (int i = 0; i < kBuffers; ++i) {
    uint32_t handle = 0;
    if (drmPrimeFDToHandle(card, buffers.dmabuf(i), &handle) != 0) fail("a dma-buf cannot be imported");
    const uint32_t handles[4] = {handle}, pitches[4] = {kStride}, offsets[4] = {};
    if (drmModeAddFB2(card, kWidth, kHeight, DRM_FORMAT_XRGB8888, handles, pitches, offsets, &framebuffers[i], 0) != 0)
      fail("no framebuffer for a dma-buf");
    drmCloseBufferHandle(card, handle);
  }
  const uint32_t plane = stage.screen().plane();
  const uint32_t property = lab::property(card, plane, DRM_MODE_OBJECT_PLANE, "FB_ID").id;
  const uint64_t cpu = bench::clockNs(CLOCK_PROCESS_CPUTIME_ID), wall = bench::clockNs();
  for (int n = 0; n < frames; ++n) {
    const lab::DrmPtr<drmModeAtomicReq> request(drmModeAtomicAlloc());
    drmModeAtomicAddProperty(request.get(), plane, property, framebuffers[n % kBuffers]);
    if (drmModeAtomicCommit(card, request.get(), DRM_MODE_ATOMIC_NONBLOCK | DRM_MODE_PAGE_FLIP_EVENT, nullptr) != 0)
      fail("a commit of the bare loop failed");
    pollfd readable = {card, POLLIN, 0};
    if (poll(&readable, 1, 5000) != 1) fail("no flip within 5 s");
    drmEventContext context = {};
    context.version = 2;
    drmHandleEvent(card, &context);
  }
  Taken taken;
  taken.cpu_ns = static_cast<double>(bench::clockNs(CLOCK_PROCESS_CPUTIME_ID) - cpu) / frames;
  taken.wall_ns = static_cast<double>(bench::clockNs() - wall) / frames;
  taken.shown = frames;
  stage.setMode();
  for (const uint32_t framebuffer : framebuffers) drmModeRmFB(card, framebuffer);
  return taken;
}

} // namespace

int main(int argc, char **argv) {
  gst_init(&argc, &argv);
  const bool instructions = argc > 1 && std::string(argv[1]) == "--instructions";
  Stage stage;
  const Buffers buffers;
  const std::string device = stage.path();
  const std::string ours = "drmmodifiersink mode=64x48@60 device=" + device;
  const std::string kms = "kmssink driver-name=vkms";
  struct Side {
    std::string sink; // empty: the bare loop
    std::vector<double> cpu = {};
  } sides[] = {{ours}, {kms}, {kms + " skip-vsync=true"}, {""}, {"fakesink sync=true qos=true"}};
  const auto run = [&](const Side &side, int frames) {
    return side.sink.empty() ? bareLoop(stage, buffers, frames) : play(stage, buffers, side.sink, frames);
  };
  for (Side &side : sides) run(side, 30); // warm
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < std::size(sides); ++i) { // both orders as often, so that what drifts counts for none
      Side &side = sides[round % 2 == 0 ? i : std::size(sides) - 1 - i];
      side.cpu.push_back(run(side, kFrames).cpu_ns);
    }
  const std::string what = std::string(instructions ? "instructions" : "CPU") + " a frame shown, ";
  const auto compare = [&](const char *name, const std::vector<double> &cpu, const std::vector<double> &other,
                           const char *against, double limit) {
    std::vector<double> ratios;
    for (size_t i = 0; i < cpu.size(); ++i) ratios.push_back(cpu[i] / other[i]);
    bench::report({what + name, bench::median(cpu) / 1000, instructions ? "thousand" : "us",
                   bench::median(cpu) / bench::median(other), against,
                   bench::quantile(ratios, 0.75) - bench::quantile(ratios, 0.25), limit});
  };
  const auto &[own, kmssink, skipping, bare, waiting] = sides;
  std::vector<double> least; // of a sink made of these two
  for (size_t i = 0; i < bare.cpu.size(); ++i) least.push_back(bare.cpu[i] + waiting.cpu[i]);
  // in an emulated machine CPU time is the emulator's, which translates and switches: there the instructions are judged
  compare("kmssink", own.cpu, kmssink.cpu, "kmssink at its defaults", instructions ? 0.5 : 0);
  compare("kmssink skip-vsync", own.cpu, skipping.cpu, "kmssink skip-vsync=true", 0);
  compare("bare", own.cpu, bare.cpu, "a loop of non-blocking atomic commits", 0);
  compare("fakesink", own.cpu, waiting.cpu, "fakesink sync=true, which shows nothing", 0);
  compare("that loop and fakesink together", least, kmssink.cpu, "kmssink at its defaults", 0);
  if (instructions) return 0; // nothing is late there

  const Taken mine = run(sides[0], kLongFrames), theirs = run(sides[1], kLongFrames);
  const auto lost = [](const Taken &taken) { return kLongFrames - taken.shown; };
  std::fprintf(stderr, "of %d frames in 10 s: ours lost %.0f, kmssink %.0f\n", kLongFrames, lost(mine), lost(theirs));
  // a ratio of what is shown to what was sent, the other way round so that a limit is the largest
  bench::report({"frames sent for one shown", mine.shown, "frames", kLongFrames / std::max(mine.shown, 1.0),
                 "600 frames at 60/s", 0, 1.0});
  bench::report({"frames sent for one shown, kmssink", theirs.shown, "frames",
                 kLongFrames / std::max(theirs.shown, 1.0), "600 frames at 60/s", 0, 0});
  return 0;
}
