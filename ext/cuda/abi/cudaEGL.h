/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The part of cudaEGL.h that is used; see cuda.h. EGL's handles are opaque pointers here. */
#pragma once

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_EGL_MAX_PLANES 3

typedef enum CUeglFrameType_enum { CU_EGL_FRAME_TYPE_ARRAY = 0, CU_EGL_FRAME_TYPE_PITCH = 1 } CUeglFrameType;

typedef struct CUeglFrame_st {
  union {
    CUarray pArray[CUDA_EGL_MAX_PLANES];
    void *pPitch[CUDA_EGL_MAX_PLANES]; /* device addresses */
  } frame;
  unsigned int width, height, depth;
  unsigned int pitch; /* of the first plane, bytes */
  unsigned int planeCount, numChannels;
  CUeglFrameType frameType;
  int eglColorFormat; /* CUeglColorFormat, a 32-bit enumeration */
  CUarray_format cuFormat;
} CUeglFrame;

CUresult cuGraphicsEGLRegisterImage(CUgraphicsResource *resource, void *egl_image, unsigned int flags);
CUresult cuGraphicsResourceGetMappedEglFrame(CUeglFrame *frame, CUgraphicsResource resource, unsigned int index,
                                             unsigned int mip_level);
CUresult cuEventCreateFromEGLSync(CUevent *event, void *egl_sync, unsigned int flags);

#ifdef __cplusplus
}
#endif
