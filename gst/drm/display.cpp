// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/display.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <drm_fourcc.h>
#include <xf86drm.h>

#include "gst/drm/kms_commit_port.h"

namespace gstzc {

using namespace std::chrono_literals;

namespace {

constexpr unsigned kAttemptsListed = 8; // in an error; more would say the same again

const char *errnoName(int code) {
  const char *name = strerrorname_np(code);
  return name != nullptr ? name : "?";
}

const char *typeName(uint32_t type) {
  return type == DRM_PLANE_TYPE_PRIMARY ? "primary" : type == DRM_PLANE_TYPE_CURSOR ? "cursor" : "overlay";
}

std::string rectName(const Rect &r) {
  return std::to_string(r.width) + "x" + std::to_string(r.height) + " at " + std::to_string(r.x) + "," +
         std::to_string(r.y);
}

} // namespace

Result<std::unique_ptr<Display>> Display::open(const Options &options, Events events) {
  auto device = openDisplay(options.open);
  if (!device) return device.error();
  auto snapshot = (*device)->snapshot();
  if (!snapshot) return snapshot.error();
  auto output = chooseOutput(*snapshot, options.open.connector);
  if (!output) return output.error();

  std::unique_ptr<Display> display(new Display);
  display->options_ = options;
  display->events_ = std::move(events);
  display->device_ = device.take();
  display->snapshot_ = snapshot.take();
  display->output_ = *output;
  display->importer_ = std::make_unique<FramebufferImporter>(display->device_, display->snapshot_.addfb2_modifiers);
  Committer::Limits limits;
  limits.queue = options.max_in_flight;
  display->events_.commit.note = display->events_.note;
  display->committer_ = std::make_unique<Committer>(
      std::make_unique<KmsCommitPort>(display->device_, display->snapshot_, display->output_), limits,
      display->events_.commit);
  return display;
}

Display::~Display() { (void)close(); }

Status Display::close() {
  if (!committer_) return Nothing{};
  committer_->stop();
  Status result = Nothing{};
  if (saved_) result = saved_->restore(device_);
  // only now may frames and framebuffers go: nothing of ours is on screen any more
  saved_.reset();
  plan_.reset();
  committer_.reset();
  boxes_.reset();
  importer_->clear();
  // buffers of our pool may keep the device for as long as anybody likes
  device_->dropMaster();
  return result;
}

void Display::setFrames(const FrameNeed &need, const ColorChoice &color) {
  need_ = need;
  color_ = color;
  // framebuffers of the old frames will not be asked for again
  importer_->clear();
  plan_.reset();
}

int Display::test(const ScreenState &state) const {
  AtomicRequest request;
  addState(request, snapshot_, output_, state);
  return request.commit(device_->fd(), DRM_MODE_ATOMIC_TEST_ONLY | DRM_MODE_ATOMIC_ALLOW_MODESET);
}

std::vector<std::pair<uint32_t, uint64_t>> Display::planeProperties(const KmsPlane &plane) const {
  std::vector<std::pair<uint32_t, uint64_t>> result;
  const auto named = [&](const char *property, const char *value) {
    const auto p = plane.properties.find(property);
    if (p == plane.properties.end() || p->second.immutable() || value == nullptr) return;
    if (const auto v = p->second.named(value)) result.emplace_back(p->second.id, *v);
  };
  named("COLOR_ENCODING", color_.encoding);
  named("COLOR_RANGE", color_.range);
  // what whoever had the plane before may have left
  if (const auto p = plane.properties.find("rotation"); p != plane.properties.end())
    result.emplace_back(p->second.id, DRM_MODE_ROTATE_0);
  named("alpha", "max");
  return result;
}

ScreenState Display::stateOf(const Plan &plan, const std::shared_ptr<Framebuffer> &fb) const {
  ScreenState state;
  state.planes.push_back({plan.plane, fb, plan.place.source, plan.place.target, plan.properties});
  if (!plan.modeset_due) return state;

  state.mode = plan.mode;
  const uint32_t crtc = snapshot_.crtcs[output_.crtc].id;
  for (size_t i = 0; i < snapshot_.planes.size(); ++i) {
    const KmsPlane &plane = snapshot_.planes[i];
    if (i == plan.plane) continue;
    if (plan.background && i == plan.background_plane) {
      const Rect all{0, 0, plan.width, plan.height};
      state.planes.push_back({i, plan.background, all, all, {}});
    } else if (((plane.possible_crtcs >> output_.crtc) & 1) && (plane.crtc == 0 || plane.crtc == crtc)) {
      // what showed on this output before (a console, a cursor) goes, and so does what an earlier plan of ours used
      state.planes.push_back({i, nullptr, {}, {}, {}});
    }
  }
  return state;
}

Result<std::shared_ptr<Framebuffer>> Display::blackPicture(int width, int height) {
  auto memory = DumbBuffer::create(device_, static_cast<uint32_t>(width), static_cast<uint32_t>(height), 32);
  if (!memory) return memory.error();
  const Framebuffer::Plane plane{(*memory)->handle(), (*memory)->pitch(), 0};
  // the kernel gives zeroed memory, and the framebuffer keeps it
  return Framebuffer::create(device_, snapshot_.addfb2_modifiers, {DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_LINEAR},
                             static_cast<uint32_t>(width), static_cast<uint32_t>(height), {&plane, 1});
}

Status Display::choose(const std::shared_ptr<Framebuffer> &fb) {
  const KmsConnector &connector = snapshot_.connectors[output_.connector];
  auto modes = modeCandidates(snapshot_, connector, need_, options_.mode);
  if (!modes) return modes.error();
  std::string refusals;
  const std::vector<size_t> planes = planeCandidates(snapshot_, output_.crtc, need_.format, &refusals);
  if (planes.empty())
    return Error{"no plane of " + connector.name + " on " + device_->path() + " (" + device_->driver() + ") shows " +
                     toString(need_.format) + (refusals.empty() ? "" : ": " + refusals),
                 0, "Convert to one of the formats in the sink's caps"};
  std::optional<size_t> primary;
  for (size_t i = 0; i < snapshot_.planes.size() && !primary; ++i)
    if (snapshot_.planes[i].type == DRM_PLANE_TYPE_PRIMARY &&
        ((snapshot_.planes[i].possible_crtcs >> output_.crtc) & 1))
      primary = i;

  std::string tried;
  unsigned n_tried = 0;
  const auto refused = [&](const std::string &what, int code) {
    if (++n_tried <= kAttemptsListed) tried += (tried.empty() ? "" : "; ") + what + ": " + errnoName(code);
  };
  const auto attempt = [&](const Plan &plan) {
    const int rc = test(stateOf(plan, fb));
    if (rc != 0)
      refused(plan.mode_name + " plane " + std::to_string(snapshot_.planes[plan.plane].id) + " " +
                  rectName(plan.place.target) + (plan.background ? " over black" : ""),
              rc);
    return rc;
  };
  for (const ModeChoice &choice : *modes) {
    auto mode = ModeBlob::create(device_, choice.mode);
    if (!mode) {
      refused(modeName(choice.mode), mode.error().code);
      continue;
    }
    Plan plan;
    plan.mode = *mode;
    plan.mode_name = modeName(choice.mode);
    plan.width = choice.mode.hdisplay;
    plan.height = choice.mode.vdisplay;
    if (choice.mode.clock > 0) // kHz
      plan.refresh =
          std::chrono::nanoseconds(1'000'000ull * choice.mode.htotal * choice.mode.vtotal / choice.mode.clock);
    std::shared_ptr<Framebuffer> black; // made when first wanted
    for (const Placement &place : placements(need_, plan.width, plan.height)) {
      for (const size_t plane : planes) {
        plan.plane = plane;
        plan.place = place;
        plan.properties = planeProperties(snapshot_.planes[plane]);
        plan.background.reset();
        int rc = attempt(plan);
        // some devices want their primary plane to be on whenever the output is
        if (rc != 0 && rc != EACCES && primary && plane != *primary) {
          if (!black)
            if (auto made = blackPicture(plan.width, plan.height)) black = *made;
          if (black) {
            plan.background = black;
            plan.background_plane = primary;
            rc = attempt(plan);
          }
        }
        if (rc == EACCES)
          return Error{"use " + device_->path(), rc, "This descriptor is not master: another process took the display"};
        if (rc != 0) continue;
        plan_ = plan;
        boxes_.reset();
        describe();
        return Nothing{};
      }
    }
  }
  if (n_tried > kAttemptsListed) tried += "; …";
  return Error{connector.name + " of " + device_->path() + " (" + device_->driver() + ") refuses " +
                   toString(need_.format) + " " + std::to_string(need_.width) + "x" + std::to_string(need_.height) +
                   " in every way tried (" + tried + ")",
               0, "Set mode= to the frame's size, or change format or size upstream"};
}

void Display::chooseOverlay(const std::shared_ptr<Framebuffer> &fb, const std::vector<Rect> &boxes) {
  plan_->overlay_tried = true;
  const Rect &target = plan_->place.target;
  // on screen, committed, in the queue
  boxes_ = std::make_unique<BoxOverlay>(device_, snapshot_.addfb2_modifiers, target.width, target.height,
                                        options_.max_in_flight + 2);
  auto picture = boxes_->draw(boxes);
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
        properties.emplace_back(z->second.id, std::max(z->second.value, vz->second.value + 1));
      ScreenState state = stateOf(whole, fb);
      std::erase_if(state.planes, [&](const PlaneUse &use) { return use.plane == i; });
      state.planes.push_back({i, *picture, {0, 0, target.width, target.height}, target, properties});
      const int rc = test(state);
      if (rc == 0) {
        plan_->overlay_plane = i;
        plan_->overlay_properties = properties;
        describe();
        return;
      }
      why += (why.empty() ? "" : ", ") + ("plane " + std::to_string(plane.id)) + ": " + errnoName(rc);
    }
  }
  boxes_.reset();
  if (!noted_no_overlay_ && events_.note) {
    noted_no_overlay_ = true;
    events_.note("boxes are not shown: " + snapshot_.connectors[output_.connector].name + " of " + device_->path() +
                 " (" + device_->driver() + ") has no free ARGB8888 plane above the video" +
                 (why.empty() ? "" : " (" + why + ")"));
  }
}

