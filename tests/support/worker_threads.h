// SPDX-License-Identifier: LGPL-2.1-or-later
// Threads of this process, those of the model runners by their name.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace gstzc::test {

inline size_t threadCount() {
  using Tasks = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Tasks("/proc/self/task"), Tasks()));
}

inline size_t workerCount() {
  size_t count = 0;
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name.starts_with("fenceinfer:") ? 1 : 0;
  }
  return count;
}

// The kernel lists a thread for a moment after it was joined: the count once it is no more than `most`, or after 10 s.
template <typename F> size_t settled(F count, size_t most) {
  for (int i = 0; i < 1000 && count() > most; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return count();
}

} // namespace gstzc::test
