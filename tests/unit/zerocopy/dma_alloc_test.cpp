// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/dma_alloc.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <sys/mman.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "gst/zerocopy/core/dmabuf.h"

using namespace gstzc;

namespace {

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// A folder with regular files in the places of the device nodes: opening works, the driver's ioctls do not.
class FakeNodes : public testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/gstzc-nodes-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder = pattern;
    nodes.udmabuf = folder + "/udmabuf";
    nodes.heaps = folder + "/heaps";
    nodes.udmabuf_limit = folder + "/limit";
    nodes.huge_pages = folder + "/hugepages";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void touch(const std::string &path, const std::string &text = "") { std::ofstream(path) << text; }

  std::string folder;
  DmaNodes nodes;
};

TEST(DmaAlloc, MemfdIsZeroSealedAndWholePages) {
  auto allocator = DmaAllocator::open(DmaSource::Memfd, "");
  ASSERT_TRUE(allocator.ok()) << allocator.error().message();
  auto buffer = allocator->alloc(5000);
  ASSERT_TRUE(buffer.ok()) << buffer.error().message();
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  EXPECT_EQ(buffer->size % page, 0u);
  EXPECT_GE(buffer->size, 5000u);
  EXPECT_LT(buffer->size, 5000u + page);
  struct stat st = {};
  ASSERT_EQ(fstat(buffer->fd.get(), &st), 0);
  EXPECT_EQ(static_cast<size_t>(st.st_size), buffer->size);
  EXPECT_TRUE(fcntl(buffer->fd.get(), F_GET_SEALS) & F_SEAL_SHRINK);
  EXPECT_TRUE(fcntl(buffer->fd.get(), F_GETFD) & FD_CLOEXEC);
  EXPECT_FALSE(isDmaBuf(buffer->fd.get()));
  EXPECT_EQ(bufferId(buffer->fd.get()).value(), bufferId(buffer->memfd.get()).value());
  auto *bytes = static_cast<unsigned char *>(mmap(nullptr, buffer->size, PROT_READ, MAP_SHARED, buffer->fd.get(), 0));
  ASSERT_NE(bytes, MAP_FAILED);
  for (size_t i = 0; i < buffer->size; ++i) ASSERT_EQ(bytes[i], 0) << i;
  munmap(bytes, buffer->size);
}

TEST(DmaAlloc, AbsurdSizesAreErrors) {
  auto allocator = DmaAllocator::open(DmaSource::Memfd, "").take();
  for (size_t bytes : {size_t{0}, SIZE_MAX, SIZE_MAX / 2}) {
    auto buffer = allocator.alloc(bytes);
    ASSERT_FALSE(buffer.ok()) << bytes;
    EXPECT_EQ(buffer.error().code, EINVAL);
    EXPECT_TRUE(has(buffer.error().message(), std::to_string(bytes)));
  }
}

TEST_F(FakeNodes, AutoNamesBothNodesErrnoAndRemedy) {
  auto allocator = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Any, nodes);
  ASSERT_FALSE(allocator.ok()) << "a plain memfd is never chosen by itself";
  const std::string text = allocator.error().message();
  EXPECT_TRUE(has(text, nodes.udmabuf + ": No such file or directory (2)")) << text;
  EXPECT_TRUE(has(text, nodes.heaps + "/system: No such file or directory (2)")) << text;
  EXPECT_TRUE(has(text, "modprobe udmabuf")) << text;
  EXPECT_TRUE(has(text, "CONFIG_DMABUF_HEAPS")) << text;
}

