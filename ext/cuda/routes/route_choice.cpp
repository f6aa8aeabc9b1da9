// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/route_choice.h"

#include <utility>

namespace gstzc::cuda {

const char *routeStageName(RouteStage stage) {
  switch (stage) {
  case RouteStage::NotTried: return "not-tried";
  case RouteStage::Unavailable: return "unavailable";
  case RouteStage::RefusedBuffer: return "refused-buffer";
  case RouteStage::WrongContent: return "wrong-content";
  case RouteStage::NotAllowed: return "not-allowed";
  case RouteStage::Chosen: return "chosen";
  }
  return "unknown";
}

RouteChoice::RouteChoice(std::vector<std::unique_ptr<ImportRoute>> routes, RouteWishes wishes)
    : routes_(std::move(routes)), wishes_(std::move(wishes)), states_(routes_.size()) {
  for (const auto &route : routes_) {
    RouteReport report{route->name(), RouteStage::NotTried, ""};
    const bool named = wishes_.route == report.route;
    if (wishes_.route != "auto" && !named) {
      report.stage = RouteStage::NotAllowed;
      report.reason = "the property route names another one";
    } else if (!named && route->copies() && !route->onDevice() && !wishes_.allow_copy) {
      report.stage = RouteStage::NotAllowed;
      report.reason = "it copies each frame through the CPU, which is not allowed";
    }
    reports_.push_back(std::move(report));
  }
}

bool RouteChoice::isOut(size_t i) const {
  switch (reports_[i].stage) {
  case RouteStage::NotAllowed:
  case RouteStage::Unavailable:
  case RouteStage::WrongContent: return true;
  default: return false;
  }
}

const ImportRoute *RouteChoice::chosen() const {
  return chosen_ < 0 ? nullptr : routes_[static_cast<size_t>(chosen_)].get();
}

bool RouteChoice::trusts(const ImportRoute *route) const {
  for (size_t i = 0; i < routes_.size(); ++i)
    if (routes_[i].get() == route) return states_[i].trusted;
  return false;
}

bool RouteChoice::takeChanged() { return std::exchange(changed_, false); }

void RouteChoice::choose(int i) {
  if (i == chosen_) return;
  if (chosen_ >= 0 && reports_[static_cast<size_t>(chosen_)].stage == RouteStage::Chosen)
    reports_[static_cast<size_t>(chosen_)] = {chosen()->name(), RouteStage::NotTried, ""};
  chosen_ = i;
  changed_ = true;
}

void RouteChoice::foundWrong(size_t i, const ContentCheck &check) {
  reports_[i].stage = RouteStage::WrongContent;
  reports_[i].reason = "the device sees other pixels than the CPU from byte " + std::to_string(check.first_difference) +
                       " of the buffer on";
}

std::shared_ptr<DeviceImport> RouteChoice::tryRoute(size_t i, const ImportSource &source, const Check &check) {
  ImportRoute &route = *routes_[i];
  State &state = states_[i];
  RouteReport &report = reports_[i];
  const auto refuse = [&](RouteStage stage, std::string reason) -> std::shared_ptr<DeviceImport> {
    report.stage = stage;
    report.reason = std::move(reason);
    return nullptr;
  };

  if (!state.available) {
    if (auto available = route.available(); !available)
      return refuse(RouteStage::Unavailable, available.error().message());
    state.available = true;
  }
  auto import = route.import(source);
  if (!import) return refuse(RouteStage::RefusedBuffer, import.error().message());

  std::string doubt;
  if (!state.trusted) {
    auto checked = check(source, **import);
    if (!checked)
      return refuse(RouteStage::RefusedBuffer,
                    "it imports the frame, but cannot read it: " + checked.error().message());
    if (checked->verdict == ContentVerdict::Different) {
      import = Error{}; // gone before the next one is made
      if (route.retreat()) return tryRoute(i, source, check);
      foundWrong(i, *checked);
      return nullptr;
    }
    if (checked->verdict == ContentVerdict::Same) {
      state.trusted = true;
      changed_ = true;
    } else {
      doubt = checked->reason;
    }
  }
  state.worked = true;
  choose(static_cast<int>(i));
  report.stage = RouteStage::Chosen;
  report.reason = std::move(doubt);
  return import.take();
}

Result<std::shared_ptr<DeviceImport>> RouteChoice::import(const ImportSource &source, const Check &check) {
  if (auto valid = checkSource(source); !valid) return valid.error();
  const auto worked = [this] {
    std::vector<bool> result;
    for (const State &state : states_) result.push_back(state.worked);
    return result;
  }();
  for (const bool proven : {true, false})
    for (size_t i = 0; i < routes_.size(); ++i) {
      if (worked[i] != proven || isOut(i)) continue;
      if (auto import = tryRoute(i, source, check)) return import;
    }
  choose(-1);
  return nothingLeft(source);
}

std::shared_ptr<DeviceImport> RouteChoice::importBetter(const ImportRoute *than, const ImportSource &source,
                                                        const Check &check) {
  if (!than->copies()) return nullptr;
  for (size_t i = 0; i < routes_.size() && routes_[i].get() != than; ++i) {
    if (isOut(i) || routes_[i]->copies()) continue;
    const RouteReport before = reports_[i];
    if (auto import = tryRoute(i, source, check)) return import;
    if (reports_[i].stage == RouteStage::RefusedBuffer) reports_[i] = before; // other buffers may go by it
  }
  return nullptr;
}

bool RouteChoice::stillRight(const ImportRoute *route, const ImportSource &source, DeviceImport &import,
                             const Check &check) {
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (routes_[i].get() != route) continue;
    if (states_[i].trusted) return true;
    if (reports_[i].stage == RouteStage::WrongContent) return false;
    auto checked = check(source, import);
    if (!checked || checked->verdict == ContentVerdict::Undecided) return true;
    if (checked->verdict == ContentVerdict::Same) {
      states_[i].trusted = changed_ = true;
      if (reports_[i].stage == RouteStage::Chosen) reports_[i].reason.clear();
      return true;
    }
    if (chosen_ == static_cast<int>(i)) choose(-1);
    if (!routes_[i]->retreat()) foundWrong(i, *checked);
    return false;
  }
  return false;
}

Error RouteChoice::nothingLeft(const ImportSource &source) const {
  Error error;
  error.what = "no route brings " + describe(source) + " to the device";
  bool copy_would_do = false, named = wishes_.route == "auto";
  std::string names;
  for (size_t i = 0; i < routes_.size(); ++i) {
    const RouteReport &report = reports_[i];
    names += ", " + report.route;
    named = named || report.route == wishes_.route;
    if (wishes_.route != "auto" && report.route != wishes_.route) continue;
    error.what += "; " + report.route + " (" + routeStageName(report.stage) + "): " + report.reason;
    copy_would_do = copy_would_do || report.stage == RouteStage::NotAllowed;
  }
  if (!named)
    error.remedy = "There is no route \"" + wishes_.route + "\": set route to one of auto" + names;
  else if (wishes_.route != "auto")
    error.remedy = "Set route=auto to let others be tried";
  else if (copy_would_do)
    error.remedy = wishes_.way_out + ", or let upstream write into memory that the device can read: dmabufupload's, "
                                     "for what the CPU makes";
  else
    error.remedy = "Let upstream write into memory that the device can read: dmabufupload's, for what the CPU makes, "
                   "with linear layout";
  return error;
}

} // namespace gstzc::cuda
