// SPDX-License-Identifier: LGPL-2.1-or-later
// A stand-in for libgbm.so.1, and how tests control it: buffers are memfds, laid out as a GPU that does not exist would
// do it. A program that is linked to it gets it from dlopen("libgbm.so.1"), too. It checks what it is called with: what
// the real library would crash on, or what leaks, is counted and said.
#pragma once

#include <cstdint>

extern "C" {

struct SoftGbmFaults {
  int create_device = 0;       // errno of gbm_create_device(); 0: none
  int create_bo = 0;           // errno of gbm_bo_create_with_modifiers2()
  int export_plane = -1;       // whose gbm_bo_get_fd_for_plane() fails with EMFILE; -1: none
  uint64_t other_modifier = 0; // that buffers come with instead of the one asked for; 0: none
  int extra_planes = 0;        // more memory planes than the layout has
  bool offset_outside = false; // the last plane begins behind its memory
  bool own_memory = false;     // each plane in a dma-buf of its own
};

void softgbm_reset(void); // forgets faults and violations
void softgbm_set_faults(const SoftGbmFaults *faults);
unsigned softgbm_live_devices(void);
unsigned softgbm_live_buffers(void);
unsigned softgbm_buffers(void);      // made since the reset
const char *softgbm_violation(void); // the first one; null: none
}