TEST_F(FakeNodes, WrongHeapNameListsTheHeapsThatExist) {
  std::filesystem::create_directory(nodes.heaps);
  touch(nodes.heaps + "/system");
  touch(nodes.heaps + "/linux,cma");
  auto allocator = DmaAllocator::open(DmaSource::DmaHeap, "sytsem", MemoryNeed::Any, nodes);
  ASSERT_FALSE(allocator.ok());
  EXPECT_TRUE(has(allocator.error().message(), "heaps linux,cma, system")) << allocator.error().message();
  for (const char *name : {"", "..", "../udmabuf"}) {
    allocator = DmaAllocator::open(DmaSource::DmaHeap, name, MemoryNeed::Any, nodes);
    ASSERT_FALSE(allocator.ok()) << name;
    EXPECT_EQ(allocator.error().code, EINVAL);
  }
}

TEST_F(FakeNodes, NoPermissionIsNotAMissingModule) {
  if (geteuid() == 0) GTEST_SKIP() << "root may open everything";
  touch(nodes.udmabuf);
  chmod(nodes.udmabuf.c_str(), 0);
  auto allocator = DmaAllocator::open(DmaSource::Udmabuf, "", MemoryNeed::Any, nodes);
  ASSERT_FALSE(allocator.ok());
  EXPECT_EQ(allocator.error().code, EACCES);
  EXPECT_TRUE(has(allocator.error().message(), "group")) << allocator.error().message();
  EXPECT_FALSE(has(allocator.error().message(), "modprobe"));
}

TEST_F(FakeNodes, OneNodeIsEnoughForAuto) {
  touch(nodes.udmabuf);
  auto allocator = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Any, nodes);
  ASSERT_TRUE(allocator.ok()) << allocator.error().message();
  auto buffer = allocator->alloc(4096);
  ASSERT_FALSE(buffer.ok()) << "a regular file is no driver";
  EXPECT_EQ(buffer.error().code, ENOTTY);
  EXPECT_TRUE(has(buffer.error().message(), "is not the udmabuf device")) << buffer.error().message();
}

TEST_F(FakeNodes, AutoTriesTheHeapAfterUdmabufAndReportsBoth) {
  touch(nodes.udmabuf);
  std::filesystem::create_directory(nodes.heaps);
  touch(nodes.heaps + "/system");
  auto allocator = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Any, nodes);
  ASSERT_TRUE(allocator.ok()) << allocator.error().message();
  auto buffer = allocator->alloc(4096);
  ASSERT_FALSE(buffer.ok());
  EXPECT_TRUE(has(buffer.error().message(), "udmabuf of 4096 bytes")) << buffer.error().message();
  EXPECT_TRUE(has(buffer.error().message(), "from dma-heap system")) << buffer.error().message();
}

// ---- contiguous memory ----

TEST_F(FakeNodes, ContiguousFromTheSystemHeapIsRefusedWithTheHeapsThatAre) {
  std::filesystem::create_directory(nodes.heaps);
  for (const char *name : {"/system", "/linux,cma", "/reserved"}) touch(nodes.heaps + name);
  auto allocator = DmaAllocator::open(DmaSource::DmaHeap, "system", MemoryNeed::Contiguous, nodes);
  ASSERT_FALSE(allocator.ok());
  EXPECT_TRUE(has(allocator.error().message(), "contiguous heaps linux,cma, reserved")) << allocator.error().message();
  // what a heap with a name of its own is the user knows
  touch(nodes.heaps + "/camera");
  EXPECT_TRUE(DmaAllocator::open(DmaSource::DmaHeap, "camera", MemoryNeed::Contiguous, nodes).ok());
}

