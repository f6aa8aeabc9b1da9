// SPDX-License-Identifier: LGPL-2.1-or-later
// Descriptions of displays, of our schema and of drm_info: any text. What is read can be written, and read again as the
// same.
#include <string_view>

#include "gst/drm/profile/device_profile.h"
#include "tests/fuzz/target.h"

using namespace gstzc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto profile = parseProfile({reinterpret_cast<const char *>(data), size}, "fuzz");
  if (!profile) {
    GSTZC_FUZZ_CHECK(!profile.error().what.empty());
    return 0;
  }
  GSTZC_FUZZ_CHECK(!profile->snapshot.planes.empty() && profile->snapshot.planes.size() <= kMaxProfileObjects);
  GSTZC_FUZZ_CHECK(!profile->snapshot.crtcs.empty() && profile->snapshot.crtcs.size() <= 32);
  const std::string written = writeProfile(*profile);
  const auto again = parseProfile(written, "again");
  if (!again) {
    std::fprintf(stderr, "%s\n", again.error().message().c_str());
    GSTZC_FUZZ_CHECK(again.ok());
  }
  GSTZC_FUZZ_CHECK(writeProfile(*again) == written);
  return 0;
}
