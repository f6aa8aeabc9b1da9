// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/import_cache.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace gstzc {
namespace {

struct Hash {
  static size_t mix(size_t seed, uint64_t value) {
    value += 0x9e3779b97f4a7c15 + seed; // splitmix64
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return static_cast<size_t>(value ^ (value >> 31));
  }
  size_t operator()(const BufferId &id) const { return mix(mix(0, id.device), id.inode); }
  // what usually tells keys of one importer apart; the rest is the comparison's
  size_t operator()(const ImportKey &key) const {
    size_t hash = mix(key.importer, key.size);
    for (unsigned p = 0; p < std::min(key.n_planes, kMaxImportPlanes); ++p)
      hash = mix(mix(hash, key.buffers[p].inode), key.offsets[p]);
    return hash;
  }
};

} // namespace

// Each importer has two lists of entries in the order of their last hits: those whose buffers all have memories, which
// only the bound can drive out, and those that are on their way out. So expiry looks at one end of one list, and a hit
// moves a node without allocating.
class ImportCache::Private {
public:
  struct Entry;
  using Entries = std::list<Entry>;
  struct Entry {
    ImportKey key;
    std::shared_ptr<void> import;
    uint64_t last = 0; // lookup of its importer that found or made it
    bool dying = false;
  };
  struct Importer {
    Limits limits;
    Counters counters;
    uint64_t now = 0; // lookups so far
    std::unordered_map<ImportKey, Entries::iterator, Hash> index;
    Entries alive, dying;
    Entries &listOf(const Entry &entry) { return entry.dying ? dying : alive; }
  };
  struct Buffer {
    uint64_t memories = 0;
    std::vector<Entries::iterator> entries; // once each, of whatever importers
  };

  mutable std::mutex mutex;
  ImporterId last_importer = 0;
  std::unordered_map<ImporterId, Importer> importers;
  std::unordered_map<BufferId, Buffer, Hash> buffers;

  template <typename F> static void eachBuffer(const ImportKey &key, F &&f) {
    const unsigned n = std::min(key.n_planes, kMaxImportPlanes);
    for (unsigned p = 0; p < n; ++p)
      if (std::find(key.buffers.begin(), key.buffers.begin() + p, key.buffers[p]) == key.buffers.begin() + p)
        f(key.buffers[p]);
  }

  bool isDying(const ImportKey &key) const {
    bool dying = false;
    eachBuffer(key, [&](const BufferId &id) {
      const auto it = buffers.find(id);
      dying = dying || it == buffers.end() || it->second.memories == 0;
    });
    return dying;
  }

  // Out of everything and into `dead`, for the caller to destroy without the lock.
  void remove(Importer &importer, Entries::iterator it, Entries &dead) {
    eachBuffer(it->key, [&](const BufferId &id) {
      const auto buffer = buffers.find(id);
      std::erase_if(buffer->second.entries, [&](const Entries::iterator &other) { return &*other == &*it; });
      if (buffer->second.entries.empty() && buffer->second.memories == 0) buffers.erase(buffer);
    });
    importer.index.erase(it->key);
    dead.splice(dead.end(), importer.listOf(*it), it);
    importer.counters.entries = importer.index.size();
  }

  bool expired(const Importer &importer, const Entry &entry) const {
    return importer.now - entry.last >= importer.limits.frames;
  }

  void expire(Importer &importer, Entries &dead) {
    while (!importer.dying.empty() && expired(importer, importer.dying.front())) {
      remove(importer, importer.dying.begin(), dead);
      ++importer.counters.expired;
    }
  }

  // To the list it belongs to, at its place in the order of last hits: near the end for what is in use.
  void sort(Importer &importer, Entries::iterator it, bool dying) {
    Entries &from = importer.listOf(*it);
    it->dying = dying;
    Entries &to = importer.listOf(*it);
    auto place = to.end();
    while (place != to.begin() && std::prev(place)->last > it->last) --place;
    to.splice(place, from, it);
  }

  // A buffer lost its last memory, or has one again.
  void changed(const BufferId &id, Entries &dead) {
    // remove() changes the buffer's list, and may take the buffer away
    for (const Entries::iterator it : std::vector(buffers.at(id).entries)) {
      Importer &importer = importers.at(it->key.importer);
      const bool dying = isDying(it->key);
      if (dying != it->dying) sort(importer, it, dying);
      if (dying && expired(importer, *it)) {
        remove(importer, it, dead);
        ++importer.counters.expired;
      }
    }
  }

  template <typename Which> uint64_t removeAll(Importer &importer, Entries &dead, Which &&which) {
    uint64_t n = 0;
    for (Entries *list : {&importer.alive, &importer.dying})
      for (auto it = list->begin(); it != list->end();) {
        const auto here = it++;
        if (!which(here->key)) continue;
        remove(importer, here, dead);
        ++n;
      }
    return n;
  }
};

