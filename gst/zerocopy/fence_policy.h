// SPDX-License-Identifier: LGPL-2.1-or-later
// From how a frame's fences ended to what an element does with the frame; the same for every element that waits.
#pragma once

#include <chrono>

#include <glib-object.h>

#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/gstzcfencepolicy.h"

namespace gstzc {

constexpr guint kFenceTimeoutMin = 1, kFenceTimeoutMax = 60'000, kFenceTimeoutDefault = 1000; // ms
constexpr GstZcOnFenceError kOnFenceErrorDefault = GST_ZC_ON_FENCE_ERROR_DROP;

// The properties "fence-timeout" (guint, ms) and "on-fence-error" (GstZcOnFenceError), changeable while playing.
// Floating.
GSTZC_API GParamSpec *fenceTimeoutSpec();
GSTZC_API GParamSpec *onFenceErrorSpec();

enum class FrameFate {
  Use,  // it is complete
  Drop, // it goes no further
  Pass, // it goes on, but must not be read
  Fail, // an element error, and GST_FLOW_ERROR for upstream
};

struct FenceVerdict {
  FrameFate fate = FrameFate::Use;
  Error error; // why, for a message on the bus; empty for Use. ETIMEDOUT: no signal in time
};

// `timeout` is what the wait was given, for the message.
GSTZC_API FenceVerdict judgeFence(const FenceResult &result, GstZcOnFenceError policy,
                                  std::chrono::milliseconds timeout);
// For a frame whose fences could not be asked for or waited for (a closed descriptor, no descriptors left): nobody
// knows whether it is complete, so it is treated as one whose fence failed.
GSTZC_API FenceVerdict judgeFence(const Error &error, GstZcOnFenceError policy);

} // namespace gstzc
