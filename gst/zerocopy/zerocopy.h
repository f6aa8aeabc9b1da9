/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public C API of gstzerocopy-1.0. */
#pragma once

#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcdeviceevent.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "gst/zerocopy/gstzcfencepolicy.h"
#include "gst/zerocopy/gstzcinferencemeta.h"
#include "gst/zerocopy/gstzckeypointmtd.h"
#include "gst/zerocopy/gstzcmemoryneed.h"
#include "gst/zerocopy/gstzcpool.h"
#include "gst/zerocopy/gstzcprelude.h"
