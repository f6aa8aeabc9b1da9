// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/element/frame_copier.h"

#include <cerrno>

#include <drm_fourcc.h>
#include <gst/video/video.h>

#include "gst/drm/display_pool.h"
#include "gst/drm/dumb_frames.h"
#include "gst/drm/element/allocation.h"
#include "gst/drm/element/frame_request.h"
#include "gst/zerocopy/frame_copy.h"

namespace gstzc {

Result<FrameCopy> FrameCopier::copy(GstBuffer *buffer, const FrameCaps &caps, const std::shared_ptr<KmsDevice> &device,
                                    const std::function<bool()> &cancelled) {
  if (!caps.linear())
    return Error{"a copy of a frame with layout " + toString({caps.fourcc, caps.modifier}), 0,
                 "The CPU does not know such layouts: let upstream convert to a linear one"};
  if (GST_VIDEO_INFO_SIZE(&caps.info) == 0)
    return Error{"a copy of a frame whose format GStreamer does not know", 0, "Give the display memory it can import"};
  if (caps.width() != width_ || caps.height() != height_) drop(); // a cropped picture may have any size
  width_ = caps.width();
  height_ = caps.height();
  GstCaps *plain = gst_video_info_to_caps(&caps.info);
  auto copy_caps = parseFrameCaps(plain);
  if (copy_caps && pool_ == nullptr) {
    GstBufferPool *pool = newDisplayPool(dumbFrames(device));
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, plain, static_cast<guint>(GST_VIDEO_INFO_SIZE(&caps.info)), kBuffersHeld,
                                      0);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    if (gst_buffer_pool_set_config(pool, config) && gst_buffer_pool_set_active(pool, TRUE))
      pool_ = pool;
    else
      gst_object_unref(pool);
  }
  gst_caps_unref(plain);
  if (!copy_caps) return copy_caps.error();
  GstBuffer *made = nullptr;
  if (pool_ == nullptr || gst_buffer_pool_acquire_buffer(pool_, &made, nullptr) != GST_FLOW_OK)
    return Error{"memory of the display for a copy of the frame", ENOMEM, "Look for messages of its driver in dmesg"};
  FrameCopy copy;
  copy.keep = std::shared_ptr<void>(made, [](void *b) { gst_buffer_unref(static_cast<GstBuffer *>(b)); });
  auto bytes = copyFrame(made, *copy_caps, buffer, caps, cancelled);
  if (!bytes) return bytes.error();
  copy.bytes = *bytes;
  auto layout = frameLayout(made, *copy_caps);
  if (!layout) return layout.error();
  auto source = importSource(made, *layout, DRM_FORMAT_MOD_LINEAR);
  if (!source) return source.error();
  copy.source = *source;
  return copy;
}

void FrameCopier::drop() {
  if (pool_ == nullptr) return;
  gst_buffer_pool_set_active(pool_, FALSE);
  gst_clear_object(&pool_);
}

} // namespace gstzc
