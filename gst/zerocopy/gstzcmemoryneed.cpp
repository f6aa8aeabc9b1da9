// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzcmemoryneed
 * @title: GstZcMemoryNeed
 * @short_description: what a consumer needs of memory
 * @see_also: #GstZcAllocator
 *
 * Whoever will give frames to a device says in its answer to the ALLOCATION query what that device can deal with; who
 * allocates obeys or fails with an error that names both. Elements that do not know of needs lose nothing: they ignore
 * a meta API that they do not know.
 *
 * A need passes elements that pass the query on (queue, identity, fenceinfer). Elements that make new frames end it. At
 * a tee, which keeps what all branches answer, it arrives if every branch states one: so those that have none say
 * %GST_ZC_MEMORY_NEED_ANY.
 *
 * Since: 0.1
 */
#include "gst/zerocopy/gstzcmemoryneed.h"

#include <algorithm>

namespace {

constexpr const char *kName = "zc-memory-need", *kNeed = "need", *kWho = "who";

GstZcMemoryNeed need_of(const GstStructure *params, const gchar **who) {
  gint need = GST_ZC_MEMORY_NEED_ANY;
  // a structure of somebody else's making, without the fields, has no need
  if (params == nullptr || !gst_structure_get_enum(params, kNeed, GST_TYPE_ZC_MEMORY_NEED, &need))
    need = GST_ZC_MEMORY_NEED_ANY;
  if (who != nullptr) *who = params != nullptr ? gst_structure_get_string(params, kWho) : nullptr;
  return static_cast<GstZcMemoryNeed>(need);
}

// At a tee: the stricter of two branches' needs
gboolean aggregate(GstStructure **aggregated, const GstStructure *a, const GstStructure *b) {
  const GstStructure *stricter = need_of(b, nullptr) > need_of(a, nullptr) ? b : a;
  if (stricter == nullptr) stricter = b;
  if (stricter != nullptr) *aggregated = gst_structure_copy(stricter);
  return TRUE;
}

} // namespace

GType gst_zc_memory_need_get_type(void) {
  static gsize type = 0;
  static const GEnumValue values[] = {
      {GST_ZC_MEMORY_NEED_ANY, "any memory, also of scattered pages", "any"},
      {GST_ZC_MEMORY_NEED_CONTIGUOUS, "physically contiguous memory", "contiguous"},
      {0, nullptr, nullptr},
  };
  if (g_once_init_enter(&type)) g_once_init_leave(&type, g_enum_register_static("GstZcMemoryNeed", values));
  return type;
}

GType gst_zc_memory_need_api_get_type(void) {
  static gsize type = 0;
  // of the memory: elements that put frames into other memory take it out of the answers that they pass on
  static const gchar *tags[] = {GST_META_TAG_MEMORY_STR, nullptr};
  if (g_once_init_enter(&type)) {
    const GType registered = gst_meta_api_type_register("GstZcMemoryNeedAPI", tags);
    gst_meta_api_type_set_params_aggregator(registered, aggregate);
    g_once_init_leave(&type, registered);
  }
  return type;
}

/**
 * gst_query_add_zc_memory_need:
 * @query: an ALLOCATION query that is being answered
 * @need: what the answering element's device can deal with
 * @who: (nullable): name for error messages, e.g. the element's
 *
 * States a need. Where the query has one already the stricter stays.
 *
 * Since: 0.1
 */
void gst_query_add_zc_memory_need(GstQuery *query, GstZcMemoryNeed need, const gchar *who) {
  g_return_if_fail(GST_IS_QUERY(query) && GST_QUERY_TYPE(query) == GST_QUERY_ALLOCATION);
  g_return_if_fail(gst_query_is_writable(query));
  g_return_if_fail(need == GST_ZC_MEMORY_NEED_ANY || need == GST_ZC_MEMORY_NEED_CONTIGUOUS);
  guint index = 0;
  if (gst_query_find_allocation_meta(query, GST_ZC_MEMORY_NEED_API_TYPE, &index)) {
    if (gst_query_parse_zc_memory_need(query, nullptr) >= need) return;
    gst_query_remove_nth_allocation_meta(query, index);
  }
  GstStructure *params = gst_structure_new(kName, kNeed, GST_TYPE_ZC_MEMORY_NEED, need, nullptr);
  if (who != nullptr) gst_structure_set(params, kWho, G_TYPE_STRING, who, nullptr);
  gst_query_add_allocation_meta(query, GST_ZC_MEMORY_NEED_API_TYPE, params);
  gst_structure_free(params);
}

/**
 * gst_query_parse_zc_memory_need:
 * @query: an ALLOCATION query that was answered
 * @who: (out) (optional) (nullable) (transfer none): who has the need, valid as long as @query
 *
 * Returns: the need that the answer states, %GST_ZC_MEMORY_NEED_ANY if none
 *
 * Since: 0.1
 */
GstZcMemoryNeed gst_query_parse_zc_memory_need(GstQuery *query, const gchar **who) {
  if (who != nullptr) *who = nullptr;
  g_return_val_if_fail(GST_IS_QUERY(query) && GST_QUERY_TYPE(query) == GST_QUERY_ALLOCATION, GST_ZC_MEMORY_NEED_ANY);
  guint index = 0;
  if (!gst_query_find_allocation_meta(query, GST_ZC_MEMORY_NEED_API_TYPE, &index)) return GST_ZC_MEMORY_NEED_ANY;
  const GstStructure *params = nullptr;
  gst_query_parse_nth_allocation_meta(query, index, &params);
  return need_of(params, who);
}
