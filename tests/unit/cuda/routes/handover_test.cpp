// SPDX-License-Identifier: LGPL-2.1-or-later
// Devices that share memory with the CPU, but not its caches: a dma-buf is handed over to the CPU before it is read
// through a mapping, behind the frame's fences. This program's dma-bufs are files that the process is told to take for
// such; the kernel's own would need a kernel that has them.
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include <dlfcn.h>
#include <linux/dma-buf.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "ext/cuda/import/frame_source.h"
#include "ext/cuda/import/import_session.h"
#include "tests/support/dmabuf_memory.h"
#include "tests/support/frame_caps.h"
#include "tests/unit/cuda/routes/pictures.h"
#include "tests/unit/cuda/support/gst_device_test.h"
#include "tests/unit/cuda/support/mutations.h"
#include "tests/unit/cuda/support/stand_ins.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using std::chrono::milliseconds;

namespace {

constexpr auto kDmaBufMagic = 0x444d4142;

// What the kernel was asked for of the files that are dma-bufs here.
class Kernel {
public:
  static Kernel &get() {
    static Kernel kernel;
    return kernel;
  }
  void isDmaBuf(const BufferId &id) {
    const std::lock_guard lock(mutex_);
    files_.insert({id.device, id.inode});
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    files_.clear();
    calls_.clear();
    error_ = 0;
  }
  void refuse(int error) {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
  bool knows(int fd) {
    const auto id = bufferId(fd);
    const std::lock_guard lock(mutex_);
    return id && files_.count({id->device, id->inode}) > 0;
  }
  int sync(uint64_t flags) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(flags);
    return error_;
  }
  std::vector<uint64_t> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

private:
  std::mutex mutex_;
  std::set<std::pair<uint64_t, uint64_t>> files_;
  std::vector<uint64_t> calls_;
  int error_ = 0;
};

template <typename F> F *real(const char *name) { return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name)); }

} // namespace

// In place of the C library's, for all libraries of the process.
extern "C" __attribute__((visibility("default"))) int fstatfs(int fd, struct statfs *st) noexcept {
  static auto *const next = real<int(int, struct statfs *)>("fstatfs");
  const int result = next(fd, st);
  if (result == 0 && Kernel::get().knows(fd)) st->f_type = kDmaBufMagic;
  return result;
}

extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) noexcept {
  static auto *const next = real<int(int, unsigned long, void *)>("ioctl");
  va_list arguments;
  va_start(arguments, request);
  void *const argument = va_arg(arguments, void *);
  va_end(arguments);
  if (request != DMA_BUF_IOCTL_SYNC || !Kernel::get().knows(fd)) return next(fd, request, argument);
  errno = Kernel::get().sync(static_cast<const dma_buf_sync *>(argument)->flags);
  return errno == 0 ? 0 : -1;
}

