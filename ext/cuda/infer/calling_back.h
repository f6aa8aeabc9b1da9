// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace gstzc::cuda {

// While one lives, this thread is in a call that the device makes when it is done with something: it must not wait for
// the device, whose end may come in there.
class CallingBack {
public:
  CallingBack() { ++depth(); }
  ~CallingBack() { --depth(); }
  CallingBack(const CallingBack &) = delete;
  CallingBack &operator=(const CallingBack &) = delete;
  static bool now() { return depth() > 0; }

private:
  static int &depth() {
    thread_local int depth = 0;
    return depth;
  }
};

} // namespace gstzc::cuda
