// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/wait_points.h"

#ifdef GSTZC_MUTATIONS

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace gstzc::cuda {
namespace {

struct Points {
  std::mutex mutex;
  std::string skipped;
  std::map<std::string, size_t> reached;
};

Points &points() {
  static Points points;
  return points;
}

} // namespace

bool waitPoint(WaitPoint point) {
  const std::string name = point.name;
  const char *environment = std::getenv("GSTZC_SKIP_WAIT");
  Points &p = points();
  const std::lock_guard lock(p.mutex);
  ++p.reached[name];
  return p.skipped != name && (environment == nullptr || environment != name);
}

void skipWait(const char *name) {
  Points &p = points();
  const std::lock_guard lock(p.mutex);
  p.skipped = name != nullptr ? name : "";
}

size_t timesReached(const char *name) {
  Points &p = points();
  const std::lock_guard lock(p.mutex);
  const auto it = p.reached.find(name);
  return it == p.reached.end() ? 0 : it->second;
}

} // namespace gstzc::cuda

#endif
