// SPDX-License-Identifier: LGPL-2.1-or-later
// A part of a pipeline that ends before its sink.
#pragma once

#include <memory>
#include <string>

#include <gst/gst.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc::inspect {

struct GstObjectUnref {
  void operator()(gpointer object) const { gst_object_unref(object); }
};
template <typename T> using Object = std::unique_ptr<T, GstObjectUnref>;

// The fragment in a pipeline of its own, in NULL, and where it ends: `pad`, or where it is null the pads that `last`
// will have when it knows its stream (demuxers, decodebin), or has on request (tee).
struct Fragment {
  Object<GstElement> pipeline;
  Object<GstElement> last;
  Object<GstPad> pad;
};

// Errors: what the parser says of the text; elements that are not installed; no source pad left to link, or several;
// a beginning that is no source.
Result<Fragment> parseFragment(const std::string &text);

} // namespace gstzc::inspect
