// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/display.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <drm_fourcc.h>
#include <xf86drm.h>

#include "gst/drm/flip_statistics.h"
#include "gst/drm/kms_commit_port.h"

namespace gstzc {

using namespace std::chrono_literals;

namespace {

// Whether any plane of the output could be above another one that shows frames. The kernel is asked when there is a
// frame.
bool overlaysThinkable(const KmsSnapshot &snapshot, size_t crtc) {
  for (size_t i = 0; i < snapshot.planes.size(); ++i)
    if (snapshot.planes[i].type != DRM_PLANE_TYPE_CURSOR && ((snapshot.planes[i].possible_crtcs >> crtc) & 1) != 0 &&
        !overlayCandidates(snapshot, crtc, i, DRM_FORMAT_ARGB8888).empty())
      return true;
  return false;
}

} // namespace

Result<std::unique_ptr<Display>> Display::open(const Options &options, Events events) {
  auto device = openDisplay(options.open);
  if (!device) return device.error();
  std::unique_ptr<Display> display(new Display);
  display->device_ = device.take(); // entered: close() leaves
  display->options_ = options;
  display->events_ = std::move(events);
  if (auto output = display->chooseDisplayOutput(); !output) return output.error();

  display->importer_ = std::make_unique<FramebufferImporter>(display->device_, display->snapshot_.addfb2_modifiers);
  display->events_.commit.note = display->events_.note;
  // on screen, in flight, in hand, being dropped
  display->frames_.prepare(options.max_in_flight + 4, [](DisplayFrame &frame) { frame.state.planes.reserve(4); });
  display->join();
  display->overlay_possible_ =
      options.overlay != OverlayMode::Off && overlaysThinkable(display->snapshot_, display->output_.crtc);
  if (options.on_unplug != OnUnplug::Ignore)
    display->output_watch_ = display->device_->watchOutputs([raw = display.get()] { raw->outputsChanged(); });
  return display;
}

// On the watcher's thread.
void Display::outputsChanged() {
  const KmsConnector &mine = snapshot_.connectors[output_.connector];
  auto now = device_->snapshot();
  if (!now) return;
  const auto it = std::find_if(now->connectors.begin(), now->connectors.end(),
                               [&](const KmsConnector &c) { return c.id == mine.id; });
  const bool unplugged = it == now->connectors.end() || it->status == DRM_MODE_DISCONNECTED;
  if (unplugged_.exchange(unplugged) == unplugged) return;
  const std::string name = "output " + mine.name + " of " + device_->path();
  if (!unplugged) {
    output_changed_ = true;
    committer_->suspend(false);
    if (events_.note) events_.note(name + " is plugged in again");
  } else if (options_.on_unplug == OnUnplug::Error) {
    if (events_.commit.failed)
      events_.commit.failed(
          Error{name + " was unplugged", ENODEV, "Connect it again; on-unplug=pause waits for that, dropping frames"});
  } else {
    committer_->suspend(true);
    if (events_.note) events_.note(name + " was unplugged: frames are dropped until it is back");
  }
}

// After it was plugged in: another display may have other modes.
void Display::refreshOutput() {
  auto now = device_->snapshot(KmsDevice::Outputs::AsKnown);
  if (!now) return;
  KmsConnector &mine = snapshot_.connectors[output_.connector];
  for (const KmsConnector &c : now->connectors)
    if (c.id == mine.id) mine.modes = c.modes;
  dropPlan();
}

Status Display::chooseDisplayOutput() {
  auto snapshot = device_->snapshot();
  if (!snapshot) return snapshot.error();
  snapshot_ = snapshot.take();
  while (true) {
    device_->claims().mark(snapshot_, this);
    auto output = chooseOutput(snapshot_, options_.open.connector);
    if (!output) return output.error();
    output_ = *output;
    // false: another sink was first, and is seen the next time
    if (device_->claims().claimOutput(this, snapshot_.connectors[output_.connector].id,
                                      snapshot_.crtcs[output_.crtc].id))
      break;
  }
  std::string planes;
  bool any = false;
  for (const KmsPlane &plane : snapshot_.planes) {
    if (((plane.possible_crtcs >> output_.crtc) & 1) == 0) continue;
    any = true;
    if (plane.claimed) continue; // of another sink on this output
    if (options_.plane == 0 || plane.id == options_.plane) return Nothing{};
    planes += (planes.empty() ? "" : ", ") + planeName(plane);
  }
  if (any && planes.empty())
    return Error{snapshot_.path + ": another sink of this process shows on output " +
                     snapshot_.connectors[output_.connector].name + ", which has no plane left",
                 EBUSY, "Choose another output with connector="};
  return Error{"output " + snapshot_.connectors[output_.connector].name + " of " + snapshot_.path + " has no plane " +
                   std::to_string(options_.plane),
               0, planes.empty() ? "It has no planes at all" : "Set plane-id= to one of its own: " + planes};
}

Display::~Display() { (void)close(); }

// The sinks of an output have its commits in common.
void Display::join() {
  share_ = device_->crtcShare(snapshot_.crtcs[output_.crtc].id);
  const std::lock_guard lock(share_->mutex);
  if (share_->sinks++ == 0) {
    Committer::Limits limits;
    limits.regain = 100ms;
    share_->queue = std::make_shared<CrtcQueue>(
        std::make_unique<KmsCommitPort>(device_, snapshot_, output_, options_.async_flips), limits);
  }
  committer_ = std::make_unique<Committer>(share_->queue, options_.max_in_flight, events_.commit);
}

// Before the first frame.
Status Display::rememberScreen() {
  const std::lock_guard lock(share_->mutex);
  if (!share_->saved) {
    auto before = device_->snapshot(KmsDevice::Outputs::AsKnown);
    if (!before) return before.error();
    auto output = sameOutput(snapshot_, output_, *before);
    if (!output) return output.error();
    share_->saved.emplace(*before, *output);
  }
  screen_remembered_ = true;
  return Nothing{};
}

// A plan's planes off.
std::shared_ptr<DisplayFrame> Display::farewell(const Plan &plan) {
  auto frame = frames_.take();
  frame->farewell = true;
  for (const std::optional<size_t> &plane :
       {std::optional(plan.plane), plan.overlay_plane, plan.background ? plan.background_plane : std::nullopt})
    if (plane) frame->state.planes.push_back({*plane, nullptr, {}, {}, nullptr});
  return frame;
}

// What others show stays.
void Display::leaveOutput() {
  dropPlan();
  if (!on_screen_) return;
  auto frame = farewell(*on_screen_);
  if (test(frame->state) != 0) return; // it goes when its framebuffer does
  committer_->interrupt(false);
  committer_->flush();
  if (auto submitted = committer_->submit(std::move(frame), false); submitted) (void)committer_->drain();
}

void Display::stop() {
  if (share_) {
    const std::lock_guard lock(share_->mutex);
    if (share_->sinks > 1) leaveOutput();
  }
  committer_->stop();
}

Status Display::close() {
  if (!device_) return Nothing{};
  Status result = Nothing{};
  output_watch_.reset();
  if (committer_) {
    stop();
    const std::shared_ptr<CrtcShare> share = std::move(share_);
    const std::lock_guard lock(share->mutex);
    const bool last = --share->sinks == 0;
    if (last && share->saved) result = share->saved->restore(device_, this);
    // only now may frames and framebuffers go: nothing of ours is on screen any more
    plan_.reset();
    on_screen_.reset();
    committer_.reset();
    overlay_.reset();
    importer_->clear();
    if (last) {
      share->queue.reset();
      share->mode.reset();
      share->saved.reset();
    }
  }
  device_->claims().release(this);
  // buffers of our pool may keep the device for as long as anybody likes
  device_->leave();
  device_.reset();
  return result;
}

OfferedFormats Display::offers(uint32_t width, uint32_t height) const {
  auto possible = std::make_shared<const KmsSnapshot>(candidates());
  {
    const std::lock_guard lock(offered_mutex_);
    offered_ = possible;
  }
  return gstzc::offers(*possible, output_.crtc, failures_, width, height);
}

Error Display::whyNot(const FrameNeed &need) const {
  std::shared_ptr<const KmsSnapshot> possible;
  {
    const std::lock_guard lock(offered_mutex_);
    possible = offered_;
  }
  if (!possible) return Error{"the display has offered nothing yet", 0, ""};
  std::vector<Refusal> refusals;
  (void)propose(*possible, output_.crtc, need, {}, &refusals);
  return noPlane(*possible, output_.crtc, need, {}, refusals).error();
}

Status Display::setFrames(const FrameNeed &need, const ColorChoice &color) {
  DisplayLook look;
  {
    const std::lock_guard lock(look_mutex_);
    look = wanted_look_;
  }
  const FrameNeed before = need_;
  const DisplayLook worn = look_;
  std::vector<Refusal> refusals;
  const KmsSnapshot possible = candidates();
  need_ = need;
  wear(look);
  if (propose(possible, output_.crtc, need_, failures_, &refusals).empty()) {
    const NoPlane none = noPlane(possible, output_.crtc, need_, failures_, refusals);
    const bool other = accepted_ && asBefore(look) != look;
    if (other) wear(asBefore(look));
    if (!other || propose(possible, output_.crtc, need_, failures_, nullptr).empty()) {
      need_ = before;
      look_ = worn;
      return none.error();
    }
    asked_ = look;
    warnOfLook(none.refusal);
  }
  asked_ = look;
  color_ = color;
  // framebuffers of the old frames will not be asked for again
  importer_->clear();
  dropPlan();
  return Nothing{};
}

// What comes next is chosen anew.
void Display::dropPlan() {
  if (plan_ && !plan_->modeset_due) on_screen_ = std::move(plan_);
  plan_.reset();
  outside_.clear();
}

void Display::setLook(const DisplayLook &look) {
  const std::lock_guard lock(look_mutex_);
  wanted_look_ = look;
}

// A plan is for a look, a size, a crop and a number of memory planes.
void Display::refreshLook(const DisplayFrameRequest &request) {
  DisplayLook look;
  {
    const std::lock_guard lock(look_mutex_);
    look = wanted_look_;
  }
  const ImportKey &key = request.source.key;
  const auto width = static_cast<int>(key.width), height = static_cast<int>(key.height);
  if ((plan_ || !outside_.empty()) && look == asked_ && request.crop == need_.crop &&
      key.n_planes == need_.memory_planes && width == need_.width && height == need_.height &&
      request.overlay_x == overlay_x_ && request.overlay_y == overlay_y_)
    return;
  if (look != asked_) wear(look);
  asked_ = look;
  need_.width = width; // the caps may be those of the crop
  need_.height = height;
  need_.crop = request.crop;
  need_.memory_planes = key.n_planes;
  overlay_x_ = request.overlay_x;
  overlay_y_ = request.overlay_y;
  dropPlan();
}

Result<std::shared_ptr<Framebuffer>> Display::import(const FramebufferImporter::Source &source) {
  bool framebuffer_refused = false;
  auto result = importer_->import(source, &framebuffer_refused);
  pair_refused_ = !result && framebuffer_refused;
  if (pair_refused_) failures_.add(0, {source.key.fourcc, source.key.modifier}, source.key.width, source.key.height);
  return result;
}

Status Display::chooseOverlay(const std::shared_ptr<Framebuffer> &fb) {
  plan_->overlay_tried = true;
  const Rect &target = plan_->place.target;
  Placement place = plan_->place;
  place.source.x -= overlay_x_;
  place.source.y -= overlay_y_;
  // on screen, committed, in the queue
  overlay_ = std::make_unique<OverlayPictures>(
      OverlayMapping(place, plan_->rotation), options_.max_in_flight + 2,
      [device = device_, modifiers = snapshot_.addfb2_modifiers, target] {
        return OverlayMemory::create(device, modifiers, target.width, target.height);
      },
      events_.note);
  auto picture = overlay_->blank();
  std::string why = picture ? "" : picture.error().message();
  if (picture) {
    Plan whole = *plan_;
    whole.modeset_due = true; // the first commit may not have happened yet
    const KmsPlane &video = snapshot_.planes[plan_->plane];
    for (const size_t i : overlayCandidates(snapshot_, output_.crtc, plan_->plane, DRM_FORMAT_ARGB8888)) {
      const KmsPlane &plane = snapshot_.planes[i];
      auto properties = planeProperties(plane);
      const auto z = plane.properties.find("zpos"), vz = video.properties.find("zpos");
      if (z != plane.properties.end() && !z->second.immutable() && vz != video.properties.end())
        properties.emplace_back(z->second.id, std::max(z->second.value, look_.zpos.value_or(vz->second.value) + 1));
      ScreenState state = stateOf(whole, fb);
      std::erase_if(state.planes, [&](const PlaneUse &use) { return use.plane == i; });
      const auto settings = std::make_shared<const PlaneSettings>(std::move(properties));
      state.planes.push_back({i, *picture, {0, 0, target.width, target.height}, target, settings});
      int rc = test(state);
      if (rc == 0 && !device_->claims().claimPlane(this, plane.id, snapshot_.crtcs[output_.crtc].id)) rc = EBUSY;
      if (rc == 0) {
        plan_->overlay_plane = i;
        plan_->overlay_properties = settings;
        describe();
        return Nothing{};
      }
      why += (why.empty() ? "" : ", ") + ("plane " + std::to_string(plane.id)) + ": " + errnoName(rc);
    }
  }
  overlay_.reset();
  const std::string what = snapshot_.connectors[output_.connector].name + " of " + device_->path() + " (" +
                           device_->driver() + ") has no free ARGB8888 plane above the video" +
                           (why.empty() ? "" : " (" + why + ")");
  if (options_.overlay == OverlayMode::Plane)
    return Error{what, 0, "Set overlay=auto to show the frames without their overlays"};
  if (!noted_no_overlay_ && events_.note) events_.note("overlays are not shown: " + what);
  noted_no_overlay_ = true;
  if (overlay_possible_.exchange(false) && events_.no_overlay) events_.no_overlay();
  return Nothing{};
}

// What the overlay's plane shows with this frame; nothing: there is no such plane.
Result<std::optional<PlaneUse>> Display::overlayUse(const std::shared_ptr<Framebuffer> &fb,
                                                    const DisplayFrameRequest &request) {
  const bool empty = request.overlay == nullptr || request.overlay->empty();
  if (!plan_->overlay_tried && options_.overlay != OverlayMode::Off &&
      (!empty || options_.overlay == OverlayMode::Plane))
    if (auto chosen = chooseOverlay(fb); !chosen) return chosen.error();
  if (!plan_->overlay_plane) return std::optional<PlaneUse>();
  PlaneUse use; // off
  use.plane = *plan_->overlay_plane;
  if (empty) return std::optional(use);
  const uint64_t before = overlay_->counters().redraws;
  use.fb = overlay_->draw(*request.overlay, request.style);
  overlay_redraws_ += overlay_->counters().redraws - before;
  if (!use.fb) return std::optional(use);
  const Rect &target = plan_->place.target;
  use.source = {0, 0, target.width, target.height};
  use.target = target;
  use.properties = plan_->overlay_properties;
  return std::optional(use);
}

void Display::waitForFences(DisplayFrame &frame, DisplayFrameRequest &request) const {
  frame.fence_timeout = request.fence_timeout;
  frame.on_fence_error = request.on_fence_error;
  if (!request.fences) {
    frame.fence_error = request.fences.error();
    return;
  }
  FrameFences fences = request.fences.take();
  if (!fences.sync.isEmpty()) {
    // the vertical blank it can make at best
    const uint64_t last = committer_->lastFlip(), refresh = static_cast<uint64_t>(plan_->refresh.count());
    const auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / 1ns);
    if (last != 0 && last < now && refresh != 0) (void)fences.sync.setDeadline(nextBlank(last, now, refresh)); // a hint
    frame.in_fence = UniqueFd::duplicate(fences.sync.fd());
  }
  frame.fences = std::move(fences).take();
}

