// SPDX-License-Identifier: LGPL-2.1-or-later
// What a buffer is, whatever its producer does with descriptors and memories: frames over memfds are looked up in a
// cache as an importing element does it, and read as fenceinfer reads them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "gst/infer/stream/frame_access.h"
#include "gst/zerocopy/core/import_cache.h"
#include "gst/zerocopy/frame_fence.h"
#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "gst/zerocopy/gstzcpool.h"
#include "gst/zerocopy/memory_tracking.h"
#include "tests/support/dmabuf_memory.h"
#include "tests/support/open_fds.h"
#include "tests/support/scale.h"

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

using namespace gstzc;
using namespace gstzc::test;
using infer::MappedFrame;

namespace {

constexpr int kWidth = 64, kHeight = 48;
constexpr gsize kLuma = 64 * 48, kFrame = kLuma * 3 / 2, kPage = 4096;

FrameCaps nv12() {
  GstCaps *caps = gst_caps_from_string("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=48");
  const FrameCaps parsed = *parseFrameCaps(caps);
  gst_caps_unref(caps);
  return parsed;
}

struct UnrefBuffer {
  void operator()(GstBuffer *buffer) const { gst_buffer_unref(buffer); }
};
using Buffer = std::unique_ptr<GstBuffer, UnrefBuffer>;

// What an importer makes of a frame, and which frame it was made of.
struct Import {
  std::vector<BufferId> buffers;
  UniqueFd keeps; // the memory, as an import has to
};

class Identity : public testing::Test {
protected:
  void SetUp() override { importer = cache.addImporter({64, 8}); }
  void TearDown() override { cache.removeImporter(importer); }

  Buffer frame(const std::vector<GstMemory *> &memories, gsize luma = 0, gsize chroma = kLuma) const {
    GstBuffer *buffer = gst_buffer_new();
    for (GstMemory *memory : memories) gst_buffer_append_memory(buffer, memory);
    const gsize offset[GST_VIDEO_MAX_PLANES] = {luma, chroma};
    const gint stride[GST_VIDEO_MAX_PLANES] = {kWidth, kWidth};
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, kWidth, kHeight, 2, offset,
                                   stride);
    return Buffer(buffer);
  }

  // As drmmodifiersink does it.
  std::shared_ptr<Import> import(const Buffer &buffer) {
    auto layout = frameLayout(buffer.get(), caps);
    EXPECT_TRUE(layout) << layout.error().message();
    if (!layout) return nullptr;
    ImportKey key;
    key.importer = importer;
    key.n_planes = layout->n_planes;
    key.fourcc = caps.fourcc;
    key.width = kWidth;
    key.height = kHeight;
    auto made = std::make_shared<Import>();
    for (guint p = 0; p < layout->n_planes; ++p) {
      auto id = trackMemory(gst_buffer_peek_memory(buffer.get(), layout->planes[p].memory));
      EXPECT_TRUE(id) << id.error().message();
      key.buffers[p] = *id;
      key.offsets[p] = layout->planes[p].offset;
      key.pitches[p] = static_cast<uint32_t>(layout->planes[p].stride);
      made->buffers.push_back(*id);
    }
    if (auto known = cache.find<Import>(key)) {
      EXPECT_EQ(known->buffers, made->buffers);
      return known;
    }
    made->keeps = UniqueFd::duplicate(layout->planes[0].fd);
    return cache.insert(key, made);
  }

  // The first bytes of both planes.
  std::pair<int, int> read(const Buffer &buffer) {
    auto layout = frameLayout(buffer.get(), caps);
    EXPECT_TRUE(layout) << layout.error().message();
    auto mapped = MappedFrame::map(buffer.get(), *layout, 2, *mappings);
    EXPECT_TRUE(mapped) << mapped.error().message();
    if (!mapped) return {-1, -1};
    return {mapped->planes().data[0][0], mapped->planes().data[1][0]};
  }

  uint64_t imports() const { return cache.counters(importer).imports; }
  uint64_t mapped() const { return mappings->counters().imports; }

  ImportCache &cache = ImportCache::process();
  ImporterId importer = 0;
  std::shared_ptr<MappingCache> mappings = MappingCache::process();
  Wrapper wrapper;
  const FrameCaps caps = nv12();
};