namespace {

std::vector<uint64_t> bracket() {
  return {DMA_BUF_SYNC_READ | DMA_BUF_SYNC_START, DMA_BUF_SYNC_READ | DMA_BUF_SYNC_END};
}

class Handover : public GstDeviceTest {
protected:
  void SetUp() override {
    SOFTCUDA(softcuda_set_profile)("orin");
    GstDeviceTest::SetUp();
  }
  void TearDown() override {
    Kernel::get().forget();
    GstDeviceTest::TearDown();
    SOFTCUDA(softcuda_set_profile)(nullptr);
  }
  // A udmabuf: a dma-buf whose allocator has kept the memfd.
  static ImportSource udmabuf(const Picture &picture, int memfd) {
    Kernel::get().isDmaBuf(picture.source.id);
    ImportSource source = picture.source;
    source.memfd = memfd;
    return source;
  }
  Status refresh(DeviceImport &import) {
    const ContextScope scope(*context);
    return import.refresh(stream.get());
  }
  // Whether each frame is handed over, once and not before the stream is there.
  bool handsOver(DeviceImport &import) {
    const size_t before = Kernel::get().calls().size();
    {
      const Blocker fences(context, stream.get());
      EXPECT_TRUE(refresh(import).ok());
      std::this_thread::sleep_for(kGlance);
      EXPECT_EQ(Kernel::get().calls().size(), before) << "the producer is not done";
    }
    EXPECT_TRUE(becomesIdle(context, stream.get()));
    auto calls = Kernel::get().calls();
    calls.erase(calls.begin(), calls.begin() + static_cast<ptrdiff_t>(before));
    return calls == bracket();
  }
};

TEST_F(Handover, ARegisteredBufferIsHandedOverBehindItsFences) {
  const Picture picture(nv12(64, 48, 64)), memfd(nv12(64, 48, 64));
  auto route = makeHostRegisterRoute(context);
  const auto import = need(route->import(udmabuf(picture, memfd.source.fd)));
  ASSERT_NE(import, nullptr);
  expectNoticed("handover", [&](milliseconds) { return handsOver(*import); });
}

TEST_F(Handover, TheCpusCopyIsMadeOfABufferThatWasHandedOver) {
  const Picture picture(nv12(64, 48, 64)), memfd(nv12(64, 48, 64));
  auto route = makeStagedCopyRoute(context);
  const auto import = need(route->import(udmabuf(picture, memfd.source.fd)));
  ASSERT_NE(import, nullptr);
  expectNoticed("handover-bounce", [&](milliseconds) { return handsOver(*import); });
}

TEST_F(Handover, ARefusalIsTheNextFramesError) {
  const Picture picture(nv12(64, 48, 64)), memfd(nv12(64, 48, 64));
  for (const auto make : {&makeHostRegisterRoute, &makeStagedCopyRoute}) {
    auto route = make(context);
    const auto import = need(route->import(udmabuf(picture, memfd.source.fd)));
    ASSERT_NE(import, nullptr);
    Kernel::get().refuse(EIO);
    EXPECT_TRUE(refresh(*import).ok());
    EXPECT_TRUE(becomesIdle(context, stream.get()));
    Kernel::get().refuse(0);
    const Status next = refresh(*import);
    ASSERT_FALSE(next.ok()) << route->name();
    EXPECT_EQ(next.error().code, EIO);
    EXPECT_TRUE(refresh(*import).ok()) << "said once";
    EXPECT_TRUE(becomesIdle(context, stream.get()));
  }
}

TEST_F(Handover, FilesAndDevicesWithMemoryOfTheirOwnNeedNone) {
  const Picture picture(nv12(64, 48, 64)), memfd(nv12(64, 48, 64));
  for (const bool own : {false, true}) {
    SOFTCUDA(softcuda_set_profile)(own ? "dgpu" : "orin");
    const ImportSource source = own ? udmabuf(picture, memfd.source.fd) : picture.source;
    for (const auto make : {&makeHostRegisterRoute, &makeStagedCopyRoute}) {
      const auto import = need(make(context)->import(source));
      ASSERT_NE(import, nullptr);
      EXPECT_TRUE(refresh(*import).ok());
      EXPECT_TRUE(becomesIdle(context, stream.get()));
    }
    EXPECT_EQ(Kernel::get().calls(), std::vector<uint64_t>());
  }
}

// The element's way, with all that comes before and after.
TEST_F(Handover, EachFrameOfTheElementIsHandedOver) {
  constexpr gsize kBytes = 64 * 48 * 3 / 2;
  const gstzc::test::Wrapper wrapper;
  const UniqueFd fd = gstzc::test::memfd(kBytes), memfd = gstzc::test::memfd(kBytes);
  GstBuffer *frame = gst_buffer_new();
  gst_buffer_append_memory(frame, wrapper.wrap(fd.get(), kBytes));
  const FrameCaps caps = gstzc::test::frameCaps("video/x-raw(memory:DMABuf),format=NV12,width=64,height=48");
  ImportSession::Request request;
  request.frame = frame;
  request.source = need(importSource(frame, need(frameLayout(frame, caps))));
  request.source.memfd = memfd.get();
  Kernel::get().isDmaBuf(*bufferId(fd.get()));
  auto session =
      need(ImportSession::open(gst_context_, {"host-register", false}, std::make_shared<ImportSession::Counters>()));
  for (int i = 0; i < 3; ++i) {
    const auto prepared = need(session->prepare(request, [](const FenceResult &, milliseconds) {}));
    ASSERT_NE(prepared.import, nullptr);
    const size_t before = Kernel::get().calls().size();
    const auto imported = need(session->wrap(prepared, frame, caps.info));
    ASSERT_NE(imported.event, nullptr) << "it is handed over in the stream's order";
    EXPECT_TRUE(GST_MEMORY_FLAG_IS_SET(imported.memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC));
    EXPECT_TRUE(eventually([&] { return gst_zc_device_event_get_status(imported.event) == 1; }));
    EXPECT_EQ(Kernel::get().calls().size(), before + 2);
    gst_zc_device_event_unref(imported.event);
    gst_memory_unref(imported.memory);
  }
  session.reset();
  gst_buffer_unref(frame);
}

} // namespace
