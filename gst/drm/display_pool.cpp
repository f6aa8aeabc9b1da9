// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/display_pool.h"

#include <gst/allocators/allocators.h>

GST_DEBUG_CATEGORY_STATIC(gst_zc_display_pool_debug);
#define GST_CAT_DEFAULT gst_zc_display_pool_debug

namespace gstzc {

uint64_t PoolFrame::size() const {
  uint64_t all = 0;
  for (const Memory &memory : memories) all += memory.size;
  return all;
}

namespace {

struct PoolState {
  std::shared_ptr<FrameSource> source;
  GstAllocator *allocator = nullptr;
  FrameCaps caps; // of the present configuration
};

} // namespace
} // namespace gstzc

// GObject: no exceptions, C names
struct GstZcDisplayPool {
  GstBufferPool parent;
  gstzc::PoolState *state;
};
struct GstZcDisplayPoolClass {
  GstBufferPoolClass parent_class;
};

GType gst_zc_display_pool_get_type();
G_DEFINE_TYPE(GstZcDisplayPool, gst_zc_display_pool, GST_TYPE_BUFFER_POOL)

static const gchar **gst_zc_display_pool_get_options(GstBufferPool *pool) {
  (void)pool;
  static const gchar *options[] = {GST_BUFFER_POOL_OPTION_VIDEO_META, nullptr};
  return options;
}

static gboolean gst_zc_display_pool_set_config(GstBufferPool *pool, GstStructure *config) {
  auto *self = reinterpret_cast<GstZcDisplayPool *>(pool);
  GstCaps *caps = nullptr;
  guint size = 0, min = 0, max = 0;
  if (!gst_buffer_pool_config_get_params(config, &caps, &size, &min, &max) || caps == nullptr) return FALSE;
  auto parsed = gstzc::parseFrameCaps(caps);
  if (!parsed) {
    GST_WARNING_OBJECT(self, "%s", parsed.error().message().c_str());
    return FALSE;
  }
  auto frame = self->state->source->make(*parsed);
  if (!frame) {
    GST_WARNING_OBJECT(self, "%s", frame.error().message().c_str());
    return FALSE;
  }
  if (frame->size() > G_MAXUINT) return FALSE;
  if (!gst_buffer_pool_config_has_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META) && !frame->usual) {
    GST_WARNING_OBJECT(self, "the device's layout of %" GST_PTR_FORMAT " takes users of GstVideoMeta", caps);
    return FALSE;
  }
  self->state->caps = *parsed;
  gst_buffer_pool_config_set_params(config, caps, static_cast<guint>(frame->size()), min, max);
  return GST_BUFFER_POOL_CLASS(gst_zc_display_pool_parent_class)->set_config(pool, config);
}

static GstFlowReturn gst_zc_display_pool_alloc_buffer(GstBufferPool *pool, GstBuffer **buffer,
                                                      GstBufferPoolAcquireParams *params) {
  (void)params;
  auto *self = reinterpret_cast<GstZcDisplayPool *>(pool);
  const gstzc::FrameCaps &caps = self->state->caps;
  auto frame = self->state->source->make(caps);
  if (!frame) {
    GST_ERROR_OBJECT(self, "%s", frame.error().message().c_str());
    return GST_FLOW_ERROR;
  }
  *buffer = gst_buffer_new();
  for (gstzc::PoolFrame::Memory &memory : frame->memories)
    gst_buffer_append_memory(*buffer,
                             gst_dmabuf_allocator_alloc_with_flags(self->state->allocator, memory.fd.release(),
                                                                   memory.size, GST_FD_MEMORY_FLAG_KEEP_MAPPED));
  gst_buffer_add_video_meta_full(*buffer, GST_VIDEO_FRAME_FLAG_NONE, frame->format, static_cast<guint>(caps.width()),
                                 static_cast<guint>(caps.height()), frame->n_planes, frame->offsets.data(),
                                 frame->strides.data());
  return GST_FLOW_OK;
}

static void gst_zc_display_pool_finalize(GObject *object) {
  auto *self = reinterpret_cast<GstZcDisplayPool *>(object);
  gst_object_unref(self->state->allocator);
  delete self->state;
  G_OBJECT_CLASS(gst_zc_display_pool_parent_class)->finalize(object);
}

static void gst_zc_display_pool_class_init(GstZcDisplayPoolClass *klass) {
  GST_DEBUG_CATEGORY_INIT(gst_zc_display_pool_debug, "zcdisplaypool", 0, "pool of frames made for the display");
  G_OBJECT_CLASS(klass)->finalize = gst_zc_display_pool_finalize;
  GstBufferPoolClass *pool = GST_BUFFER_POOL_CLASS(klass);
  pool->get_options = gst_zc_display_pool_get_options;
  pool->set_config = gst_zc_display_pool_set_config;
  pool->alloc_buffer = gst_zc_display_pool_alloc_buffer;
}

static void gst_zc_display_pool_init(GstZcDisplayPool *self) {
  self->state = new gstzc::PoolState;
  self->state->allocator = gst_dmabuf_allocator_new();
}

GstBufferPool *gstzc::newDisplayPool(std::shared_ptr<FrameSource> source) {
  auto *self = reinterpret_cast<GstZcDisplayPool *>(g_object_new(gst_zc_display_pool_get_type(), nullptr));
  gst_object_ref_sink(self);
  self->state->source = std::move(source);
  return GST_BUFFER_POOL_CAST(self);
}