// A cache that goes by descriptor number shows the old frame here.
TEST_F(Identity, AClosedAndRecycledNumber) {
  std::shared_ptr<Import> first;
  int number = -1;
  {
    UniqueFd fd = memfd(kFrame, 1);
    number = fd.get();
    const Buffer buffer = frame({wrapper.borrow(number, kFrame)});
    first = import(buffer);
    EXPECT_EQ(read(buffer), std::pair(1, 1));
  }
  UniqueFd fd = memfd(kFrame, 2);
  ASSERT_EQ(fd.get(), number);
  const Buffer buffer = frame({wrapper.borrow(number, kFrame)});
  EXPECT_NE(import(buffer), first);
  EXPECT_EQ(read(buffer), std::pair(2, 2));
  EXPECT_EQ(imports(), 2u);
}

TEST_F(Identity, ANumberRecycledUnderALivingMemory) {
  UniqueFd fd = memfd(kFrame, 1);
  const int number = fd.get();
  const Buffer buffer = frame({wrapper.borrow(number, kFrame)});
  const auto first = import(buffer);
  EXPECT_EQ(read(buffer), std::pair(1, 1));
  fd.reset();
  fd = memfd(kFrame, 2);
  ASSERT_EQ(fd.get(), number);
  EXPECT_NE(import(buffer), first);
  EXPECT_EQ(read(buffer), std::pair(2, 2));
}

TEST_F(Identity, TheSameBufferThroughTwoDescriptors) {
  UniqueFd fd = memfd(kFrame, 5);
  // one duplicated, one opened anew
  UniqueFd other(open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDWR | O_CLOEXEC));
  const Buffer a = frame({wrapper.wrap(fd.get(), kFrame)}), b = frame({wrapper.wrap(fd.get(), kFrame)}),
               c = frame({wrapper.wrap(other.get(), kFrame)});
  EXPECT_EQ(import(a), import(b));
  EXPECT_EQ(import(a), import(c));
  for (const Buffer *buffer : {&a, &b, &c}) EXPECT_EQ(read(*buffer), std::pair(5, 5));
  EXPECT_EQ(imports(), 1u);
  EXPECT_EQ(mapped(), 1u);
}

// A producer in another process hands over the buffer and later hands it over again.
TEST_F(Identity, DescriptorsFromAnotherProcess) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  constexpr int kBuffers = 2, kRounds = 3;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) { // only system calls from here on
    int fds[kBuffers];
    for (int i = 0; i < kBuffers; ++i) {
      fds[i] = memfd_create("theirs", MFD_CLOEXEC);
      if (ftruncate(fds[i], kFrame) != 0) _exit(1);
      for (const gsize at : {gsize{0}, kLuma}) {
        const char value = static_cast<char>(10 + i);
        if (pwrite(fds[i], &value, 1, static_cast<off_t>(at)) != 1) _exit(2);
      }
    }
    for (int n = 0; n < kBuffers * kRounds; ++n) {
      char byte = 0;
      iovec data{&byte, 1};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
      msghdr message = {};
      message.msg_iov = &data;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr *header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &fds[n % kBuffers], sizeof(int));
      if (sendmsg(theirs.get(), &message, MSG_NOSIGNAL) != 1) _exit(3);
    }
    _exit(0);
  }
  theirs.reset();
  std::set<std::shared_ptr<Import>> seen;
  for (int n = 0; n < kBuffers * kRounds; ++n) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ASSERT_EQ(recvmsg(ours.get(), &message, MSG_CMSG_CLOEXEC), 1);
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    ASSERT_NE(header, nullptr);
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
    const UniqueFd owned(fd);
    const Buffer buffer = frame({wrapper.wrap(fd, kFrame)});
    seen.insert(import(buffer));
    EXPECT_EQ(read(buffer), std::pair(10 + n % kBuffers, 10 + n % kBuffers));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(seen.size(), size_t{kBuffers});
  EXPECT_EQ(imports(), static_cast<uint64_t>(kBuffers));
  EXPECT_EQ(mapped(), static_cast<uint64_t>(kBuffers));
}

TEST_F(Identity, ANewMemoryEveryFrame) {
  std::vector<UniqueFd> fds;
  for (unsigned char i = 0; i < 4; ++i) fds.push_back(memfd(kFrame, static_cast<unsigned char>(i + 1)));
  const size_t before = openFds();
  for (int n = 0; n < 400; ++n) {
    const Buffer buffer = frame({wrapper.wrap(fds[n % 4].get(), kFrame)});
    import(buffer);
    ASSERT_EQ(read(buffer), std::pair(n % 4 + 1, n % 4 + 1));
  }
  EXPECT_EQ(imports(), 4u);
  EXPECT_EQ(mapped(), 4u);
  EXPECT_EQ(openFds(), before + 4) << "each import keeps one";
}

