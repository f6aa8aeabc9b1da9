// SPDX-License-Identifier: LGPL-2.1-or-later
// What the kernel says about a range of addresses of the process.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "tests/softcuda/host_range.h"

namespace softcuda {

HostRange hostRange(const std::string &smaps, uintptr_t start, size_t bytes) {
  HostRange range;
  const uintptr_t end = start + bytes;
  uintptr_t covered = start; // all of [start, covered) is mapped
  unsigned areas = 0;
  bool inside = false; // the lines that follow are of an area that has a part of the range
  std::istringstream lines(smaps);
  for (std::string line; std::getline(lines, line);) {
    uintptr_t from = 0, to = 0;
    char permissions[5] = "";
    if (sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, permissions) == 3) {
      inside = from < end && to > start;
      if (!inside) continue;
      areas++;
      if (from <= covered) covered = to;
      if (permissions[1] != 'w') range.writable = false;
      if (permissions[0] != 'r') range.readable = false;
    } else if (inside && line.starts_with("VmFlags:")) {
      line += ' ';
      if (line.find(" pf ") != std::string::npos) range.page_frames = true;
      if (line.find(" io ") != std::string::npos) range.io = true;
    }
  }
  range.mapped = covered >= end;
  range.one_area = areas == 1;
  return range;
}

} // namespace softcuda
