// SPDX-License-Identifier: LGPL-2.1-or-later
#include "link_watch.h"

#include <algorithm>
#include <mutex>
#include <set>

#include <gst/allocators/allocators.h>

namespace gstzc::inspect {

Object<GstPad> behindGhosts(Object<GstPad> pad) {
  for (int depth = 0; pad && depth < 32; ++depth) {
    if (GST_IS_GHOST_PAD(pad.get()))
      pad.reset(gst_ghost_pad_get_target(GST_GHOST_PAD(pad.get())));
    else if (GST_IS_PROXY_PAD(pad.get())) { // the inside of a ghost pad: what the ghost is linked to
      Object<GstPad> ghost(GST_PAD(gst_proxy_pad_get_internal(GST_PROXY_PAD(pad.get()))));
      pad.reset(ghost ? gst_pad_get_peer(ghost.get()) : nullptr);
    } else {
      break;
    }
  }
  return pad;
}

namespace {

std::string padName(GstPad *pad) {
  Object<GstElement> parent(gst_pad_get_parent_element(pad));
  return (parent ? std::string(GST_OBJECT_NAME(parent.get())) + "." : "") + GST_OBJECT_NAME(pad);
}

struct Link {
  Object<GstPad> source, sink;
};

// Links of all ways to the pad, each after those that come before it in the flow.
void linksTo(GstPad *sink, std::set<GstPad *> *seen, std::vector<Link> *links) {
  if (!seen->insert(sink).second) return;
  Object<GstPad> source = behindGhosts(Object<GstPad>(gst_pad_get_peer(sink)));
  if (!source) return;
  Object<GstElement> element(gst_pad_get_parent_element(source.get()));
  std::vector<Object<GstPad>> inputs;
  if (element) {
    GST_OBJECT_LOCK(element.get());
    for (GList *p = element->sinkpads; p != nullptr; p = p->next) inputs.emplace_back(GST_PAD(gst_object_ref(p->data)));
    GST_OBJECT_UNLOCK(element.get());
  }
  for (Object<GstPad> &input : inputs) {
    Object<GstPad> inner = behindGhosts(std::move(input));
    if (inner) linksTo(inner.get(), seen, links);
  }
  links->push_back({std::move(source), Object<GstPad>(GST_PAD(gst_object_ref(sink)))});
}

// What both sides say; an element may take less or more than its answer to all has words for, and says so when asked
// about these caps.
Caps commonOf(GstPad *sink, const LinkReport &report) {
  Caps both(gst_caps_intersect(report.upstream.get(), report.downstream.get()));
  if (report.upstream.empty() || gst_caps_is_any(report.upstream.get())) return both;
  const Caps answer(gst_pad_query_caps(sink, report.upstream.get()));
  Caps asked(gst_caps_intersect(report.upstream.get(), answer.get()));
  return both.empty() || asked.empty() ? std::move(asked) : std::move(both);
}

} // namespace

struct LinkWatch::Watched {
  ~Watched() {
    if (probe != 0) gst_pad_remove_probe(link.sink.get(), probe);
  }
  Link link;
  LinkReport report;
  gulong probe = 0;
  std::mutex mutex;
  Caps offered;
};

LinkWatch::LinkWatch(GstElement *sink, GstPad *sink_pad) : sink_(sink), sink_pad_(sink_pad) {
  frames_probe_ =
      gst_pad_add_probe(sink_pad_,
                        static_cast<GstPadProbeType>(GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_BUFFER_LIST |
                                                     GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM),
                        &LinkWatch::onFrame, this, nullptr);
}

LinkWatch::~LinkWatch() { gst_pad_remove_probe(sink_pad_, frames_probe_); }

void LinkWatch::look() {
  std::set<GstPad *> seen;
  std::vector<Link> links;
  linksTo(sink_pad_, &seen, &links);
  std::vector<std::shared_ptr<Watched>> now;
  for (Link &link : links) {
    const auto known = std::find_if(watched_.begin(), watched_.end(), [&](const auto &w) {
      return w->link.source.get() == link.source.get() && w->link.sink.get() == link.sink.get();
    });
    if (known != watched_.end()) {
      now.push_back(*known);
      continue;
    }
    auto watched = std::make_shared<Watched>();
    watched->link = std::move(link);
    LinkReport &report = watched->report;
    report.source = padName(watched->link.source.get());
    report.sink = padName(watched->link.sink.get());
    report.upstream = Caps(gst_pad_query_caps(watched->link.source.get(), nullptr));
    report.downstream = Caps(gst_pad_query_caps(watched->link.sink.get(), nullptr));
    report.common = commonOf(watched->link.sink.get(), report);
    // a link may have come late, its caps before we look
    watched->offered = Caps(gst_pad_get_current_caps(watched->link.source.get()));
    watched->probe = gst_pad_add_probe(watched->link.sink.get(), GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM,
                                       &LinkWatch::onEvent, watched.get(), nullptr);
    now.push_back(std::move(watched));
  }
  const std::lock_guard lock(mutex_);
  for (auto &w : watched_)
    if (std::find(now.begin(), now.end(), w) == now.end()) gone_.push_back(std::move(w));
  watched_ = std::move(now);
}

std::vector<LinkReport> LinkWatch::reports() const {
  std::vector<LinkReport> result;
  const std::lock_guard list(mutex_);
  for (const auto &w : watched_) {
    LinkReport report = w->report;
    {
      const std::lock_guard lock(w->mutex);
      report.offered = w->offered;
    }
    report.agreed = Caps(gst_pad_get_current_caps(w->link.sink.get()));
    result.push_back(std::move(report));
  }
  return result;
}

bool LinkWatch::shown() const {
  GstState state = GST_STATE_NULL;
  return frames_ > 0 && !placeholders_ &&
         gst_element_get_state(sink_, &state, nullptr, 0) == GST_STATE_CHANGE_SUCCESS && state >= GST_STATE_PAUSED;
}

GstPadProbeReturn LinkWatch::onEvent(GstPad *, GstPadProbeInfo *info, gpointer data) {
  GstEvent *event = GST_PAD_PROBE_INFO_EVENT(info);
  if (GST_EVENT_TYPE(event) != GST_EVENT_CAPS) return GST_PAD_PROBE_OK;
  auto *watched = static_cast<Watched *>(data);
  GstCaps *caps = nullptr;
  gst_event_parse_caps(event, &caps);
  const std::lock_guard lock(watched->mutex);
  watched->offered = Caps::reference(caps);
  return GST_PAD_PROBE_OK;
}

// Sources that make nothing real (fakesrc) give memory that cannot be what the caps promise: then the caps are what is
// tried, and the sink sees no frame.
GstPadProbeReturn LinkWatch::onFrame(GstPad *pad, GstPadProbeInfo *info, gpointer data) {
  auto *self = static_cast<LinkWatch *>(data);
  if ((GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM) != 0) {
    if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) == GST_EVENT_EOS) self->ended_ = true;
    return GST_PAD_PROBE_OK;
  }
  GstBuffer *buffer = nullptr;
  if ((GST_PAD_PROBE_INFO_TYPE(info) & GST_PAD_PROBE_TYPE_BUFFER_LIST) != 0) {
    GstBufferList *list = GST_PAD_PROBE_INFO_BUFFER_LIST(info);
    buffer = list != nullptr && gst_buffer_list_length(list) > 0 ? gst_buffer_list_get(list, 0) : nullptr;
  } else {
    buffer = GST_PAD_PROBE_INFO_BUFFER(info);
  }
  ++self->frames_;
  const Caps caps(gst_pad_get_current_caps(pad));
  GstCapsFeatures *features = caps && !caps.empty() ? gst_caps_get_features(caps.get(), 0) : nullptr;
  const bool promised = features != nullptr && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_DMABUF);
  const bool real =
      buffer != nullptr && gst_buffer_n_memory(buffer) > 0 && gst_is_dmabuf_memory(gst_buffer_peek_memory(buffer, 0));
  const bool nothing = buffer != nullptr && gst_buffer_get_size(buffer) == 0;
  if ((promised && !real) || nothing) {
    self->placeholders_ = true;
    return GST_PAD_PROBE_DROP;
  }
  return GST_PAD_PROBE_OK;
}

} // namespace gstzc::inspect
