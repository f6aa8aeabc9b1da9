// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/import_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace gstzc::cuda {

CachedImports::CachedImports(std::vector<std::unique_ptr<ImportRoute>> routes, RouteWishes wishes, ImportCache &cache,
                             ImportCache::Limits limits)
    : cache_(cache), importer_(cache.addImporter(limits)), choice_(std::move(routes), std::move(wishes)) {}

CachedImports::~CachedImports() { cache_.removeImporter(importer_); }

ImportKey CachedImports::keyOf(const ImportSource &source) const {
  ImportKey key;
  key.importer = importer_;
  key.n_planes = std::min(source.n_planes, kMaxImportPlanes);
  for (unsigned p = 0; p < key.n_planes; ++p) {
    key.buffers[p] = source.id;
    key.offsets[p] = source.planes[p].offset;
    key.pitches[p] = source.planes[p].pitch;
  }
  key.fourcc = source.fourcc;
  key.modifier = source.modifier;
  key.width = source.width;
  key.height = source.height;
  key.size = source.size;
  return key;
}

bool CachedImports::isSure(Known &known, const ImportSource &source) const {
  return choice_.trusts(known.route) || !canTell(source) || !std::has_single_bit(++known.unsure);
}

Result<std::shared_ptr<DeviceImport>> CachedImports::get(const ImportSource &source, const RouteChoice::Check &check) {
  const ImportKey key = keyOf(source);
  const auto keep = [&](std::shared_ptr<DeviceImport> import) {
    return cache_.insert(key, std::make_shared<Known>(Known{std::move(import), choice_.chosen()}))->import;
  };
  if (auto known = cache_.find<Known>(key)) {
    if (known->route->copies() && std::has_single_bit(++known->copied))
      if (auto better = choice_.importBetter(known->route, source, check)) {
        cache_.forget(importer_, source.id);
        return keep(std::move(better));
      }
    if (isSure(*known, source) || choice_.stillRight(known->route, source, *known->import, check)) return known->import;
    cache_.forget(importer_); // the frames that these showed before were right, as far as anybody could tell
  }
  auto import = choice_.import(source, check);
  if (!import) return import;
  return keep(import.take());
}

void CachedImports::forget() { cache_.forget(importer_); }

} // namespace gstzc::cuda
