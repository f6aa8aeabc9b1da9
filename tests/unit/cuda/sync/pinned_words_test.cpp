// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/pinned_words.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/cuda/support/device_test.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

class PinnedWords : public DeviceTest {};

TEST_F(PinnedWords, ShareAPageUntilTheLastIsGone) {
  {
    std::vector<PinnedWord> words;
    std::set<CUdeviceptr> addresses;
    for (uint32_t i = 0; i < 64; ++i) {
      words.push_back(need(PinnedWord::take(context, i)));
      addresses.insert(words.back().address());
    }
    EXPECT_EQ(addresses.size(), 64u);
    for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(words[i].load(), i);
    EXPECT_EQ(TestedDriver::calls(Fn::cuMemHostAlloc), 1);
    const CUdeviceptr seventh = words[7].address();
    words.erase(words.begin() + 7);
    words.push_back(need(PinnedWord::take(context, 700)));
    EXPECT_EQ(words.back().address(), seventh) << "a word that was given back is taken again";
    EXPECT_EQ(words.back().load(), 700u);
    EXPECT_EQ(TestedDriver::calls(Fn::cuMemHostAlloc), 1);
    words.push_back(need(PinnedWord::take(context, 1)));
    EXPECT_EQ(TestedDriver::calls(Fn::cuMemHostAlloc), 2) << "the page is full";
    EXPECT_EQ(TestedDriver::calls(Fn::cuMemFreeHost), 0);
  }
  EXPECT_EQ(TestedDriver::calls(Fn::cuMemFreeHost), 2);
}

TEST_F(PinnedWords, ContextsHaveTheirOwn) {
  const ContextPtr second = testContext();
  const PinnedWord a = need(PinnedWord::take(context, 0)), b = need(PinnedWord::take(second, 0));
  EXPECT_EQ(TestedDriver::calls(Fn::cuMemHostAlloc), 2);
}

TEST_F(PinnedWords, RefusalsOfTheDeviceLeaveNothing) {
  for (const Fn function : {Fn::cuMemHostAlloc, Fn::cuMemHostGetDevicePointer}) {
    TestedDriver::reset();
    TestedDriver::failFunction(function, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_FALSE(PinnedWord::take(context, 0));
    EXPECT_EQ(TestedDriver::calls(Fn::cuMemFreeHost), function == Fn::cuMemHostAlloc ? 0 : 1);
    TestedDriver::reset();
    EXPECT_TRUE(PinnedWord::take(context, 0));
  }
}

} // namespace
