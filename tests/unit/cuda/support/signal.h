// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "tests/support/fence_events.h"

namespace gstzc::cuda::test {

// A fence of somebody who has written something: what was written before signal() is seen when the fence is over. So it
// is with every fence, but ThreadSanitizer does not know that epoll orders; it knows atomics. Copies are the same one.
class Signal {
public:
  void signal() const {
    shared_->there.store(true, std::memory_order_release);
    shared_->event.signal();
  }
  Fence fence(std::function<int()> status = {}) const {
    return shared_->event.fence([shared = shared_, status = std::move(status)] {
      EXPECT_TRUE(shared->there.load(std::memory_order_acquire));
      return status ? status() : 0;
    });
  }

private:
  struct Shared {
    gstzc::test::EventSource event;
    std::atomic<bool> there = false;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

} // namespace gstzc::cuda::test
