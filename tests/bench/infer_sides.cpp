// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/bench/infer_sides.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "gst/infer/engine/onnx_engine.h"
#include "tests/bench/measure.h"

namespace gstzc::bench {
namespace {

constexpr int kWidth = 1920, kHeight = 1080;
constexpr size_t kFrames = 16;                       // 50 MB
constexpr auto kPatience = std::chrono::seconds(60); // for the last frames

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

class Meter {
public:
  Taken of(int frames) const {
    return {static_cast<double>(clockNs() - wall_) / frames,
            static_cast<double>(clockNs(CLOCK_PROCESS_CPUTIME_ID) - cpu_) / frames};
  }

private:
  uint64_t wall_ = clockNs(), cpu_ = clockNs(CLOCK_PROCESS_CPUTIME_ID);
};

// What the bus says went wrong.
std::string errorOf(GstElement *pipeline) {
  GstBus *bus = gst_element_get_bus(pipeline);
  GstMessage *message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  GError *error = nullptr;
  if (message != nullptr) gst_message_parse_error(message, &error, nullptr);
  const std::string text = error != nullptr ? error->message : "frames do not come out";
  g_clear_error(&error);
  gst_clear_message(&message);
  gst_object_unref(bus);
  return text;
}

// Sleeps until each frame's time.
class Pace {
public:
  explicit Pace(uint64_t period) : period_(period), next_(clockNs()) {}
  void wait() {
    if (period_ == kAsFastAsPossible) return;
    timespec at;
    at.tv_sec = static_cast<time_t>(next_ / 1'000'000'000);
    at.tv_nsec = static_cast<long>(next_ % 1'000'000'000);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
    next_ += period_;
  }

private:
  const uint64_t period_;
  uint64_t next_;
};

} // namespace

Frames::Frames() {
  gst_video_info_set_format(&info_, GST_VIDEO_FORMAT_NV12, kWidth, kHeight);
  for (size_t n = 0; n < kFrames; ++n) {
    GstMemory *memory = gst_allocator_alloc(nullptr, info_.size, nullptr);
    GstMapInfo map;
    if (!gst_memory_map(memory, &map, GST_MAP_WRITE)) fail("a frame cannot be written");
    for (gsize i = 0; i < map.size; ++i) // slopes and edges
      map.data[i] = static_cast<guint8>(((i % kWidth) / 8 + i / kWidth / 4 + n * 16) & 0xff);
    gst_memory_unmap(memory, &map);
    memories_.push_back(memory);
  }
}

Frames::~Frames() {
  for (GstMemory *memory : memories_) gst_memory_unref(memory);
}

std::string Frames::caps() const {
  return "video/x-raw,format=NV12,width=" + std::to_string(kWidth) + ",height=" + std::to_string(kHeight) +
         ",framerate=30/1,colorimetry=bt709";
}

PipelineSide::PipelineSide(const Frames &frames, const std::vector<std::string> &filters) : frames_(frames) {
  for (const std::string &filter : filters) {
    const std::string line = filter + " ! fakesink name=sink sync=false async=false";
    GError *error = nullptr;
    auto p = std::make_unique<Pipeline>();
    p->pipeline = gst_parse_launch(line.c_str(), &error);
    if (error != nullptr) fail(line + ": " + error->message);
    GstPad *first = gst_bin_find_unlinked_pad(GST_BIN(p->pipeline), GST_PAD_SINK);
    p->source = gst_pad_new("source", GST_PAD_SRC);
    if (first == nullptr || gst_pad_link(p->source, first) != GST_PAD_LINK_OK) fail(line + " cannot be fed");
    gst_object_unref(first);
    GstElement *sink = gst_bin_get_by_name(GST_BIN(p->pipeline), "sink");
    GstPad *pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(
        pad, GST_PAD_PROBE_TYPE_BUFFER,
        [](GstPad *, GstPadProbeInfo *, gpointer data) {
          auto *to = static_cast<Pipeline *>(data);
          const std::lock_guard lock(to->mutex);
          if (++to->count == to->target) to->left.notify_all();
          return GST_PAD_PROBE_OK;
        },
        p.get(), nullptr);
    gst_object_unref(pad);
    gst_object_unref(sink);
    if (gst_element_set_state(p->pipeline, GST_STATE_PLAYING) == GST_STATE_CHANGE_FAILURE)
      fail(line + ": " + errorOf(p->pipeline));
    start(*p);
    pipelines_.push_back(std::move(p));
  }
}

void PipelineSide::start(Pipeline &p) {
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  GstCaps *caps = gst_caps_from_string(frames_.caps().c_str());
  gst_pad_set_active(p.source, TRUE);
  const bool taken = gst_pad_push_event(p.source, gst_event_new_stream_start("frames")) &&
                     gst_pad_push_event(p.source, gst_event_new_caps(caps)) &&
                     gst_pad_push_event(p.source, gst_event_new_segment(&segment));
  gst_caps_unref(caps);
  if (!taken) fail("a pipeline of the benchmark: " + errorOf(p.pipeline));
}

PipelineSide::~PipelineSide() {
  for (const auto &p : pipelines_) {
    gst_element_set_state(p->pipeline, GST_STATE_NULL);
    gst_pad_set_active(p->source, FALSE);
    gst_object_unref(p->source);
    gst_object_unref(p->pipeline);
  }
}

void PipelineSide::feed(Pipeline &p, int frames, uint64_t period) {
  {
    const std::lock_guard lock(p.mutex);
    p.target = p.count + frames;
  }
  Pace pace(period);
  for (int n = 0; n < frames; ++n) {
    pace.wait();
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_memory_ref(frames_.memory(n)));
    if (gst_pad_push(p.source, buffer) != GST_FLOW_OK) break;
  }
  std::unique_lock lock(p.mutex);
  if (p.left.wait_for(lock, kPatience, [&] { return p.count >= p.target; })) return;
  fail("a pipeline of the benchmark: " + errorOf(p.pipeline));
}

Taken PipelineSide::run(int frames, uint64_t period) {
  const Meter meter;
  std::vector<std::thread> others;
  for (size_t i = 1; i < pipelines_.size(); ++i) others.emplace_back([&, i] { feed(*pipelines_[i], frames, period); });
  feed(*pipelines_[0], frames, period);
  for (std::thread &thread : others) thread.join();
  return meter.of(frames * static_cast<int>(pipelines_.size()));
}

BareSide::BareSide(const Frames &frames, const BenchModel &model, int threads) : frames_(frames), threads_(threads) {
  auto loaded = infer::loadOnnxEngine(model.file, {});
  if (loaded.engine == nullptr) fail(loaded.failure.error.message());
  engine_ = std::move(loaded.engine);
  auto plan = infer::planInput(engine_->inputs());
  if (!plan) fail(plan.error().message());
  plan_ = *plan;
  infer::PreprocessOptions options;
  options.normalisation.mean = {model.mean, model.mean, model.mean};
  options.normalisation.scale = {1 / model.divisor, 1 / model.divisor, 1 / model.divisor};
  auto preprocessor = infer::Preprocessor::create(frames.info(), plan_, options);
  if (!preprocessor) fail(preprocessor.error().message());
  preprocessor_ = std::make_unique<infer::Preprocessor>(preprocessor.take());
}

Taken BareSide::run(int frames, uint64_t period) {
  std::atomic<int> next = 0;
  const auto loop = [&] {
    std::vector<float> tensor(plan_.bytes() / sizeof(float));
    const infer::TensorView input = {plan_.type, plan_.dims(), tensor.data(), plan_.bytes(), infer::MemorySpace::Host};
    infer::Cancellation cancel;
    Pace pace(period);
    for (int n = next++; n < frames; n = next++) {
      pace.wait();
      GstMapInfo map;
      if (!gst_memory_map(frames_.memory(n), &map, GST_MAP_READ)) fail("a frame cannot be read");
      infer::FramePlanes planes;
      for (guint i = 0; i < GST_VIDEO_INFO_N_PLANES(&frames_.info()); ++i) {
        planes.data[i] = map.data + frames_.info().offset[i];
        planes.stride[i] = frames_.info().stride[i];
      }
      preprocessor_->run(planes, tensor.data());
      gst_memory_unmap(frames_.memory(n), &map);
      auto outputs = engine_->run({&input, 1}, cancel);
      if (!outputs) fail(outputs.error().message());
    }
  };
  const Meter meter;
  std::vector<std::thread> others;
  const int threads = period == kAsFastAsPossible ? threads_ : 1;
  for (int i = 1; i < threads; ++i) others.emplace_back(loop);
  loop();
  for (std::thread &thread : others) thread.join();
  return meter.of(frames);
}

} // namespace gstzc::bench
