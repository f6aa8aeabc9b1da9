// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/drm/player.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <future>

#include <gst/allocators/allocators.h>
#include <gtest/gtest.h>

namespace gstzc::lab {
namespace {

BufferId identity(GstBuffer *buffer) {
  GstMemory *memory = gst_buffer_peek_memory(buffer, 0);
  if (!gst_is_dmabuf_memory(memory)) return {};
  auto id = bufferId(gst_dmabuf_memory_get_fd(memory));
  return id ? *id : BufferId{};
}

void probe(GstElement *element, const char *pad_name, GstPadProbeCallback callback, gpointer self) {
  GstPad *pad = gst_element_get_static_pad(element, pad_name);
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, callback, self, nullptr);
  gst_object_unref(pad);
}

uint32_t clampByte(double v) { return static_cast<uint32_t>(std::clamp(std::lround(v), 0l, 255l)); }

} // namespace

Player::Player(const std::string &description) {
  GError *error = nullptr;
  pipeline_ = gst_parse_launch(description.c_str(), &error);
  EXPECT_EQ(error, nullptr) << (error != nullptr ? error->message : "");
  g_clear_error(&error);
  sink_ = gst_bin_get_by_name(GST_BIN(pipeline_), "sink");
  bus_ = gst_element_get_bus(pipeline_);
  gst_bus_set_sync_handler(bus_, syncMessage, this, nullptr);
  probe(sink_, "sink", sinkProbe, this);
  if (GstElement *source = gst_bin_get_by_name(GST_BIN(pipeline_), "src")) {
    probe(source, "src", sourceProbe, this);
    gst_object_unref(source);
  }
}

Player::~Player() {
  stop();
  gst_bus_set_sync_handler(bus_, nullptr, nullptr, nullptr);
  gst_object_unref(bus_);
  gst_object_unref(sink_);
  gst_object_unref(pipeline_);
}

GstPadProbeReturn Player::sinkProbe(GstPad *, GstPadProbeInfo *info, gpointer data) {
  auto *self = static_cast<Player *>(data);
  if (self->at_sink) {
    GstBuffer *buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
    self->at_sink(buffer);
    GST_PAD_PROBE_INFO_DATA(info) = buffer;
  }
  GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  const std::lock_guard lock(self->mutex_);
  self->at_the_sink_[GST_BUFFER_PTS(buffer)] = identity(buffer);
  return GST_PAD_PROBE_OK;
}

GstPadProbeReturn Player::sourceProbe(GstPad *, GstPadProbeInfo *info, gpointer data) {
  auto *self = static_cast<Player *>(data);
  GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  if (self->at_source) self->at_source(buffer);
  const std::lock_guard lock(self->mutex_);
  self->source_[GST_BUFFER_PTS(buffer)] = identity(buffer);
  return GST_PAD_PROBE_OK;
}

GstBusSyncReply Player::syncMessage(GstBus *, GstMessage *message, gpointer data) {
  auto *self = static_cast<Player *>(data);
  const GstStructure *s = gst_message_get_structure(message);
  if (GST_MESSAGE_TYPE(message) == GST_MESSAGE_ELEMENT && gst_structure_has_name(s, "drmmodifiersink-flip")) {
    Flip flip;
    guint64 pts = 0, time = 0, device = 0, inode = 0;
    gst_structure_get_uint64(s, "pts", &pts);
    gst_structure_get_uint64(s, "flip-time", &time);
    gst_structure_get_uint64(s, "device", &device);
    gst_structure_get_uint64(s, "inode", &inode);
    flip.pts = pts;
    flip.time = time;
    flip.buffer = {device, inode};
    {
      const std::lock_guard lock(self->mutex_);
      self->flips_.push_back(flip);
    }
    if (self->on_flip) self->on_flip(flip);
  }
  return GST_BUS_PASS;
}

void Player::note(GstMessage *message) {
  GError *error = nullptr;
  gchar *debug = nullptr;
  switch (GST_MESSAGE_TYPE(message)) {
  case GST_MESSAGE_EOS: eos_ = true; break;
  case GST_MESSAGE_ERROR:
    gst_message_parse_error(message, &error, &debug);
    // upstream's error is what follows from the sink's, and is asked for by flow return
    if (GST_MESSAGE_SRC(message) == GST_OBJECT(sink_) || errors_.empty()) {
      errors_.push_back(error->message);
      codes_.emplace(error->domain, error->code);
      details_.push_back(debug != nullptr ? debug : "");
    }
    break;
  case GST_MESSAGE_INFO:
    gst_message_parse_info(message, &error, &debug);
    infos_.push_back(error->message);
    break;
  default: break;
  }
  g_clear_error(&error);
  g_free(debug);
}

void Player::start() { gst_element_set_state(pipeline_, GST_STATE_PLAYING); }

bool Player::wait(std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!eos_ && errors_.empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    GstMessage *message =
        gst_bus_timed_pop_filtered(bus_, static_cast<GstClockTime>(left.count()),
                                   static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR | GST_MESSAGE_INFO));
    if (message == nullptr) return false;
    note(message);
    gst_message_unref(message);
  }
  // further errors of the same trouble follow at once
  while (GstMessage *message =
             gst_bus_timed_pop_filtered(bus_, errors_.empty() ? 0 : 100 * GST_MSECOND,
                                        static_cast<GstMessageType>(GST_MESSAGE_ERROR | GST_MESSAGE_INFO))) {
    note(message);
    gst_message_unref(message);
  }
  return true;
}

bool Player::play(std::chrono::seconds limit) {
  start();
  return wait(limit);
}

