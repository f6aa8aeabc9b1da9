// SPDX-License-Identifier: LGPL-2.1-or-later
// Readers whose context is not the importer's: those that work on another device, and reach the frames as its peer.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>

#include "ext/cuda/driver/objects.h"
#include "ext/cuda/sync/retire_queue.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

struct UnrefContext {
  void operator()(GstCudaContext *context) const { gst_object_unref(context); }
};
using GstContextPtr = std::unique_ptr<GstCudaContext, UnrefContext>;

// The contexts of all elements behind a source pad that its CUDA memory can come to, each once; through queues, tees
// and bins. They are asked with context queries, which wait for no data.
std::vector<GstContextPtr> contextsBehind(GstPad *src);

// Other contexts than a session's own, in which its frames are read, too. Thread-safe.
class ReaderContexts {
public:
  // From now on this one as well, for good: frames that are under way may be read in it late. One that is known already
  // changes nothing. Error: the device refuses what it takes to wait there.
  Status add(const ContextPtr &context);
  bool empty() const { return known_->all().empty(); }

  // Calls `done` once, on any thread: when `own` has called what it is given, and each context's streams have done what
  // they have to do now (RetireQueue::retireBehindAll()).
  void retire(const std::function<void(std::function<void()>)> &own, std::function<void()> done) const;

  void drain(std::chrono::milliseconds timeout) const; // each for so long
  size_t pending() const;                              // the most that one of them has

  // Which they are, for who outlives this.
  class Known {
  public:
    std::vector<ContextPtr> all() const {
      const std::lock_guard lock(mutex_);
      return contexts_;
    }
    void synchronize() const; // all of them

  private:
    friend ReaderContexts;
    mutable std::mutex mutex_;
    std::vector<ContextPtr> contexts_;
  };
  std::shared_ptr<const Known> known() const { return known_; }

private:
  std::vector<RetireQueue *> queues() const;

  const std::shared_ptr<Known> known_ = std::make_shared<Known>(); // its mutex is for the queues, too
  std::vector<std::unique_ptr<RetireQueue>> queues_;               // only added to
};

} // namespace gstzc::cuda
