// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/memory_tracking.h"

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/import_cache.h"
#include "tests/support/dmabuf_memory.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

class Tracking : public testing::Test {
protected:
  void SetUp() override { buffers_before = cache.buffers(); }
  void TearDown() override { EXPECT_EQ(cache.buffers(), buffers_before) << "as many gone as appeared"; }

  size_t known() const { return cache.buffers() - buffers_before; }

  ImportCache &cache = ImportCache::process();
  size_t buffers_before = 0;
  Wrapper wrapper;
};

TEST_F(Tracking, AMemoryIsKnownUntilItIsFreed) {
  UniqueFd fd = memfd(4096);
  GstMemory *memory = wrapper.wrap(fd.get(), 4096);
  for (int i = 0; i < 3; ++i) {
    auto id = trackMemory(memory);
    ASSERT_TRUE(id);
    EXPECT_EQ(*id, *bufferId(fd.get()));
    EXPECT_EQ(known(), 1u);
  }
  gst_memory_ref(memory);
  gst_memory_unref(memory);
  EXPECT_EQ(known(), 1u);
  gst_memory_unref(memory);
  EXPECT_EQ(known(), 0u) << "announced once, taken back once";
}

TEST_F(Tracking, PartsCountAsTheirParent) {
  UniqueFd fd = memfd(8192);
  GstMemory *memory = wrapper.wrap(fd.get(), 8192);
  GstMemory *part = gst_memory_share(memory, 4096, 4096);
  GstMemory *smaller = gst_memory_share(part, 1024, 1024);
  EXPECT_EQ(*trackMemory(smaller), *bufferId(fd.get()));
  gst_memory_unref(smaller);
  EXPECT_EQ(known(), 1u);
  gst_memory_unref(memory);
  EXPECT_EQ(known(), 1u) << "the part keeps it";
  EXPECT_EQ(*trackMemory(part), *bufferId(fd.get()));
  gst_memory_unref(part);
  EXPECT_EQ(known(), 0u);
}

TEST_F(Tracking, TwoMemoriesOfOneBuffer) {
  UniqueFd fd = memfd(4096);
  GstMemory *a = wrapper.wrap(fd.get(), 4096), *b = wrapper.wrap(fd.get(), 4096);
  EXPECT_EQ(*trackMemory(a), *trackMemory(b));
  gst_memory_unref(a);
  EXPECT_EQ(known(), 1u);
  gst_memory_unref(b);
}

TEST_F(Tracking, OtherMemoryIsRefused) {
  GstMemory *memory = gst_allocator_alloc(nullptr, 64, nullptr);
  const auto id = trackMemory(memory);
  ASSERT_FALSE(id);
  EXPECT_NE(id.error().message().find("SystemMemory"), std::string::npos) << id.error().message();
  gst_memory_unref(memory);
}

TEST_F(Tracking, ADescriptorThatIsAnothersByNow) {
  UniqueFd fd = memfd(4096);
  GstMemory *memory = wrapper.borrow(fd.get(), 4096);
  const BufferId first = *trackMemory(memory);
  const int number = fd.get();
  UniqueFd keep = UniqueFd::duplicate(number);
  fd.reset();
  const auto closed = trackMemory(memory);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, EBADF);

  UniqueFd second = memfd(4096);
  ASSERT_EQ(second.get(), number);
  EXPECT_EQ(*trackMemory(memory), *bufferId(number));
  EXPECT_NE(*trackMemory(memory), first);
  EXPECT_EQ(known(), 1u) << "the first buffer has lost its memory";
  gst_memory_unref(memory);
}

TEST_F(Tracking, ThreadsThatSeeAMemoryAtTheSameTime) {
  for (int round = 0; round < 50; ++round) {
    UniqueFd fd = memfd(4096);
    GstMemory *memory = wrapper.wrap(fd.get(), 4096);
    std::atomic<bool> go = false;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        while (!go) {
        }
        EXPECT_TRUE(trackMemory(memory));
      });
    go = true;
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(known(), 1u);
    gst_memory_unref(memory);
    ASSERT_EQ(known(), 0u);
  }
}

} // namespace
