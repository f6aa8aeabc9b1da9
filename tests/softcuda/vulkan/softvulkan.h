/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the stand-in for libvulkan.so.1 has beside Vulkan's functions; looked up with dlsym. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls that fail from now on, separated by commas: "instance", "physical-device" (there is none), "device", "memory",
 * "dmabuf-import", "opaque-export", "sync-fd-import", "submit" (the device is lost); "" or NULL: none. At the start
 * SOFTVULKAN_REFUSE says. */
void softvulkan_refuse(const char *what);
/* Device extensions, separated by commas, that are not there from now on (SOFTVULKAN_WITHOUT). */
void softvulkan_without(const char *what);

uint64_t softvulkan_misuses(void); /* breaches of Vulkan's rules of valid usage, since the start or …forget_misuses() */
const char *softvulkan_misuse_list(void); /* one a line; valid until the thread's next call */
void softvulkan_forget_misuses(void);
uint64_t softvulkan_live(void); /* objects of all kinds */

#ifdef __cplusplus
}
#endif
