// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/import_cache.h"

#include <cstring>
#include <deque>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/open_fds.h"
#include "tests/unit/cuda/routes/fake_route.h"
#include "tests/unit/cuda/routes/pictures.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using gstzc::test::openFds;

namespace {

constexpr uint64_t kFrames = 32; // ImportCache::Limits::frames, as documented

class CachedImportsTest : public testing::Test {
protected:
  CachedImportsTest() {
    fakes.add({.name = "a"});
    fakes.add({.name = "b"});
    make();
  }
  void make() { imports = std::make_unique<CachedImports>(fakes.routes(), RouteWishes{}, cache); }

  std::shared_ptr<DeviceImport> get(const ImportSource &source) {
    auto import = imports->get(source, fakes.check());
    EXPECT_TRUE(import) << import.error().message();
    return import ? import.take() : nullptr;
  }
  static const FakeImport &fake(const std::shared_ptr<DeviceImport> &import) {
    return dynamic_cast<const FakeImport &>(*import);
  }

  // A producer's pool: its buffers have a memory for as long as it lives.
  struct Pool {
    Pool(ImportCache &known_to, int n, const ImportSource &layout) : cache(known_to) {
      for (int i = 0; i < n; ++i) {
        pictures.emplace_back(layout, static_cast<uint32_t>(i + 1));
        cache.bufferAppeared(pictures.back().source.id);
      }
    }
    ~Pool() {
      for (const Picture &picture : pictures) cache.bufferGone(picture.source.id);
    }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    const ImportSource &operator[](size_t i) const { return pictures[i % pictures.size()].source; }
    ImportCache &cache;
    std::deque<Picture> pictures;
  };

