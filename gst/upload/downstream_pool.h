// SPDX-License-Identifier: LGPL-2.1-or-later
// What the element downstream wishes for its memory, and whether its pool can serve ours.
#pragma once

#include <string>

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcmemoryneed.h"

namespace gstzc {

enum class PoolUse {
  None,     // no pool, or no use for it
  Copies,   // its buffers are mappable dma-bufs, but it does not take the producer's caps
  Upstream, // the producer can be given it
};

// The answer to our ALLOCATION query. Holds a reference on the pool.
class DownstreamWishes {
public:
  DownstreamWishes() { reset(); }
  ~DownstreamWishes() { reset(); }
  DownstreamWishes(const DownstreamWishes &) = delete;
  DownstreamWishes &operator=(const DownstreamWishes &) = delete;

  void reset();

  // Reads `query`; tries the pool by allocating one buffer, first with the producer's caps (`in`), then with ours
  // (`out`). A pool that is in use already keeps what was found out about it. Without `want_pool` only the other wishes
  // count.
  void read(GstQuery *query, bool want_pool, GstCaps *in_caps, const FrameCaps &in, GstCaps *out_caps,
            const FrameCaps &out);

  GstBufferPool *pool() const { return pool_; }
  PoolUse use() const { return use_; }
  guint size() const { return size_; } // of a buffer, bytes
  guint min() const { return min_; }   // buffers, also when there is no pool
  guint max() const { return max_; }   // 0: no limit
  const GstVideoAlignment &alignment() const { return alignment_; }
  const GstStructure *metaParams() const { return meta_params_; } // of GstVideoMeta, may be null
  const GstAllocationParams &params() const { return params_; }
  GstZcMemoryNeed need() const { return need_; }         // of our memory; a pool of theirs meets it
  const std::string &needBy() const { return need_by_; } // for error messages

private:
  GstBufferPool *pool_ = nullptr;
  PoolUse use_ = PoolUse::None;
  guint size_ = 0, min_ = 0, max_ = 0;
  GstVideoAlignment alignment_;
  GstStructure *meta_params_ = nullptr;
  GstAllocationParams params_;
  GstZcMemoryNeed need_ = GST_ZC_MEMORY_NEED_ANY;
  std::string need_by_;
};

// Configures an inactive pool for frames of `caps`, with GstVideoMeta where it can. `allocator` null: what the pool
// has.
bool configurePool(GstBufferPool *pool, GstCaps *caps, guint size, guint min, guint max,
                   GstAllocator *allocator = nullptr, const GstAllocationParams *params = nullptr);

} // namespace gstzc
