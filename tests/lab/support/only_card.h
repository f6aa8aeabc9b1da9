// SPDX-License-Identifier: LGPL-2.1-or-later
// A machine with one display, for what chooses a display by itself.
#pragma once

#include <string>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

// While it lives, this thread and those it starts see no other card in /dev/dri than the one of that driver. Root only.
class OnlyCard {
public:
  static Result<OnlyCard> create(const std::string &driver);
  OnlyCard(OnlyCard &&) = default;
  OnlyCard &operator=(OnlyCard &&) = delete;
  ~OnlyCard();

private:
  OnlyCard(UniqueFd before, UniqueFd root) : before_(std::move(before)), root_(std::move(root)) {}
  UniqueFd before_, root_; // mount namespace and root directory to go back to
};

} // namespace gstzc::lab
