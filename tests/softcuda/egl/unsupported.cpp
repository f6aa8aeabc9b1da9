// SPDX-License-Identifier: LGPL-2.1-or-later
// The rest of EGL's functions, so that libraries that link libEGL load: contexts, surfaces and configurations there are
// none. <EGL/egl.h> is left out for the sake of their parameters.

#define SOFTEGL_UNSUPPORTED(name) \
  extern "C" __attribute__((visibility("default"))) void *name() { return nullptr; }

SOFTEGL_UNSUPPORTED(eglBindAPI)
SOFTEGL_UNSUPPORTED(eglBindTexImage)
SOFTEGL_UNSUPPORTED(eglChooseConfig)
SOFTEGL_UNSUPPORTED(eglCopyBuffers)
SOFTEGL_UNSUPPORTED(eglCreateContext)
SOFTEGL_UNSUPPORTED(eglCreatePbufferFromClientBuffer)
SOFTEGL_UNSUPPORTED(eglCreatePbufferSurface)
SOFTEGL_UNSUPPORTED(eglCreatePixmapSurface)
SOFTEGL_UNSUPPORTED(eglCreatePlatformPixmapSurface)
SOFTEGL_UNSUPPORTED(eglCreatePlatformWindowSurface)
SOFTEGL_UNSUPPORTED(eglCreateWindowSurface)
SOFTEGL_UNSUPPORTED(eglDestroyContext)
SOFTEGL_UNSUPPORTED(eglDestroySurface)
SOFTEGL_UNSUPPORTED(eglGetConfigAttrib)
SOFTEGL_UNSUPPORTED(eglGetConfigs)
SOFTEGL_UNSUPPORTED(eglGetCurrentContext)
SOFTEGL_UNSUPPORTED(eglGetCurrentDisplay)
SOFTEGL_UNSUPPORTED(eglGetCurrentSurface)
SOFTEGL_UNSUPPORTED(eglGetSyncAttrib)
SOFTEGL_UNSUPPORTED(eglMakeCurrent)
SOFTEGL_UNSUPPORTED(eglQueryAPI)
SOFTEGL_UNSUPPORTED(eglQueryContext)
SOFTEGL_UNSUPPORTED(eglQuerySurface)
SOFTEGL_UNSUPPORTED(eglReleaseTexImage)
SOFTEGL_UNSUPPORTED(eglSurfaceAttrib)
SOFTEGL_UNSUPPORTED(eglSwapBuffers)
SOFTEGL_UNSUPPORTED(eglSwapInterval)
SOFTEGL_UNSUPPORTED(eglWaitClient)
SOFTEGL_UNSUPPORTED(eglWaitGL)
SOFTEGL_UNSUPPORTED(eglWaitNative)
SOFTEGL_UNSUPPORTED(eglWaitSync)
