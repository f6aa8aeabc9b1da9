// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/gstzcdumbpool.h"

#include <algorithm>

#include <gst/allocators/allocators.h>

#include "gst/drm/framebuffer.h"
#include "gst/zerocopy/frame_layout.h"

GST_DEBUG_CATEGORY_STATIC(gst_zc_dumb_pool_debug);
#define GST_CAT_DEFAULT gst_zc_dumb_pool_debug

namespace gstzc {
namespace {

gsize planeRows(const GstVideoInfo &info, guint plane) {
  gsize rows = 0;
  for (guint c = 0; c < GST_VIDEO_INFO_N_COMPONENTS(&info); ++c)
    if (static_cast<guint>(GST_VIDEO_INFO_COMP_PLANE(&info, c)) == plane)
      rows = std::max<gsize>(rows, GST_VIDEO_INFO_COMP_HEIGHT(&info, c));
  return rows;
}

struct Frame {
  UniqueFd fd;
  GstVideoInfo info;
  gsize size = 0;
};

Result<Frame> allocate(const std::shared_ptr<KmsDevice> &device, const GstVideoInfo &info) {
  const DumbLayout layout = dumbLayout(info);
  auto dumb = DumbBuffer::create(device, layout.width, layout.height, layout.bits);
  if (!dumb) return dumb.error();
  Frame frame;
  frame.info = info;
  frame.size = (*dumb)->size();
  if (!applyPitch(frame.info, (*dumb)->pitch(), frame.size))
    return Error{"a dumb buffer of " + device->path() + " is too small for the frame", 0, ""};
  auto fd = (*dumb)->exportDmaBuf();
  if (!fd) return fd.error();
  // the dma-buf keeps the memory, the handle may go
  frame.fd = fd.take();
  return frame;
}

} // namespace

DumbLayout dumbLayout(const GstVideoInfo &info) {
  DumbLayout layout;
  const auto width = static_cast<uint32_t>(GST_VIDEO_INFO_WIDTH(&info));
  if (GST_VIDEO_INFO_N_PLANES(&info) == 1 && GST_VIDEO_INFO_COMP_PSTRIDE(&info, 0) == 4 &&
      GST_VIDEO_INFO_PLANE_STRIDE(&info, 0) == static_cast<gint>(4 * width)) {
    layout = {width, static_cast<uint32_t>(GST_VIDEO_INFO_HEIGHT(&info)), 32};
  } else {
    const auto stride = static_cast<gsize>(std::max(GST_VIDEO_INFO_PLANE_STRIDE(&info, 0), 1));
    gsize bytes = 0;
    for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p)
      bytes += planeRows(info, p) * static_cast<gsize>(gst_video_format_info_extrapolate_stride(
                                        info.finfo, static_cast<gint>(p), static_cast<gint>(stride)));
    layout = {static_cast<uint32_t>(stride), static_cast<uint32_t>((bytes + stride - 1) / stride), 8};
  }
  return layout;
}

bool applyPitch(GstVideoInfo &info, uint32_t pitch, uint64_t size) {
  gsize offset = 0;
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
    const gint stride =
        gst_video_format_info_extrapolate_stride(info.finfo, static_cast<gint>(p), static_cast<gint>(pitch));
    info.stride[p] = stride;
    info.offset[p] = offset;
    offset += planeRows(info, p) * static_cast<gsize>(stride);
  }
  info.size = offset;
  return offset <= size;
}

bool sameLayout(const GstVideoInfo &a, const GstVideoInfo &b) {
  const auto planes = GST_VIDEO_INFO_N_PLANES(&a);
  return planes == GST_VIDEO_INFO_N_PLANES(&b) && std::equal(a.offset, a.offset + planes, b.offset) &&
         std::equal(a.stride, a.stride + planes, b.stride);
}

Result<guint> dumbFrameSize(const std::shared_ptr<KmsDevice> &device, const GstVideoInfo &info) {
  auto frame = allocate(device, info);
  if (!frame) return frame.error();
  return static_cast<guint>(frame->size);
}

namespace {

struct PoolState {
  std::shared_ptr<KmsDevice> device;
  GstAllocator *allocator = nullptr;
  GstVideoInfo info = {};
};

} // namespace
} // namespace gstzc

// GObject: no exceptions, C names
struct GstZcDumbPool {
  GstBufferPool parent;
  gstzc::PoolState *state;
};
struct GstZcDumbPoolClass {
  GstBufferPoolClass parent_class;
};