ImportCache &ImportCache::process() {
  static auto *const cache = new ImportCache; // memories may go as late as they like
  return *cache;
}

ImportCache::ImportCache() : p_(std::make_unique<Private>()) {}

ImportCache::~ImportCache() = default;

ImporterId ImportCache::addImporter(Limits limits) {
  const std::lock_guard lock(p_->mutex);
  p_->importers[++p_->last_importer].limits = limits;
  return p_->last_importer;
}

void ImportCache::removeImporter(ImporterId id) {
  Private::Entries dead;
  const std::lock_guard lock(p_->mutex);
  const auto it = p_->importers.find(id);
  if (it == p_->importers.end()) return;
  p_->removeAll(it->second, dead, [](const ImportKey &) { return true; });
  p_->importers.erase(it);
}

std::shared_ptr<void> ImportCache::lookup(const ImportKey &key) {
  Private::Entries dead; // declared before the lock, destroyed after it
  const std::lock_guard lock(p_->mutex);
  const auto found = p_->importers.find(key.importer);
  if (found == p_->importers.end()) return nullptr;
  Private::Importer &importer = found->second;
  ++importer.now;

  std::shared_ptr<void> import;
  if (const auto it = importer.index.find(key); it != importer.index.end()) {
    Private::Entry &entry = *it->second;
    entry.last = importer.now;
    Private::Entries &list = importer.listOf(entry);
    list.splice(list.end(), list, it->second);
    import = entry.import;
    ++importer.counters.hits;
  } else {
    ++importer.counters.misses;
  }
  p_->expire(importer, dead);
  return import;
}

std::shared_ptr<void> ImportCache::store(const ImportKey &key, std::shared_ptr<void> import) {
  Private::Entries dead;
  const std::lock_guard lock(p_->mutex);
  const auto found = p_->importers.find(key.importer);
  if (found == p_->importers.end()) return import;
  Private::Importer &importer = found->second;
  if (const auto it = importer.index.find(key); it != importer.index.end()) return it->second->import;

  const bool dying = p_->isDying(key);
  Private::Entries &list = dying ? importer.dying : importer.alive;
  const auto it = list.insert(list.end(), Private::Entry{key, import, importer.now, dying});
  importer.index.emplace(key, it);
  Private::eachBuffer(key, [&](const BufferId &id) { p_->buffers[id].entries.push_back(it); });
  ++importer.counters.imports;
  importer.counters.entries = importer.index.size();

  while (importer.index.size() > importer.limits.entries) {
    const bool from_dying = importer.alive.empty() ||
                            (!importer.dying.empty() && importer.dying.front().last < importer.alive.front().last);
    p_->remove(importer, from_dying ? importer.dying.begin() : importer.alive.begin(), dead);
    ++importer.counters.displaced;
  }
  return import;
}

void ImportCache::forget(ImporterId id) {
  Private::Entries dead;
  const std::lock_guard lock(p_->mutex);
  const auto it = p_->importers.find(id);
  if (it == p_->importers.end()) return;
  it->second.counters.forgotten += p_->removeAll(it->second, dead, [](const ImportKey &) { return true; });
}

void ImportCache::forget(ImporterId id, const BufferId &buffer) {
  Private::Entries dead;
  const std::lock_guard lock(p_->mutex);
  const auto it = p_->importers.find(id);
  if (it == p_->importers.end()) return;
  it->second.counters.forgotten += p_->removeAll(it->second, dead, [&](const ImportKey &key) {
    const auto end = key.buffers.begin() + std::min(key.n_planes, kMaxImportPlanes);
    return std::find(key.buffers.begin(), end, buffer) != end;
  });
}

void ImportCache::bufferAppeared(const BufferId &id) {
  Private::Entries dead;
  const std::lock_guard lock(p_->mutex);
  if (++p_->buffers[id].memories == 1) p_->changed(id, dead);
}

void ImportCache::bufferGone(const BufferId &id) {
  Private::Entries dead;
  const std::lock_guard lock(p_->mutex);
  const auto it = p_->buffers.find(id);
  if (it == p_->buffers.end() || it->second.memories == 0) return;
  if (--it->second.memories > 0) return;
  if (it->second.entries.empty())
    p_->buffers.erase(it);
  else
    p_->changed(id, dead);
}

ImportCache::Counters ImportCache::counters(ImporterId id) const {
  const std::lock_guard lock(p_->mutex);
  const auto it = p_->importers.find(id);
  return it == p_->importers.end() ? Counters{} : it->second.counters;
}

size_t ImportCache::buffers() const {
  const std::lock_guard lock(p_->mutex);
  return p_->buffers.size();
}

} // namespace gstzc
