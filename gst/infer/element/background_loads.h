// SPDX-License-Identifier: LGPL-2.1-or-later
// Models that are being loaded in threads of their own, and how that ends before what they need is gone.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "gst/infer/engine/engine.h"

namespace gstzc::infer {

// Those of one element. While a load lasts, the inference library works in its thread: the element must not stop, nor
// the process run the library's destructors, meanwhile. Leaving the process therefore ends and waits for the loads of
// all elements, those too that an element gave up waiting for; at most a minute.
class BackgroundLoads {
public:
  // One load, from when its thread begins with it until that has let go of all it loaded. The loads may be gone by
  // then.
  class Entry {
  public:
    Entry() = default;
    Entry(Entry &&) = default;
    Entry &operator=(Entry &&other) {
      if (this != &other) leave();
      cancel_ = std::move(other.cancel_);
      return *this;
    }
    ~Entry() { leave(); }
    Cancellation *cancellation() const { return cancel_.get(); } // of this load; null: it is none

  private:
    friend class BackgroundLoads;
    explicit Entry(std::shared_ptr<Cancellation> cancel) : cancel_(std::move(cancel)) {}
    void leave();
    std::shared_ptr<Cancellation> cancel_;
  };

  BackgroundLoads() = default;
  BackgroundLoads(const BackgroundLoads &) = delete;
  BackgroundLoads &operator=(const BackgroundLoads &) = delete;

  Entry enter();
  // Tells the loads to end and waits for them. False: one goes on after `timeout`. Not from a thread that is loading.
  bool end(std::chrono::milliseconds timeout);
};

} // namespace gstzc::infer