GType gst_zc_dumb_pool_get_type();
G_DEFINE_TYPE(GstZcDumbPool, gst_zc_dumb_pool, GST_TYPE_BUFFER_POOL)

static const gchar **gst_zc_dumb_pool_get_options(GstBufferPool *pool) {
  (void)pool;
  static const gchar *options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, nullptr};
  return options;
}

static gboolean gst_zc_dumb_pool_set_config(GstBufferPool *pool, GstStructure *config) {
  auto *self = reinterpret_cast<GstZcDumbPool *>(pool);
  GstCaps *caps = nullptr;
  guint size = 0, min = 0, max = 0;
  if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || caps == nullptr) return FALSE;
  auto parsed = gstzc::parseFrameCaps(caps);
  if (!parsed || !parsed->linear() || GST_VIDEO_INFO_N_PLANES(&parsed->info) == 0) return FALSE;
  auto frame = gstzc::allocate(self->state->device, parsed->info);
  if (!frame) {
    GST_WARNING_OBJECT(self, "%s", frame.error().message().c_str());
    return FALSE;
  }
  if (!gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META) &&
      !gstzc::sameLayout(frame->info, parsed->info)) {
    GST_WARNING_OBJECT(self, "the device's layout of %" GST_PTR_FORMAT " takes users of GstVideoMeta", caps);
    return FALSE;
  }
  self->state->info = frame->info;
  // the size is the dumb buffer's, which may be more than upstream asked for
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(frame->size), min, max);
  return GST_BUFFER_POOL_CLASS(gst_zc_dumb_pool_parent_class)->set_config(pool, config);
}

static GstFlowReturn gst_zc_dumb_pool_alloc_buffer(GstBufferPool *pool, GstBuffer **buffer,
                                                   GstBufferPoolAcquireParams *params) {
  (void)params;
  auto *self = reinterpret_cast<GstZcDumbPool *>(pool);
  auto frame = gstzc::allocate(self->state->device, self->state->info);
  if (!frame) {
    GST_ERROR_OBJECT(self, "%s", frame.error().message().c_str());
    return GST_FLOW_ERROR;
  }
  const GstVideoInfo &info = frame->info;
  GstMemory *memory = gst_dmabuf_allocator_alloc_with_flags(self->state->allocator, frame->fd.release(), frame->size,
                                                            GST_FD_MEMORY_FLAG_KEEP_MAPPED);
  *buffer = gst_buffer_new();
  gst_buffer_append_memory(*buffer, memory);
  gst_buffer_add_video_meta_full(
      *buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&info), static_cast<guint>(GST_VIDEO_INFO_WIDTH(&info)),
      static_cast<guint>(GST_VIDEO_INFO_HEIGHT(&info)), GST_VIDEO_INFO_N_PLANES(&info), info.offset, info.stride);
  return GST_FLOW_OK;
}

static void gst_zc_dumb_pool_finalize(GObject *object) {
  auto *self = reinterpret_cast<GstZcDumbPool *>(object);
  gst_object_unref(self->state->allocator);
  delete self->state;
  G_OBJECT_CLASS(gst_zc_dumb_pool_parent_class)->finalize(object);
}

static void gst_zc_dumb_pool_class_init(GstZcDumbPoolClass *klass) {
  GST_DEBUG_CATEGORY_INIT(gst_zc_dumb_pool_debug, "zcdumbpool", 0, "pool of dumb buffers");
  G_OBJECT_CLASS(klass)->finalize = gst_zc_dumb_pool_finalize;
  GstBufferPoolClass *pool = GST_BUFFER_POOL_CLASS(klass);
  pool->get_options = gst_zc_dumb_pool_get_options;
  pool->set_config = gst_zc_dumb_pool_set_config;
  pool->alloc_buffer = gst_zc_dumb_pool_alloc_buffer;
}

static void gst_zc_dumb_pool_init(GstZcDumbPool *self) {
  self->state = new gstzc::PoolState;
  self->state->allocator = gst_dmabuf_allocator_new();
}

GstBufferPool *gstzc::newDumbPool(std::shared_ptr<KmsDevice> device) {
  auto *self = reinterpret_cast<GstZcDumbPool *>(g_object_new(gst_zc_dumb_pool_get_type(), nullptr));
  gst_object_ref_sink(self);
  self->state->device = std::move(device);
  return GST_BUFFER_POOL_CAST(self);
}
