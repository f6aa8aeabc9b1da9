// SPDX-License-Identifier: LGPL-2.1-or-later
// 32-bit words of pinned memory that a device waits on and the CPU writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "ext/cuda/driver/objects.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::cuda {

class WordPage;

// Move-only lease of one word. All words of a context lie in pages that it shares, because to free pinned memory may
// wait for whatever the context does, so also for the fences of another gate: a page goes when nobody has a word in it.
class PinnedWord {
public:
  static Result<PinnedWord> take(const ContextPtr &context, uint32_t value);
  PinnedWord() = default;
  PinnedWord(PinnedWord &&other) noexcept;
  PinnedWord &operator=(PinnedWord &&other) noexcept;
  ~PinnedWord(); // the device must not look at it any more

  CUdeviceptr address() const;
  // The device sees it in the order of the calls.
  void store(uint32_t value) const { std::atomic_ref(*host_).store(value, std::memory_order_release); }
  uint32_t load() const { return std::atomic_ref(*host_).load(std::memory_order_acquire); }
  // Keeps word and page for the rest of the process: the device may still look at them.
  void abandon();

private:
  std::shared_ptr<WordPage> page_;
  uint32_t *host_ = nullptr;
};

} // namespace gstzc::cuda