bool Player::stop(std::chrono::seconds limit) {
  auto stopping = std::async(std::launch::async, [this] { gst_element_set_state(pipeline_, GST_STATE_NULL); });
  if (stopping.wait_for(limit) == std::future_status::ready) return true;
  // the future's destructor would wait on: a hang is to be seen as one
  fprintf(stderr, "the pipeline does not stop\n");
  abort();
}

std::string Player::errors() const {
  std::string text;
  for (const std::string &e : errors_) text += e + "\n";
  return text;
}

std::string Player::details() const {
  std::string text;
  for (const std::string &d : details_) text += d + "\n";
  return text;
}

std::vector<Flip> Player::flips() const {
  const std::lock_guard lock(mutex_);
  return flips_;
}

std::map<uint64_t, BufferId> Player::sourceBuffers() const {
  const std::lock_guard lock(mutex_);
  return source_;
}

std::map<uint64_t, BufferId> Player::sinkBuffers() const {
  const std::lock_guard lock(mutex_);
  return at_the_sink_;
}

uint64_t Player::stat(const char *name) const {
  GstStructure *stats = nullptr;
  g_object_get(sink_, "stats", &stats, nullptr);
  guint64 value = 0;
  EXPECT_TRUE(gst_structure_get_uint64(stats, name, &value)) << name;
  gst_structure_free(stats);
  return value;
}

std::string Player::configuration() const {
  gchar *text = nullptr;
  g_object_get(sink_, "configuration", &text, nullptr);
  std::string result = text != nullptr ? text : "";
  g_free(text);
  return result;
}

Result<Image> Player::lastFrame() const {
  GstSample *sample = nullptr;
  g_object_get(sink_, "last-sample", &sample, nullptr);
  if (sample == nullptr) return Error{"no last sample", 0, ""};
  auto caps = parseFrameCaps(gst_sample_get_caps(sample));
  Result<Image> image = caps ? toImage(gst_sample_get_buffer(sample), *caps) : Result<Image>(caps.error());
  gst_sample_unref(sample);
  return image;
}

Result<Image> toImage(GstBuffer *buffer, const FrameCaps &caps) {
  auto layout = frameLayout(buffer, caps);
  if (!layout) return layout.error();
  std::array<GstMapInfo, GST_VIDEO_MAX_PLANES> maps;
  std::array<const uint8_t *, GST_VIDEO_MAX_PLANES> data = {};
  for (guint p = 0; p < layout->n_planes; ++p) {
    if (!gst_memory_map(gst_buffer_peek_memory(buffer, layout->planes[p].memory), &maps[p], GST_MAP_READ))
      return Error{"map a plane", 0, ""};
    data[p] = maps[p].data + layout->planes[p].in_memory;
  }
  const GstVideoFormatInfo *format = caps.info.finfo;
  const GstVideoColorimetry &c = caps.info.colorimetry;
  double kr = 0.299, kb = 0.114;
  if (c.matrix == GST_VIDEO_COLOR_MATRIX_BT709) kr = 0.2126, kb = 0.0722;
  if (c.matrix == GST_VIDEO_COLOR_MATRIX_BT2020) kr = 0.2627, kb = 0.0593;
  const bool full = c.range == GST_VIDEO_COLOR_RANGE_0_255;
  const auto component = [&](guint k, guint x, guint y) -> double {
    const guint p = GST_VIDEO_FORMAT_INFO_PLANE(format, k);
    const guint cx = x >> GST_VIDEO_FORMAT_INFO_W_SUB(format, k), cy = y >> GST_VIDEO_FORMAT_INFO_H_SUB(format, k);
    return data[p][size_t{cy} * static_cast<size_t>(layout->planes[p].stride) +
                   cx * static_cast<guint>(GST_VIDEO_FORMAT_INFO_PSTRIDE(format, k)) +
                   static_cast<guint>(GST_VIDEO_FORMAT_INFO_POFFSET(format, k))];
  };

  Image image;
  image.width = static_cast<uint32_t>(caps.width());
  image.height = static_cast<uint32_t>(caps.height());
  for (uint32_t y = 0; y < image.height; ++y)
    for (uint32_t x = 0; x < image.width; ++x) {
      double r = component(0, x, y), g = component(1, x, y), b = component(2, x, y);
      if (GST_VIDEO_INFO_IS_YUV(&caps.info)) {
        const double luma = full ? r : (r - 16) * 255 / 219;
        const double cb = (g - 128) * (full ? 1 : 255.0 / 224), cr = (b - 128) * (full ? 1 : 255.0 / 224);
        r = luma + 2 * (1 - kr) * cr;
        b = luma + 2 * (1 - kb) * cb;
        g = (luma - kr * r - kb * b) / (1 - kr - kb);
      }
      image.pixels.push_back(clampByte(r) << 16 | clampByte(g) << 8 | clampByte(b));
    }
  for (guint p = 0; p < layout->n_planes; ++p)
    gst_memory_unmap(gst_buffer_peek_memory(buffer, layout->planes[p].memory), &maps[p]);
  return image;
}

int largestDistance(const Image &shown, uint32_t x, uint32_t y, const Image &frame) {
  if (x + frame.width > shown.width || y + frame.height > shown.height) return 256;
  int largest = 0;
  for (uint32_t j = 0; j < frame.height; ++j)
    for (uint32_t i = 0; i < frame.width; ++i)
      largest = std::max(largest, distance(shown.at(x + i, y + j), frame.at(i, j)));
  return largest;
}

int framebuffersOf(const std::string &card_path) {
  const std::string minor = card_path.substr(card_path.find_last_not_of("0123456789") + 1);
  std::ifstream file("/sys/kernel/debug/dri/" + minor + "/framebuffer");
  if (!file) return -1;
  int n = 0;
  for (std::string line; std::getline(file, line);) n += line.rfind("framebuffer[", 0) == 0;
  return n;
}

} // namespace gstzc::lab
