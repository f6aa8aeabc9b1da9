// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/demo/first_light.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include <gst/allocators/allocators.h>
#include <gst/gst.h>
#include <time.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/core/unique_fd.h"
#include "tests/lab/demo/native.h"
#include "tests/lab/support/capture.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/image.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/writeback.h"

namespace lab = gstzc::lab;
using gstzc::BufferId;
using gstzc::Error;
using gstzc::Result;

namespace firstlight {
namespace {

// Without a frame that comes on. Software emulation beside other work takes minutes for all of them; a hang is slower.
constexpr GstClockTime kDeadline = 120 * GST_SECOND;

struct Unref {
  void operator()(GstElement *e) const {
    gst_element_set_state(e, GST_STATE_NULL);
    gst_object_unref(e);
  }
  void operator()(GstMessage *m) const { gst_message_unref(m); }
  void operator()(GstStructure *s) const { gst_structure_free(s); }
  void operator()(GstBus *b) const { gst_object_unref(b); }
};
template <typename T> using Owned = std::unique_ptr<T, Unref>;

uint64_t monotonicNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// the dma-bufs under a frame; a memory that is none makes an identity that equals no other
std::vector<BufferId> identities(GstBuffer *buffer) {
  std::vector<BufferId> ids;
  for (guint i = 0; i < gst_buffer_n_memory(buffer); ++i) {
    GstMemory *memory = gst_buffer_peek_memory(buffer, i);
    BufferId id{0, reinterpret_cast<uint64_t>(memory)};
    if (gst_is_dmabuf_memory(memory)) {
      if (auto found = gstzc::bufferId(gst_dmabuf_memory_get_fd(memory))) id = *found;
    }
    ids.push_back(id);
  }
  return ids;
}

// What passes by at the two ends of a pipeline.
class Witness {
public:
  void watch(GstElement *element, const char *pad_name, bool source) {
    GstPad *pad = gst_element_get_static_pad(element, pad_name);
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, source ? atSource : atSink, this, nullptr);
    gst_object_unref(pad);
  }

  void flipped(uint64_t pts, uint64_t time) {
    std::lock_guard lock(mutex_);
    auto left = left_source_.find(pts);
    if (left != left_source_.end() && time > left->second)
      latencies_ms_.push_back(static_cast<double>(time - left->second) / 1e6);
    ++shown_;
  }

  void account(Report &report) {
    std::lock_guard lock(mutex_);
    report.frames = at_sink_;
    report.shown = shown_;
    report.foreign = foreign_;
    report.buffers = static_cast<unsigned>(buffers_.size());
    report.latencies_ms = latencies_ms_;
    for (const std::string &name : exporters_) report.devices.push_back("dma-bufs of " + name);
  }

private:
  static GstPadProbeReturn atSource(GstPad *, GstPadProbeInfo *info, gpointer self) {
    auto *witness = static_cast<Witness *>(self);
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    std::lock_guard lock(witness->mutex_);
    witness->sources_.push_back(identities(buffer));
    GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
    if (gst_is_dmabuf_memory(memory)) witness->exporters_.insert(lab::exporter(gst_dmabuf_memory_get_fd(memory)));
    witness->left_source_[GST_BUFFER_PTS(buffer)] = monotonicNow();
    return GST_PAD_PROBE_OK;
  }

  static GstPadProbeReturn atSink(GstPad *, GstPadProbeInfo *info, gpointer self) {
    auto *witness = static_cast<Witness *>(self);
    const auto ids = identities(GST_PAD_PROBE_INFO_BUFFER(info));
    std::lock_guard lock(witness->mutex_);
    const size_t n = witness->at_sink_++;
    const bool real = std::all_of(ids.begin(), ids.end(), [](const BufferId &id) { return id.device != 0; });
    if (!real || n >= witness->sources_.size() || witness->sources_[n] != ids) ++witness->foreign_;
    witness->buffers_.insert(ids.begin(), ids.end());
    return GST_PAD_PROBE_OK;
  }

