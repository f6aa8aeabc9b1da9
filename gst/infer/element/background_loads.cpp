// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/background_loads.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace gstzc::infer {
namespace {

constexpr std::chrono::seconds kLongestAtExit{60};

struct Loading {
  const BackgroundLoads *owner;
  std::shared_ptr<Cancellation> cancel;
};

// Never destroyed: threads may outlive what runs at exit.
struct Process {
  std::mutex mutex;
  std::condition_variable left;
  std::vector<Loading> loads;
};

Process &process() {
  static auto *process = new Process;
  return *process;
}

// Of all, where `owner` is null.
bool endLoads(const BackgroundLoads *owner, std::chrono::milliseconds timeout) {
  const auto counts = [owner](const Loading &load) { return owner == nullptr || load.owner == owner; };
  Process &all = process();
  std::unique_lock lock(all.mutex);
  for (const Loading &load : all.loads)
    if (counts(load)) load.cancel->cancel();
  return all.left.wait_for(lock, timeout, [&] { return std::none_of(all.loads.begin(), all.loads.end(), counts); });
}

} // namespace

BackgroundLoads::Entry BackgroundLoads::enter() {
  // What was registered first runs last: by now the library is open and has loaded a model, so that its destructors
  // come after this.
  [[maybe_unused]] static const int registered = std::atexit([] { endLoads(nullptr, kLongestAtExit); });
  auto cancel = std::make_shared<Cancellation>();
  Process &all = process();
  const std::lock_guard lock(all.mutex);
  all.loads.push_back({this, cancel});
  return Entry(std::move(cancel));
}

void BackgroundLoads::Entry::leave() {
  if (cancel_ == nullptr) return;
  Process &all = process();
  {
    const std::lock_guard lock(all.mutex);
    std::erase_if(all.loads, [this](const Loading &load) { return load.cancel == cancel_; });
  }
  cancel_.reset();
  all.left.notify_all();
}

bool BackgroundLoads::end(std::chrono::milliseconds timeout) { return endLoads(this, timeout); }

} // namespace gstzc::infer
