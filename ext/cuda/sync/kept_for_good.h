// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace gstzc::cuda {

// What a lost device may still touch is never freed. Only after a fault, or a device that does not end its work.
class KeptForGood {
public:
  static void add(std::shared_ptr<void> thing) {
    const std::lock_guard lock(list().mutex);
    list().things.push_back(std::move(thing));
  }
  static size_t count() {
    const std::lock_guard lock(list().mutex);
    return list().things.size();
  }
  // For tests, whose device is not really lost: frees all and says how much that was.
  static size_t clear() {
    std::vector<std::shared_ptr<void>> things;
    {
      const std::lock_guard lock(list().mutex);
      std::swap(things, list().things);
    }
    return things.size();
  }

private:
  struct List {
    std::mutex mutex;
    std::vector<std::shared_ptr<void>> things;
  };
  static List &list() {
    static List *list = new List; // not destroyed at exit
    return *list;
  }
};

} // namespace gstzc::cuda
