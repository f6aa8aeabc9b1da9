// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/route_reports.h"

namespace gstzc::cuda {

GValue routeReportsValue(const std::vector<RouteReport> &reports) {
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_ARRAY);
  for (const RouteReport &report : reports) {
    GValue value = G_VALUE_INIT;
    g_value_init(&value, GST_TYPE_STRUCTURE);
    g_value_take_boxed(&value, gst_structure_new("route", "route", G_TYPE_STRING, report.route.c_str(), "stage",
                                                 G_TYPE_STRING, routeStageName(report.stage), "reason", G_TYPE_STRING,
                                                 report.reason.c_str(), nullptr));
    gst_value_array_append_and_take_value(&list, &value);
  }
  return list;
}

} // namespace gstzc::cuda
