// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/tensor_layout.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "gst/infer/preprocess/direct.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {
namespace {

constexpr int kDeepest = 64; // elements on a way; a graph with a loop has no end

struct Unref {
  void operator()(gpointer object) const { gst_object_unref(object); }
};
template <typename T> using Ref = std::unique_ptr<T, Unref>;

bool endsUnseenFrom(GstPad *src, int depth);

bool allEndUnseen(GstElement *element, int depth) {
  bool any = false, all = true;
  GST_OBJECT_LOCK(element);
  GList *pads = g_list_copy_deep(
      element->srcpads, [](gconstpointer pad, gpointer) { return gst_object_ref(const_cast<gpointer>(pad)); }, nullptr);
  GST_OBJECT_UNLOCK(element);
  for (GList *pad = pads; pad != nullptr; pad = pad->next) {
    any = true;
    all = all && endsUnseenFrom(GST_PAD_CAST(pad->data), depth);
  }
  g_list_free_full(pads, gst_object_unref);
  return any && all;
}

// Through the borders of bins: the pad that frames leave by or come in by.
Ref<GstPad> crossBins(Ref<GstPad> pad) {
  while (pad != nullptr) {
    if (GST_IS_GHOST_PAD(pad.get())) // into a bin
      pad.reset(gst_ghost_pad_get_target(GST_GHOST_PAD(pad.get())));
    else if (GST_IS_PROXY_PAD(pad.get())) { // out of one: the ghost pad that this is the inner side of
      Ref<GstProxyPad> outer(gst_proxy_pad_get_internal(GST_PROXY_PAD(pad.get())));
      pad.reset(outer != nullptr ? gst_pad_get_peer(GST_PAD(outer.get())) : nullptr);
    } else
      break;
  }
  return pad;
}

bool endsUnseenFrom(GstPad *src, int depth) {
  if (depth > kDeepest) return false;
  const Ref<GstPad> sink = crossBins(Ref<GstPad>(gst_pad_get_peer(src)));
  if (sink == nullptr) return false;
  const Ref<GstElement> element(gst_pad_get_parent_element(sink.get()));
  if (element == nullptr) return false;
  GstElementFactory *factory = gst_element_get_factory(element.get());
  const std::string name = factory != nullptr ? GST_OBJECT_NAME(factory) : "";
  if (name == "fakesink") {
    gboolean told = FALSE; // the application may look at the frames it hands off
    g_object_get(element.get(), "signal-handoffs", &told, nullptr);
    return !told;
  }
  // not another fenceinfer: it has a tensor of its own to make of what it gets
  static constexpr const char *passing[] = {"capsfilter", "identity", "queue", "queue2", "tee", "watchdog"};
  return std::find(std::begin(passing), std::end(passing), name) != std::end(passing) &&
         allEndUnseen(element.get(), depth + 1);
}

} // namespace

GstCaps *tensorCaps(const Model &model) {
  const auto format = tensorFormat(model.plan, model.preprocess);
  if (!format) return nullptr;
  std::string size = ", width=" + std::to_string(model.plan.width) + ", height=" + std::to_string(model.plan.height);
  if (model.preprocess.resize != ResizeMode::Stretch) size += ", pixel-aspect-ratio=1/1";
  const std::string name = gst_video_format_to_string(*format);
  const char *drm = drmFormatName(*format);
  std::string text;
  if (drm != nullptr)
    text += "video/x-raw(memory:DMABuf), format=DMA_DRM, drm-format=" + std::string(drm) + size + "; ";
  text += "video/x-raw(memory:DMABuf), format=" + name + size + "; video/x-raw, format=" + name + size;
  return gst_caps_from_string(text.c_str());
}

bool scalersDoTheSame(const Model &model) {
  const PreprocessOptions &options = model.preprocess;
  return options.resize == ResizeMode::Stretch ||
         (options.resize == ResizeMode::Letterbox && options.normalisation.padding == 0);
}

bool sameTensorCaps(const Model &a, const Model &b) {
  if (scalersDoTheSame(a) != scalersDoTheSame(b)) return false;
  GstCaps *one = tensorCaps(a), *other = tensorCaps(b);
  const bool same = one == nullptr || other == nullptr ? one == other : gst_caps_is_equal(one, other) != FALSE;
  gst_clear_caps(&one);
  gst_clear_caps(&other);
  return same;
}

GstCaps *preferTensor(GstCaps *possible, GstCaps *tensor, bool only) {
  GstCaps *preferred = gst_caps_intersect_full(possible, tensor, GST_CAPS_INTERSECT_FIRST);
  if (gst_caps_is_empty(preferred)) {
    gst_caps_unref(preferred);
    return possible;
  }
  if (!only) return gst_caps_merge(preferred, possible);
  gst_caps_unref(possible);
  return preferred;
}

bool endsUnseen(GstPad *src) { return endsUnseenFrom(src, 0); }

} // namespace gstzc::infer
