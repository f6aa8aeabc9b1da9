// SPDX-License-Identifier: LGPL-2.1-or-later
// When a frame may be used: its fences, explicit (GstZcFenceMeta) and implicit (in its dma-bufs), as one.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include <gst/gst.h>

#include "gst/zerocopy/core/export.h"
#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/gstzcdeviceevent.h"

namespace gstzc {

// What has to end before a frame may be used, as of one moment.
struct GSTZC_API FrameFences {
  SyncFile sync;             // everything that is a sync_file, merged; empty: nothing pending
  std::vector<Fence> others; // what is none: device events, dma-bufs of old kernels. Where a sync_file has failed
                             // already, all of them one by one, because their merge would forget the error

  bool none() const { return sync.isEmpty() && others.empty(); }
  std::vector<Fence> take() &&; // all, for FenceWait
};

// Of all the buffer's GstZcFenceMeta, whatever the access (their fences are those of writers), and of its dma-bufs,
// each of which is looked at once whatever planes lie in it. Errors name the memory, or the kind of the event.
GSTZC_API Result<FrameFences> frameFences(GstBuffer *buffer, Access access);

// The same without the events that `elsewhere` says true of: whoever uses the frame waits for them in another way.
using WaitsElsewhere = std::function<bool(GstZcDeviceEvent *event)>;
GSTZC_API Result<FrameFences> frameFences(GstBuffer *buffer, Access access, const WaitsElsewhere &elsewhere);

// Sleeps until the fences are over: for those who copy in a streaming thread. `interrupted` is looked at every 20 ms;
// where it ends the wait the outcome is Cancelled, and in no other case. Errors: they cannot be waited for.
GSTZC_API Result<FenceResult> waitForFences(FrameFences fences, std::chrono::milliseconds timeout,
                                            const std::function<bool()> &interrupted);

// Sleeps until the frame may be used. Errors: ETIMEDOUT, or the errno of the fence; ECANCELED for `interrupted`, and
// for fences that failed so.
GSTZC_API Status waitForFrame(GstBuffer *buffer, Access access, std::chrono::milliseconds timeout,
                              const std::function<bool()> &interrupted = {});

// For error messages: "the frame's producer was not done after 1000 ms", with the remedy.
GSTZC_API Error fenceError(const FenceResult &result, std::chrono::milliseconds timeout);

} // namespace gstzc
