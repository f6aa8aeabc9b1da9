// SPDX-License-Identifier: LGPL-2.1-or-later
#include "element_errors.h"

#include <algorithm>

namespace gstzc::inspect {

std::optional<Posted> popError(GstBus *bus, GstElement *sink, std::chrono::milliseconds wait) {
  GstMessage *message = gst_bus_timed_pop_filtered(
      bus, static_cast<GstClockTime>(std::chrono::nanoseconds(wait).count()), GST_MESSAGE_ERROR);
  if (message == nullptr) return std::nullopt;
  GError *error = nullptr;
  gchar *debug = nullptr;
  gst_message_parse_error(message, &error, &debug);
  Posted posted;
  GstObject *source = GST_MESSAGE_SRC(message);
  posted.message = {source != nullptr ? GST_OBJECT_NAME(source) : "", error->message, debug != nullptr ? debug : ""};
  posted.from_sink =
      source != nullptr && (source == GST_OBJECT(sink) || gst_object_has_as_ancestor(source, GST_OBJECT(sink)));
  // the code is also one for whatever else goes wrong
  posted.flow = g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED) &&
                posted.message.debug.find("streaming stopped, reason") != std::string::npos;
  posted.state = g_error_matches(error, GST_CORE_ERROR, GST_CORE_ERROR_STATE_CHANGE);
  posted.refusal = posted.from_sink && g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT);
  posted.negotiation = g_error_matches(error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION) ||
                       g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT) ||
                       g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE) ||
                       posted.message.debug.find("not-negotiated") != std::string::npos;
  g_error_free(error);
  g_free(debug);
  gst_message_unref(message);
  return posted;
}

std::vector<ElementMessage> inOrder(std::vector<Posted> posted) {
  const auto rank = [](const Posted &p) { return p.flow ? 2 : p.own() ? 0 : 1; };
  std::stable_sort(posted.begin(), posted.end(), [&](const Posted &a, const Posted &b) { return rank(a) < rank(b); });
  // Bins say again what an element said while they change their state, and that they could not.
  const bool told = std::any_of(posted.begin(), posted.end(), [](const Posted &p) { return !p.state; });
  std::vector<ElementMessage> result;
  for (Posted &p : posted) {
    const auto same = [&](const ElementMessage &m) {
      return m.element == p.message.element && m.text == p.message.text;
    };
    if ((told && p.state) || std::any_of(result.begin(), result.end(), same)) continue;
    result.push_back(std::move(p.message));
  }
  return result;
}

std::string ownFailure(const std::vector<Posted> &posted) {
  const auto cause = std::find_if(posted.begin(), posted.end(), [](const Posted &p) { return p.own(); });
  if (cause == posted.end()) return "";
  std::string text = cause->message.text;
  text.erase(text.find_last_not_of(". \n") + 1); // it becomes a part of a sentence
  return cause->message.element + " fails: " + text;
}

} // namespace gstzc::inspect