TEST_F(Identity, PlanesInOneBufferOrInTwo) {
  UniqueFd one = memfd(kFrame, 1), luma = memfd(kLuma, 2), chroma = memfd(kLuma / 2, 3), both = memfd(kFrame, 4);
  const Buffer whole = frame({wrapper.wrap(one.get(), kFrame)});
  const Buffer split = frame({wrapper.wrap(luma.get(), kLuma), wrapper.wrap(chroma.get(), kLuma / 2)});
  // two memories, one dma-buf: as V4L2 hands out planes that share one
  GstMemory *parent = wrapper.wrap(both.get(), kFrame);
  const Buffer shared = frame({gst_memory_share(parent, 0, kLuma), gst_memory_share(parent, kLuma, kLuma / 2)});
  gst_memory_unref(parent);

  const auto a = import(whole), b = import(split), c = import(shared);
  EXPECT_EQ(std::set({a, b, c}).size(), 3u);
  EXPECT_EQ(a->buffers[0], a->buffers[1]);
  EXPECT_NE(b->buffers[0], b->buffers[1]);
  EXPECT_EQ(c->buffers[0], c->buffers[1]);
  EXPECT_EQ(read(whole), std::pair(1, 1));
  EXPECT_EQ(read(split), std::pair(2, 3));
  EXPECT_EQ(read(shared), std::pair(4, 4));
  EXPECT_EQ(mapped(), 4u);
  EXPECT_EQ(import(shared), c);

  // in whatever order the memories come: the planes lie where they lay
  const Buffer turned = frame({wrapper.wrap(chroma.get(), kLuma / 2), wrapper.wrap(luma.get(), kLuma)}, kLuma / 2, 0);
  EXPECT_EQ(import(turned), b);
}

// Several frames in one dma-buf: the offset tells them apart, the mapping is one.
TEST_F(Identity, MemoryThatBeginsInsideItsBuffer) {
  const gsize second = 2 * kPage;
  UniqueFd fd = memfd(second + kFrame, 1);
  const unsigned char values[] = {7, 8};
  ASSERT_EQ(pwrite(fd.get(), &values[0], 1, static_cast<off_t>(second)), 1);
  ASSERT_EQ(pwrite(fd.get(), &values[1], 1, static_cast<off_t>(second + kLuma)), 1);
  GstMemory *memory = wrapper.wrap(fd.get(), second + kFrame);
  gst_memory_resize(memory, static_cast<gssize>(second), kFrame);
  GstMemory *whole = wrapper.wrap(fd.get(), second + kFrame);
  const Buffer inside = frame({memory});
  const Buffer first = frame({gst_memory_share(whole, 0, kFrame)});
  const Buffer part = frame({gst_memory_share(whole, static_cast<gssize>(second), kFrame)});
  gst_memory_unref(whole);

  EXPECT_NE(import(inside), import(first));
  EXPECT_EQ(import(inside), import(part)) << "a part and a memory with an offset are the same bytes";
  EXPECT_EQ(read(first), std::pair(1, 1));
  EXPECT_EQ(read(inside), std::pair(7, 8));
  EXPECT_EQ(read(part), std::pair(7, 8));
  EXPECT_EQ(mapped(), 1u);
}

TEST_F(Identity, FramesThatOutliveTheirProducersPool) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  std::vector<Buffer> held;
  std::vector<std::weak_ptr<Import>> made;
  const auto produce = [&](int value) {
    GstBufferPool *pool = gst_zc_pool_new(allocator, 1);
    GstCaps *frames = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=48");
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, frames, 0, 4, 4);
    gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
    ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
    for (int i = 0; i < 4; ++i) {
      GstBuffer *buffer = nullptr;
      ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
      gst_buffer_memset(buffer, 0, static_cast<guint8>(value), static_cast<gsize>(-1));
      held.emplace_back(buffer);
    }
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
    gst_caps_unref(frames);
  };
  produce(1);
  gst_clear_object(&allocator);
  for (const Buffer &buffer : held) made.push_back(import(buffer));
  for (const Buffer &buffer : held) EXPECT_EQ(read(buffer), std::pair(1, 1)) << "the frames are the holder's";

  allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  produce(2);
  const auto gone = [&] {
    for (int n = 0; n < 16; ++n) import(held[4 + static_cast<size_t>(n) % 4]);
    return std::count_if(made.begin(), made.end(), [](const auto &import) { return import.expired(); });
  };
  for (size_t i = 4; i < held.size(); ++i) EXPECT_EQ(read(held[i]), std::pair(2, 2));
  EXPECT_EQ(gone(), 0);
  for (size_t i = 1; i < 4; ++i) held[i].reset();
  EXPECT_EQ(gone(), 0) << "a pool keeps its frames until the last is back";
  held[0].reset();
  EXPECT_EQ(gone(), 4) << "nobody can ask for them again";
  EXPECT_EQ(imports(), 8u);
  held.clear();
  gst_object_unref(allocator);
}

