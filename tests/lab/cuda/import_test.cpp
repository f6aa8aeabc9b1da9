// SPDX-License-Identifier: LGPL-2.1-or-later
// The routes on dma-bufs of the kernel; the device is the stand-in for libcuda, which asks the kernel what it lets a
// driver have. Whether that is what the kernel really does, a registration of the kernel itself tells.
#include <cerrno>

#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "ext/cuda/routes/import_cache.h"
#include "gst/zerocopy/core/dma_alloc.h"
#include "tests/lab/support/capture.h"
#include "tests/lab/support/memory.h"
#include "tests/unit/cuda/routes/device_fixture.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;

namespace {

const ImportSource kFrame = nv12(1920, 1080, 1920);

// A frame in a buffer of the kernel.
struct Frame {
  DmaBuffer buffer;
  ImportSource source;

  void write(const Bytes &bytes) const {
    auto mapping = lab::Mapping::create(source.fd, bytes.size());
    ASSERT_TRUE(mapping) << mapping.error().message();
    const DmaBufCpuScope scope(source.fd, Access::ReadWrite);
    ASSERT_TRUE(scope.ok());
    std::copy(bytes.begin(), bytes.end(), mapping->data());
  }
};

// What pin_user_pages() says, as a driver's module uses it for memory that stays registered. ENOSYS: the kernel has no
// io_uring to ask it with.
int pinning(void *data, size_t size) {
  io_uring_params parameters = {};
  const UniqueFd ring(static_cast<int>(syscall(__NR_io_uring_setup, 1, &parameters)));
  if (!ring.isValid()) return ENOSYS;
  const iovec range = {data, size};
  return syscall(__NR_io_uring_register, ring.get(), IORING_REGISTER_BUFFERS, &range, 1) == 0 ? 0 : errno;
}

int pinningOf(int fd, size_t size) {
  auto mapping = lab::Mapping::create(fd, size);
  EXPECT_TRUE(mapping) << mapping.error().message();
  return mapping ? pinning(mapping->data(), size) : EIO;
}

class LabImport : public OnDevice {
protected:
  static Frame frame(DmaSource from) {
    auto allocator = DmaAllocator::open(from, "system");
    EXPECT_TRUE(allocator) << allocator.error().message();
    auto buffer = allocator->alloc(kFrame.size);
    EXPECT_TRUE(buffer) << buffer.error().message();
    Frame made{buffer.take(), kFrame};
    made.source.fd = made.buffer.fd.get();
    made.source.id = *bufferId(made.source.fd);
    made.source.size = made.buffer.size;
    if (made.buffer.memfd.isValid()) {
      made.source.memfd = made.buffer.memfd.get();
      made.source.memfd_offset = made.buffer.memfd_offset;
    }
    made.write(noise(kFrame.size));
    return made;
  }
  RouteChoice::Check check() {
    return [this](const ImportSource &source, DeviceImport &import) { return checkContent(*context, source, import); };
  }
  // Imported and right, also after the frame changed.
  void shows(ImportRoute &route, const Frame &frame) {
    auto import = route.import(frame.source);
    ASSERT_TRUE(import) << import.error().message();
    auto checked = check()(frame.source, **import);
    ASSERT_TRUE(checked) << checked.error().message();
    EXPECT_EQ(checked->verdict, ContentVerdict::Same) << checked->reason;
    frame.write(noise(kFrame.size, 2));
    EXPECT_EQ(readBack(**import), packed(kFrame, noise(kFrame.size, 2)));
  }
  static void refuses(ImportRoute &route, const Frame &frame) {
    auto import = route.import(frame.source);
    ASSERT_FALSE(import);
    EXPECT_NE(import.error().message().find("the dma-buf's own mapping"), std::string::npos)
        << import.error().message();
  }
};

TEST_F(LabImport, TheKernelPinsTheMemfdButNoUdmabufAndNoHeap) {
  const Frame udmabuf = frame(DmaSource::Udmabuf), heap = frame(DmaSource::DmaHeap);
  const int memfd = pinningOf(udmabuf.source.memfd, kFrame.size);
  if (memfd == ENOSYS) GTEST_SKIP() << "this kernel has no io_uring";
  EXPECT_EQ(memfd, 0);
  EXPECT_EQ(pinningOf(udmabuf.source.fd, kFrame.size), EFAULT);
  EXPECT_EQ(pinningOf(heap.source.fd, kFrame.size), EFAULT);
}

TEST_F(LabImport, TheMemfdUnderAUdmabufIsRegistered) {
  const Frame udmabuf = frame(DmaSource::Udmabuf);
  shows(*makeHostRegisterRoute(context), udmabuf);
}

TEST_F(LabImport, AUdmabufsOwnMappingIsRefused) {
  Frame udmabuf = frame(DmaSource::Udmabuf);
  udmabuf.source.memfd = -1;
  refuses(*makeHostRegisterRoute(context), udmabuf);
}

TEST_F(LabImport, ASystemHeapIsRefused) {
  const Frame heap = frame(DmaSource::DmaHeap);
  refuses(*makeHostRegisterRoute(context), heap);
}

TEST_F(LabImport, AStagedCopyWorksEverywhere) {
  Frame udmabuf = frame(DmaSource::Udmabuf);
  shows(*makeStagedCopyRoute(context), udmabuf);
  udmabuf.source.memfd = -1;
  shows(*makeStagedCopyRoute(context), udmabuf);
  const Frame heap = frame(DmaSource::DmaHeap);
  shows(*makeStagedCopyRoute(context), heap);
}

TEST_F(LabImport, TheChoiceFollowsTheBuffer) {
  ImportCache cache;
  std::vector<std::unique_ptr<ImportRoute>> routes;
  routes.push_back(makeHostRegisterRoute(context));
  routes.push_back(makeStagedCopyRoute(context));
  CachedImports imports(std::move(routes), {.allow_copy = true}, cache);
  const Frame udmabuf = frame(DmaSource::Udmabuf), heap = frame(DmaSource::DmaHeap);
  const auto route = [&](const Frame &frame) -> std::string {
    auto import = imports.get(frame.source, check());
    EXPECT_TRUE(import) << import.error().message();
    return imports.choice().chosen()->name();
  };
  EXPECT_EQ(route(udmabuf), "host-register");
  EXPECT_EQ(route(heap), "staged-copy");
  const Frame next = frame(DmaSource::Udmabuf);
  EXPECT_EQ(route(next), "host-register");
  EXPECT_EQ(imports.counters().imports, 3u);
}

// A frame of the camera while it is ours, between DQBUF and QBUF.
TEST_F(LabImport, ACamerasBufferOfPagesIsRegistered) {
  auto path = lab::capturePath("vivid");
  ASSERT_TRUE(path) << path.error().message();
  const UniqueFd camera(::open(path->c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ASSERT_TRUE(camera.isValid());
  v4l2_format format = {};
  format.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  format.fmt.pix.width = 1920;
  format.fmt.pix.height = 1080;
  format.fmt.pix.pixelformat = V4L2_PIX_FMT_NV12;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_S_FMT, &format), 0) << errno;
  ASSERT_EQ(format.fmt.pix.width, 1920u);
  ASSERT_EQ(format.fmt.pix.pixelformat, static_cast<uint32_t>(V4L2_PIX_FMT_NV12));
  v4l2_requestbuffers request = {};
  request.count = 2;
  request.type = format.type;
  request.memory = V4L2_MEMORY_MMAP;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_REQBUFS, &request), 0) << errno;
  std::vector<UniqueFd> exported;
  for (uint32_t i = 0; i < request.count; ++i) {
    v4l2_exportbuffer expbuf = {};
    expbuf.type = format.type;
    expbuf.index = i;
    expbuf.flags = O_RDWR | O_CLOEXEC;
    ASSERT_EQ(ioctl(camera.get(), VIDIOC_EXPBUF, &expbuf), 0) << errno;
    exported.emplace_back(expbuf.fd);
    v4l2_buffer buffer = {};
    buffer.type = format.type;
    buffer.memory = request.memory;
    buffer.index = i;
    ASSERT_EQ(ioctl(camera.get(), VIDIOC_QBUF, &buffer), 0) << errno;
  }
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_STREAMON, &type), 0) << errno;
  pollfd ready = {camera.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 30000), 1) << "no frame within 30 s";
  v4l2_buffer buffer = {};
  buffer.type = format.type;
  buffer.memory = request.memory;
  ASSERT_EQ(ioctl(camera.get(), VIDIOC_DQBUF, &buffer), 0) << errno;
  ASSERT_LT(buffer.index, exported.size());

  ImportSource source = nv12(1920, 1080, format.fmt.pix.bytesperline);
  source.fd = exported[buffer.index].get();
  source.id = *bufferId(source.fd);
  source.size = *fileSize(source.fd);
  if (const int pinned = pinningOf(source.fd, source.size); pinned != ENOSYS) {
    EXPECT_EQ(pinned, 0);
  }
  for (const auto make : {&makeHostRegisterRoute, &makeStagedCopyRoute}) {
    auto route = make(context);
    SCOPED_TRACE(route->name());
    auto import = route->import(source);
    ASSERT_TRUE(import) << import.error().message();
    auto checked = check()(source, **import);
    ASSERT_TRUE(checked) << checked.error().message();
    EXPECT_NE(checked->verdict, ContentVerdict::Different) << checked->first_difference;
    EXPECT_EQ(checked->compared, 1920u * 1080 * 3 / 2);
  }
  EXPECT_EQ(ioctl(camera.get(), VIDIOC_STREAMOFF, &type), 0);
}

} // namespace
