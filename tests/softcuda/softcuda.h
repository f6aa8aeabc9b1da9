/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the stand-in for libcuda.so.1 has beside the driver's functions: control of it by tests. They look these
 * functions up with dlsym, so that they also run on a real driver. */
#pragma once

#include "softcuda_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Errors are CUresult values. */

/* The nth call (1: the next) of the driver's function `name`, as it is exported ("cuMemAlloc_v2"), returns `error`. A
 * function that frees something frees it nevertheless, as the driver does when it reports an earlier failure. nth 0:
 * all. */
void softcuda_fail(const char *name, unsigned nth, int error);
/* What that call enqueues fails when the device executes it; the context is unusable from then on. */
void softcuda_fail_on_device(const char *name, unsigned nth, int error);
void softcuda_set_delay_us(unsigned microseconds); /* before each operation of a stream */

uint64_t softcuda_calls(const char *name); /* of this function, since the start or softcuda_reset(); NULL: of all */
const char *softcuda_call_names(void);     /* of all functions called, one a line; valid until the thread's next call */
uint64_t softcuda_live(const char *kind); /* objects of a kind ("stream", "device memory"), NULL: of all but contexts */
const char *softcuda_live_list(void);     /* one a line, as the leak check prints them */
uint64_t softcuda_misuses(void);          /* uses that are undefined on a device, since the start or softcuda_reset() */
const char *softcuda_misuse_list(void);

void softcuda_device_lost(int device, int error); /* all its contexts fail from now on, and no new one can be made */
/* Failures, delay, counters, misuses and lost devices back to what the environment says; nothing is freed. */
void softcuda_reset(void);

/* "dgpu", "orin" or "thor" from now on; NULL: what SOFTCUDA_PROFILE says. */
void softcuda_set_profile(const char *key);
/* "dmabuf:2M,egl:64K": imports of these kinds succeed and show other pages past so many bytes, as drivers exist; "":
 * none, NULL: what SOFTCUDA_IMPORT_FAULT says. Kinds: dmabuf and opaque (external memory), egl, register, and vulkan
 * (libvulkan's import of a dma-buf). */
void softcuda_set_import_fault(const char *faults);
uint64_t softcuda_import_fault(const char *kind); /* bytes that are right; UINT64_MAX: all */
/* The display whose EGLImages cuGraphicsEGLRegisterImage takes, where libEGL is Mesa's and not our stand-in, and the
 * size of their pictures, which Mesa does not tell; 0: as large as their memory allows. */
void softcuda_set_egl_display(void *display, unsigned width, unsigned height);

/* Address of [device, device + bytes) that the process may touch; NULL unless that lies in one live allocation. */
void *softcuda_ptr(uint64_t device, size_t bytes);

#ifdef __cplusplus
}
#endif
