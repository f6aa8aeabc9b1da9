// SPDX-License-Identifier: LGPL-2.1-or-later
#include <memory>

#include <gtest/gtest.h>

#include "gst/drm/framebuffer.h"
#include "gst/drm/lru_cache.h"

using namespace gstzc;

namespace {

TEST(LruCache, HitsAndBound) {
  LruCache<int, std::shared_ptr<int>> cache(2, 100);
  auto first = std::make_shared<int>(1);
  cache.insert(1, first);
  cache.insert(2, std::make_shared<int>(2));
  ASSERT_NE(cache.find(1), nullptr);
  cache.insert(3, std::make_shared<int>(3)); // 2 was used least recently
  EXPECT_EQ(cache.find(2), nullptr);
  EXPECT_NE(cache.find(1), nullptr);
  EXPECT_NE(cache.find(3), nullptr);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(first.use_count(), 2);
  cache.clear();
  EXPECT_EQ(first.use_count(), 1) << "what the cache forgot it must not hold";
}

TEST(LruCache, ForgetsWhatIsNotAskedFor) {
  LruCache<int, std::shared_ptr<int>> cache(100, 5);
  auto old = std::make_shared<int>(1);
  cache.insert(1, old);
  cache.insert(2, std::make_shared<int>(2));
  for (int i = 0; i < 5; ++i) cache.find(2);
  EXPECT_EQ(old.use_count(), 2);
  cache.find(2);
  EXPECT_EQ(old.use_count(), 1);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(FramebufferKey, EveryFieldCounts) {
  FramebufferKey key;
  key.n_planes = 2;
  key.buffers = {BufferId{1, 10}, BufferId{1, 10}};
  key.offsets = {0, 4096};
  key.pitches = {64, 64};
  key.format = {0x3231564e, 0};
  key.width = 64;
  key.height = 48;
  EXPECT_EQ(key, FramebufferKey(key));
  const auto differs = [&](auto change) {
    FramebufferKey other = key;
    change(other);
    return other != key;
  };
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.buffers[1].inode = 11; }));
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.buffers[0].device = 2; }));
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.offsets[1] = 4160; }));
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.pitches[0] = 128; }));
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.format.fourcc++; }));
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.format.modifier = 1; }));
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.width = 62; }));
  EXPECT_TRUE(differs([](FramebufferKey &k) { k.height = 46; }));
}

} // namespace
