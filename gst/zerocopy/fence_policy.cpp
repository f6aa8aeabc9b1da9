// SPDX-License-Identifier: LGPL-2.1-or-later

/**
 * SECTION:gstzcfencepolicy
 * @title: GstZcOnFenceError
 * @short_description: What happens to frames whose fences fail
 *
 * The type of the property `on-fence-error`, which every element of gst-zerocopy that waits for fences has.
 *
 * Since: 0.1
 */
#include "gst/zerocopy/fence_policy.h"

#include <gst/gst.h>

#include "gst/zerocopy/frame_fence.h"

/**
 * gst_zc_on_fence_error_get_type:
 *
 * Returns: the type of #GstZcOnFenceError
 *
 * Since: 0.1
 */
GType gst_zc_on_fence_error_get_type(void) {
  static const GEnumValue values[] = {
      {GST_ZC_ON_FENCE_ERROR_DROP, "Drop the frame", "drop"},
      {GST_ZC_ON_FENCE_ERROR_PASS, "Let the frame go on as it is; an element that reads frames leaves it unread",
       "pass"},
      {GST_ZC_ON_FENCE_ERROR_ERROR, "Post an error and end the stream", "error"},
      {0, nullptr, nullptr},
  };
  static const GType type = g_enum_register_static("GstZcOnFenceError", values);
  return type;
}

namespace gstzc {
namespace {

constexpr auto kFlags =
    static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);

FrameFate fateOf(GstZcOnFenceError policy) {
  switch (policy) {
  case GST_ZC_ON_FENCE_ERROR_DROP: return FrameFate::Drop;
  case GST_ZC_ON_FENCE_ERROR_PASS: return FrameFate::Pass;
  case GST_ZC_ON_FENCE_ERROR_ERROR: return FrameFate::Fail;
  }
  return FrameFate::Drop;
}

const char *consequence(FrameFate fate) {
  switch (fate) {
  case FrameFate::Drop: return "Such frames are dropped (on-fence-error=drop)";
  case FrameFate::Pass: return "Such frames are passed on (on-fence-error=pass)";
  case FrameFate::Fail: return "on-fence-error=drop or pass would let the stream go on";
  case FrameFate::Use: break;
  }
  return "";
}

} // namespace

GParamSpec *fenceTimeoutSpec() {
  return g_param_spec_uint("fence-timeout", "Fence timeout",
                           "Milliseconds from a frame's arrival until its producer has to be done with it",
                           kFenceTimeoutMin, kFenceTimeoutMax, kFenceTimeoutDefault, kFlags);
}

GParamSpec *onFenceErrorSpec() {
  return g_param_spec_enum("on-fence-error", "On fence error",
                           "What happens to a frame whose fence failed or did not signal in time",
                           GST_TYPE_ZC_ON_FENCE_ERROR, kOnFenceErrorDefault, kFlags);
}

FenceVerdict judgeFence(const FenceResult &result, GstZcOnFenceError policy, std::chrono::milliseconds timeout) {
  if (result.outcome == FenceOutcome::Signalled) return {};
  return judgeFence(fenceError(result, timeout), policy);
}

FenceVerdict judgeFence(const Error &error, GstZcOnFenceError policy) {
  const FrameFate fate = fateOf(policy);
  const std::string remedy = (error.remedy.empty() ? "" : error.remedy + ". ") + consequence(fate);
  return {fate, {error.what, error.code, remedy}};
}

} // namespace gstzc