TEST_F(FakeNodes, ContiguousAutoSaysAllThatItTried) {
  auto none = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Contiguous, nodes);
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(has(none.error().message(), "no contiguous heap")) << none.error().message();
  EXPECT_TRUE(has(none.error().message(), "open " + nodes.udmabuf)) << none.error().message();

  touch(nodes.udmabuf);
  std::filesystem::create_directory(nodes.heaps);
  touch(nodes.heaps + "/system");
  auto allocator = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Contiguous, nodes);
  ASSERT_TRUE(allocator.ok()) << allocator.error().message();
  auto buffer = allocator->alloc(5000);
  ASSERT_FALSE(buffer.ok()) << "scattered memory is no choice";
  EXPECT_TRUE(has(buffer.error().message(), "CONFIG_HUGETLBFS")) << buffer.error().message();
  EXPECT_TRUE(has(buffer.error().message(), "no contiguous heap")) << buffer.error().message();
  EXPECT_FALSE(has(buffer.error().message(), "dma-heap system")) << buffer.error().message();

  touch(nodes.heaps + "/linux,cma");
  std::filesystem::create_directories(nodes.huge_pages + "/hugepages-2048kB");
  allocator = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Contiguous, nodes);
  ASSERT_TRUE(allocator.ok()) << allocator.error().message();
  buffer = allocator->alloc(3 << 20);
  ASSERT_FALSE(buffer.ok());
  EXPECT_TRUE(has(buffer.error().message(), "3145728 bytes in one huge page of 2 MiB")) << buffer.error().message();
  EXPECT_TRUE(has(buffer.error().message(), "from dma-heap linux,cma")) << buffer.error().message();
}

TEST_F(FakeNodes, TheNamedContiguousHeapIsTriedBeforeHugePages) {
  touch(nodes.udmabuf);
  std::filesystem::create_directory(nodes.heaps);
  touch(nodes.heaps + "/linux,cma");
  auto allocator = DmaAllocator::open(DmaSource::Auto, "linux,cma", MemoryNeed::Contiguous, nodes);
  ASSERT_TRUE(allocator.ok()) << allocator.error().message();
  const std::string text = allocator->alloc(4096).error().message();
  EXPECT_LT(text.find("linux,cma"), text.find("huge pages")) << text;
}

// With free huge pages of the machine it works, without it says how to get some
TEST(DmaAlloc, ContiguousMemfdIsOneHugePage) {
  auto allocator = DmaAllocator::open(DmaSource::Memfd, "", MemoryNeed::Contiguous).take();
  auto buffer = allocator.alloc(5000);
  if (!buffer) {
    EXPECT_TRUE(has(buffer.error().message(), "nr_hugepages") || has(buffer.error().message(), "CONFIG_HUGETLBFS"))
        << buffer.error().message();
    GTEST_SKIP() << "no free huge page";
  }
  EXPECT_TRUE(buffer->contiguous);
  struct stat st = {};
  ASSERT_EQ(fstat(buffer->fd.get(), &st), 0);
  EXPECT_EQ(static_cast<size_t>(st.st_size), buffer->size);
  EXPECT_EQ(static_cast<size_t>(st.st_blksize), buffer->size);
}

TEST_F(FakeNodes, ScatteredMemoryTakesUdmabuf) {
  std::filesystem::create_directory(nodes.heaps);
  touch(nodes.heaps + "/system");
  auto buffer = DmaAllocator::open(DmaSource::Auto, "system", MemoryNeed::Any, nodes)->allocScattered();
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code, ENODEV);
}

TEST(DmaAlloc, NumaNodeOfWhatHasNone) {
  EXPECT_EQ(numaNode(-1, 0), -1);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(numaNode(null.get(), 0), -1);
}

TEST(DmaAlloc, HeapNamesPromise) {
  EXPECT_TRUE(heapTraits("system").scattered);
  EXPECT_FALSE(heapTraits("linux,cma").scattered);
  EXPECT_FALSE(heapTraits("camera").scattered || heapTraits("camera").contiguous);
  EXPECT_FALSE(heapTraits("system").contiguous);
  EXPECT_TRUE(heapTraits("system").cached);
  EXPECT_TRUE(heapTraits("linux,cma").contiguous);
  EXPECT_TRUE(heapTraits("reserved").contiguous);
  EXPECT_TRUE(heapTraits("default_cma_region").contiguous);
  EXPECT_FALSE(heapTraits("system-uncached").cached);
}

} // namespace
