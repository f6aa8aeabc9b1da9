// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/import_cache.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

using namespace gstzc;

// Every allocation of this program by C++ is counted; all forms are here, for checkers that compare them. Not inlined,
// where the compiler would see free() for new.
static std::atomic<uint64_t> allocations = 0;

[[gnu::noinline]] void *operator new(size_t size, const std::nothrow_t &) noexcept {
  ++allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void *operator new(size_t size) {
  if (void *memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void *operator new[](size_t size) { return operator new(size); }
void *operator new[](size_t size, const std::nothrow_t &) noexcept { return operator new(size, std::nothrow); }
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { operator delete(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { operator delete(memory); }
void operator delete[](void *memory) noexcept { operator delete(memory); }
void operator delete[](void *memory, size_t) noexcept { operator delete(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { operator delete(memory); }

namespace {

// What is here calls back when it goes, as an import of a frame does that holds the frame's memory.
struct Import {
  int value = 0;
  std::function<void()> on_end;
  ~Import() {
    if (on_end) on_end();
  }
};

BufferId buffer(uint64_t inode) { return {1, inode}; }

class Cache : public testing::Test {
protected:
  ImportKey key(uint64_t inode) const {
    ImportKey k;
    k.importer = importer;
    k.n_planes = 1;
    k.buffers[0] = buffer(inode);
    return k;
  }
  std::weak_ptr<Import> insert(const ImportKey &k) { return cache.insert(k, std::make_shared<Import>()); }
  bool has(const ImportKey &k) { return cache.find<Import>(k) != nullptr; }
  ImportCache::Counters counters() const { return cache.counters(importer); }

  ImportCache cache;
  ImporterId importer = cache.addImporter({4, 3});
};

TEST_F(Cache, FindsWhatWasPutIn) {
  EXPECT_EQ(cache.find<Import>(key(1)), nullptr);
  auto import = std::make_shared<Import>();
  EXPECT_EQ(cache.insert(key(1), import), import);
  EXPECT_EQ(cache.find<Import>(key(1)), import);
  EXPECT_FALSE(has(key(2)));
  const auto c = counters();
  EXPECT_EQ(c.imports, 1u);
  EXPECT_EQ(c.hits, 1u);
  EXPECT_EQ(c.misses, 2u);
  EXPECT_EQ(c.entries, 1u);
}

TEST_F(Cache, EveryFieldOfTheKeyCounts) {
  ImportKey k = key(10);
  k.n_planes = 2;
  k.buffers = {buffer(10), buffer(10)};
  k.offsets = {0, 4096};
  k.pitches = {64, 64};
  k.fourcc = 0x3231564e;
  k.width = 64;
  k.height = 48;
  cache.insert(k, std::make_shared<Import>());
  ASSERT_TRUE(has(ImportKey(k)));
  const std::vector<std::function<void(ImportKey &)>> changes = {
      [](ImportKey &o) { o.buffers[1].inode = 11; }, [](ImportKey &o) { o.buffers[0].device = 2; },
      [](ImportKey &o) { o.offsets[1] = 4160; },     [](ImportKey &o) { o.offsets[1] += uint64_t{1} << 32; },
      [](ImportKey &o) { o.pitches[0] = 128; },      [](ImportKey &o) { o.fourcc++; },
      [](ImportKey &o) { o.modifier = 1; },          [](ImportKey &o) { o.width = 62; },
      [](ImportKey &o) { o.height = 46; },           [](ImportKey &o) { o.size = 1; },
      [](ImportKey &o) { o.n_planes = 1; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    ImportKey other = k;
    changes[i](other);
    EXPECT_NE(other, k) << i;
    if (i % 2 == 0) {
      EXPECT_FALSE(has(other)) << i; // every second: the entry is not to expire meanwhile
    }
    EXPECT_TRUE(has(k)) << i;
  }
  k.importer = cache.addImporter();
  EXPECT_FALSE(has(k)) << "another importer's";
}

TEST_F(Cache, AHitAllocatesNothing) {
  const ImporterId big = cache.addImporter({65, 100000});
  std::vector<ImportKey> keys;
  for (uint64_t i = 0; i < 64; ++i) {
    cache.bufferAppeared(buffer(i));
    keys.push_back(key(i));
    keys.back().importer = big;
    cache.insert(keys.back(), std::make_shared<Import>());
  }
  auto import = std::make_shared<Import>();
  ImportKey another = key(64);
  another.importer = big;
  const uint64_t counted = allocations;
  cache.insert(another, import);
  if (allocations == counted) GTEST_SKIP() << "what the library allocates is not counted: valgrind has its own new";

  const uint64_t before = allocations;
  bool all = true;
  for (int round = 0; round < 100; ++round)
    for (const ImportKey &k : keys) all = all && cache.find<Import>(k) != nullptr;
  EXPECT_EQ(allocations, before);
  EXPECT_TRUE(all);
}

TEST_F(Cache, WhatHasMemoriesStaysHoweverLongItIsUnused) {
  cache.bufferAppeared(buffer(1));
  auto import = insert(key(1));
  for (int i = 0; i < 1000; ++i) has(key(2));
  EXPECT_FALSE(import.expired());
  EXPECT_TRUE(has(key(1)));
}

TEST_F(Cache, GoesWhenNoMemoryIsLeftAndNobodyAsked) {
  cache.bufferAppeared(buffer(1));
  cache.bufferAppeared(buffer(1)); // two memories
  auto import = insert(key(1));
  cache.bufferGone(buffer(1));
  for (int i = 0; i < 10; ++i) has(key(2));
  EXPECT_FALSE(import.expired()) << "one memory is left";

  EXPECT_TRUE(has(key(1)));
  cache.bufferGone(buffer(1));
  has(key(2));
  has(key(2));
  EXPECT_FALSE(import.expired()) << "two lookups of three";
  EXPECT_TRUE(has(key(1))) << "a hit begins the count anew";
  has(key(2));
  has(key(2));
  EXPECT_FALSE(import.expired());
  has(key(2));
  EXPECT_TRUE(import.expired());
  EXPECT_EQ(counters().expired, 1u);
  EXPECT_EQ(counters().entries, 0u);
  EXPECT_EQ(cache.buffers(), 0u) << "nothing is left of a buffer nobody has";
}

TEST_F(Cache, WhatWasUnusedLongEnoughGoesWithItsLastMemory) {
  cache.bufferAppeared(buffer(1));
  auto import = insert(key(1));
  for (int i = 0; i < 3; ++i) has(key(2));
  EXPECT_FALSE(import.expired());
  cache.bufferGone(buffer(1));
  EXPECT_TRUE(import.expired()) << "at once, without another lookup";
}

TEST_F(Cache, ABufferNeverAnnouncedCountsAsGone) {
  auto import = insert(key(1));
  has(key(2));
  has(key(2));
  EXPECT_FALSE(import.expired());
  has(key(2));
  EXPECT_TRUE(import.expired());
}

// Producers that wrap their few dma-bufs anew for each frame: as many buffers as `frames` are found each time.
TEST_F(Cache, ANewMemoryEveryFrame) {
  for (uint64_t frame = 0; frame < 300; ++frame) {
    const uint64_t inode = frame % 3;
    cache.bufferAppeared(buffer(inode));
    if (!has(key(inode))) insert(key(inode));
    cache.bufferGone(buffer(inode));
  }
  EXPECT_EQ(counters().imports, 3u);
  EXPECT_EQ(counters().hits, 297u);
}

TEST_F(Cache, AMemoryThatComesBackSavesTheEntry) {
  cache.bufferAppeared(buffer(1));
  auto import = insert(key(1));
  cache.bufferGone(buffer(1));
  has(key(2));
  has(key(2));
  cache.bufferAppeared(buffer(1));
  for (int i = 0; i < 20; ++i) has(key(2));
  EXPECT_FALSE(import.expired());
  cache.bufferGone(buffer(1));
  EXPECT_TRUE(import.expired());
}

// Expiry is by the last hit, in whatever order buffers went.
TEST_F(Cache, BuffersThatGoInAnotherOrderThanTheyWereUsed) {
  std::vector<std::weak_ptr<Import>> imports;
  for (uint64_t i = 1; i <= 3; ++i) {
    cache.bufferAppeared(buffer(i));
    imports.push_back(insert(key(i)));
  }
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_TRUE(has(key(i)));
  for (uint64_t i = 3; i >= 1; --i) cache.bufferGone(buffer(i));
  EXPECT_FALSE(imports[0].expired());
  has(key(9));
  EXPECT_TRUE(imports[0].expired());
  EXPECT_FALSE(imports[1].expired());
  has(key(9));
  EXPECT_TRUE(imports[1].expired());
  EXPECT_FALSE(imports[2].expired());
}

TEST_F(Cache, OneBufferOfSeveralIsEnough) {
  ImportKey k = key(1);
  k.n_planes = 2;
  k.buffers[1] = buffer(2);
  cache.bufferAppeared(buffer(1));
  cache.bufferAppeared(buffer(2));
  auto import = insert(k);
  cache.bufferGone(buffer(2));
  has(key(9));
  has(key(9));
  EXPECT_TRUE(has(k)) << "both may come back together";
  for (int i = 0; i < 3; ++i) has(key(9));
  EXPECT_TRUE(import.expired());
  EXPECT_EQ(cache.buffers(), 1u);
  cache.bufferGone(buffer(1));
  EXPECT_EQ(cache.buffers(), 0u);
}

TEST_F(Cache, TheBoundDrivesOutWhatWasUnusedLongest) {
  std::vector<std::weak_ptr<Import>> imports;
  for (uint64_t i = 0; i < 4; ++i) {
    cache.bufferAppeared(buffer(i));
    imports.push_back(insert(key(i)));
  }
  EXPECT_TRUE(has(key(0)));
  cache.bufferAppeared(buffer(4));
  insert(key(4));
  EXPECT_TRUE(imports[1].expired());
  EXPECT_FALSE(imports[0].expired());
  EXPECT_EQ(counters().displaced, 1u);
  EXPECT_EQ(counters().entries, 4u);
}

// The bound that importers have is none for pools as they are.
TEST_F(Cache, TheUsualBoundHoldsHundredsOfBuffers) {
  const ImporterId usual = cache.addImporter();
  constexpr uint64_t kBuffers = 1024;
  const auto keyOf = [&](uint64_t inode) {
    ImportKey k = key(inode);
    k.importer = usual;
    return k;
  };
  for (uint64_t i = 0; i < kBuffers; ++i) {
    cache.bufferAppeared(buffer(i));
    cache.insert(keyOf(i), std::make_shared<Import>());
  }
  for (uint64_t round = 0; round < 3; ++round)
    for (uint64_t i = 0; i < kBuffers; ++i) EXPECT_NE(cache.find<Import>(keyOf(i)), nullptr) << i;
  EXPECT_EQ(cache.counters(usual).displaced, 0u);
  cache.bufferAppeared(buffer(kBuffers));
  cache.insert(keyOf(kBuffers), std::make_shared<Import>());
  EXPECT_EQ(cache.counters(usual).displaced, 1u) << "but there is one";
}

TEST_F(Cache, WhatIsInUseStaysWithItsUser) {
  auto used = std::make_shared<Import>();
  used->value = 7;
  cache.insert(key(1), used);
  cache.forget(importer);
  EXPECT_EQ(used->value, 7);
  EXPECT_EQ(used.use_count(), 1);
}

TEST_F(Cache, ForgetsAllOrOneBuffer) {
  for (uint64_t i = 1; i <= 3; ++i) cache.bufferAppeared(buffer(i));
  ImportKey two = key(1);
  two.n_planes = 2;
  two.buffers[1] = buffer(2);
  auto a = insert(key(1)), b = insert(two), c = insert(key(3));
  const ImporterId other = cache.addImporter();
  ImportKey others = key(2);
  others.importer = other;
  auto d = insert(others);
  cache.forget(importer, buffer(2));
  EXPECT_FALSE(a.expired());
  EXPECT_TRUE(b.expired());
  EXPECT_FALSE(d.expired()) << "another importer's";
  cache.forget(importer);
  EXPECT_TRUE(a.expired());
  EXPECT_TRUE(c.expired());
  EXPECT_FALSE(d.expired());
  EXPECT_EQ(counters().forgotten, 3u);
  EXPECT_TRUE(has(others));
}

TEST_F(Cache, AnImporterGoesWithAllOfItsImports) {
  auto import = insert(key(1));
  cache.removeImporter(importer);
  EXPECT_TRUE(import.expired());
  EXPECT_FALSE(has(key(1)));
  auto late = std::make_shared<Import>();
  EXPECT_EQ(cache.insert(key(1), late), late) << "usable all the same";
  EXPECT_EQ(late.use_count(), 1);
  cache.forget(importer);
  cache.removeImporter(importer);
  EXPECT_EQ(counters().imports, 0u);
  EXPECT_EQ(cache.buffers(), 0u);
  EXPECT_NE(cache.addImporter(), importer) << "ids are never used twice";
}

TEST_F(Cache, OfTwoImportsOfTheSameTheFirstStays) {
  auto first = std::make_shared<Import>(), second = std::make_shared<Import>();
  cache.insert(key(1), first);
  EXPECT_EQ(cache.insert(key(1), second), first);
  EXPECT_EQ(cache.find<Import>(key(1)), first);
  EXPECT_EQ(counters().imports, 1u);
}

// An import whose end frees a memory, which tells the cache: a lock held then would be a deadlock.
TEST_F(Cache, ImportsEndWithoutTheLock) {
  int ended = 0;
  const auto put = [&](uint64_t inode) {
    auto import = std::make_shared<Import>();
    cache.bufferAppeared(buffer(100 + inode));
    import->on_end = [&, inode] {
      cache.bufferGone(buffer(100 + inode));
      ++ended;
    };
    cache.insert(key(inode), import);
  };
  for (uint64_t i = 0; i < 4; ++i) cache.bufferAppeared(buffer(i));
  for (uint64_t i = 0; i < 5; ++i) put(i); // the bound
  EXPECT_EQ(ended, 1);
  for (int i = 0; i < 3; ++i) has(key(50)); // age: the fifth was never announced
  EXPECT_EQ(ended, 2);
  cache.bufferGone(buffer(1)); // the last memory
  EXPECT_EQ(ended, 3);
  cache.forget(importer, buffer(2));
  EXPECT_EQ(ended, 4);
  cache.removeImporter(importer);
  EXPECT_EQ(ended, 5);
}

TEST_F(Cache, GoneMoreOftenThanAppearedIsIgnored) {
  cache.bufferGone(buffer(1));
  cache.bufferAppeared(buffer(1));
  auto import = insert(key(1));
  for (int i = 0; i < 5; ++i) has(key(2));
  EXPECT_FALSE(import.expired());
}

TEST_F(Cache, ManyThreads) {
  constexpr int kThreads = 4, kRounds = 3000;
  std::atomic<uint64_t> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const ImporterId own = cache.addImporter({8, 4});
      for (int i = 0; i < kRounds; ++i) {
        for (const ImporterId id : {own, importer}) {
          const uint64_t inode = static_cast<uint64_t>((i + t) % 6);
          ImportKey k = key(inode);
          k.importer = id;
          cache.bufferAppeared(buffer(inode));
          auto import = cache.find<Import>(k);
          if (!import) {
            import = std::make_shared<Import>();
            import->value = static_cast<int>(inode);
            import = cache.insert(k, import);
          }
          wrong += import->value != static_cast<int>(inode);
          cache.bufferGone(buffer(inode));
        }
        if (i % 500 == 0) cache.forget(importer);
      }
      cache.removeImporter(own);
    });
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  cache.removeImporter(importer);
  EXPECT_EQ(cache.buffers(), 0u);
}

} // namespace
