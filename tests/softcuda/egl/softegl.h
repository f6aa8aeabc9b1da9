/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the stand-in for libEGL.so.1 has beside EGL's functions; looked up with dlsym. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What an EGLImage was made of. */
typedef struct softegl_picture {
  uint32_t width, height, fourcc, n_planes;
  uint64_t modifier;
  int fds[4]; /* duplicates, the caller's */
  uint32_t offsets[4], pitches[4];
} softegl_picture;
int softegl_image(void *image, softegl_picture *picture); /* 0: not one of this library, or destroyed */
int softegl_sync_fd(void *sync);                          /* a duplicate; -1: no live sync */

/* Calls that fail from now on, separated by commas: "display" (none of the platforms), "initialize", "image" (as memory
 * that the device cannot reach), "sync"; "" or NULL: none. At the start SOFTEGL_REFUSE says. */
void softegl_refuse(const char *what);
/* Extensions, separated by commas, that are not there from now on (SOFTEGL_WITHOUT). "linear" hides that layout from
 * eglQueryDmaBufModifiersEXT and refuses its pictures, as desktop drivers do. */
void softegl_without(const char *what);

uint64_t softegl_misuses(void); /* uses that EGL leaves undefined, since the start or softegl_forget_misuses() */
void softegl_forget_misuses(void);
uint64_t softegl_live(void); /* images and syncs */

#ifdef __cplusplus
}
#endif
