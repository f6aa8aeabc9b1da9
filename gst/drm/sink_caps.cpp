// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/drm/sink_caps.h"

#include <algorithm>
#include <unordered_set>

#include <drm_fourcc.h>
#include <gst/allocators/allocators.h>
#include <gst/video/video.h>

#include "gst/zerocopy/caps_formats.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc {
namespace {

// GStreamer's formats of these fourccs, each once, in their order; formats that a fourcc has several of all of them.
class PlainFormats {
public:
  PlainFormats() {
    for (int f = GST_VIDEO_FORMAT_ENCODED + 1; f < GST_VIDEO_FORMAT_LAST; ++f) {
      const auto format = static_cast<GstVideoFormat>(f);
      if (format == GST_VIDEO_FORMAT_DMA_DRM || drmFormatName(format) == nullptr) continue;
      known_.emplace_back(gst_video_dma_drm_fourcc_from_format(format), gst_video_format_to_string(format));
    }
    std::stable_sort(known_.begin(), known_.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  }
  void append(GValue *list, uint32_t fourcc) const {
    auto at = std::lower_bound(known_.begin(), known_.end(), fourcc,
                               [](const auto &entry, uint32_t code) { return entry.first < code; });
    for (; at != known_.end() && at->first == fourcc; ++at) appendString(list, at->second);
  }

private:
  std::vector<std::pair<uint32_t, const char *>> known_;
};

const PlainFormats &plainFormats() {
  static const PlainFormats formats;
  return formats;
}

enum class Kind { Drm, ImplicitDmaBuf, System };

void setSide(GstStructure *s, const char *name, uint32_t min, uint32_t max) {
  const int high = max == 0 ? kMaxFrameSide : static_cast<int>(std::min<uint32_t>(max, kMaxFrameSide));
  const int low = static_cast<int>(std::clamp<uint32_t>(min, 1, static_cast<uint32_t>(high)));
  if (low < high)
    gst_structure_set(s, name, GST_TYPE_INT_RANGE, low, high, nullptr);
  else
    gst_structure_set(s, name, G_TYPE_INT, high, nullptr);
}

// Takes `formats`, a list, which becomes a single string where it has one entry.
void appendStructure(GstCaps *caps, Kind kind, GValue *formats, const OfferedGroup &group,
                     const SinkCapsOptions &options) {
  if (gst_value_list_get_size(formats) == 0) {
    g_value_unset(formats);
    return;
  }
  GstStructure *s = gst_structure_new("video/x-raw", "framerate", GST_TYPE_FRACTION_RANGE, 0, 1, G_MAXINT, 1, nullptr);
  setSide(s, "width", group.min_width, group.max_width);
  setSide(s, "height", group.min_height, group.max_height);
  if (kind == Kind::Drm) gst_structure_set(s, "format", G_TYPE_STRING, "DMA_DRM", nullptr);
  const char *field = kind == Kind::Drm ? "drm-format" : "format";
  if (gst_value_list_get_size(formats) == 1)
    gst_structure_set_value(s, field, gst_value_list_get_value(formats, 0));
  else
    gst_structure_set_value(s, field, formats);
  g_value_unset(formats);
  if (options.overlay_composition) {
    GstCapsFeatures *features =
        kind == Kind::System ? gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_SYSTEM_MEMORY,
                                                     GST_CAPS_FEATURE_META_GST_VIDEO_OVERLAY_COMPOSITION, nullptr)
                             : gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_DMABUF,
                                                     GST_CAPS_FEATURE_META_GST_VIDEO_OVERLAY_COMPOSITION, nullptr);
    gst_caps_append_structure_full(caps, gst_structure_copy(s), features);
  }
  gst_caps_append_structure_full(
      caps, s, kind == Kind::System ? nullptr : gst_caps_features_new_single(GST_CAPS_FEATURE_MEMORY_DMABUF));
}

bool isBroadcom(uint64_t modifier) { return (modifier >> 56) == DRM_FORMAT_MOD_VENDOR_BROADCOM; }

// Calls `each` for the strings of a field, which may be one or a list.
template <typename Each> void forStrings(const GValue *value, Each each) {
  if (value == nullptr) return;
  if (G_VALUE_HOLDS_STRING(value)) {
    if (const char *text = g_value_get_string(value)) each(text);
  } else if (GST_VALUE_HOLDS_LIST(value)) {
    const guint n = gst_value_list_get_size(value);
    for (guint i = 0; i < n; ++i) {
      const GValue *entry = gst_value_list_get_value(value, i);
      if (G_VALUE_HOLDS_STRING(entry) && g_value_get_string(entry) != nullptr) each(g_value_get_string(entry));
    }
  }
}

} // namespace

GstCaps *capsOfOffers(const OfferedFormats &offers, const SinkCapsOptions &options) {
  GstCaps *caps = gst_caps_new_empty();
  const auto list = [](GValue *value) {
    *value = G_VALUE_INIT;
    g_value_init(value, GST_TYPE_LIST);
  };
  GValue formats;
  if (options.dmabuf)
    for (const OfferedGroup &group : offers.groups) {
      list(&formats);
      for (const DrmFormat &f : group.pairs) appendString(&formats, toString(f).c_str());
      appendStructure(caps, Kind::Drm, &formats, group, options);
    }
  if (options.implicit_dmabuf)
    for (const OfferedGroup &group : offers.groups) {
      list(&formats);
      for (const uint32_t fourcc : group.implicit) plainFormats().append(&formats, fourcc);
      appendStructure(caps, Kind::ImplicitDmaBuf, &formats, group, options);
    }
  if (options.system_memory)
    for (const OfferedGroup &group : offers.groups) {
      list(&formats);
      for (const DrmFormat &f : group.pairs)
        if (f.modifier == DRM_FORMAT_MOD_LINEAR) plainFormats().append(&formats, f.fourcc);
      appendStructure(caps, Kind::System, &formats, group, options);
    }
  return caps;
}

