// SPDX-License-Identifier: LGPL-2.1-or-later
// Physical contiguity of memory: to make it, to prevent it, to see it. All of it needs root.
#pragma once

#include <cstddef>

#include "gst/zerocopy/core/result.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

// That many huge pages of the default size (2 MiB) are reserved as long as the object lives.
class HugePages {
public:
  static Result<HugePages> reserve(unsigned count);
  HugePages(HugePages &&other) noexcept : owned_(other.owned_) { other.owned_ = false; }
  HugePages &operator=(HugePages &&) = delete;
  ~HugePages();

private:
  HugePages() = default;
  bool owned_ = true;
};

// As long as it lives the free pages that come next have no free neighbours: what is allocated page by page is
// scattered, while just after boot it would often be contiguous by luck.
class FragmentedMemory {
public:
  static Result<FragmentedMemory> create(size_t megabytes = 64);

private:
  explicit FragmentedMemory(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

// Whether the first `bytes` of a memfd lie in one piece of physical memory.
Result<bool> isContiguous(int memfd, size_t bytes);

} // namespace gstzc::lab