  std::mutex mutex_;
  std::vector<std::vector<BufferId>> sources_; // in order: nothing between source and sink drops or reorders
  std::map<uint64_t, uint64_t> left_source_;   // PTS → CLOCK_MONOTONIC
  std::set<BufferId> buffers_;
  std::set<std::string> exporters_;
  std::vector<double> latencies_ms_;
  unsigned at_sink_ = 0, shown_ = 0, foreign_ = 0;
};

class Run {
public:
  Run(std::string name, const Options &options) : options_(options) { report_.name = std::move(name); }

  Result<Report> play(const std::string &source, const char *first_element, const char *first_pad) {
    const bool own = !options_.card.empty();
    Result<std::string> path = own ? Result<std::string>(options_.card) : lab::cardPath(options_.display);
    if (!path) return path.error();
    Result<gstzc::UniqueFd> card = own ? Result<gstzc::UniqueFd>(gstzc::UniqueFd()) : lab::openCard(options_.display);
    if (!card) return card.error();
    const std::string description =
        source + " ! dmabufupload name=upload ! fenceinfer name=infer message-results=true model-file=\"" +
        options_.model + "\" ! drmmodifiersink name=sink message-flips=true " +
        (own ? "device=" + *path : "fd=" + std::to_string(card->get()));
    GError *error = nullptr;
    pipeline_.reset(gst_parse_launch(description.c_str(), &error));
    if (pipeline_ == nullptr || error != nullptr) {
      Error result{std::string("the pipeline: ") + (error != nullptr ? error->message : "unknown"), 0, ""};
      g_clear_error(&error);
      return result;
    }
    if (auto found = watch(first_element, first_pad, true); !found) return found.error();
    if (auto found = watch("sink", "sink", false); !found) return found.error();
    bus_.reset(gst_element_get_bus(pipeline_.get()));

    gst_element_set_state(pipeline_.get(), GST_STATE_PLAYING);
    if (auto end = messagesUntilEnd(); !end) return end.error();
    if (!options_.picture.empty() && !own) {
      // through the sink's own open file: only its holder is master of the display
      auto shown = lab::captureWriteback(card->get());
      if (!shown) return shown.error();
      if (auto written = lab::writePng(*shown, options_.picture); !written) return written.error();
    }
    for (const char *element : {"upload", "infer", "sink"}) addStats(element);
    witness_.account(report_);
    report_.devices.push_back(own ? *path : options_.display + " (" + *path + ")");
    return report_;
  }

private:
  GstElement *element(const char *name) { return gst_bin_get_by_name(GST_BIN(pipeline_.get()), name); }

  gstzc::Status watch(const char *name, const char *pad, bool source) {
    GstElement *e = element(name);
    if (e == nullptr) return Error{std::string("no element named ") + name, 0, ""};
    witness_.watch(e, pad, source);
    gst_object_unref(e);
    return gstzc::Nothing{};
  }

  // handles messages until EOS; a flip of the last frame may still be on its way then, but EOS waits for it
  gstzc::Status messagesUntilEnd() {
    uint64_t end = monotonicNow() + kDeadline;
    for (;;) {
      const uint64_t now = monotonicNow();
      Owned<GstMessage> message(now < end ? gst_bus_timed_pop(bus_.get(), end - now) : nullptr);
      if (message == nullptr)
        return Error{"run " + report_.name + ": no frame came on for 120 s", 0, "See the log of the laboratory"};
      switch (GST_MESSAGE_TYPE(message.get())) {
      case GST_MESSAGE_EOS: return gstzc::Nothing{};
      case GST_MESSAGE_ERROR: {
        GError *error = nullptr;
        gchar *debug = nullptr;
        gst_message_parse_error(message.get(), &error, &debug);
        Error result{std::string(error->message) + " [" + (debug != nullptr ? debug : "") + "]", 0, ""};
        g_error_free(error);
        g_free(debug);
        return result;
      }
      case GST_MESSAGE_ELEMENT: // of a frame
        end = monotonicNow() + kDeadline;
        onElementMessage(gst_message_get_structure(message.get()));
        break;
      default: break;
      }
    }
  }

