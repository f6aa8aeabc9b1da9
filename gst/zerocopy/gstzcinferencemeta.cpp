// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzcinferencemeta
 * @title: GstZcInferenceMeta
 * @short_description: Fresh results, or those of an older frame
 *
 * What an application needs to tell results of the frame that it has before it from repeated ones: fenceinfer adds it
 * to each buffer that it gives results for.
 *
 * |[<!-- language="C" -->
 * GstZcInferenceMeta *faces = gst_buffer_get_zc_inference_meta(buffer, "faces");
 * if (faces != NULL && !gst_zc_inference_meta_is_fresh(faces))
 *   g_print("the boxes are of %u frames ago\n", gst_zc_inference_meta_get_age(faces));
 * ]|
 *
 * Since: 0.1
 */
#include "gst/zerocopy/gstzcinferencemeta.h"

namespace {

gboolean meta_init(GstMeta *meta, gpointer, GstBuffer *) {
  auto *self = reinterpret_cast<GstZcInferenceMeta *>(meta);
  self->source = nullptr;
  self->timestamp = GST_CLOCK_TIME_NONE;
  self->age = 0;
  return TRUE;
}

void meta_free(GstMeta *meta, GstBuffer *) {
  g_clear_pointer(&reinterpret_cast<GstZcInferenceMeta *>(meta)->source, g_free);
}

gboolean meta_transform(GstBuffer *to, GstMeta *meta, GstBuffer *, GQuark type, gpointer) {
  if (!GST_META_TRANSFORM_IS_COPY(type)) return FALSE;
  const auto *self = reinterpret_cast<const GstZcInferenceMeta *>(meta);
  return gst_buffer_add_zc_inference_meta(to, self->source, self->timestamp, self->age) != nullptr;
}

} // namespace

GType gst_zc_inference_meta_api_get_type(void) {
  static gsize type = 0;
  // no tags: what was looked at and when stays true whatever is done to the picture or the memory
  static const gchar *tags[] = {nullptr};
  if (g_once_init_enter(&type)) g_once_init_leave(&type, gst_meta_api_type_register("GstZcInferenceMetaAPI", tags));
  return type;
}

const GstMetaInfo *gst_zc_inference_meta_get_info(void) {
  static const GstMetaInfo *info = nullptr;
  if (g_once_init_enter(&info))
    g_once_init_leave(&info, gst_meta_register(GST_ZC_INFERENCE_META_API_TYPE, "GstZcInferenceMeta",
                                               sizeof(GstZcInferenceMeta), meta_init, meta_free, meta_transform));
  return info;
}

/**
 * gst_zc_inference_meta_get_source:
 * @self: a #GstZcInferenceMeta
 *
 * Returns: who gave the results: the name that gst_buffer_add_zc_inference_meta() was called with
 *
 * Since: 0.1
 */
const gchar *gst_zc_inference_meta_get_source(GstZcInferenceMeta *self) {
  g_return_val_if_fail(self != nullptr, nullptr);
  return self->source;
}

/**
 * gst_zc_inference_meta_get_timestamp:
 * @self: a #GstZcInferenceMeta
 *
 * Returns: the presentation timestamp of the frame that was looked at; %GST_CLOCK_TIME_NONE if it had none
 *
 * Since: 0.1
 */
GstClockTime gst_zc_inference_meta_get_timestamp(GstZcInferenceMeta *self) {
  g_return_val_if_fail(self != nullptr, GST_CLOCK_TIME_NONE);
  return self->timestamp;
}

/**
 * gst_zc_inference_meta_get_age:
 * @self: a #GstZcInferenceMeta
 *
 * Returns: how many frames before this one the frame was that was looked at; 0: it was this one
 *
 * Since: 0.1
 */
guint gst_zc_inference_meta_get_age(GstZcInferenceMeta *self) {
  g_return_val_if_fail(self != nullptr, 0);
  return self->age;
}

/**
 * gst_zc_inference_meta_is_fresh:
 * @self: a #GstZcInferenceMeta
 *
 * Returns: %TRUE if this frame was looked at, %FALSE if the results are those of an older one
 *
 * Since: 0.1
 */
gboolean gst_zc_inference_meta_is_fresh(GstZcInferenceMeta *self) {
  g_return_val_if_fail(self != nullptr, FALSE);
  return self->age == 0;
}

/**
 * gst_buffer_add_zc_inference_meta:
 * @buffer: a writable #GstBuffer
 * @source: who gives the results: the name of a model instance or of an element
 * @timestamp: of the frame that was looked at
 * @age: how many frames before this one that was
 *
 * Returns: (transfer none): the meta
 *
 * Since: 0.1
 */
GstZcInferenceMeta *gst_buffer_add_zc_inference_meta(GstBuffer *buffer, const gchar *source, GstClockTime timestamp,
                                                     guint age) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer) && gst_buffer_is_writable(buffer), nullptr);
  g_return_val_if_fail(source != nullptr, nullptr);
  auto *self = reinterpret_cast<GstZcInferenceMeta *>(gst_buffer_add_meta(buffer, GST_ZC_INFERENCE_META_INFO, nullptr));
  if (self == nullptr) return nullptr;
  self->source = g_strdup(source);
  self->timestamp = timestamp;
  self->age = age;
  return self;
}

/**
 * gst_buffer_get_zc_inference_meta:
 * @buffer: a #GstBuffer
 * @source: (nullable): whose results; %NULL: anybody's
 *
 * Returns: (transfer none) (nullable): the one that was added last, or %NULL if @source gave no results for this buffer
 *
 * Since: 0.1
 */
GstZcInferenceMeta *gst_buffer_get_zc_inference_meta(GstBuffer *buffer, const gchar *source) {
  g_return_val_if_fail(GST_IS_BUFFER(buffer), nullptr);
  GstZcInferenceMeta *found = nullptr;
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_ZC_INFERENCE_META_API_TYPE)) {
    auto *self = reinterpret_cast<GstZcInferenceMeta *>(meta);
    if (source == nullptr || g_strcmp0(self->source, source) == 0) found = self;
  }
  return found;
}