Result<Committer::Submitted> Display::show(std::shared_ptr<Framebuffer> fb, DisplayFrameRequest request) {
  if (!screen_remembered_)
    if (auto remembered = rememberScreen(); !remembered) return remembered.error();
  forgetRefusals();
  if (output_changed_.exchange(false)) refreshOutput();
  refreshLook(request);
  if (!plan_ || plan_->modeset_due) device_->claims().mark(snapshot_, this);
  if (!plan_ && outside_.empty()) {
    auto chosen = choose(fb);
    // another process has the display: as when it takes it from a stream that plays
    if (!chosen && chosen.error().code == EACCES && device_->regainMaster()) chosen = choose(fb);
    if (!chosen && chosen.error().code == EACCES && saw_master_) {
      ++unseen_;
      return Committer::Submitted::Accepted;
    }
    if (!chosen) return chosen.error();
    saw_master_ = saw_master_ || *chosen;
  }
  if (!plan_) return hide(request.wait);

  auto used = overlayUse(fb, request);
  if (!used) return used.error();
  const std::optional<PlaneUse> &overlay = *used;
  auto frame = frames_.take();
  fillState(frame->state, *plan_, fb);
  if (overlay) {
    std::erase_if(frame->state.planes, [&](const PlaneUse &use) { return use.plane == overlay->plane; });
    frame->state.planes.push_back(*overlay);
  }
  frame->keep = std::move(request.keep);
  frame->background = plan_->background;
  frame->pts = request.pts;
  frame->due = request.due;
  frame->refresh = static_cast<uint64_t>(plan_->refresh.count());
  frame->untimed = options_.vrr || options_.async_flips;
  frame->identity = request.source.key.buffers[0];
  waitForFences(*frame, request);
  auto submitted = committer_->submit(std::move(frame), request.wait);
  if (submitted && *submitted == Committer::Submitted::Accepted) {
    plan_->modeset_due = false;
    on_screen_.reset();
    told_outside_.reset();
    if (overlay && overlay->fb) boxes_shown_ += request.overlay->boxes.size();
  }
  return submitted;
}

