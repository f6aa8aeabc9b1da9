// SPDX-License-Identifier: LGPL-2.1-or-later
// The IN_FORMATS blob of a plane: any bytes.
#include <cstring>

#include <drm_fourcc.h>
#include <drm_mode.h>

#include "gst/drm/format_blob.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto pairs = gstzc::parseInFormats(data, size);
  if (!pairs) return 0;
  drm_format_modifier_blob head;
  std::memcpy(&head, data, sizeof head);
  GSTZC_FUZZ_CHECK(pairs->size() <= uint64_t{64} * head.count_modifiers);
  for (const gstzc::DrmFormat &pair : *pairs) {
    GSTZC_FUZZ_CHECK(pair.fourcc != DRM_FORMAT_INVALID);
    GSTZC_FUZZ_CHECK(pair.modifier != DRM_FORMAT_MOD_INVALID);
  }
  return 0;
}
