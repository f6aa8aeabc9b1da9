// SPDX-License-Identifier: LGPL-2.1-or-later
// The choice of mode, plane and rectangles for frames: the engine's candidates, each tried with TEST_ONLY.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include <drm_fourcc.h>
#include <xf86drm.h>

#include "gst/drm/display.h"

namespace gstzc {
namespace {

constexpr unsigned kAttemptsListed = 8; // in an error; more would say the same again

// Far outside of any display, and no sum of its members overflows.
Rect withinReach(const Rect &rectangle) {
  constexpr int kFar = 1 << 24;
  return {std::clamp(rectangle.x, -kFar, kFar), std::clamp(rectangle.y, -kFar, kFar), std::min(rectangle.width, kFar),
          std::min(rectangle.height, kFar)};
}

} // namespace

int Display::test(const ScreenState &state) const {
  AtomicRequest request;
  addState(request, snapshot_, output_, state);
  const int rc = device_->commit(request, DRM_MODE_ATOMIC_TEST_ONLY | DRM_MODE_ATOMIC_ALLOW_MODESET, nullptr);
  ++tests_;
  if (rc != 0) ++tests_refused_;
  return rc;
}

PlaneSettings Display::planeProperties(const KmsPlane &plane, const Plan *video) const {
  PlaneSettings result;
  const auto named = [&](const char *property, const char *value) {
    const auto p = plane.properties.find(property);
    if (p == plane.properties.end() || p->second.immutable() || value == nullptr) return;
    if (const auto v = p->second.named(value)) result.emplace_back(p->second.id, *v);
  };
  named("COLOR_ENCODING", color_.encoding);
  named("COLOR_RANGE", color_.range);
  const auto set = [&](const char *property, uint64_t value) {
    const auto p = plane.properties.find(property);
    if (p != plane.properties.end() && !p->second.immutable()) result.emplace_back(p->second.id, value);
  };
  // always, because of what whoever had the plane before may have left
  set("rotation", video != nullptr ? video->rotation : DRM_MODE_ROTATE_0);
  if (video == nullptr || look_.alpha == 0xffff)
    named("alpha", "max");
  else if (const auto p = plane.properties.find("alpha"); p != plane.properties.end())
    set("alpha", p->second.named("max").value_or(0xffff) * look_.alpha / 0xffff);
  named("pixel blend mode", "Pre-multiplied"); // what overlays are, and all the same to frames without alpha
  if (video != nullptr && look_.zpos) set("zpos", *look_.zpos);
  return result;
}

ScreenState Display::stateOf(const Plan &plan, const std::shared_ptr<Framebuffer> &fb) const {
  ScreenState state;
  fillState(state, plan, fb);
  return state;
}

void Display::fillState(ScreenState &state, const Plan &plan, const std::shared_ptr<Framebuffer> &fb) const {
  state.planes.push_back({plan.plane, fb, plan.place.source, plan.place.target, plan.properties});
  if (!plan.modeset_due) return;

  state.mode = plan.mode;
  state.settings = plan.settings;
  state.hdr = plan.hdr;
  const uint32_t crtc = snapshot_.crtcs[output_.crtc].id;
  for (size_t i = 0; i < snapshot_.planes.size(); ++i) {
    const KmsPlane &plane = snapshot_.planes[i];
    if (i == plan.plane) continue;
    if (plan.background && i == plan.background_plane) {
      const Rect all{0, 0, plan.width, plan.height};
      state.planes.push_back({i, plan.background, all, all, {}});
    } else if (((plane.possible_crtcs >> output_.crtc) & 1) && !plane.claimed &&
               (plane.crtc == 0 || plane.crtc == crtc)) {
      // what showed on this output before (a console, a cursor) goes, and so does what an earlier plan of ours used
      state.planes.push_back({i, nullptr, {}, {}, {}});
    }
  }
}

Result<std::shared_ptr<Framebuffer>> Display::blackPicture(int width, int height) {
  auto memory = DumbBuffer::create(device_, static_cast<uint32_t>(width), static_cast<uint32_t>(height), 32);
  if (!memory) return memory.error();
  const Framebuffer::Plane plane{(*memory)->handle(), (*memory)->pitch(), 0};
  // the kernel gives zeroed memory, and the framebuffer keeps it
  return Framebuffer::create(device_, snapshot_.addfb2_modifiers, {DRM_FORMAT_XRGB8888, DRM_FORMAT_MOD_LINEAR},
                             static_cast<uint32_t>(width), static_cast<uint32_t>(height), {&plane, 1});
}

// False: another sink of the process was faster. Planes of an earlier plan are given back.
bool Display::claimPlanes(const Plan &plan) {
  Claims &claims = device_->claims();
  const uint32_t crtc = snapshot_.crtcs[output_.crtc].id;
  bool mine = true;
  for (size_t i = 0; i < snapshot_.planes.size(); ++i) {
    const uint32_t id = snapshot_.planes[i].id;
    if (i == plan.plane || (plan.background && i == plan.background_plane))
      mine = claims.claimPlane(this, id, crtc) && mine;
    else
      claims.releasePlane(this, id);
  }
  return mine;
}

// The snapshot with the planes only that may be chosen.
KmsSnapshot Display::candidates() const {
  KmsSnapshot result = snapshot_;
  for (KmsPlane &plane : result.planes)
    if (options_.plane != 0 && plane.id != options_.plane) plane.possible_crtcs = 0;
  return result;
}

// Whether the kernel takes it, as it is or over black. Errors: nothing will be taken.
Result<bool> Display::tryPlan(Plan &plan, const std::shared_ptr<Framebuffer> &fb, std::shared_ptr<Framebuffer> &black,
                              Attempts &attempts) {
  const auto attempt = [&] {
    const int rc = test(stateOf(plan, fb));
    if (rc != 0)
      attempts.refused(plan.mode_name + " plane " + std::to_string(snapshot_.planes[plan.plane].id) + " " +
                           rectName(plan.place.target) + (plan.background ? " over black" : ""),
                       rc);
    return rc;
  };
  std::optional<size_t> primary;
  for (size_t i = 0; i < snapshot_.planes.size() && !primary; ++i)
    if (snapshot_.planes[i].type == DRM_PLANE_TYPE_PRIMARY && !snapshot_.planes[i].claimed &&
        ((snapshot_.planes[i].possible_crtcs >> output_.crtc) & 1))
      primary = i;
  int rc = attempt();
  // some devices want their primary plane to be on whenever the output is
  if (rc != 0 && rc != EACCES && primary && plan.plane != *primary) {
    if (!black)
      if (auto made = blackPicture(plan.width, plan.height)) black = *made;
    if (black) {
      plan.background = black;
      plan.background_plane = primary;
      rc = attempt();
    }
  }
  if (rc == EACCES)
    return Error{"use " + device_->path(), rc, "This descriptor is not master: another process took the display"};
  if (rc != 0) return false;
  if (attempts.only_ask) return true;
  if (!claimPlanes(plan)) {
    attempts.refused("plane " + std::to_string(snapshot_.planes[plan.plane].id), EBUSY);
    return false;
  }
  return true;
}

void Display::Attempts::refused(const std::string &what, int code) {
  if (number++ < kAttemptsListed) text += (text.empty() ? "" : "; ") + what + ": " + errnoName(code);
}

bool Display::wantsHdr() const {
  const KmsConnector &connector = snapshot_.connectors[output_.connector];
  if (!color_.hdr || options_.hdr == HdrMode::Never || !connector.properties.contains("HDR_OUTPUT_METADATA"))
    return false;
  return options_.hdr == HdrMode::Always ||
         ((edidTransferFunctions(connector.edid) >> color_.hdr->hdmi_metadata_type1.eotf) & 1) != 0;
}

// Said with each modeset, since whoever had the output before may have left something else.
void Display::chooseOutputSettings(Plan &plan) const {
  const KmsConnector &connector = snapshot_.connectors[output_.connector];
  const KmsCrtc &crtc = snapshot_.crtcs[output_.crtc];
  if (const auto p = connector.properties.find("HDR_OUTPUT_METADATA"); p != connector.properties.end()) {
    if (use_hdr_)
      if (auto blob = PropertyBlob::create(device_, &*color_.hdr, sizeof *color_.hdr, "HDR metadata")) plan.hdr = *blob;
    plan.settings.push_back({connector.id, p->second.id, plan.hdr ? plan.hdr->id() : 0});
  }
  if (const auto p = connector.properties.find("Colorspace"); p != connector.properties.end()) {
    // planes are mixed as RGB
    const auto space = p->second.named(use_hdr_ && color_.bt2020 ? "BT2020_RGB" : "Default");
    if (space) plan.settings.push_back({connector.id, p->second.id, *space});
  }
  if (const auto p = crtc.properties.find("VRR_ENABLED"); p != crtc.properties.end()) {
    const auto capable = connector.properties.find("vrr_capable");
    const bool on = options_.vrr && capable != connector.properties.end() && capable->second.value != 0;
    plan.settings.push_back({crtc.id, p->second.id, on ? 1u : 0u});
  }
}

Result<bool> Display::choose(const std::shared_ptr<Framebuffer> &fb) {
  const auto isOutside = [this](const Attempts &attempts) {
    if (attempts.inside || attempts.outside.empty()) return false;
    outside_ = attempts.outside;
    return true;
  };
  use_hdr_ = wantsHdr();
  if (use_hdr_) {
    Attempts attempts;
    auto taken = tryAll(fb, attempts);
    if (!taken) return taken.error();
    if (*taken) {
      describe();
      return true;
    }
    if (isOutside(attempts)) return false;
    use_hdr_ = false;
    if (events_.note)
      events_.note("the display refuses HDR metadata (" + attempts.text + "): frames are shown without");
  }
  Attempts attempts;
  auto taken = tryAll(fb, attempts);
  if (taken && isOutside(attempts)) return false;
  if (taken && !*taken && accepted_ && *accepted_ != look_) {
    const std::string why = whyRefused(attempts);
    // where it is to be is another matter than how
    for (const DisplayLook &former : {asBefore(look_), *accepted_}) {
      if (former == look_) continue;
      wear(former);
      attempts = {};
      taken = tryAll(fb, attempts);
      if (taken && isOutside(attempts)) return false;
      if (!taken || *taken) break;
    }
    if (taken && *taken) warnOfLook(why);
  }
  if (!taken) return taken.error();
  if (!*taken && wholeFrameIsPossible(fb)) return refuseCrop(attempts);
  if (!*taken) return refusePair(attempts);
  describe();
  return true;
}

// Nothing of the frames is on the display: what showed the last one goes off.
Result<Committer::Submitted> Display::hide(bool wait) {
  if (on_screen_) {
    auto frame = farewell(*on_screen_);
    if (test(frame->state) != 0) { // where the primary plane has to be on it is black
      auto black = blackPicture(on_screen_->width, on_screen_->height);
      const Rect all{0, 0, on_screen_->width, on_screen_->height};
      for (PlaneUse &use : frame->state.planes) {
        if (!black || snapshot_.planes[use.plane].type != DRM_PLANE_TYPE_PRIMARY) continue;
        use = {use.plane, *black, all, all, nullptr};
        frame->background = *black;
      }
      if (test(frame->state) != 0) frame.reset(); // the last one stays
    }
    if (frame) {
      auto submitted = committer_->submit(std::move(frame), wait);
      if (!submitted || *submitted == Committer::Submitted::Interrupted) return submitted;
    }
    on_screen_.reset();
  }
  ++unseen_;
  if (told_outside_ != look_.rectangle) {
    const bool news = !std::exchange(told_outside_, look_.rectangle); // one that only moves about is none
    const Rect r = look_.rectangle.value_or(Rect{});
    const std::string text = "nothing is shown: render-rectangle=<" + std::to_string(r.x) + "," + std::to_string(r.y) +
                             "," + std::to_string(r.width) + "," + std::to_string(r.height) +
                             "> puts the frames outside of the display's " + outside_;
    {
      const std::lock_guard lock(text_mutex_);
      configuration_ = device_->path() + " (" + device_->driver() + ") " +
                       snapshot_.connectors[output_.connector].name + ", " + text;
    }
    if (events_.configured) events_.configured(configuration());
    if (news && events_.note) events_.note(text + ". They are dropped until it changes");
  }
  return Committer::Submitted::Accepted;
}

// True: plan_ is what the kernel takes, or else would be.
Result<bool> Display::tryAll(const std::shared_ptr<Framebuffer> &fb, Attempts &attempts) {
  const std::lock_guard lock(share_->mutex);
  device_->claims().mark(snapshot_, this);
  auto modes = modeCandidates(snapshot_, output_, need_, options_.mode, options_.auto_mode);
  // the first sink of an output sets its mode, the others keep it
  const std::optional<CrtcShare::Mode> kept = share_->sinks > 1 ? share_->mode : std::nullopt;
  if (kept) modes = std::vector<ModeChoice>{{kept->info, true}};
  if (!modes) return modes.error();
  const KmsSnapshot possible = candidates();
  FrameNeed need = need_;
  for (const ModeChoice &choice : *modes) {
    auto mode = kept ? Result(kept->blob) : ModeBlob::create(device_, choice.mode);
    if (!mode) {
      attempts.refused(modeName(choice.mode), mode.error().code);
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
    if (kept) {
      plan.settings = kept->settings;
      plan.hdr = kept->hdr;
    } else {
      chooseOutputSettings(plan);
    }
    std::shared_ptr<Framebuffer> black; // made when first wanted
    const Rect all{0, 0, plan.width, plan.height};
    const auto places =
        placements(need_, {withinReach(look_.rectangle.value_or(all)), look_.keep_aspect, plan.width, plan.height});
    if (!places.empty())
      attempts.inside = true;
    else if (attempts.outside.empty())
      attempts.outside = std::to_string(plan.width) + "x" + std::to_string(plan.height);
    for (const Placement &place : places) {
      need.target_width = place.target.width;
      need.target_height = place.target.height;
      need.crop = place.source;
      std::vector<Refusal> now;
      const auto options = propose(possible, output_.crtc, need, failures_, &now);
      if (attempts.refusals.empty()) attempts.refusals = std::move(now);
      for (const Option &option : options) {
        plan.plane = option.plane;
        plan.rotation = option.rotation;
        plan.place = place;
        plan.background.reset();
        plan.properties = std::make_shared<const PlaneSettings>(planeProperties(snapshot_.planes[plan.plane], &plan));
        attempts.planes.insert(plan.plane);
        auto taken = tryPlan(plan, fb, black, attempts);
        if (!taken) return taken.error();
        if (!*taken) continue;
        if (attempts.only_ask) return true;
        plan_ = plan;
        accepted_ = look_;
        overlay_.reset();
        share_->mode = CrtcShare::Mode{choice.mode, plan.mode, plan.settings, plan.hdr};
        return true;
      }
    }
  }
  return false;
}

// Where a part of it is not.
bool Display::wholeFrameIsPossible(const std::shared_ptr<Framebuffer> &fb) {
  if (!need_.crop) return false;
  const std::optional<Rect> crop = std::exchange(need_.crop, std::nullopt);
  Attempts attempts;
  attempts.only_ask = true;
  const auto taken = tryAll(fb, attempts);
  need_.crop = crop;
  return taken && *taken;
}

// The frames that follow are chosen for anew.
Error Display::refuseCrop(const Attempts &attempts) {
  crop_refused_ = true;
  const std::string why = whyRefused(attempts);
  wear(asked_);
  return Error{"the part of the frame that its GstVideoCropMeta asks for, " + rectName(*need_.crop) + " of " +
                   std::to_string(need_.width) + "x" + std::to_string(need_.height) + ", cannot be shown: " + why,
               0, "Change the crop upstream, or let it cut and scale the frames itself"};
}

// Nothing of what was tried works: the pair is not offered any more in this size.
Error Display::refusePair(const Attempts &attempts) {
  pair_refused_ = true;
  const auto width = static_cast<uint32_t>(need_.width), height = static_cast<uint32_t>(need_.height);
  for (const size_t plane : attempts.planes) failures_.add(snapshot_.planes[plane].id, need_.format, width, height);
  const KmsSnapshot possible = candidates();
  if (attempts.planes.empty()) return noPlane(possible, output_.crtc, need_, failures_, attempts.refusals).error();
  return Error{whyRefused(attempts) + ". " + noPlane(possible, output_.crtc, need_, failures_, {}).possible, 0,
               "Set mode= to the frame's size, or change format or size upstream"};
}

std::string Display::whyRefused(const Attempts &attempts) const {
  if (attempts.planes.empty()) return noPlane(candidates(), output_.crtc, need_, failures_, attempts.refusals).refusal;
  return snapshot_.connectors[output_.connector].name + " of " + device_->path() + " (" + device_->driver() +
         ") refuses " + describeNeed(need_) + " in every way tried (" + attempts.text +
         (attempts.number > kAttemptsListed ? "; …)" : ")");
}

// How frames were shown up to now, where they are to be now.
DisplayLook Display::asBefore(const DisplayLook &look) const {
  DisplayLook former = *accepted_;
  former.rectangle = look.rectangle;
  former.keep_aspect = look.keep_aspect;
  return former;
}

void Display::wear(const DisplayLook &look) {
  look_ = look;
  need_.rotation = look.rotation;
  need_.alpha = look.alpha != 0xffff;
  need_.zpos = look.zpos;
}

// What was asked for of a stream that plays cannot be: it goes on as it was. Once, however often frames change then.
void Display::warnOfLook(const std::string &why) {
  if (warned_ == asked_) return;
  warned_ = asked_;
  if (events_.warning)
    events_.warning("what was set while playing cannot be shown, and the frames go on as before: " + why);
}

} // namespace gstzc
