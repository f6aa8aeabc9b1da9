/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What gst-cuda's headers take from cudaGL.h; see cuda.h. */
#pragma once

#include "cuda.h"

/* of OpenGL, which is not included for two integers */
typedef unsigned int GLuint;
typedef unsigned int GLenum;

typedef enum CUGLDeviceList_enum {
  CU_GL_DEVICE_LIST_ALL = 1,
  CU_GL_DEVICE_LIST_CURRENT_FRAME = 2,
  CU_GL_DEVICE_LIST_NEXT_FRAME = 3
} CUGLDeviceList;