struct Broken {
  const char *name;
  std::function<UniqueFd()> fd;
};

// Whatever a producer puts under the type of a dma-buf: an error, and nothing left of it.
TEST_F(Identity, BadMemoryIsAnError) {
  const Broken cases[] = {
      {"closed", [] { return UniqueFd(); }},
      {"/dev/null", [] { return UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)); }},
      {"empty", [] { return memfd(0); }},
      {"too short for the luma", [] { return memfd(kPage / 2); }},
      {"too short for the chroma", [] { return memfd(kLuma + 100); }},
  };
  for (const Broken &broken : cases) {
    SCOPED_TRACE(broken.name);
    const size_t before = openFds();
    const size_t known = cache.buffers();
    {
      UniqueFd fd = broken.fd();
      const int number = fd.isValid() ? fd.get() : 999;
      const Buffer buffer = frame({wrapper.borrow(number, kFrame)});
      auto layout = frameLayout(buffer.get(), caps);
      std::string error = layout ? "" : layout.error().message();
      if (layout) {
        auto readable = MappedFrame::map(buffer.get(), *layout, 2, *mappings);
        ASSERT_FALSE(readable);
        error = readable.error().message();
      }
      EXPECT_FALSE(error.empty());
    }
    mappings.reset();
    EXPECT_EQ(openFds(), before);
    EXPECT_EQ(cache.buffers(), known);
    mappings = MappingCache::process();
  }
}

// With AddressSanitizer, whose allocator keeps what was freed, there are fewer frames, and there and wherever the test
// is scaled down the process's memory is not looked at.
TEST_F(Identity, AMillionFramesOverEightBuffers) {
  constexpr int kAll = 1000000;
  const int frames = rounds(kSanitized ? kAll / 20 : kAll);
  const int warm = frames / 20;
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  GstBufferPool *pool = gst_zc_pool_new(allocator, 0);
  GstCaps *text = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=48");
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, text, 0, 8, 8);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  ASSERT_TRUE(gst_buffer_pool_set_config(pool, config));
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  gst_caps_unref(text);

  std::set<const uint8_t *> places;
  size_t descriptors = 0;
  long pages = 0;
  uint64_t sum = 0;
  for (int n = 0; n < frames; ++n) {
    GstBuffer *buffer = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    const auto fences = frameFences(buffer, Access::Read);
    ASSERT_TRUE(fences) << fences.error().message();
    ASSERT_TRUE(fences->none());
    auto layout = frameLayout(buffer, caps);
    ASSERT_TRUE(layout) << layout.error().message();
    {
      auto readable = MappedFrame::map(buffer, *layout, 2, *mappings);
      ASSERT_TRUE(readable) << readable.error().message();
      sum += readable->planes().data[1][0];
      places.insert(readable->planes().data[0]);
    }
    gst_buffer_unref(buffer);
    if (n == warm) {
      descriptors = openFds();
      pages = residentPages();
    }
  }
  EXPECT_EQ(sum, 0u);
  EXPECT_EQ(places.size(), 8u);
  EXPECT_EQ(mapped(), 8u);
  EXPECT_EQ(mappings->counters().hits, static_cast<uint64_t>(frames) - 8);
  EXPECT_EQ(openFds(), descriptors);
  if (frames == kAll) {
    EXPECT_LE(residentPages(), pages + 64) << "a quarter of a MiB: less than a byte for each frame";
  }
  EXPECT_EQ(gst_zc_pool_get_n_allocated(GST_ZC_POOL(pool)), 8u);
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
  gst_object_unref(allocator);
}

} // namespace
