// SPDX-License-Identifier: LGPL-2.1-or-later
#include "negotiation.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "link_watch.h"

namespace gstzc::inspect {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = 20ms;
constexpr auto kStateChange = 60s; // that elements may take to start and to stop, besides
constexpr auto kSettle = 200ms;    // for the errors that follow the first: a source's comes after its cause

// An element that hangs in a change of state cannot be left: then the process ends, as bad input.
class Watchdog {
public:
  explicit Watchdog(std::chrono::milliseconds limit)
      : thread_([this, limit] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, limit, [this] { return over_; })) return;
          std::fprintf(stderr,
                       "zerocopy-inspect: an element of the fragment hangs in its change of state. Look for it with "
                       "GST_DEBUG=GST_STATES:4\n");
          std::_Exit(2);
        }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

struct Posted {
  ElementMessage message;
  bool from_sink = false;
  bool flow = false; // "Internal data stream error": what follows, not a cause
  bool negotiation = false;
  bool state = false; // a change of state failed: for a reason that another error has
};

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
  posted.flow = g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FAILED);
  posted.state = g_error_matches(error, GST_CORE_ERROR, GST_CORE_ERROR_STATE_CHANGE);
  posted.negotiation = g_error_matches(error, GST_CORE_ERROR, GST_CORE_ERROR_NEGOTIATION) ||
                       g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_FORMAT) ||
                       g_error_matches(error, GST_STREAM_ERROR, GST_STREAM_ERROR_WRONG_TYPE) ||
                       (debug != nullptr && std::string(debug).find("not-negotiated") != std::string::npos);
  g_error_free(error);
  g_free(debug);
  gst_message_unref(message);
  return posted;
}

std::string configurationOf(GstElement *sink) {
  GParamSpec *spec = g_object_class_find_property(G_OBJECT_GET_CLASS(sink), "configuration");
  if (spec == nullptr || spec->value_type != G_TYPE_STRING) return "";
  gchar *text = nullptr;
  g_object_get(sink, "configuration", &text, nullptr);
  std::string result = text != nullptr ? text : "";
  g_free(text);
  return result;
}

// A pad that comes late is linked to the sink if nothing is yet.
void onPadAdded(GstElement *, GstPad *pad, gpointer data) {
  auto *sink_pad = static_cast<GstPad *>(data);
  if (gst_pad_get_direction(pad) != GST_PAD_SRC || gst_pad_is_linked(sink_pad)) return;
  const Caps caps(gst_pad_query_caps(pad, nullptr));
  // other streams than video are none of ours
  if (caps && !caps.empty() && !gst_caps_is_any(caps.get()) &&
      !g_str_has_prefix(gst_structure_get_name(gst_caps_get_structure(caps.get(), 0)), "video/"))
    return;
  gst_pad_link_full(pad, sink_pad, GST_PAD_LINK_CHECK_HIERARCHY);
}