  const ImportSource small = nv12(64, 48, 64), hd = nv12(1920, 1080, 1920);
  ImportCache cache;
  Fakes fakes;
  std::unique_ptr<CachedImports> imports;
};

TEST_F(CachedImportsTest, ABufferThatComesAgainIsTheSameImport) {
  Pool pool(cache, 2, small);
  const auto first = get(pool[0]), second = get(pool[1]);
  EXPECT_NE(first, second);
  EXPECT_EQ(get(pool[0]), first);
  EXPECT_EQ(get(pool[1]), second);
  UniqueFd duplicate = UniqueFd::duplicate(pool[0].fd); // another number for the same buffer
  ImportSource again = pool[0];
  again.fd = duplicate.get();
  EXPECT_EQ(get(again), first);
  EXPECT_EQ(imports->counters().imports, 2u);
  EXPECT_EQ(imports->counters().hits, 3u);
}

TEST_F(CachedImportsTest, AnotherLayoutIsAnotherImport) {
  Pool pool(cache, 1, hd);
  const auto import = get(pool[0]);
  void (*const changes[])(ImportSource &) = {
      [](ImportSource &s) { s.planes[0].offset = 256; },
      [](ImportSource &s) { s.planes[1].offset -= 4096; },
      [](ImportSource &s) { s.planes[1].pitch = 1984; },
      [](ImportSource &s) { s.width -= 2; },
      [](ImportSource &s) { s.height -= 2; },
      [](ImportSource &s) { s.fourcc = DRM_FORMAT_NV21; },
      [](ImportSource &s) { s.n_planes = 1; },
      [](ImportSource &s) { s.size -= 1024; },
      [](ImportSource &s) { s.modifier = DRM_FORMAT_MOD_ARM_16X16_BLOCK_U_INTERLEAVED; },
  };
  std::set<std::shared_ptr<DeviceImport>> all{import};
  for (const auto &change : changes) {
    ImportSource other = pool[0];
    other.planes[0].rows = other.planes[1].rows = 500; // room for the changes
    change(other);
    EXPECT_TRUE(all.insert(get(other)).second);
  }
  EXPECT_EQ(get(pool[0]), import);
}

TEST_F(CachedImportsTest, AStaticPoolIsImportedOnce) {
  Pool pool(cache, 8, small);
  size_t descriptors = 0;
  for (size_t i = 0; i < 100'000; ++i) {
    const auto import = get(pool[i]);
    ASSERT_EQ(import->size, small.size);
    if (i == 100) descriptors = openFds();
  }
  EXPECT_EQ(imports->counters().imports, 8u);
  EXPECT_EQ(imports->counters().hits, 100'000u - 8);
  EXPECT_EQ(imports->counters().entries, 8u);
  EXPECT_EQ(fakes["a"].imports, 8);
  EXPECT_EQ(fakes["a"].checks, 1);
  EXPECT_EQ(FakeImport::alive, 8);
  EXPECT_EQ(openFds(), descriptors);
}

TEST_F(CachedImportsTest, APoolThatIsReplacedGoesWithinTheDocumentedFrames) {
  EXPECT_EQ(ImportCache::Limits().frames, kFrames);
  auto old = std::make_unique<Pool>(cache, 8, small);
  for (size_t i = 0; i < 80; ++i) get((*old)[i]);
  old.reset();
  Pool fresh(cache, 8, small);
  size_t gone_after = 0;
  for (size_t i = 0; i < 3 * kFrames; ++i) {
    get(fresh[i]);
    if (FakeImport::alive == 8 && i >= 8 && gone_after == 0) gone_after = i + 1;
    if (i + 1 >= kFrames) {
      ASSERT_EQ(FakeImport::alive, 8) << i;
    }
  }
  EXPECT_GT(gone_after, 8u);
  EXPECT_EQ(imports->counters().expired, 8u);
  EXPECT_EQ(imports->counters().imports, 16u);
}

TEST_F(CachedImportsTest, WhatIsInUseOutlivesItsEntry) {
  std::shared_ptr<DeviceImport> used;
  Bytes content;
  {
    Pool old(cache, 1, small);
    content = old.pictures[0].read();
    used = get(old[0]);
  }
  Pool fresh(cache, 1, small);
  for (size_t i = 0; i < 2 * kFrames; ++i) get(fresh[0]);
  EXPECT_EQ(imports->counters().expired, 1u);
  EXPECT_EQ(std::memcmp(fake(used).bytes(), content.data(), content.size()), 0);
  imports.reset();
  EXPECT_EQ(FakeImport::alive, 1);
}

// Descriptors, and in time inodes, come again with other content.
TEST_F(CachedImportsTest, RecycledDescriptorsNeverShowAnOldFrame) {
  std::set<int> numbers;
  for (uint32_t i = 0; i < 1000; ++i) {
    Pool one(cache, 1, small);
    numbers.insert(one[0].fd);
    one.pictures[0].write(noise(small.size, 1000 + i));
    const auto import = get(one[0]);
    const Bytes expected = noise(small.size, 1000 + i);
    ASSERT_EQ(std::memcmp(fake(import).bytes(), expected.data(), expected.size()), 0) << i;
  }
  EXPECT_LT(numbers.size(), 10u) << "numbers are recycled, else this shows nothing";
  EXPECT_EQ(imports->counters().imports, 1000u);
  EXPECT_LE(FakeImport::alive, static_cast<int>(kFrames));
}

TEST_F(CachedImportsTest, AReplacedFileUnderTheSameNumberIsAnotherBuffer) {
  Picture first(small, 1), second(small, 2);
  cache.bufferAppeared(first.source.id);
  cache.bufferAppeared(second.source.id);
  const auto before = get(first.source);
  ASSERT_EQ(dup2(second.source.fd, first.source.fd), first.source.fd);
  ImportSource now = first.source;
  now.id = *bufferId(now.fd);
  const auto after = get(now);
  EXPECT_NE(before, after);
  EXPECT_EQ(std::memcmp(fake(after).bytes(), second.read().data(), small.size), 0);
}

TEST_F(CachedImportsTest, ForgettingDropsAllButWhatIsInUse) {
  Pool pool(cache, 4, small);
  for (size_t i = 0; i < 4; ++i) get(pool[i]);
  const auto used = get(pool[0]);
  imports->forget();
  EXPECT_EQ(FakeImport::alive, 1);
  EXPECT_EQ(imports->counters().forgotten, 4u);
  EXPECT_NE(get(pool[0]), used);
  EXPECT_EQ(fakes["a"].checks, 1) << "trust stays";
}

TEST_F(CachedImportsTest, TwoOfThemShareNothing) {
  Pool pool(cache, 1, small);
  CachedImports other(fakes.routes(), {}, cache);
  const auto mine = get(pool[0]);
  auto theirs = other.get(pool[0], fakes.check());
  ASSERT_TRUE(theirs);
  EXPECT_NE(*theirs, mine);
  imports.reset();
  EXPECT_EQ(other.counters().entries, 1u);
}

TEST_F(CachedImportsTest, ErrorsAreNotCached) {
  Pool pool(cache, 1, small);
  fakes["a"].refuses = fakes["b"].refuses = true;
  EXPECT_FALSE(imports->get(pool[0], fakes.check()));
  fakes["a"].refuses = false;
  EXPECT_EQ(fake(get(pool[0])).route, "a");
}

// The first frames of a camera are often black: what is known already is looked at again until it tells.
TEST_F(CachedImportsTest, KnownImportsAreCheckedUntilTheyTell) {
  FakeBehaviour &a = fakes["a"];
  a.content = ContentVerdict::Undecided;
  Pool pool(cache, 4, hd);
  for (size_t i = 0; i < 4; ++i) get(pool[i]);
  EXPECT_EQ(a.checks, 4);
  for (size_t i = 0; i < 1000; ++i) get(pool[i]);
  EXPECT_EQ(a.checks, 4 + 4 * 8) << "of 250 of each: the 1st, 2nd, 4th, … 128th";
  a.content = ContentVerdict::Same;
  for (size_t i = 0; i < 3000; ++i) get(pool[i]);
  EXPECT_EQ(a.checks, 4 + 4 * 8 + 1);
  EXPECT_TRUE(imports->choice().trusted());
  EXPECT_EQ(imports->counters().imports, 4u);
}

// Whichever buffer comes to be looked at tells something: none is left out because others are looked at.
TEST_F(CachedImportsTest, EachKnownImportIsCheckedAtItsOwnUses) {
  fakes["a"].content = ContentVerdict::Undecided;
  Pool pool(cache, 8, hd);
  for (size_t i = 0; i < 8; ++i) get(pool[i]);
  EXPECT_EQ(fakes["a"].checks, 8);
  std::vector<int> in_round;
  for (int round = 1; round <= 8; ++round) {
    const int before = fakes["a"].checks;
    for (size_t i = 0; i < 8; ++i) get(pool[i]);
    in_round.push_back(fakes["a"].checks - before);
  }
  EXPECT_EQ(in_round, (std::vector<int>{8, 8, 0, 8, 0, 0, 0, 8}));
}

// A failure that passes makes no buffer copy for good.
TEST_F(CachedImportsTest, WhatIsCopiedIsTriedAgainByABetterRoute) {
  fakes["b"].copies = true;
  for (const bool first : {false, true}) {
    SCOPED_TRACE(first ? "the first buffer is refused" : "one of several is refused");
    make();
    fakes["a"].imports = fakes["b"].imports = 0;
    Pool pool(cache, 3, hd);
    if (!first) {
      EXPECT_EQ(fake(get(pool[0])).route, "a");
    }
    fakes["a"].refuses = true;
    EXPECT_EQ(fake(get(pool[1])).route, "b");
    EXPECT_EQ(fake(get(pool[1])).route, "b") << "it still refuses";
    EXPECT_EQ(imports->choice().reports()[0].stage, RouteStage::RefusedBuffer);
    fakes["a"].refuses = false;
    const auto now = get(pool[1]);
    EXPECT_EQ(fake(now).route, "a");
    EXPECT_STREQ(imports->choice().chosen()->name(), "a");
    EXPECT_EQ(get(pool[1]), now) << "and is known as that";
    EXPECT_EQ(fake(get(pool[2])).route, "a");
    EXPECT_EQ(fakes["b"].imports, 1);
  }
}

TEST_F(CachedImportsTest, WhatIsRefusedForGoodIsTriedAgainEverMoreRarely) {
  fakes["b"].copies = true;
  fakes["a"].refuses = true;
  Pool pool(cache, 1, hd);
  const auto copied = get(pool[0]);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(get(pool[0]), copied);
  EXPECT_EQ(fakes["b"].imports, 1);
  EXPECT_EQ(fakes["a"].tried, 1 + 7); // at 1, 2, 4, 8, 16, 32, 64
}

TEST_F(CachedImportsTest, FramesThatCannotTellAreNotCheckedAgain) {
  FakeBehaviour &a = fakes["a"];
  a.content = ContentVerdict::Undecided;
  Pool pool(cache, 4, small);
  for (size_t i = 0; i < 1000; ++i) get(pool[i]);
  EXPECT_EQ(a.checks, 4);
}

TEST_F(CachedImportsTest, AKnownImportThatIsWrongTakesAllOfItsRouteAlong) {
  FakeBehaviour &a = fakes["a"];
  a.content = ContentVerdict::Undecided;
  Pool pool(cache, 4, hd);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(fake(get(pool[i])).route, "a");
  a.content = ContentVerdict::Different;
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(fake(get(pool[i])).route, "b") << i;
  EXPECT_EQ(a.imports, 4);
  EXPECT_EQ(fakes["b"].imports, 4);
  EXPECT_EQ(FakeImport::alive, 4);
  EXPECT_EQ(imports->counters().forgotten, 4u);
  EXPECT_EQ(imports->choice().reports()[0].stage, RouteStage::WrongContent);
}

} // namespace
