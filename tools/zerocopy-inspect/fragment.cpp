// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fragment.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "table.h"

namespace gstzc::inspect {
namespace {

struct End {
  Object<GstElement> element;
  Object<GstPad> pad; // null: a pad to come
};

struct Sink {
  std::string element, pad;
  std::string text() const { return element + "." + pad; }
};

struct Ends {
  std::vector<End> sources;             // unlinked source pads that are there
  std::vector<End> later;               // elements that may get some
  std::vector<std::string> of_own_will; // those of them that get some without being asked, by name
  std::vector<Sink> sinks;              // unlinked sink pads
  std::vector<std::string> lasts;       // elements without any source pad
};

std::string nameOf(gpointer object) {
  gchar *name = gst_object_get_name(GST_OBJECT(object));
  std::string result = name;
  g_free(name);
  return result;
}

bool hasTemplate(GstElement *element, GstPadDirection direction, std::initializer_list<GstPadPresence> presences) {
  for (GList *t = gst_element_class_get_pad_template_list(GST_ELEMENT_GET_CLASS(element)); t != nullptr; t = t->next) {
    auto *templ = static_cast<GstPadTemplate *>(t->data);
    if (GST_PAD_TEMPLATE_DIRECTION(templ) == direction &&
        std::find(presences.begin(), presences.end(), GST_PAD_TEMPLATE_PRESENCE(templ)) != presences.end())
      return true;
  }
  return false;
}

// Elements of plain bins are the fragment's as well; those of bins with a type of their own are not.
void collect(GstBin *bin, Ends *ends) {
  std::vector<Object<GstElement>> elements; // in the order of the text
  GST_OBJECT_LOCK(bin);
  for (GList *e = bin->children; e != nullptr; e = e->next)
    elements.insert(elements.begin(), Object<GstElement>(GST_ELEMENT(gst_object_ref(e->data))));
  GST_OBJECT_UNLOCK(bin);
  for (Object<GstElement> &element : elements) {
    if (G_OBJECT_TYPE(element.get()) == GST_TYPE_BIN) {
      collect(GST_BIN(element.get()), ends);
      continue;
    }
    bool linked_source = false, any_source = false;
    std::vector<Object<GstPad>> pads;
    GST_OBJECT_LOCK(element.get());
    for (GList *p = element->pads; p != nullptr; p = p->next) pads.emplace_back(GST_PAD(gst_object_ref(p->data)));
    GST_OBJECT_UNLOCK(element.get());
    for (Object<GstPad> &pad : pads) {
      const bool linked = gst_pad_is_linked(pad.get());
      if (gst_pad_get_direction(pad.get()) == GST_PAD_SRC) {
        any_source = true;
        linked_source |= linked;
        if (!linked)
          ends->sources.push_back({Object<GstElement>(GST_ELEMENT(gst_object_ref(element.get()))), std::move(pad)});
      } else if (!linked) {
        ends->sinks.push_back({nameOf(element.get()), nameOf(pad.get())});
      }
    }
    const bool may_get = hasTemplate(element.get(), GST_PAD_SRC, {GST_PAD_SOMETIMES, GST_PAD_REQUEST});
    if (hasTemplate(element.get(), GST_PAD_SRC, {GST_PAD_SOMETIMES}))
      ends->of_own_will.push_back(nameOf(element.get()));
    if (!any_source && !may_get) ends->lasts.push_back(nameOf(element.get()));
    if (may_get && !linked_source) ends->later.push_back({std::move(element), nullptr});
  }
}

// Caps at the end, as in "videotestsrc ! video/x-raw,format=NV12": the parser knows caps only between two elements, so
// they become a capsfilter. Other text stays as it is.
std::string withFilterAtEnd(const std::string &text) {
  size_t link = std::string::npos;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (quote != 0)
      quote = text[i] == quote ? 0 : quote;
    else if (text[i] == '"' || text[i] == '\'')
      quote = text[i];
    else if (text[i] == '!')
      link = i;
  }
  if (link == std::string::npos) return text;
  const size_t from = text.find_first_not_of(" \t\n", link + 1);
  if (from == std::string::npos) return text;
  std::string caps = text.substr(from, text.find_last_not_of(" \t\n") + 1 - from);
  if (caps.size() > 2 && (caps.front() == '"' || caps.front() == '\'') && caps.back() == caps.front())
    caps = caps.substr(1, caps.size() - 2);
  const size_t slash = caps.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
  if (slash == std::string::npos || slash == 0 || caps[slash] != '/') return text;
  std::string escaped;
  for (const char c : caps) escaped += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  return text.substr(0, from) + "capsfilter caps=\"" + escaped + "\"";
}

Error parseError(const std::string &text, GError *error, GstParseContext *context) {
  std::vector<std::string> missing;
  if (gchar **names = gst_parse_context_get_missing_elements(context)) {
    for (gchar **n = names; *n != nullptr; ++n) missing.emplace_back(*n);
    g_strfreev(names);
  }
  if (!missing.empty() && g_error_matches(error, GST_PARSE_ERROR, GST_PARSE_ERROR_NO_SUCH_ELEMENT))
    return {"the fragment \"" + text + "\" has elements that are not installed: " + joined(missing), 0,
            "Correct the name (gst-inspect-1.0 lists all), or install the plugin it is in"};
  if (g_error_matches(error, GST_PARSE_ERROR, GST_PARSE_ERROR_LINK) &&
      std::string(error->message).starts_with("could not link")) // and not: could not parse the caps between
    return {
        "the fragment \"" + text + "\" does not hold together: " + error->message, 0,
        "These two have nothing in common, whatever the display: put a converter between them, or correct the caps"};
  return {"the fragment \"" + text + "\" is no launch line: " + (error != nullptr ? error->message : "it is empty"), 0,
          "Write it as for gst-launch-1.0, without the sink: 'videotestsrc ! videoconvert'"};
}

} // namespace

