// SPDX-License-Identifier: LGPL-2.1-or-later
// What the routes made of buffers, in the process's ImportCache: a buffer that comes round again is not imported again.
#pragma once

#include <memory>
#include <vector>

#include "ext/cuda/routes/route_choice.h"
#include "gst/zerocopy/core/import_cache.h"

namespace gstzc::cuda {

// One per element and context, the streaming thread's. Has an importer of its own in the cache: imports of routes that
// copy have one memory for all frames of a buffer, which two elements cannot share.
//
// Whoever calls get() announces the buffers' memories to the cache (trackMemory()); an import goes, as the cache's rule
// says, when its buffer has no memory any more and Limits::frames further get()s have passed. So memory on the device
// is given back after a pool was replaced, and none is made once all buffers of a pool were seen.
class CachedImports {
public:
  CachedImports(std::vector<std::unique_ptr<ImportRoute>> routes, RouteWishes wishes,
                ImportCache &cache = ImportCache::process(), ImportCache::Limits limits = {});
  ~CachedImports(); // imports in use stay with their users
  CachedImports(const CachedImports &) = delete;
  CachedImports &operator=(const CachedImports &) = delete;

  // The buffer's import: the same object as last time, if it is known with this layout. `source.id` says which buffer
  // it is; the descriptor is looked at only to import. While the route's content is not trusted, known imports are
  // checked too, each ever more rarely (at its 1st, 2nd, 4th, 8th… use that might tell); if one is wrong, all go and
  // another route is chosen. An import by a route that copies is tried again by better ones as rarely. Error:
  // RouteChoice::import()'s.
  Result<std::shared_ptr<DeviceImport>> get(const ImportSource &source, const RouteChoice::Check &check);

  // All of them: the context is lost, or frames of other caps follow. What routes and trust are known stays.
  void forget();

  RouteChoice &choice() { return choice_; }
  const RouteChoice &choice() const { return choice_; }
  ImportCache::Counters counters() const { return cache_.counters(importer_); }

private:
  struct Known {
    std::shared_ptr<DeviceImport> import;
    const ImportRoute *route = nullptr;
    uint64_t unsure = 0; // hits while the route is not trusted and the content might tell
    uint64_t copied = 0; // hits while the route copies
  };
  bool isSure(Known &known, const ImportSource &source) const;
  ImportKey keyOf(const ImportSource &source) const;

  ImportCache &cache_;
  const ImporterId importer_;
  RouteChoice choice_;
};

} // namespace gstzc::cuda