// The fields without a value of what could have been sent to the sink, where nothing was sent anywhere.
std::string leftOpen(const std::vector<LinkReport> &links) {
  for (const LinkReport &link : links)
    if (link.offered) return "";
  if (links.empty() || links.back().common.empty() || gst_caps_is_any(links.back().common.get())) return "";
  const GstStructure *s = gst_caps_get_structure(links.back().common.get(), 0);
  std::string names;
  for (gint i = 0; i < gst_structure_n_fields(s); ++i) {
    const char *name = gst_structure_nth_field_name(s, static_cast<guint>(i));
    if (!gst_value_is_fixed(gst_structure_get_value(s, name))) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

Error linkError(GstElement *last) {
  return {"the fragment ends in " + std::string(GST_OBJECT_NAME(last)) + ", which cannot be linked to a sink", 0,
          "End it in an element with a source pad"};
}

} // namespace

std::optional<size_t> firstGap(const std::vector<LinkReport> &links) {
  std::optional<size_t> first, both;
  for (size_t i = 0; i < links.size() && !both; ++i) {
    if (!links[i].common.empty()) continue;
    if (!links[i].upstream.empty() && !links[i].downstream.empty()) both = i;
    if (!first) first = i;
  }
  if (!both) return first;
  const auto element = [](const std::string &pad) { return pad.substr(0, pad.rfind('.')); };
  for (size_t i = *both; i + 1 < links.size(); ++i) {
    const LinkReport &here = links[i], &next = links[i + 1];
    if (element(here.sink) != element(next.source) || !gst_caps_is_equal(here.upstream.get(), next.upstream.get()) ||
        !gst_caps_is_equal(here.downstream.get(), next.downstream.get()))
      break;
    both = i + 1;
  }
  return both;
}

Result<Negotiation> negotiate(Fragment fragment, const MakeSink &make_sink, std::chrono::milliseconds timeout) {
  const Watchdog watchdog(timeout + kStateChange);
  auto made = make_sink();
  if (!made) return made.error();
  GstElement *pipeline = fragment.pipeline.get();
  const Object<GstElement> sink(GST_ELEMENT(gst_object_ref_sink(*made)));
  // an element of the fragment may have its name
  const std::string name = GST_OBJECT_NAME(sink.get());
  for (int i = 2; GstElement *other = gst_bin_get_by_name(GST_BIN(pipeline), GST_OBJECT_NAME(sink.get())); ++i) {
    gst_object_unref(other);
    gst_object_set_name(GST_OBJECT(sink.get()), (name + "-" + std::to_string(i)).c_str());
  }
  gst_bin_add(GST_BIN(pipeline), sink.get());
  const Object<GstBus> bus(gst_element_get_bus(pipeline));
  Object<GstPad> sink_pad(gst_element_get_static_pad(sink.get(), "sink"));
  const Object<GstPad> inner = behindGhosts(Object<GstPad>(GST_PAD(gst_object_ref(sink_pad.get()))));

  // Everything is back in NULL before anything is let go, on each way out.
  struct Stop {
    GstElement *pipeline;
    ~Stop() { gst_element_set_state(pipeline, GST_STATE_NULL); }
  };
  Negotiation result;
  LinkWatch run(sink.get(), inner.get());
  const Stop stop{pipeline};

  std::vector<Posted> posted;
  const auto collect = [&](std::chrono::milliseconds wait) {
    while (auto p = popError(bus.get(), sink.get(), wait)) {
      posted.push_back(std::move(*p));
      wait = 0ms;
    }
  };
  // Cause first: what a source says of its flow follows from another element's error.
  const auto finish = [&](Negotiation::Verdict verdict, std::string why) {
    std::stable_sort(posted.begin(), posted.end(), [](const Posted &a, const Posted &b) { return a.flow < b.flow; });
    // Bins say again what an element said while they change their state, and that they could not.
    const bool told = std::any_of(posted.begin(), posted.end(), [](const Posted &p) { return !p.state; });
    for (Posted &p : posted) {
      const auto same = [&](const ElementMessage &m) {
        return m.element == p.message.element && m.text == p.message.text;
      };
      if ((told && p.state) || std::any_of(result.errors.begin(), result.errors.end(), same)) continue;
      result.errors.push_back(std::move(p.message));
    }
    result.links = run.reports();
    result.verdict = verdict;
    result.why = std::move(why);
    result.frames = run.frames();
    result.placeholders = run.placeholders();
    result.configuration = configurationOf(sink.get());
    result.caps = Caps(gst_pad_get_current_caps(inner.get()));
  };

  // The display alone, for its answers: in READY it has only its template's.
  if (gst_element_set_state(sink.get(), GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE) {
    collect(0ms);
    return Error{posted.empty() ? std::string("the sink does not start") : posted.front().message.text, 0, ""};
  }
  // The fragment's elements, so that devices answer for themselves; the pipeline would take the sink back to READY.
  GstStateChangeReturn ready = GST_STATE_CHANGE_SUCCESS;
  {
    std::vector<Object<GstElement>> children;
    GST_OBJECT_LOCK(pipeline);
    for (GList *e = GST_BIN_CHILDREN(pipeline); e != nullptr; e = e->next)
      if (e->data != sink.get()) children.emplace_back(GST_ELEMENT(gst_object_ref(e->data)));
    GST_OBJECT_UNLOCK(pipeline);
    for (const auto &child : children)
      if (gst_element_set_state(child.get(), GST_STATE_READY) == GST_STATE_CHANGE_FAILURE)
        ready = GST_STATE_CHANGE_FAILURE;
  }
  if (ready == GST_STATE_CHANGE_FAILURE) {
    collect(0ms);
    finish(Negotiation::Verdict::Untried, "an element of the fragment does not start");
    return result;
  }

  gulong pad_added = 0;
  if (fragment.pad) {
    // without the check of caps: what does not fit is to be looked at, not refused
    if (!gst_element_link_pads_full(fragment.last.get(), GST_OBJECT_NAME(fragment.pad.get()), sink.get(), "sink",
                                    GST_PAD_LINK_CHECK_NOTHING))
      return linkError(fragment.last.get());
  } else if (GstPad *requested = gst_element_get_compatible_pad(fragment.last.get(), sink_pad.get(), nullptr)) {
    gst_pad_link_full(requested, sink_pad.get(), GST_PAD_LINK_CHECK_HIERARCHY);
    gst_object_unref(requested);
  } else {
    pad_added = g_signal_connect(fragment.last.get(), "pad-added", G_CALLBACK(onPadAdded), sink_pad.get());
  }
  run.look();

  const auto deadline = Clock::now() + timeout;
  GstStateChangeReturn change = gst_element_set_state(pipeline, GST_STATE_PAUSED);
  if (change == GST_STATE_CHANGE_NO_PREROLL) {
    result.live = true;
    change = gst_element_set_state(pipeline, GST_STATE_PLAYING);
  }
  enum class End { None, Shown, Agreed, Failed, Ended, TimedOut } end = End::None;
  if (change == GST_STATE_CHANGE_FAILURE) end = End::Failed;
  while (end == End::None) {
    collect(kPoll);
    run.look();
    if (!posted.empty())
      end = End::Failed;
    else if (run.placeholders())
      end = Caps(gst_pad_get_current_caps(inner.get())) ? End::Agreed : End::Failed;
    else if (run.shown())
      end = End::Shown;
    else if (run.ended() && run.frames() == 0)
      end = End::Ended;
    else if (Clock::now() >= deadline)
      end = End::TimedOut;
  }
  if (end == End::Failed) collect(kSettle);
  if (pad_added != 0) g_signal_handler_disconnect(fragment.last.get(), pad_added);

  const bool agreed = static_cast<bool>(Caps(gst_pad_get_current_caps(inner.get())));
  switch (end) {
  case End::Shown:
  case End::Agreed: finish(Negotiation::Verdict::Possible, ""); break;
  case End::Ended:
    if (agreed) // what was to be found out is
      finish(Negotiation::Verdict::Possible, "");
    else
      finish(Negotiation::Verdict::Untried, "the fragment ended without a frame");
    break;
  case End::TimedOut:
    finish(Negotiation::Verdict::Untried,
           "no frame came within " + std::to_string(timeout.count() / 1000) + " s" +
               (agreed ? ", though caps were agreed on" : "") +
               (gst_pad_is_linked(sink_pad.get()) ? "" : ": the fragment's last element got no video pad"));
    break;
  default: {
    const bool sink_refused = std::any_of(posted.begin(), posted.end(), [](const Posted &p) { return p.from_sink; });
    const bool negotiation = std::any_of(posted.begin(), posted.end(), [](const Posted &p) { return p.negotiation; });
    finish(Negotiation::Verdict::Impossible, "");
    result.failed = firstGap(result.links);
    if (result.failed) {
      const LinkReport &link = result.links[*result.failed];
      result.why = link.upstream.empty()     ? link.source + " can deliver nothing"
                   : link.downstream.empty() ? link.sink + " can take nothing"
                                             : link.source + " and " + link.sink + " have nothing in common";
      break;
    }
    // each link alone has something: look for caps that were sent and not taken
    for (size_t i = 0; i < result.links.size() && !result.failed; ++i) {
      const LinkReport &link = result.links[i];
      if (link.offered && (!link.agreed || !gst_caps_is_equal(link.offered.get(), link.agreed.get()))) {
        result.failed = i;
        result.why = link.sink + " refused the caps that " + link.source + " sent";
      }
    }
    // a source that takes no choice (fakesrc) and caps that leave one: nothing was sent, so nothing was refused
    if (const std::string open = leftOpen(result.links); !result.failed && !sink_refused && !open.empty()) {
      result.verdict = Negotiation::Verdict::Untried;
      result.why = "the fragment sends no caps, as they leave " + open +
                   " open and its source does not choose: set all fields in its caps, such as framerate=30/1";
      break;
    }
    if (!result.failed && sink_refused && !result.links.empty()) {
      result.failed = result.links.size() - 1;
      result.why = "the display refused the frames";
    }
    if (!result.failed && negotiation) { // the first link that never got caps
      for (size_t i = 0; i < result.links.size() && !result.failed; ++i)
        if (!result.links[i].agreed) result.failed = i;
      if (!result.failed && !result.links.empty()) result.failed = result.links.size() - 1;
      result.why = "no caps were found that suit every element";
    }
    if (!result.failed) {
      result.verdict = Negotiation::Verdict::Untried;
      result.why = "an element of the fragment failed for another reason";
    }
  }
  }
  return result;
}

} // namespace gstzc::inspect