Result<Fragment> parseFragment(const std::string &text) {
  if (text.find_first_not_of(" \t\n") == std::string::npos)
    return Error{"the fragment is empty", 0, "Write it as for gst-launch-1.0, without the sink: 'videotestsrc'"};
  GError *error = nullptr;
  GstParseContext *context = gst_parse_context_new();
  GstElement *parsed = gst_parse_launch_full(
      withFilterAtEnd(text).c_str(), context,
      static_cast<GstParseFlags>(GST_PARSE_FLAG_FATAL_ERRORS | GST_PARSE_FLAG_NO_SINGLE_ELEMENT_BINS), &error);
  if (parsed == nullptr || error != nullptr) {
    const Error result = parseError(text, error, context);
    gst_parse_context_free(context);
    g_clear_error(&error);
    if (parsed != nullptr) gst_object_unref(gst_object_ref_sink(parsed));
    return result;
  }
  gst_parse_context_free(context);
  gst_object_ref_sink(parsed);
  Fragment fragment;
  if (GST_IS_PIPELINE(parsed)) {
    fragment.pipeline.reset(parsed);
  } else {
    fragment.pipeline.reset(GST_ELEMENT(gst_object_ref_sink(gst_pipeline_new(nullptr))));
    gst_bin_add(GST_BIN(fragment.pipeline.get()), parsed);
    gst_object_unref(parsed);
  }

  Ends ends;
  collect(GST_BIN(fragment.pipeline.get()), &ends);
  if (ends.sources.empty() && ends.later.empty())
    return Error{"the fragment \"" + text + "\" leaves no source pad to link" +
                     (ends.lasts.empty() ? "" : ": it ends in " + joined(ends.lasts)),
                 0, "Leave the sink away: the display takes its place"};
  if (ends.sources.size() > 1) {
    std::vector<std::string> names;
    for (const End &end : ends.sources) names.push_back(nameOf(end.element.get()) + "." + nameOf(end.pad.get()));
    return Error{"the fragment \"" + text + "\" leaves " + std::to_string(names.size()) +
                     " source pads to link: " + joined(names),
                 0, "End the others in a fakesink"};
  }
  // pads to come may be the beginning of what seems to have none: those of other elements
  std::vector<std::string> unfed;
  for (const Sink &sink : ends.sinks)
    if (std::all_of(ends.of_own_will.begin(), ends.of_own_will.end(),
                    [&](const std::string &name) { return name == sink.element; }))
      unfed.push_back(sink.text());
  if (!unfed.empty())
    return Error{"nothing feeds " + joined(unfed) + " of the fragment \"" + text + "\"", 0,
                 "Begin it with a source, for example: videotestsrc ! " + text};
  if (!ends.sources.empty()) {
    fragment.last = std::move(ends.sources.front().element);
    fragment.pad = std::move(ends.sources.front().pad);
  } else {
    fragment.last = std::move(ends.later.back().element);
  }
  return fragment;
}

} // namespace gstzc::inspect
