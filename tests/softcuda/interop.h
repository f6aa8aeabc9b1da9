// SPDX-License-Identifier: LGPL-2.1-or-later
// What the stand-in's doors to other interfaces share.
#pragma once

#include <cstdint>

#include "tests/softcuda/internal.h"

namespace softcuda {

// A descriptor that the driver took. Nobody else may touch it from then on: whoever closes it is found out in the end.
class TakenDescriptor {
public:
  TakenDescriptor() = default;
  ~TakenDescriptor();
  TakenDescriptor(const TakenDescriptor &) = delete;
  TakenDescriptor &operator=(const TakenDescriptor &) = delete;
  bool take(int fd, const char *function); // false: errno, and it is still the caller's
  int own() const { return own_; }

private:
  int number_ = -1, own_ = -1;
  const char *function_ = "";
};

// A dma-buf, or a memfd that stands for one where the kernel has no way to make one.
bool standsForDmabuf(int fd);

// Memory of the device that is a part of a file; `right` as FileView has it. Entered in the table; null: no memory.
AllocationPtr mapForDevice(const ContextPtr &context, Kind kind, int fd, uint64_t offset, uint64_t bytes, bool writable,
                           uint64_t right);

uint64_t importFault(const char *kind); // as softcuda_set_import_fault() or the environment says

} // namespace softcuda
