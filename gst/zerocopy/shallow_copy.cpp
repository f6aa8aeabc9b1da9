// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/shallow_copy.h"

namespace gstzc {

GstBuffer *writableShallow(GstBuffer *buffer) {
  if (gst_buffer_is_writable(buffer)) return buffer;
  // Not gst_buffer_copy(): it copies the bytes of memory flagged NO_SHARE. The old buffer stays alive and unwritten, so
  // that the two may hold one memory.
  GstBuffer *copy = gst_buffer_new();
  gst_buffer_copy_into(
      copy, buffer,
      static_cast<GstBufferCopyFlags>(GST_BUFFER_COPY_FLAGS | GST_BUFFER_COPY_TIMESTAMPS | GST_BUFFER_COPY_META), 0,
      static_cast<gsize>(-1));
  for (guint i = 0, n = gst_buffer_n_memory(buffer); i < n; ++i)
    gst_buffer_append_memory(copy, gst_buffer_get_memory(buffer, i));
  // metadata that describes memory (GstVideoMeta) was left out above, as if the memory were another
  const GQuark of_memory = g_quark_from_static_string(GST_META_TAG_MEMORY_STR);
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta(buffer, &state)) {
    if (!gst_meta_api_type_has_tag(meta->info->api, of_memory) || meta->info->transform_func == nullptr) continue;
    GstMetaTransformCopy whole = {FALSE, 0, static_cast<gsize>(-1)};
    meta->info->transform_func(copy, meta, buffer, _gst_meta_transform_copy, &whole);
  }
  gst_buffer_add_parent_buffer_meta(copy, buffer);
  gst_buffer_unref(buffer);
  return copy;
}

} // namespace gstzc
