// SPDX-License-Identifier: LGPL-2.1-or-later
// The least that shows a framebuffer: for tests of the laboratory, and to bring a card into a state before a test.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/lab/support/card.h"

namespace gstzc::lab {

// One connector, CRTC and primary plane of a card that the caller is master of. The descriptor is borrowed.
class Screen {
public:
  // The first connected connector that is not a writeback connector, and a CRTC for it.
  static Result<Screen> find(int card);

  // Sets the mode and shows the framebuffer, unscaled, in one blocking commit. `planeValues` are further properties of
  // the primary plane, by name, e.g. {"COLOR_RANGE", enumValue("COLOR_RANGE", …)}.
  Status show(uint32_t framebuffer, const drmModeModeInfo &mode,
              const std::map<std::string, uint64_t> &planeValues = {});

  // Puts another framebuffer of the same size on the plane at the next vertical blank: 0, or the errno (EBUSY: one is
  // on its way). No event.
  int flip(uint32_t framebuffer);

  // Everything off.
  Status off();

  // The value behind a name of an enumerated property of the primary plane.
  Result<uint64_t> enumValue(const char *property, const char *name) const;

  uint32_t crtc() const { return crtc_; }
  uint32_t connector() const { return connector_; }
  uint32_t plane() const { return plane_; }

private:
  Screen(int card, uint32_t connector, uint32_t crtc, uint32_t plane)
      : card_(card), connector_(connector), crtc_(crtc), plane_(plane) {}
  bool add(drmModeAtomicReq *request, uint32_t object, uint32_t type, const char *name, uint64_t value) const;

  int card_;
  uint32_t connector_, crtc_, plane_;
};

} // namespace gstzc::lab
