// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/import/reader_contexts.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ext/cuda/sync/wait_points.h"

namespace gstzc::cuda {
namespace {

constexpr size_t kMostPads = 1000; // a pipeline that is larger is not looked at to its end

struct UnrefPad {
  void operator()(GstPad *pad) const { gst_object_unref(pad); }
};
using PadPtr = std::unique_ptr<GstPad, UnrefPad>;

// What the element behind a sink pad answers, or, where it knows nothing of CUDA, one behind it.
GstContextPtr contextOfPad(GstPad *sink) {
  GstQuery *query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
  GstCudaContext *found = nullptr;
  if (gst_pad_query(sink, query)) {
    GstContext *context = nullptr;
    gst_query_parse_context(query, &context);
    if (context != nullptr)
      gst_structure_get(gst_context_get_structure(context), GST_CUDA_CONTEXT_TYPE, GST_TYPE_CUDA_CONTEXT, &found,
                        nullptr);
  }
  gst_query_unref(query);
  return GstContextPtr(found);
}

// Frames end where other memory begins. Caps may still be under way: then they can come here.
bool canBeReached(GstPad *sink) {
  GstCaps *caps = gst_pad_get_current_caps(sink);
  if (caps == nullptr) return true;
  const GstCapsFeatures *features = gst_caps_is_empty(caps) ? nullptr : gst_caps_get_features(caps, 0);
  const bool cuda = gst_caps_is_any(caps) ||
                    (features != nullptr && gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY));
  gst_caps_unref(caps);
  return cuda;
}

std::vector<PadPtr> linksOf(GstPad *sink) {
  std::vector<PadPtr> pads;
  GstIterator *links = gst_pad_iterate_internal_links(sink);
  GValue item = G_VALUE_INIT;
  for (bool more = links != nullptr; more;) {
    switch (gst_iterator_next(links, &item)) {
    case GST_ITERATOR_OK:
      pads.emplace_back(GST_PAD(g_value_dup_object(&item)));
      g_value_reset(&item);
      break;
    case GST_ITERATOR_RESYNC:
      pads.clear();
      gst_iterator_resync(links);
      break;
    default: more = false;
    }
  }
  if (G_IS_VALUE(&item)) g_value_unset(&item);
  if (links != nullptr) gst_iterator_free(links);
  return pads;
}

} // namespace

std::vector<GstContextPtr> contextsBehind(GstPad *src) {
  std::vector<GstContextPtr> contexts;
  std::vector<PadPtr> seen; // source pads, those from `next` on are to be followed
  seen.emplace_back(GST_PAD(gst_object_ref(src)));
  for (size_t next = 0; next < seen.size() && next < kMostPads; ++next) {
    const PadPtr sink(gst_pad_get_peer(seen[next].get()));
    if (!sink || !canBeReached(sink.get())) continue;
    if (GstContextPtr context = contextOfPad(sink.get());
        context && std::find(contexts.begin(), contexts.end(), context) == contexts.end())
      contexts.push_back(std::move(context));
    for (PadPtr &pad : linksOf(sink.get()))
      if (std::find(seen.begin(), seen.end(), pad) == seen.end()) seen.push_back(std::move(pad));
  }
  return contexts;
}

Status ReaderContexts::add(const ContextPtr &context) {
  const std::lock_guard lock(known_->mutex_);
  const auto same = [&](const ContextPtr &other) { return other->handle == context->handle; };
  if (std::any_of(known_->contexts_.begin(), known_->contexts_.end(), same)) return Nothing{};
  auto queue = RetireQueue::create(context);
  if (!queue) return queue.error();
  queues_.push_back(queue.take());
  known_->contexts_.push_back(context);
  return Nothing{};
}

std::vector<RetireQueue *> ReaderContexts::queues() const {
  const std::lock_guard lock(known_->mutex_);
  std::vector<RetireQueue *> all;
  for (const auto &queue : queues_) all.push_back(queue.get());
  return all;
}

void ReaderContexts::retire(const std::function<void(std::function<void()>)> &own, std::function<void()> done) const {
  const std::vector<RetireQueue *> others = queues();
  struct Rest {
    std::atomic<size_t> parts;
    std::function<void()> done;
  };
  const auto rest = std::make_shared<Rest>(others.size() + 1, std::move(done));
  const auto part = [rest] {
    if (--rest->parts == 0) std::exchange(rest->done, {})();
  };
  for (RetireQueue *queue : others) queue->retireBehindAll(CU_STREAM_LEGACY, part);
  own(part);
}

void ReaderContexts::drain(std::chrono::milliseconds timeout) const {
  for (RetireQueue *queue : queues())
    if (waitPoint("retire-contexts")) queue->drain(timeout);
}

size_t ReaderContexts::pending() const {
  size_t most = 0;
  for (const RetireQueue *queue : queues()) most = std::max(most, queue->pending());
  return most;
}

void ReaderContexts::Known::synchronize() const {
  for (const ContextPtr &context : all())
    if (ContextScope scope(*context); scope.status() && waitPoint("retire-contexts"))
      context->driver.cuCtxSynchronize();
}

} // namespace gstzc::cuda