void Display::describe() {
  const KmsPlane &plane = snapshot_.planes[plan_->plane];
  std::string text = device_->path() + " (" + device_->driver() + ") " + snapshot_.connectors[output_.connector].name +
                     " " + plan_->mode_name + ", plane " + std::to_string(plane.id) + " (" + planeKind(plane.type) +
                     "), " + toString(need_.format) + ", " + rectName(plan_->place.target);
  const auto sizeName = [](int width, int height) { return std::to_string(width) + "x" + std::to_string(height); };
  const Rect &shown = plan_->place.source; // less than was asked for where some of it is outside of the display
  if (plan_->place.scaled) text += " scaled from " + sizeName(shown.width, shown.height);
  if (shown != Rect{0, 0, need_.width, need_.height})
    text += ", a part of " + sizeName(need_.width, need_.height) + " from " + std::to_string(shown.x) + "," +
            std::to_string(shown.y);
  if (plan_->background) text += " over black";
  if (plan_->overlay_plane) text += ", overlay on plane " + std::to_string(snapshot_.planes[*plan_->overlay_plane].id);
  {
    const std::lock_guard lock(text_mutex_);
    configuration_ = text;
  }
  if (events_.configured) events_.configured(text);
}

std::string Display::configuration() const {
  const std::lock_guard lock(text_mutex_);
  return configuration_;
}

Display::Counters Display::counters() const {
  return {committer_ ? committer_->counters() : Committer::Counters{},
          importer_->imports(),
          importer_->hits(),
          boxes_shown_.load(),
          overlay_redraws_.load(),
          tests_.load(),
          tests_refused_.load(),
          unseen_.load()};
}

} // namespace gstzc
