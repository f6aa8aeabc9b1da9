// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/allocation.h"

#include <gst/video/video.h>

#include "gst/drm/dumb_frames.h"
#include "gst/drm/gbm/gbm_frames.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/stride_align.h"

GST_DEBUG_CATEGORY_STATIC(gst_zc_sink_allocation_debug);
#define GST_CAT_DEFAULT gst_zc_sink_allocation_debug

namespace gstzc {
namespace {

void initDebug() {
  static std::once_flag once;
  std::call_once(once, [] {
    GST_DEBUG_CATEGORY_INIT(gst_zc_sink_allocation_debug, "drmmodifiersink-allocation", 0, "memory offered upstream");
  });
}

// As gst_query_add_allocation_meta() documents it for GstVideoMeta. Null: the frame's usual strides do.
GstStructure *strideWish(const FrameCaps &caps, guint alignment) {
  GstVideoAlignment wish;
  gst_video_alignment_reset(&wish);
  strideMasks(caps.info, alignment, wish.stride_align);
  bool wanted = false;
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&caps.info); ++p)
    wanted = wanted || (static_cast<guint>(GST_VIDEO_INFO_PLANE_STRIDE(&caps.info, p)) & wish.stride_align[p]) != 0;
  if (!wanted) return nullptr;
  GstStructure *s = gst_structure_new_empty("video-meta");
  gst_buffer_pool_config_set_video_alignment(s, &wish);
  return s;
}

} // namespace

std::string SinkAllocation::answer(GstQuery *query, const std::shared_ptr<KmsDevice> &device, bool overlays) {
  initDebug();
  GstCaps *caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  const auto parsed = parseFrameCaps(caps);
  const bool plain = parsed && parsed->linear() && GST_VIDEO_INFO_SIZE(&parsed->info) > 0;

  GstStructure *wish = plain ? strideWish(*parsed, pitchAlignment(*device)) : nullptr;
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, wish);
  if (wish != nullptr) gst_structure_free(wish);
  for (const GType api : {GST_VIDEO_CROP_META_API_TYPE, GST_ZC_FENCE_META_API_TYPE})
    gst_query_add_allocation_meta(query, api, nullptr);
  if (overlays) gst_query_add_allocation_meta(query, GST_VIDEO_OVERLAY_COMPOSITION_META_API_TYPE, nullptr);
  if (!parsed) return {};

  Offer offer;
  if (plain) offer.size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&parsed->info));
  // A producer of dma-bufs has better memory than ours (cached, of its own device) unless we may be unable to import
  // it.
  bool keeps_its_own = false;
  if (parsed->memory == MemoryKind::DmaBuf) {
    const ForeignMemory foreign = device->foreignMemory();
    keeps_its_own = parsed->linear() && foreign == ForeignMemory::Any;
    gst_query_add_zc_memory_need(
        query, foreign == ForeignMemory::Contiguous ? GST_ZC_MEMORY_NEED_CONTIGUOUS : GST_ZC_MEMORY_NEED_ANY,
        (device->path() + " (" + device->driver() + ")").c_str());
  }
  if (need_pool && !keeps_its_own) {
    if (plain)
      offer = linear(device, *parsed);
    else if (!parsed->linear())
      offer = tiled(device, *parsed);
  }
  // not configured: whether it can deal with GstVideoMeta is the user's to say
  GstBufferPool *pool = offer.frames ? newDisplayPool(offer.frames) : nullptr;
  gst_query_add_allocation_pool(query, pool, offer.size, kBuffersHeld, 0);
  gst_clear_object(&pool);
  return offer.note;
}

SinkAllocation::Offer SinkAllocation::linear(const std::shared_ptr<KmsDevice> &device, const FrameCaps &caps) const {
  auto frames = dumbFrames(device);
  auto frame = frames->make(caps);
  if (frame) return {frames, static_cast<guint>(frame->size()), {}};
  GST_INFO("no pool is offered: %s", frame.error().message().c_str());
  return {nullptr, static_cast<guint>(GST_VIDEO_INFO_SIZE(&caps.info)), {}};
}

// Upstream that makes such frames has memory for them: this is for those that rather write where they are told, and
// whatever is wrong with it is no error.
SinkAllocation::Offer SinkAllocation::tiled(const std::shared_ptr<KmsDevice> &device, const FrameCaps &caps) {
  const std::lock_guard lock(mutex_);
  const auto none = [this](const Error &error) {
    GST_INFO("no pool is offered: %s", error.message().c_str());
    if (std::exchange(noted_, true)) return Offer{};
    return Offer{nullptr, 0, "no memory is offered for tiled frames, upstream's own is shown: " + error.message()};
  };
  if (!gbm_) {
    auto made = gbmFrames(*device, GbmLibrary::get());
    if (!made) return none(made.error());
    gbm_ = made.take();
  }
  auto frame = gbm_->make(caps);
  if (!frame) return none(frame.error());
  if (auto takes = takesFrame(*device, *frame, caps); !takes) return none(takes.error());
  return {gbm_, static_cast<guint>(frame->size()), {}};
}

void SinkAllocation::close() {
  const std::lock_guard lock(mutex_);
  gbm_.reset();
  noted_ = false;
}

} // namespace gstzc
