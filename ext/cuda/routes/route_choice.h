// SPDX-License-Identifier: LGPL-2.1-or-later
// Which route is taken: the first that works on a real buffer and shows its content.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

enum class RouteStage { NotTried, Unavailable, RefusedBuffer, WrongContent, NotAllowed, Chosen };
const char *routeStageName(RouteStage stage); // "wrong-content"

struct RouteReport {
  std::string route;
  RouteStage stage = RouteStage::NotTried;
  std::string reason; // one sentence; empty for Chosen and NotTried. Of Chosen: why its content is not trusted yet
};

struct RouteWishes {
  std::string route = "auto"; // or a name: this one and no other, whatever it copies
  bool allow_copy = false;    // through the CPU
  // What the user may do to have frames that no route takes all the same; of who has no such properties.
  std::string way_out = "Set allow-copy=true to have such frames copied";
};

// One per element and context. Not thread-safe: the streaming thread's.
class RouteChoice {
public:
  // Asked about imports of routes that are not trusted yet. It waits for the frame's fences first, and calls
  // checkContent().
  using Check = std::function<Result<ContentCheck>(const ImportSource &, DeviceImport &)>;

  RouteChoice(std::vector<std::unique_ptr<ImportRoute>> routes, RouteWishes wishes);

  // Imports the buffer by the first route, in the order of preference, of those that took a buffer before; else by the
  // first of the others. So a buffer that the usual route refuses goes another way without the next ones following it,
  // and a route that refused the first buffer is not asked about each. A route whose content is Different, or that is
  // unavailable, is never tried again. Error: no route is left; it lists them all with their reasons.
  Result<std::shared_ptr<DeviceImport>> import(const ImportSource &source, const Check &check);

  // For a buffer that goes by `than`, which copies: by a route before it that does not, if one takes the buffer now.
  // What refused it may have passed. Null: none does.
  std::shared_ptr<DeviceImport> importBetter(const ImportRoute *than, const ImportSource &source, const Check &check);

  // Asks again about an import that `route` made while it was not trusted. False: it is wrong, and so is whatever the
  // route made; it is not tried again. Without an answer (an error) it stays as it was.
  bool stillRight(const ImportRoute *route, const ImportSource &source, DeviceImport &import, const Check &check);

  const ImportRoute *chosen() const; // of the last import; null: none worked
  bool trusted() const { return trusts(chosen()); }
  bool trusts(const ImportRoute *route) const; // its content was found to be right
  const std::vector<RouteReport> &reports() const { return reports_; }
  bool takeChanged(); // true once after each change of chosen() or trusted()

private:
  struct State {
    bool available = false; // was asked, and is
    bool worked = false;    // took a buffer
    bool trusted = false;
  };
  std::shared_ptr<DeviceImport> tryRoute(size_t i, const ImportSource &source, const Check &check);
  void foundWrong(size_t i, const ContentCheck &check);
  bool isOut(size_t i) const; // for good
  void choose(int i);
  Error nothingLeft(const ImportSource &source) const;

  const std::vector<std::unique_ptr<ImportRoute>> routes_;
  const RouteWishes wishes_;
  std::vector<State> states_;
  std::vector<RouteReport> reports_;
  int chosen_ = -1;
  bool changed_ = false;
};

} // namespace gstzc::cuda
