// SPDX-License-Identifier: LGPL-2.1-or-later
#include "negotiation.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "link_watch.h"

namespace gstzc::inspect {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPoll = 20ms;
constexpr auto kGrace = 500ms;  // past the deadline, for an answer and for stopping
constexpr auto kStop = 5s;      // that elements may take to stop, where there is still time
constexpr auto kSettle = 200ms; // for the errors that follow the first: a source's comes after its cause
constexpr uint64_t kKiB = 1024;

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

// What the thread that negotiates shares with the one that waits for it, which leaves it behind where elements hang.
struct Session {
  Session(Fragment f, Object<GstElement> display, std::chrono::milliseconds limit)
      : fragment(std::move(f)), sink(std::move(display)), sink_pad(gst_element_get_static_pad(sink.get(), "sink")),
        inner(behindGhosts(Object<GstPad>(GST_PAD(gst_object_ref(sink_pad.get()))))),
        bus(gst_element_get_bus(fragment.pipeline.get())), timeout(limit), deadline(Clock::now() + limit),
        watch(sink.get(), inner.get()) {}

  const Fragment fragment;
  const Object<GstElement> sink;
  const Object<GstPad> sink_pad, inner;
  const Object<GstBus> bus;
  const std::chrono::milliseconds timeout;
  const Clock::time_point deadline;
  LinkWatch watch;

  std::mutex mutex; // of what follows
  std::condition_variable changed;
  std::optional<Result<Negotiation>> result;
  std::vector<Posted> posted;
  bool stopped = false; // everything is back in NULL

