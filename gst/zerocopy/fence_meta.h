// SPDX-License-Identifier: LGPL-2.1-or-later
// The fences in a buffer's GstZcFenceMeta, without a system call.
#pragma once

#include <vector>

#include "gst/zerocopy/core/fence_poller.h"
#include "gst/zerocopy/core/sync_file.h"
#include "gst/zerocopy/gstzcfencemeta.h"

namespace gstzc {

// Borrowed from the meta; null without a sync_file.
const SyncFile *fenceOf(const GstZcFenceMeta *meta);

// All of a buffer's metas.
struct ExplicitFences {
  std::vector<const SyncFile *> sync;
  std::vector<GstZcDeviceEvent *> events;
};
ExplicitFences explicitFences(GstBuffer *buffer);

// For the poller; holds a reference. Errors: what the event's make_fd says.
Result<Fence> fenceOf(GstZcDeviceEvent *event);

} // namespace gstzc
