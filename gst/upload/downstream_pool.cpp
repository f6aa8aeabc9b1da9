// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/upload/downstream_pool.h"

#include <algorithm>
#include <chrono>

#include "gst/zerocopy/fence_policy.h"
#include "gst/zerocopy/frame_fence.h"

namespace gstzc {
namespace {

bool mappable(GstBuffer *buffer) {
  // beginning the access would wait for the device without a deadline
  if (!waitForFrame(buffer, Access::Write, std::chrono::milliseconds(kFenceTimeoutDefault))) return false;
  for (guint i = 0; i < gst_buffer_n_memory(buffer); ++i) {
    GstMapInfo map;
    GstMemory *memory = gst_buffer_peek_memory(buffer, i);
    if (!gst_memory_map(memory, &map, GST_MAP_WRITE)) return false;
    gst_memory_unmap(memory, &map);
  }
  return true;
}

// Does the pool make linear dma-bufs that the CPU can write, for these caps? Leaves it inactive.
bool tryPool(GstBufferPool *pool, GstCaps *caps, const FrameCaps &frame, guint size, guint max) {
  if (!configurePool(pool, caps, size, 0, max) || !gst_buffer_pool_set_active(pool, TRUE)) return false;
  GstBufferPoolAcquireParams params = {};
  params.flags = GST_BUFFER_POOL_ACQUIRE_FLAG_DONTWAIT;
  GstBuffer *buffer = nullptr;
  bool good = false;
  if (gst_buffer_pool_acquire_buffer(pool, &buffer, &params) == GST_FLOW_OK) {
    const auto layout = frameLayout(buffer, frame);
    good = layout.ok() && layout->allDmaBuf() && mappable(buffer);
    gst_buffer_unref(buffer);
  }
  gst_buffer_pool_set_active(pool, FALSE);
  return good;
}

} // namespace

bool configurePool(GstBufferPool *pool, GstCaps *caps, guint size, guint min, guint max, GstAllocator *allocator,
                   const GstAllocationParams *params) {
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, size, min, max);
  if (allocator != nullptr) gst_buffer_pool_config_set_allocator(config, allocator, params);
  if (gst_buffer_pool_has_option(pool, GST_BUFFER_POOL_OPTION_VIDEO_META) &&
      !gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META))
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  return gst_buffer_pool_set_config(pool, config);
}

void DownstreamWishes::reset() {
  gst_clear_object(&pool_);
  use_ = PoolUse::None;
  size_ = min_ = max_ = 0;
  gst_video_alignment_reset(&alignment_);
  g_clear_pointer(&meta_params_, gst_structure_free);
  gst_allocation_params_init(&params_);
  need_ = GST_ZC_MEMORY_NEED_ANY;
  need_by_.clear();
}

void DownstreamWishes::read(GstQuery *query, bool want_pool, GstCaps *in_caps, const FrameCaps &in, GstCaps *out_caps,
                            const FrameCaps &out) {
  GstBufferPool *previous = pool_;
  const PoolUse previous_use = use_;
  pool_ = nullptr;
  reset();

  const gchar *who = nullptr;
  need_ = gst_query_parse_zc_memory_need(query, &who);
  need_by_ = who != nullptr ? who : "The element downstream";

  guint index = 0;
  if (gst_query_find_allocation_meta(query, GST_VIDEO_META_API_TYPE, &index)) {
    const GstStructure *params = nullptr;
    gst_query_parse_nth_allocation_meta(query, index, &params);
    if (params != nullptr) {
      meta_params_ = gst_structure_copy(params);
      GstVideoAlignment asked;
      gst_video_alignment_reset(&asked);
      if (gst_buffer_pool_config_get_video_alignment(params, &asked)) alignment_ = asked;
    }
  }
  if (gst_query_get_n_allocation_params(query) > 0) gst_query_parse_nth_allocation_param(query, 0, nullptr, &params_);

  for (guint i = 0; i < gst_query_get_n_allocation_pools(query); ++i) {
    GstBufferPool *pool = nullptr;
    guint size = 0, min = 0, max = 0;
    gst_query_parse_nth_allocation_pool(query, i, &pool, &size, &min, &max);
    min_ = std::max(min_, min);
    if (pool == nullptr || pool_ != nullptr || !want_pool) {
      gst_clear_object(&pool);
      continue;
    }
    pool_ = pool;
    size_ = std::max<guint>(size, static_cast<guint>(GST_VIDEO_INFO_SIZE(&in.info)));
    max_ = max;
  }

  if (pool_ != nullptr) {
    if (gst_buffer_pool_is_active(pool_))
      use_ = pool_ == previous ? previous_use : PoolUse::None;
    else if (tryPool(pool_, in_caps, in, size_, max_))
      use_ = PoolUse::Upstream;
    else if (tryPool(pool_, out_caps, out, size_, max_))
      use_ = PoolUse::Copies;
  }
  gst_clear_object(&previous);
}

} // namespace gstzc
