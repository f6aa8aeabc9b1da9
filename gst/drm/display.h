// SPDX-License-Identifier: LGPL-2.1-or-later
// A display as the element sees it: open, ask for formats, show frames, close.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gst/drm/committer.h"
#include "gst/drm/crtc_share.h"
#include "gst/drm/framebuffer.h"
#include "gst/drm/hdr.h"
#include "gst/drm/kms_device.h"
#include "gst/drm/negotiate/engine.h"
#include "gst/drm/overlay/overlay_pictures.h"
#include "gst/drm/planning.h"
#include "gst/drm/recycling.h"
#include "gst/drm/screen_state.h"
#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc {

// YCbCr to RGB as the frame wants it; for RGB frames nothing.
struct ColorChoice {
  const char *encoding = nullptr;         // value of COLOR_ENCODING
  const char *range = nullptr;            // value of COLOR_RANGE
  std::optional<hdr_output_metadata> hdr; // of PQ and HLG frames
  bool bt2020 = false;                    // the primaries
};

// When the screen is told of a high dynamic range.
enum class HdrMode {
  Auto, // where its EDID promises the frames' transfer function
  Always,
  Never,
};

// How frames are shown, besides what they are; may change from frame to frame.
struct DisplayLook {
  std::optional<Rect> rectangle; // of the display; nothing: all of it
  bool keep_aspect = true;
  uint32_t rotation = 0;        // DRM_MODE_ROTATE_* with DRM_MODE_REFLECT_*; 0: as it is
  std::optional<uint64_t> zpos; // of the video's plane; nothing: as the driver has it
  uint16_t alpha = 0xffff;      // of the video's plane: 0xffff is opaque
  auto operator<=>(const DisplayLook &) const = default;
};

// Whether what is attached to frames is shown.
enum class OverlayMode {
  Auto,  // where a plane is free for it
  Plane, // or it is an error
  Off,
};

// What becomes of frames while the output's plug is out.
enum class OnUnplug {
  Pause, // they are dropped, until it is in again
  Error, // the stream ends
  Ignore,
};

