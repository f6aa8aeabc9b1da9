// SPDX-License-Identifier: LGPL-2.1-or-later
// Pipelines with drmmodifiersink, run to their end, with all that a test wants to know of the run.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gst/gst.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/frame_layout.h"
#include "tests/lab/support/image.h"

namespace gstzc::lab {

struct Flip {
  uint64_t pts = 0, time = 0;
  BufferId buffer;
};

// The sink is the element called "sink", the source the one called "src" where there is one.
class Player {
public:
  explicit Player(const std::string &description);
  ~Player(); // to NULL
  Player(const Player &) = delete;
  Player &operator=(const Player &) = delete;

  GstElement *pipeline() const { return pipeline_; }
  GstElement *sink() const { return sink_; }

  // Called for every buffer that arrives at the sink's pad; it may change the buffer.
  std::function<void(GstBuffer *)> at_sink;
  // Called for every flip message, on the thread that posts it.
  std::function<void(const Flip &)> on_flip;
  // Called for every buffer that leaves the source.
  std::function<void(GstBuffer *)> at_source;

  // Until EOS or an error; false: neither came in time. Stays in the state it reached, so that the last frame is on
  // screen.
  bool play(std::chrono::seconds limit = std::chrono::seconds(60));
  // To PLAYING only.
  void start();
  // The rest of play() after start().
  bool wait(std::chrono::seconds limit);
  // Back to NULL. False: that took longer than `limit`.
  bool stop(std::chrono::seconds limit = std::chrono::seconds(20));

  bool ended() const { return eos_; }
  std::string errors() const;  // all of them, a line each
  std::string details() const; // what the errors' posters added for developers
  size_t errorCount() const { return errors_.size(); }
  bool hasError(GQuark domain, gint code) const { return codes_.contains({domain, code}); }
  const std::vector<std::string> &infos() const { return infos_; }
  std::vector<Flip> flips() const;
  uint64_t stat(const char *name) const;
  std::string configuration() const;
  // dma-bufs of the frames, by time stamp, as they left the source and as they came to the sink
  std::map<uint64_t, BufferId> sourceBuffers() const;
  std::map<uint64_t, BufferId> sinkBuffers() const;

  // The last frame as the screen should show it, read from its own memory.
  Result<Image> lastFrame() const;

private:
  static GstPadProbeReturn sinkProbe(GstPad *, GstPadProbeInfo *info, gpointer self);
  static GstPadProbeReturn sourceProbe(GstPad *, GstPadProbeInfo *info, gpointer self);
  static GstBusSyncReply syncMessage(GstBus *, GstMessage *message, gpointer self);
  void note(GstMessage *message);

  GstElement *pipeline_ = nullptr, *sink_ = nullptr;
  GstBus *bus_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<Flip> flips_;
  std::map<uint64_t, BufferId> source_, at_the_sink_;
  std::vector<std::string> errors_, details_, infos_;
  std::set<std::pair<GQuark, gint>> codes_; // of the errors
  bool eos_ = false;
};

// A frame in system memory or linear dma-buf as RGB: 32-bit RGB and 8-bit 4:2:0 and 4:2:2 semi-planar and planar YUV,
// chroma repeated. For comparisons with what a display shows.
Result<Image> toImage(GstBuffer *buffer, const FrameCaps &caps);

// Largest distance between `shown`, from (x, y) on, and `frame`.
int largestDistance(const Image &shown, uint32_t x, uint32_t y, const Image &frame);

// Framebuffers a card has now, by debugfs; -1 where it cannot be read.
int framebuffersOf(const std::string &card_path);

} // namespace gstzc::lab
