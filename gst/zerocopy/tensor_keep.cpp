// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/tensor_keep.h"

#include <gst/analytics/analytics.h>

namespace gstzc {
namespace {

GType apiType();
const GstMetaInfo *metaInfo();

gboolean init(GstMeta *, gpointer, GstBuffer *) { return TRUE; }

void add(GstBuffer *buffer) {
  if (gst_buffer_get_meta(buffer, apiType()) == nullptr) gst_buffer_add_meta(buffer, metaInfo(), nullptr);
}

// The companion has nothing of its own: what is there to be kept it finds on the buffer that is copied.
gboolean transform(GstBuffer *to, GstMeta *, GstBuffer *from, GQuark type, gpointer) {
  if (!GST_META_TRANSFORM_IS_COPY(type)) return FALSE;
  add(to);
  if (gst_buffer_get_tensor_meta(to) != nullptr) return TRUE;
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(from, &state, GST_TENSOR_META_API_TYPE)) {
    const auto *tensors = reinterpret_cast<const GstTensorMeta *>(meta);
    // not gst_buffer_add_tensor_meta(): before 1.26.6 it gives the one that is there
    auto *copy = reinterpret_cast<GstTensorMeta *>(gst_buffer_add_meta(to, GST_TENSOR_META_INFO, nullptr));
    GstTensor **list = g_new0(GstTensor *, tensors->num_tensors);
    for (gsize i = 0; i < tensors->num_tensors; ++i) list[i] = gst_tensor_copy(tensors->tensors[i]);
    gst_tensor_meta_set(copy, static_cast<guint>(tensors->num_tensors), list);
  }
  return TRUE;
}

GType apiType() {
  static gsize type = 0;
  // no tags, as GstTensorMeta has none: a converted frame keeps its tensors
  static const gchar *tags[] = {nullptr};
  if (g_once_init_enter(&type)) g_once_init_leave(&type, gst_meta_api_type_register("GstZcTensorKeepMetaAPI", tags));
  return type;
}

const GstMetaInfo *metaInfo() {
  static const GstMetaInfo *info = nullptr;
  if (g_once_init_enter(&info))
    g_once_init_leave(&info,
                      gst_meta_register(apiType(), "GstZcTensorKeepMeta", sizeof(GstMeta), init, nullptr, transform));
  return info;
}

} // namespace

void keepTensorsOnCopies(GstBuffer *buffer) {
  if (gst_tensor_meta_get_info()->transform_func == nullptr) add(buffer);
}

} // namespace gstzc
