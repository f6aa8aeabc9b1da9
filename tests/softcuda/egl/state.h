// SPDX-License-Identifier: LGPL-2.1-or-later
// What the parts of the stand-in for libEGL.so.1 share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#define EGL_NO_X11
#define EGL_NO_PLATFORM_SPECIFIC_TYPES
#define EGL_EGLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>

#include "tests/softcuda/egl/softegl.h"
#include "tests/softcuda/exchange/exchange.h"

#define SOFTEGL_API extern "C" __attribute__((visibility("default")))

namespace softegl {

struct Image {
  softegl_picture picture{};
  ~Image();
};
struct Sync {
  int fd = -1;
  ~Sync();
};

struct State {
  std::mutex lock;
  bool initialized = false;                        // the one display
  std::map<void *, std::shared_ptr<Image>> images; // by handle; handles are never used again
  std::map<void *, std::shared_ptr<Sync>> syncs;
  std::set<void *> gone; // handles that were destroyed
  uintptr_t next_handle = 0x50f7e910;
  std::set<std::string> refused, without;
  uint64_t misuses = 0;
  State();
};
State &state();

extern thread_local EGLint last_error;
template <typename T> T fail(EGLint error, T value) {
  last_error = error;
  return value;
}
inline EGLBoolean fail(EGLint error) { return fail<EGLBoolean>(error, EGL_FALSE); }

void misuse(const std::string &what); // printed and counted; with the lock held
bool refused(const char *what);
bool hidden(const char *what); // an extension, or "linear"
// The display is ours and initialised; else its error is set. With the lock held.
bool usable(EGLDisplay display);
void *newHandle();

extern const EGLDisplay kDisplay;
extern const EGLDeviceEXT kDevice;

} // namespace softegl
