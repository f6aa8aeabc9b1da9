// SPDX-License-Identifier: LGPL-2.1-or-later
// A display as the element sees it: open, ask for formats, show frames, close.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gst/drm/box_overlay.h"
#include "gst/drm/committer.h"
#include "gst/drm/framebuffer.h"
#include "gst/drm/kms_device.h"
#include "gst/drm/planning.h"
#include "gst/drm/screen_state.h"
#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc {

// YCbCr to RGB as the frame wants it; for RGB frames nothing.
struct ColorChoice {
  const char *encoding = nullptr; // value of COLOR_ENCODING
  const char *range = nullptr;    // value of COLOR_RANGE
};

struct DisplayFrameRequest {
  FramebufferImporter::Source source;
  std::vector<Rect> boxes; // in the frame's pixels
  std::shared_ptr<void> keep;
  uint64_t pts = 0;
  bool wait = false;                          // for a place in the queue, instead of dropping who is there
  Result<FrameFences> fences = FrameFences{}; // an error is judged as a fence that failed
  std::chrono::milliseconds fence_timeout{kFenceTimeoutDefault};
  GstZcOnFenceError on_fence_error = kOnFenceErrorDefault;
};

// Used by one streaming thread; interrupt() and the counters by any.
class Display {
public:
  struct Options {
    OpenRequest open;
    std::optional<ModeRequest> mode;
    bool overlay = true;      // show boxes where a plane is free
    size_t max_in_flight = 3; // frames that wait for their fences and for the display
  };
  struct Events {
    Committer::Events commit;
    std::function<void(const std::string &)> configured; // the configuration() has changed
    std::function<void(const std::string &)> note;       // something the user may want to know once; any thread
  };
  struct Counters {
    Committer::Counters commit;
    uint64_t imports = 0, import_hits = 0;
    uint64_t boxes = 0; // drawn, each frame's counted
  };

  static Result<std::unique_ptr<Display>> open(const Options &options, Events events);
  ~Display();
  Display(const Display &) = delete;
  Display &operator=(const Display &) = delete;

  const KmsSnapshot &snapshot() const { return snapshot_; }
  const std::shared_ptr<KmsDevice> &device() const { return device_; }
  std::vector<uint32_t> formats() const { return linearFormats(snapshot_, output_.crtc); }

  // The frames that follow look like this: mode, plane and rectangles are chosen with the first of them.
  void setFrames(const FrameNeed &need, const ColorChoice &color);

  // Errors carry the errno.
  Result<std::shared_ptr<Framebuffer>> import(const FramebufferImporter::Source &source) {
    return importer_->import(source);
  }
  // Hands the frame to the committer. Errors of the choice of mode and plane list what was tried.
  Result<Committer::Submitted> show(std::shared_ptr<Framebuffer> fb, DisplayFrameRequest request);
  Result<Committer::Submitted> drain() { return committer_->drain(); }
  // Drops what is not committed yet.
  void flush() { committer_->flush(); }
  void interrupt(bool on) { committer_->interrupt(on); }

  // No further commits; counters and configuration stay.
  void stop() { committer_->stop(); }
  // Puts back what was on screen. The frames on screen are let go.
  Status close();

  // "Virtual-1 1024x768@60.00, plane 31 (primary), NV12, 640x480 at 192,144, boxes on plane 40"; empty before a frame.
  std::string configuration() const;
  Counters counters() const;

private:
  struct Plan {
    std::shared_ptr<ModeBlob> mode;
    std::string mode_name;
    int width = 0, height = 0; // of the mode
    std::chrono::nanoseconds refresh{0};
    size_t plane = 0;
    Placement place;
    std::vector<std::pair<uint32_t, uint64_t>> properties; // of the video plane
    std::shared_ptr<Framebuffer> background;               // black, on the primary plane; else null
    std::optional<size_t> background_plane;
    bool modeset_due = true;
    bool overlay_tried = false;
    std::optional<size_t> overlay_plane;
    std::vector<std::pair<uint32_t, uint64_t>> overlay_properties;
  };

  Display() = default;
  Status choose(const std::shared_ptr<Framebuffer> &fb);
  Result<std::shared_ptr<Framebuffer>> blackPicture(int width, int height);
  void describe();
  void waitForFences(DisplayFrame &frame, DisplayFrameRequest &request) const;
  int test(const ScreenState &state) const;
  ScreenState stateOf(const Plan &plan, const std::shared_ptr<Framebuffer> &fb) const;
  std::vector<std::pair<uint32_t, uint64_t>> planeProperties(const KmsPlane &plane) const;
  void chooseOverlay(const std::shared_ptr<Framebuffer> &fb, const std::vector<Rect> &boxes);
  std::optional<PlaneUse> overlayUse(const std::shared_ptr<Framebuffer> &fb, const std::vector<Rect> &boxes);

  Options options_;
  Events events_;
  std::shared_ptr<KmsDevice> device_;
  KmsSnapshot snapshot_;
  Output output_;
  std::unique_ptr<FramebufferImporter> importer_;
  std::unique_ptr<Committer> committer_;
  std::optional<SavedState> saved_;
  FrameNeed need_;
  ColorChoice color_;
  std::unique_ptr<BoxOverlay> boxes_;
  std::optional<Plan> plan_;
  bool noted_no_overlay_ = false;
  std::atomic<uint64_t> boxes_shown_ = 0;
  mutable std::mutex text_mutex_;
  std::string configuration_;
};

} // namespace gstzc