  void onElementMessage(const GstStructure *s) {
    if (gst_structure_has_name(s, "drmmodifiersink-flip")) {
      guint64 pts = GST_CLOCK_TIME_NONE, time = 0;
      gst_structure_get_uint64(s, "pts", &pts);
      gst_structure_get_uint64(s, "flip-time", &time);
      witness_.flipped(pts, time);
    } else if (gst_structure_has_name(s, "fenceinfer-result")) {
      const GValue *detections = gst_structure_get_value(s, "detections");
      for (guint i = 0; detections != nullptr && i < gst_value_array_get_size(detections); ++i)
        addBox(gst_value_get_structure(gst_value_array_get_value(detections, i)));
    }
  }

  void addBox(const GstStructure *s) {
    Box box;
    int w = 0, h = 0;
    gst_structure_get(s, "x", G_TYPE_INT, &box.x1, "y", G_TYPE_INT, &box.y1, "w", G_TYPE_INT, &w, "h", G_TYPE_INT, &h,
                      nullptr);
    gst_structure_get_double(s, "score", &box.score);
    if (const gchar *label = gst_structure_get_string(s, "label")) box.label = label;
    box.x2 = box.x1 + w;
    box.y2 = box.y1 + h;
    report_.boxes.push_back(box);
  }

  void addStats(const char *name) {
    GstElement *e = element(name);
    GstStructure *stats = nullptr;
    g_object_get(e, "stats", &stats, nullptr);
    gst_object_unref(e);
    Owned<GstStructure> owned(stats);
    for (auto [field, sum] : {std::pair{"copies", &report_.copies},
                              {"bytes-copied", &report_.bytes_copied},
                              {"fence-waits", &report_.fence_waits}}) {
      guint64 value = 0;
      if (stats != nullptr && gst_structure_get_uint64(stats, field, &value)) *sum += value;
    }
  }

  const Options &options_;
  Report report_;
  Witness witness_;
  Owned<GstBus> bus_;
  Owned<GstElement> pipeline_; // gone first: its threads use the others
};

} // namespace

double overlap(const Box &a, const Box &b) {
  const auto area = [](const Box &box) {
    return std::max(0, box.x2 - box.x1) * static_cast<double>(std::max(0, box.y2 - box.y1));
  };
  const double common =
      area({"", 0, std::max(a.x1, b.x1), std::max(a.y1, b.y1), std::min(a.x2, b.x2), std::min(a.y2, b.y2)});
  const double all = area(a) + area(b) - common;
  return all > 0 ? common / all : 0;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));
  return values[std::min(values.size(), std::max<size_t>(rank, 1)) - 1];
}

Result<Report> runPhoto(const Options &options) {
  if (!std::ifstream(options.photo)) return Error{"the photograph '" + options.photo + "' cannot be read", 0, ""};
  return Run("photo", options)
      .play("filesrc location=\"" + options.photo + "\" ! pngdec ! videoconvert ! video/x-raw,format=NV12", "upload",
            "sink");
}

Result<Report> runNative(const Options &options, const NativeDevices &devices) {
  Options own = options;
  own.card = devices.display;
  auto report = Run("camera", own)
                    .play("v4l2src name=camera device=" + devices.camera +
                              " io-mode=dmabuf num-buffers=" + std::to_string(options.frames),
                          "camera", "src");
  if (report) report->devices.insert(report->devices.begin(), devices.camera_name + " (" + devices.camera + ")");
  return report;
}

Result<Report> runCamera(const Options &options) {
  auto camera = lab::capturePath("vivid");
  if (!camera) return camera.error();
  auto report = Run("camera", options)
                    .play("v4l2src name=camera device=" + *camera +
                              " io-mode=dmabuf num-buffers=" + std::to_string(options.frames) +
                              " ! video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=640,height=480",
                          "camera", "src");
  if (report) report->devices.insert(report->devices.begin(), "vivid (" + *camera + ")");
  return report;
}

} // namespace firstlight
