// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/mapping.h"

#include <cerrno>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "tests/support/dmabuf_memory.h"
#include "tests/support/open_fds.h"

using namespace gstzc;
using namespace gstzc::test;

namespace {

class Mappings : public testing::Test {
protected:
  std::shared_ptr<CpuMapping> map(int fd) {
    auto mapping = mappings.map(fd, *bufferId(fd));
    EXPECT_TRUE(mapping) << mapping.error().message();
    return mapping ? mapping.take() : nullptr;
  }
  int error(int fd) {
    auto mapping = mappings.map(fd, BufferId{1, 1});
    EXPECT_FALSE(mapping);
    return mapping ? 0 : mapping.error().code;
  }

  ImportCache cache;
  MappingCache mappings{cache};
};

TEST_F(Mappings, OneForABufferWhateverTheDescriptor) {
  UniqueFd a = memfd(8192, 7), b = memfd(4096, 9), again = UniqueFd::duplicate(a.get());
  auto first = map(a.get());
  EXPECT_EQ(first->size(), 8192u);
  EXPECT_EQ(first->data()[8191], 7);
  EXPECT_EQ(map(again.get()), first);
  EXPECT_NE(map(b.get()), first);
  EXPECT_EQ(mappings.counters().imports, 2u);
  EXPECT_EQ(mappings.counters().hits, 1u);
}

TEST_F(Mappings, SeesWhatIsWrittenLater) {
  UniqueFd fd = memfd(4096);
  auto mapping = map(fd.get());
  const unsigned char value = 42;
  ASSERT_EQ(pwrite(fd.get(), &value, 1, 100), 1);
  EXPECT_EQ(mapping->data()[100], 42);
}

TEST_F(Mappings, KeepsTheMemoryOfAClosedDescriptor) {
  UniqueFd fd = memfd(4096, 3);
  auto mapping = map(fd.get());
  fd.reset();
  EXPECT_EQ(mapping->data()[4095], 3);
}

TEST_F(Mappings, AFileThatGrewIsAnotherMapping) {
  UniqueFd fd = memfd(4096);
  auto small = map(fd.get());
  ASSERT_EQ(ftruncate(fd.get(), 8192), 0);
  EXPECT_EQ(map(fd.get())->size(), 8192u);
  EXPECT_EQ(small->size(), 4096u);
}

TEST_F(Mappings, BadDescriptorsAreErrors) {
  const size_t before = openFds();
  EXPECT_EQ(error(-1), EBADF);
  UniqueFd closed = memfd(4096);
  const int number = closed.get();
  closed.reset();
  EXPECT_EQ(error(number), EBADF);
  EXPECT_EQ(error(memfd(0).get()), EINVAL) << "nothing to map";
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_NE(error(null.get()), 0);
  null.reset();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(error(ends[0]), ESPIPE);
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(mappings.counters().imports, 0u);
  EXPECT_EQ(openFds(), before);
}

TEST_F(Mappings, ADescriptorThatMayNotBeRead) {
  UniqueFd fd = memfd(4096);
  UniqueFd write_only(open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(write_only.isValid());
  EXPECT_EQ(error(write_only.get()), EACCES);
}

TEST(MappingCache, LivesAsLongAsItsUsers) {
  std::shared_ptr<CpuMapping> kept;
  std::weak_ptr<CpuMapping> other;
  {
    auto one = MappingCache::process(), two = MappingCache::process();
    EXPECT_EQ(one, two);
    UniqueFd a = memfd(4096, 1), b = memfd(4096, 2);
    kept = *one->map(a.get(), *bufferId(a.get()));
    other = *two->map(b.get(), *bufferId(b.get()));
    one.reset();
    EXPECT_FALSE(other.expired());
  }
  EXPECT_TRUE(other.expired()) << "nobody reads any more";
  EXPECT_EQ(kept->data()[0], 1);
  EXPECT_EQ(MappingCache::process()->counters().imports, 0u) << "another run, other counters";
}

} // namespace