struct DisplayFrameRequest {
  FramebufferImporter::Source source;
  const OverlayScene *overlay = nullptr;     // borrowed until show() returns; null: nothing
  std::shared_ptr<const OverlayStyle> style; // never null where there is a scene
  int overlay_x = 0, overlay_y = 0;          // where in the frame the overlay counts from
  std::optional<Rect> crop;                  // the part of the frame to show; nothing: all
  std::shared_ptr<void> keep;
  uint64_t pts = 0;
  uint64_t due = UINT64_MAX;                  // as DisplayFrame's
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
    AutoMode auto_mode = AutoMode::Match; // without `mode`
    OnUnplug on_unplug = OnUnplug::Pause;
    HdrMode hdr = HdrMode::Auto;
    bool vrr = false;         // where screen and device can
    bool async_flips = false; // frames come on screen at once, not at the next vertical blank, where the device can
    uint32_t plane = 0;       // id of the plane for the video; 0: choose
    OverlayMode overlay = OverlayMode::Auto;
    size_t max_in_flight = 3; // frames that wait for their fences and for the display
  };
  struct Events {
    Committer::Events commit;
    std::function<void(const std::string &)> configured; // the configuration() has changed
    std::function<void(const std::string &)> note;       // something the user may want to know once; any thread
    std::function<void(const std::string &)> warning;    // something that was asked for is not done; in show()
    std::function<void()> no_overlay;                    // overlayPossible() has become false; in show()
  };
  struct Counters {
    Committer::Counters commit;
    uint64_t imports = 0, import_hits = 0;
    uint64_t boxes = 0;                    // shown, each frame's counted
    uint64_t overlay_redraws = 0;          // pictures of overlays that were painted in
    uint64_t tests = 0, tests_refused = 0; // TEST_ONLY commits
    uint64_t unseen = 0; // frames that were let go at once: another process's display, nothing of them on the display
  };

  static Result<std::unique_ptr<Display>> open(const Options &options, Events events);
  ~Display();
  Display(const Display &) = delete;
  Display &operator=(const Display &) = delete;

  const KmsSnapshot &snapshot() const { return snapshot_; }
  const std::shared_ptr<KmsDevice> &device() const { return device_; }
  // What the output takes, for frames of that size without what it has refused (0x0: what it refuses at all sizes).
  // Streaming thread.
  OfferedFormats offers(uint32_t width = 0, uint32_t height = 0) const;

  // Why no plane shows such frames, going by what the last offers() came from. Any thread.
  Error whyNot(const FrameNeed &need) const;

  // The frames that follow look like this: mode, plane and rectangles are chosen with the first of them. Errors: no
  // plane has the pair, or in this size; what there is instead.
  Status setFrames(const FrameNeed &need, const ColorChoice &color);
  // From the next frame on. What the display cannot do ends a stream that begins so; one that plays goes on with the
  // look it had, after one warning. Any thread.
  void setLook(const DisplayLook &look);

  // Errors carry the errno. The pair is remembered where it was the kernel that refused this framebuffer: see
  // pairRefused().
  Result<std::shared_ptr<Framebuffer>> import(const FramebufferImporter::Source &source);
  // Whether the last error was that the output does not take this format and layout in this size, which offers() does
  // not have any more: upstream may have others.
  bool pairRefused() const { return pair_refused_; }
  // Whether the last error was about the part of the frame that was asked for, and the whole frame would be shown: no
  // other caps would change that, other frames may do.
  bool cropRefused() const { return crop_refused_; }
  // Before a frame: what was refused of the last one says nothing of it.
  void forgetRefusals() { pair_refused_ = crop_refused_ = false; }

  // Whether overlays are wanted and, as far as is known, will be shown. Any thread.
  bool overlayPossible() const { return overlay_possible_; }
  // Hands the frame to the committer. Errors of the choice of mode and plane list what was tried. Where nothing of the
  // frames would be on the display, going by the look, its planes go off and frames are let go, until the look changes.
  Result<Committer::Submitted> show(std::shared_ptr<Framebuffer> fb, DisplayFrameRequest request);
  Result<Committer::Submitted> drain() { return committer_->drain(); }
  // Drops what is not committed yet.
  void flush() { committer_->flush(); }
  void interrupt(bool on) { committer_->interrupt(on); }

  // No further commits; counters and configuration stay. Where other sinks show on the output the own planes go off.
  void stop();
  // The last sink of an output puts back what was on screen. The frames on screen are let go.
  Status close();

  // "Virtual-1 1024x768@60.00, plane 31 (primary), NV12, 640x480 at 192,144, overlay on plane 40"; empty before a
  // frame.
  std::string configuration() const;
  Counters counters() const;

