// SPDX-License-Identifier: LGPL-2.1-or-later
// A bounded map that forgets what was not asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace gstzc {

// Holds at most `bound` entries, none of which has gone without a hit for more than `age` lookups: an entry keeps its
// memory alive, and a producer that went on to other buffers will not ask for it again. Not thread safe.
template <typename Key, typename Value> class LruCache {
public:
  LruCache(size_t bound, uint64_t age) : bound_(bound), age_(age) {}

  // Null where there is none; valid until the next call.
  Value *find(const Key &key) {
    ++now_;
    for (auto it = entries_.begin(); it != entries_.end();)
      it = now_ - it->second.used > age_ ? entries_.erase(it) : std::next(it);
    const auto it = entries_.find(key);
    if (it == entries_.end()) return nullptr;
    it->second.used = now_;
    return &it->second.value;
  }

  void insert(const Key &key, Value value) {
    entries_.insert_or_assign(key, Entry{std::move(value), now_});
    while (entries_.size() > bound_) {
      auto oldest = entries_.end();
      for (auto it = entries_.begin(); it != entries_.end(); ++it)
        if (it->first != key && (oldest == entries_.end() || it->second.used < oldest->second.used)) oldest = it;
      if (oldest == entries_.end()) break;
      entries_.erase(oldest);
    }
  }

  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

private:
  struct Entry {
    Value value;
    uint64_t used;
  };
  const size_t bound_;
  const uint64_t age_;
  uint64_t now_ = 0;
  std::map<Key, Entry> entries_;
};

} // namespace gstzc
