/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the stand-in for an ONNX Runtime with CUDA has beside the library's own functions, for tests, which look these
 * up with dlsym. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct softort_counters {
  uint64_t enqueued;    /* runs that returned before they had happened */
  uint64_t waited;      /* runs that waited for the device */
  uint64_t on_stream;   /* of all these, those on a stream of the user's */
  uint64_t misuses;     /* what is undefined: a session that goes while a run of its is on the stream, an output while
                         * nobody waited for it, memory of another device */
  uint64_t live_memory; /* outputs in the device's memory that somebody holds */
};
struct softort_counters softort_count(void);
void softort_reset(void);
/* The nth run from now on (1: the next) fails while it is being enqueued. */
void softort_fail_run(unsigned nth);

#ifdef __cplusplus
}
#endif