private:
  struct Plan {
    std::shared_ptr<ModeBlob> mode;
    std::string mode_name;
    int width = 0, height = 0; // of the mode
    std::chrono::nanoseconds refresh{0};
    size_t plane = 0;
    uint32_t rotation = 0; // value of the plane's property
    Placement place;
    std::shared_ptr<const PlaneSettings> properties; // of the video plane
    std::shared_ptr<Framebuffer> background;         // black, on the primary plane; else null
    std::optional<size_t> background_plane;
    std::vector<PropertySetting> settings; // of output and CRTC
    std::shared_ptr<PropertyBlob> hdr;
    bool modeset_due = true;
    bool overlay_tried = false;
    std::optional<size_t> overlay_plane;
    std::shared_ptr<const PlaneSettings> overlay_properties;
  };

  Display() = default;
  struct Attempts;
  Status chooseDisplayOutput();
  bool claimPlanes(const Plan &plan);
  void join();
  void leaveOutput();
  Status rememberScreen();
  // False: nothing of the frame would be on the display.
  Result<bool> choose(const std::shared_ptr<Framebuffer> &fb);
  Result<Committer::Submitted> hide(bool wait);
  std::shared_ptr<DisplayFrame> farewell(const Plan &plan);
  void dropPlan();
  KmsSnapshot candidates() const;
  void wear(const DisplayLook &look);
  DisplayLook asBefore(const DisplayLook &look) const;
  void warnOfLook(const std::string &why);
  Result<bool> tryPlan(Plan &plan, const std::shared_ptr<Framebuffer> &fb, std::shared_ptr<Framebuffer> &black,
                       Attempts &attempts);
  // What was tried, for errors.
  struct Attempts {
    std::string text;
    unsigned number = 0;
    std::set<size_t> planes;
    std::vector<Refusal> refusals; // of the first placement
    std::string outside;           // mode in which nothing of the frame is on the display, if there is one
    bool inside = false;           // in another one it is
    bool only_ask = false;         // what is taken is not kept
    void refused(const std::string &what, int code);
  };
  Result<bool> tryAll(const std::shared_ptr<Framebuffer> &fb, Attempts &attempts);
  bool wantsHdr() const;
  void chooseOutputSettings(Plan &plan) const;
  bool wholeFrameIsPossible(const std::shared_ptr<Framebuffer> &fb);
  Error refuseCrop(const Attempts &attempts);
  Error refusePair(const Attempts &attempts);
  std::string whyRefused(const Attempts &attempts) const;
  void refreshLook(const DisplayFrameRequest &request);
  void outputsChanged();
  void refreshOutput();
  Result<std::shared_ptr<Framebuffer>> blackPicture(int width, int height);
  void describe();
  void waitForFences(DisplayFrame &frame, DisplayFrameRequest &request) const;
  int test(const ScreenState &state) const;
  ScreenState stateOf(const Plan &plan, const std::shared_ptr<Framebuffer> &fb) const;
  void fillState(ScreenState &state, const Plan &plan, const std::shared_ptr<Framebuffer> &fb) const;
  PlaneSettings planeProperties(const KmsPlane &plane, const Plan *video = nullptr) const;
  Status chooseOverlay(const std::shared_ptr<Framebuffer> &fb);
  Result<std::optional<PlaneUse>> overlayUse(const std::shared_ptr<Framebuffer> &fb,
                                             const DisplayFrameRequest &request);

  Options options_;
  Events events_;
  std::shared_ptr<KmsDevice> device_;
  KmsSnapshot snapshot_;
  Output output_;
  std::unique_ptr<FramebufferImporter> importer_;
  std::unique_ptr<Committer> committer_;
  std::shared_ptr<CrtcShare> share_; // null: not joined, or left
  bool screen_remembered_ = false;   // what was on it before
  FrameNeed need_;
  int overlay_x_ = 0, overlay_y_ = 0; // of the plan, as DisplayFrameRequest has them
  ColorChoice color_;
  DisplayLook look_;                    // of the plan
  DisplayLook asked_;                   // for which it was made: look_ is an earlier one where that cannot be
  std::optional<DisplayLook> accepted_; // of the last plan that was taken
  std::optional<DisplayLook> warned_;   // that cannot be, and the user knows
  mutable std::mutex offered_mutex_;
  mutable std::shared_ptr<const KmsSnapshot> offered_; // what the last offers() came from
  std::mutex look_mutex_;
  DisplayLook wanted_look_;
  FailureMemory failures_;
  std::shared_ptr<void> output_watch_;
  std::atomic<bool> unplugged_ = false;
  std::atomic<bool> output_changed_ = false; // what is plugged in may be another display
  std::atomic<uint64_t> unseen_ = 0;
  bool pair_refused_ = false, crop_refused_ = false;
  bool use_hdr_ = false; // of the plan
  std::unique_ptr<OverlayPictures> overlay_;
  bool saw_master_ = false; // a plan was accepted before
  std::optional<Plan> plan_;
  std::optional<Plan> on_screen_; // the one before, as long as no frame of plan_ was taken
  std::string outside_;           // mode in which nothing of the frames is on the display; empty: it is, or not known
  std::optional<Rect> told_outside_; // the rectangle that the configuration says is outside
  ObjectPool<DisplayFrame> frames_;
  bool noted_no_overlay_ = false;
  std::atomic<bool> overlay_possible_ = false;
  std::atomic<uint64_t> boxes_shown_ = 0, overlay_redraws_ = 0;
  mutable std::atomic<uint64_t> tests_ = 0, tests_refused_ = 0;
  mutable std::mutex text_mutex_;
  std::string configuration_;
};

} // namespace gstzc
