// SPDX-License-Identifier: LGPL-2.1-or-later
// Whether the device sees what the CPU sees. Drivers exist that import a foreign buffer without an error and show only
// its first 2 MiB right.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ext/cuda/routes/route.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

constexpr uint64_t kTellingOffset = 2 * 1024 * 1024; // bytes: known wrong imports are right up to here
constexpr uint64_t kContentPage = 4096;              // bytes: what a wrong import mixes up

enum class ContentVerdict {
  Same,      // and a wrong import would have been noticed
  Different, // the import is wrong
  Undecided, // equal as far as could be compared, but so might a wrong import be; or nobody can compare
};

struct ContentCheck {
  ContentVerdict verdict = ContentVerdict::Undecided;
  uint64_t first_difference = 0; // byte of the dma-buf, of Different
  uint64_t compared = 0;         // bytes
  std::string reason;            // of Undecided, one sentence
};

// Pure. `host`: the whole dma-buf as the CPU sees it. `device`: the pixels of the planes as the device read them, rows
// of row_bytes without gaps, plane after plane; so routes that copy may have other pitches and need not copy what lies
// between rows.
//
// Equal content tells of a right import where at least two pages from kTellingOffset on tell: their pixels are not all
// of one value (memory that nobody wrote, or that is filled with something), they are not what lies kTellingOffset
// earlier or a multiple of it (the first part again and again), and the two differ (one page everywhere).
ContentCheck compareContent(const uint8_t *host, const uint8_t *device, const ImportSource &source);

// Whether any content of this frame could tell: its pixels reach two pages past kTellingOffset, in a linear layout.
bool canTell(const ImportSource &source);

// Reads the import back through the device and compares it with a CPU mapping of the dma-buf. The frame's fences have
// to be over. Sleeps until the device has copied. Where the CPU cannot map the buffer, or does not know its layout, the
// verdict is Undecided with the reason. Errors: the device fails, or takes longer than `patience`; what it might still
// write to is then not freed.
Result<ContentCheck> checkContent(const CudaContext &context, const ImportSource &source, DeviceImport &import,
                                  std::chrono::milliseconds patience = std::chrono::seconds(10));

} // namespace gstzc::cuda