std::optional<PlaneUse> Display::overlayUse(const std::shared_ptr<Framebuffer> &fb, const std::vector<Rect> &boxes) {
  if (!options_.overlay) return std::nullopt;
  std::vector<Rect> visible;
  for (const Rect &box : boxes)
    if (const Rect r = boxOnTarget(box, plan_->place); r.width > 0) visible.push_back(r);
  if (!visible.empty() && !plan_->overlay_tried) chooseOverlay(fb, visible);
  if (!plan_->overlay_plane) return std::nullopt;
  PlaneUse use;
  use.plane = *plan_->overlay_plane;
  if (visible.empty()) return use; // off
  auto picture = boxes_->draw(visible);
  if (!picture) return use;
  const Rect &target = plan_->place.target;
  use.fb = *picture;
  use.source = {0, 0, target.width, target.height};
  use.target = target;
  use.properties = plan_->overlay_properties;
  return use;
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
    if (last != 0 && last < now && refresh != 0)
      (void)fences.sync.setDeadline(last + ((now - last) / refresh + 1) * refresh); // a hint
    frame.in_fence = UniqueFd::duplicate(fences.sync.fd());
  }
  frame.fences = std::move(fences).take();
}

Result<Committer::Submitted> Display::show(std::shared_ptr<Framebuffer> fb, DisplayFrameRequest request) {
  if (!saved_) {
    auto before = device_->snapshot(KmsDevice::Outputs::AsKnown);
    if (!before) return before.error();
    auto output = sameOutput(snapshot_, output_, *before);
    if (!output) return output.error();
    saved_.emplace(*before, *output);
  }
  if (!plan_) {
    if (auto chosen = choose(fb); !chosen) return chosen.error();
  }

  const std::optional<PlaneUse> overlay = overlayUse(fb, request.boxes);
  auto frame = std::make_shared<DisplayFrame>();
  frame->state = stateOf(*plan_, fb);
  if (overlay) {
    std::erase_if(frame->state.planes, [&](const PlaneUse &use) { return use.plane == overlay->plane; });
    frame->state.planes.push_back(*overlay);
  }
  frame->keep = request.keep;
  frame->background = plan_->background;
  frame->pts = request.pts;
  frame->identity = request.source.key.buffers[0];
  waitForFences(*frame, request);
  auto submitted = committer_->submit(std::move(frame), request.wait);
  if (submitted && *submitted == Committer::Submitted::Accepted) {
    plan_->modeset_due = false;
    if (overlay && overlay->fb) boxes_shown_ += request.boxes.size();
  }
  return submitted;
}

void Display::describe() {
  const KmsPlane &plane = snapshot_.planes[plan_->plane];
  std::string text = device_->path() + " (" + device_->driver() + ") " + snapshot_.connectors[output_.connector].name +
                     " " + plan_->mode_name + ", plane " + std::to_string(plane.id) + " (" + typeName(plane.type) +
                     "), " + toString(need_.format) + ", " + rectName(plan_->place.target);
  if (plan_->place.scaled) text += " scaled from " + std::to_string(need_.width) + "x" + std::to_string(need_.height);
  if (plan_->background) text += " over black";
  if (plan_->overlay_plane) text += ", boxes on plane " + std::to_string(snapshot_.planes[*plan_->overlay_plane].id);
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
  return {committer_ ? committer_->counters() : Committer::Counters{}, importer_->imports(), importer_->hits(),
          boxes_shown_.load()};
}

} // namespace gstzc
