// SPDX-License-Identifier: LGPL-2.1-or-later
// What the kernel says about a range of addresses of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace softcuda {

struct HostRange {
  bool mapped = true;       // all of it
  bool readable = true;     // all of it
  bool writable = true;     // all of it
  bool page_frames = false; // flag "pf" of any part: it has no pages that could be pinned
  bool io = false;          // flag "io" of any part
  bool one_area = true;
};
HostRange hostRange(const std::string &smaps, uintptr_t start, size_t bytes); // pure; the text of /proc/self/smaps

} // namespace softcuda