  std::vector<Posted> errors() {
    const std::lock_guard lock(mutex);
    return posted;
  }
  // What is on the bus, waited for so long.
  void collect(std::chrono::milliseconds wait) {
    while (auto p = popError(bus.get(), sink.get(), wait)) {
      wait = 0ms;
      if (p->refusal) continue;
      const std::lock_guard lock(mutex);
      posted.push_back(std::move(*p));
    }
  }
  // As of now, without a word to any element.
  Negotiation now(Negotiation::Verdict verdict, std::string why) {
    Negotiation n;
    n.errors = inOrder(errors());
    n.links = watch.reports();
    n.verdict = verdict;
    n.why = std::move(why);
    n.frames = watch.frames();
    n.placeholders = watch.placeholders();
    n.caps = Caps(gst_pad_get_current_caps(inner.get()));
    return n;
  }
  std::string late() const { return "no frame came within " + std::to_string(timeout.count() / 1000) + " s"; }
};

// Of a pipeline that failed: where it ends, or what else failed.
void findCause(Session &s, Negotiation *n) {
  const std::vector<Posted> posted = s.errors();
  const bool sink_refused = std::any_of(posted.begin(), posted.end(), [](const Posted &p) { return p.from_sink; });
  const bool negotiation = std::any_of(posted.begin(), posted.end(), [](const Posted &p) { return p.negotiation; });
  const std::string own = sink_refused ? "" : ownFailure(posted);
  n->failed = firstGap(n->links);
  if (n->failed) {
    const LinkReport &link = n->links[*n->failed];
    if (own.empty() || (!link.upstream.empty() && !link.downstream.empty())) {
      n->why = link.upstream.empty()     ? link.source + " can deliver nothing"
               : link.downstream.empty() ? link.sink + " can take nothing"
                                         : link.source + " and " + link.sink + " have nothing in common";
      return;
    }
  }
  if (!own.empty()) { // what is missing elsewhere follows from it
    n->failed.reset();
    n->verdict = Negotiation::Verdict::Untried;
    n->why = own;
    return;
  }
  // each link alone has something: look for caps that were sent and not taken
  for (size_t i = 0; i < n->links.size() && !n->failed; ++i) {
    const LinkReport &link = n->links[i];
    if (link.offered && (!link.agreed || !gst_caps_is_equal(link.offered.get(), link.agreed.get()))) {
      n->failed = i;
      n->why = link.sink + " refused the caps that " + link.source + " sent";
    }
  }
  // a source that takes no choice (fakesrc) and caps that leave one: nothing was sent, so nothing was refused
  if (const std::string open = leftOpen(n->links); !n->failed && !sink_refused && !open.empty()) {
    n->verdict = Negotiation::Verdict::Untried;
    n->why = "the fragment sends no caps, as they leave " + open +
             " open and its source does not choose: set all fields in its caps, such as framerate=30/1";
    return;
  }
  if (!n->failed && sink_refused && !n->links.empty()) {
    n->failed = n->links.size() - 1;
    n->why = "the display refused the frames";
  }
  if (!n->failed && negotiation) { // the first link that never got caps
    for (size_t i = 0; i < n->links.size() && !n->failed; ++i)
      if (!n->links[i].agreed) n->failed = i;
    if (!n->failed && !n->links.empty()) n->failed = n->links.size() - 1;
    n->why = "no caps were found that suit every element";
  }
  if (!n->failed) {
    n->verdict = Negotiation::Verdict::Untried;
    n->why = "an element of the fragment failed for another reason";
  }
}

// The pipeline up to its end of whatever kind, which is left running.
Result<Negotiation> play(Session &s) {
  GstElement *pipeline = s.fragment.pipeline.get(), *last = s.fragment.last.get();
  // The display alone, for its answers: in READY it has only its template's.
  if (gst_element_set_state(s.sink.get(), GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE) {
    s.collect(0ms);
    const std::vector<Posted> posted = s.errors();
    return Error{posted.empty() ? std::string("the sink does not start") : posted.front().message.text, 0, ""};
  }
  // The fragment's elements, so that devices answer for themselves; the pipeline would take the sink back to READY.
  GstStateChangeReturn ready = GST_STATE_CHANGE_SUCCESS;
  {
    std::vector<Object<GstElement>> children;
    GST_OBJECT_LOCK(pipeline);
    for (GList *e = GST_BIN_CHILDREN(pipeline); e != nullptr; e = e->next)
      if (e->data != s.sink.get()) children.emplace_back(GST_ELEMENT(gst_object_ref(e->data)));
    GST_OBJECT_UNLOCK(pipeline);
    for (const auto &child : children)
      if (gst_element_set_state(child.get(), GST_STATE_READY) == GST_STATE_CHANGE_FAILURE)
        ready = GST_STATE_CHANGE_FAILURE;
  }
  if (ready == GST_STATE_CHANGE_FAILURE) {
    s.collect(0ms);
    const std::string own = ownFailure(s.errors());
    return s.now(Negotiation::Verdict::Untried, own.empty() ? "an element of the fragment does not start" : own);
  }

  gulong pad_added = 0;
  if (s.fragment.pad) {
    // without the check of caps: what does not fit is to be looked at, not refused
    if (!gst_element_link_pads_full(last, GST_OBJECT_NAME(s.fragment.pad.get()), s.sink.get(), "sink",
                                    GST_PAD_LINK_CHECK_NOTHING))
      return linkError(last);
  } else if (GstPad *requested = gst_element_get_compatible_pad(last, s.sink_pad.get(), nullptr)) {
    gst_pad_link_full(requested, s.sink_pad.get(), GST_PAD_LINK_CHECK_HIERARCHY);
    gst_object_unref(requested);
  } else {
    pad_added = g_signal_connect(last, "pad-added", G_CALLBACK(onPadAdded), s.sink_pad.get());
  }
  s.watch.look();

  bool live = false;
  GstStateChangeReturn change = gst_element_set_state(pipeline, GST_STATE_PAUSED);
  if (change == GST_STATE_CHANGE_NO_PREROLL) {
    live = true;
    change = gst_element_set_state(pipeline, GST_STATE_PLAYING);
  }
  const auto agreed = [&] { return static_cast<bool>(Caps(gst_pad_get_current_caps(s.inner.get()))); };
  enum class End { None, Shown, Agreed, Failed, Ended, TimedOut } end = End::None;
  if (change == GST_STATE_CHANGE_FAILURE) end = End::Failed;
  while (end == End::None) {
    s.collect(kPoll);
    s.watch.look();
    if (!s.errors().empty())
      end = End::Failed;
    else if (s.watch.placeholders())
      end = agreed() ? End::Agreed : End::Failed;
    else if (s.watch.shown())
      end = End::Shown;
    else if (s.watch.ended() && s.watch.frames() == 0)
      end = End::Ended;
    else if (Clock::now() >= s.deadline)
      end = End::TimedOut;
  }
  if (end == End::Failed) s.collect(kSettle);
  if (pad_added != 0) g_signal_handler_disconnect(last, pad_added);

  const std::string though = agreed() ? ", though caps were agreed on" : "";
  Negotiation result;
  switch (end) {
  case End::Shown:
  case End::Agreed: result = s.now(Negotiation::Verdict::Possible, ""); break;
  case End::Ended: // the display has tested no frame
    result = s.now(Negotiation::Verdict::Untried, "the fragment ended without a frame" + though);
    break;
  case End::TimedOut:
    result = s.now(Negotiation::Verdict::Untried,
                   s.late() + though +
                       (gst_pad_is_linked(s.sink_pad.get()) ? "" : ": the fragment's last element got no video pad"));
    break;
  default: result = s.now(Negotiation::Verdict::Impossible, ""); findCause(s, &result);
  }
  result.live = live;
  result.configuration = configurationOf(s.sink.get());
  return result;
}

// Negotiations whose thread has not ended. Never destroyed: such a thread may outlive everything else.
struct Threads {
  std::mutex mutex;
  std::condition_variable ended;
  size_t running = 0;
};
Threads &threads() {
  static auto *const all = new Threads;
  return *all;
}

void work(std::shared_ptr<Session> session) {
  auto result = play(*session);
  {
    const std::lock_guard lock(session->mutex);
    session->result = std::move(result);
  }
  session->changed.notify_one();
  // Everything is in NULL before anything is let go.
  gst_element_set_state(session->fragment.pipeline.get(), GST_STATE_NULL);
  {
    const std::lock_guard lock(session->mutex);
    session->stopped = true;
    session->changed.notify_one();
  }
  session.reset();
  const std::lock_guard lock(threads().mutex);
  --threads().running;
  threads().ended.notify_all();
}

// Of /proc/self/statm and /proc/meminfo, in KiB; 0 where they say nothing.
uint64_t memoryTaken() {
  unsigned long long resident = 0;
  if (FILE *file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%*u %llu", &resident) != 1) resident = 0;
    std::fclose(file);
  }
  return resident * (static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / kKiB);
}
uint64_t memoryFree() {
  unsigned long long free = 0;
  if (FILE *file = std::fopen("/proc/meminfo", "re")) {
    char line[128];
    while (free == 0 && std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "MemAvailable: %llu", &free) != 1) free = 0;
    std::fclose(file);
  }
  return free;
}

// An element that reads a file without an end into memory must not take the machine down with it: half of what is free
// when the first fragment runs is for all of them.
bool memoryIsSpent() {
  static const uint64_t free = memoryFree(), most = memoryTaken() + free / 2;
  return free != 0 && memoryTaken() > most;
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
  auto made = make_sink();
  if (!made) return made.error();
  GstElement *pipeline = fragment.pipeline.get();
  Object<GstElement> sink(GST_ELEMENT(gst_object_ref_sink(*made)));
  // an element of the fragment may have its name
  const std::string name = GST_OBJECT_NAME(sink.get());
  for (int i = 2; GstElement *other = gst_bin_get_by_name(GST_BIN(pipeline), GST_OBJECT_NAME(sink.get())); ++i) {
    gst_object_unref(other);
    gst_object_set_name(GST_OBJECT(sink.get()), (name + "-" + std::to_string(i)).c_str());
  }
  gst_bin_add(GST_BIN(pipeline), sink.get());

  const auto session = std::make_shared<Session>(std::move(fragment), std::move(sink), timeout);
  {
    const std::lock_guard lock(threads().mutex);
    ++threads().running;
  }
  std::thread thread(work, session);
  bool spent = false;
  const auto waitFor = [&](Clock::time_point until, const auto &there) { // with the session's lock
    std::unique_lock lock(session->mutex);
    while (!there() && !spent && Clock::now() < until) {
      session->changed.wait_for(lock, kPoll, there);
      spent = memoryIsSpent();
    }
    return there();
  };
  const bool answered = waitFor(session->deadline + kGrace, [&] { return session->result.has_value(); });
  const auto rest = std::min(session->deadline, Clock::now() + kStop);
  const bool stopped =
      waitFor(answered ? std::max(rest, Clock::now() + kGrace) : Clock::now(), [&] { return session->stopped; });
  if (stopped)
    thread.join();
  else
    thread.detach();

  if (answered) {
    const std::lock_guard lock(session->mutex);
    return std::move(*session->result);
  }
  session->collect(0ms);
  const std::string own = ownFailure(session->errors());
  return session->now(Negotiation::Verdict::Untried,
                      spent ? "the fragment takes more memory than half of what was free: an element may read without "
                              "an end"
                      : own.empty() ? session->late() + ": an element of the fragment hangs. GST_DEBUG=GST_STATES:4 "
                                                        "shows which"
                                    : own);
}

bool elementsHang(std::chrono::milliseconds wait) {
  std::unique_lock lock(threads().mutex);
  return !threads().ended.wait_for(lock, wait, [] { return threads().running == 0; });
}

} // namespace gstzc::inspect