SinkCaps::~SinkCaps() {
  if (caps_ != nullptr) gst_caps_unref(caps_);
}

void SinkCaps::update(const OfferedFormats &offers, const SinkCapsOptions &options) {
  GstCaps *made = capsOfOffers(offers, options);
  std::vector<DrmFormat> columns;
  for (const OfferedGroup &g : offers.groups)
    for (const DrmFormat &f : g.pairs)
      if (isBroadcom(f.modifier) && options.dmabuf) columns.push_back(f);
  const std::lock_guard lock(mutex_);
  std::swap(caps_, made);
  columns_ = std::move(columns);
  if (made != nullptr) gst_caps_unref(made);
}

void SinkCaps::clear() {
  const std::lock_guard lock(mutex_);
  gst_clear_caps(&caps_);
  columns_.clear();
}

bool SinkCaps::ready() const {
  const std::lock_guard lock(mutex_);
  return caps_ != nullptr;
}

// Ours with each drm-format of theirs beside it that has a column height of a layout of ours. False: there is none.
bool SinkCaps::withColumns(const GstCaps *theirs, GstCaps **wider) const {
  if (columns_.empty()) return false;
  // by layout, as many as one caps may name
  std::vector<std::pair<DrmFormat, std::string>> named;
  for (guint i = 0; i < gst_caps_get_size(theirs); ++i)
    forStrings(gst_structure_get_value(gst_caps_get_structure(theirs, i), "drm-format"), [&](const char *text) {
      const auto parsed = parseDrmFormat(text);
      if (!parsed || !isBroadcom(parsed->modifier)) return;
      const DrmFormat layout{parsed->fourcc, comparableModifier(parsed->modifier)};
      if (layout == *parsed || named.size() >= kMaxCapsNeeds) return;
      if (std::find(columns_.begin(), columns_.end(), layout) != columns_.end()) named.emplace_back(layout, text);
    });
  if (named.empty()) return false;
  GstCaps *caps = gst_caps_copy(caps_);
  for (guint i = 0; i < gst_caps_get_size(caps); ++i) {
    GstStructure *s = gst_caps_get_structure(caps, i);
    const GValue *ours = gst_structure_get_value(s, "drm-format");
    if (ours == nullptr) continue;
    GValue list = G_VALUE_INIT;
    g_value_init(&list, GST_TYPE_LIST);
    forStrings(ours, [&](const char *text) {
      appendString(&list, text);
      const auto parsed = parseDrmFormat(text);
      for (const auto &[layout, theirs_text] : named)
        if (parsed && layout == *parsed) appendString(&list, theirs_text.c_str());
    });
    gst_structure_take_value(s, "drm-format", &list);
  }
  *wider = caps;
  return true;
}

bool hasSeparateFields(const GstStructure *structure) {
  bool separate = false;
  forStrings(gst_structure_get_value(structure, "interlace-mode"), [&](const char *mode) {
    separate = separate || g_str_equal(mode, "fields") || g_str_equal(mode, "alternate");
  });
  return separate;
}

namespace {

// Without the modes that keep fields apart; where there is no other, without the structure. Takes the caps.
GstCaps *withFrames(GstCaps *caps) {
  const auto separate = [](const GstCaps *c) {
    for (guint i = 0; i < gst_caps_get_size(c); ++i)
      if (hasSeparateFields(gst_caps_get_structure(c, i))) return true;
    return false;
  };
  if (!separate(caps)) return caps;
  caps = gst_caps_make_writable(caps);
  gst_caps_filter_and_map_in_place(
      caps,
      [](GstCapsFeatures *, GstStructure *s, gpointer) -> gboolean {
        if (!hasSeparateFields(s)) return TRUE;
        GValue frames = G_VALUE_INIT;
        g_value_init(&frames, GST_TYPE_LIST);
        forStrings(gst_structure_get_value(s, "interlace-mode"), [&](const char *mode) {
          if (!g_str_equal(mode, "fields") && !g_str_equal(mode, "alternate")) appendString(&frames, mode);
        });
        const bool any = gst_value_list_get_size(&frames) > 0;
        if (any) gst_structure_set_value(s, "interlace-mode", &frames);
        g_value_unset(&frames);
        return any;
      },
      nullptr);
  return caps;
}

} // namespace

GstCaps *SinkCaps::caps(GstCaps *filter) const {
  const std::lock_guard lock(mutex_);
  if (caps_ == nullptr) return nullptr;
  if (filter == nullptr) return gst_caps_ref(caps_);
  GstCaps *wider = nullptr;
  if (!withColumns(filter, &wider)) return withFrames(gst_caps_intersect_full(filter, caps_, GST_CAPS_INTERSECT_FIRST));
  GstCaps *both = gst_caps_intersect_full(filter, wider, GST_CAPS_INTERSECT_FIRST);
  gst_caps_unref(wider);
  return withFrames(both);
}

bool SinkCaps::accepts(const GstCaps *caps) const {
  const std::lock_guard lock(mutex_);
  if (caps_ == nullptr) return false;
  for (guint i = 0; i < gst_caps_get_size(caps); ++i)
    if (hasSeparateFields(gst_caps_get_structure(caps, i))) return false;
  if (gst_caps_is_subset(caps, caps_)) return true;
  GstCaps *wider = nullptr;
  if (!withColumns(caps, &wider)) return false;
  const bool result = gst_caps_is_subset(caps, wider);
  gst_caps_unref(wider);
  return result;
}

} // namespace gstzc
