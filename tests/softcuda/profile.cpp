// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/softcuda/internal.h"

#include <cstdlib>
#include <cstring>

namespace softcuda {
namespace {

// After what the documentation says of them; DMABUF_FD imports "starting with Thor series", EGLImages as Jetsons have
// them.
const Profile kProfiles[] = {
    {.key = "dgpu",
     .name = "softcuda discrete GPU",
     .major = 8,
     .minor = 6,
     .integrated = false,
     .import_dmabuf = false,
     .export_device_dmabuf = true,
     .export_host_dmabuf = false,
     .egl_images = false,
     .opaque_semaphores = true,
     .host_address_when_registered = true},
    {.key = "orin",
     .name = "softcuda Orin",
     .major = 8,
     .minor = 7,
     .integrated = true,
     .import_dmabuf = false,
     .export_device_dmabuf = false,
     .export_host_dmabuf = false,
     .egl_images = true,
     .opaque_semaphores = false,
     .host_address_when_registered = false,
     .read_only_registration = false},
    {.key = "thor",
     .name = "softcuda Thor",
     .major = 11,
     .minor = 0,
     .integrated = true,
     .import_dmabuf = true,
     .export_device_dmabuf = true,
     .export_host_dmabuf = true,
     .egl_images = true,
     .opaque_semaphores = true,
     .host_address_when_registered = true},
};

const Profile &profileNamed(const char *key) {
  for (const Profile &candidate : kProfiles)
    if (key && strcmp(key, candidate.key) == 0) return candidate;
  return kProfiles[0];
}

std::atomic<const Profile *> &chosenProfile() {
  static std::atomic<const Profile *> chosen{&profileNamed(getenv("SOFTCUDA_PROFILE"))};
  return chosen;
}

} // namespace

const Profile &profile() { return *chosenProfile(); }

int deviceCount() {
  static const int count = environmentNumber("SOFTCUDA_DEVICES", 1);
  return count;
}

bool peersCanAccess(int device, int peer) {
  return device != peer && environmentNumber("SOFTCUDA_PEER_ACCESS", !profile().integrated) != 0;
}

} // namespace softcuda

extern "C" __attribute__((visibility("default"))) void softcuda_set_profile(const char *key) {
  softcuda::chosenProfile() = &softcuda::profileNamed(key ? key : getenv("SOFTCUDA_PROFILE"));
}
