// SPDX-License-Identifier: LGPL-2.1-or-later
// For tests of the doors to other interfaces: a fixture that puts the stand-in back as it was, and files that stand for
// dma-bufs.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "gst/zerocopy/core/unique_fd.h"
#include "tests/softcuda/test_driver.h"

namespace gstzc::test {

class InteropTest : public DriverTest {
protected:
  void SetUp() override {
    DriverTest::SetUp();
    if (IsSkipped()) return;
    if (!onStandIn()) GTEST_SKIP() << "only on the stand-in: the other side of the exchange is one, too";
    SOFT(set_profile)("dgpu"); // a test says where it needs another, whatever the environment does
  }
  void TearDown() override {
    if (onStandIn()) {
      SOFT(set_import_fault)(nullptr);
      SOFT(set_profile)(nullptr);
    }
    DriverTest::TearDown();
  }
};

constexpr size_t kMegabyte = 1 << 20;

inline unsigned char patternAt(size_t i) { return static_cast<unsigned char>(i * 7 + i / 4096 * 13 + 1); }

// A memfd of bytes that differ from page to page, and the process's view of it.
class SharedBytes {
public:
  explicit SharedBytes(size_t bytes) : fd(memfd_create("frame", MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(bytes) {
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    data = static_cast<unsigned char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
    EXPECT_NE(data, MAP_FAILED);
    for (size_t i = 0; i < bytes; i++) data[i] = patternAt(i);
  }
  ~SharedBytes() { munmap(data, size_); }
  SharedBytes(const SharedBytes &) = delete;
  SharedBytes &operator=(const SharedBytes &) = delete;

  UniqueFd fd;
  unsigned char *data = nullptr;

private:
  size_t size_;
};

// The first byte that is not as the pattern says, from a start in it; `bytes.size()`: none.
inline size_t firstDifference(const std::vector<unsigned char> &bytes, size_t from = 0) {
  for (size_t i = 0; i < bytes.size(); i++)
    if (bytes[i] != patternAt(from + i)) return i;
  return bytes.size();
}

} // namespace gstzc::test
