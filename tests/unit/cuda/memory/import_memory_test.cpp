// SPDX-License-Identifier: LGPL-2.1-or-later
// CUDA memory over imports: every layout that gst-cuda's own memories get wrong, through each way somebody reads or
// copies a buffer.
#include "ext/cuda/memory/import_memory.h"

#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ext/cuda/memory/device_map.h"
#include "tests/support/softcuda_control.h"
#include "tests/support/video_layouts.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::test;

namespace {

constexpr auto kCudaRead = static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA);
constexpr auto kCudaWrite = static_cast<GstMapFlags>(GST_MAP_WRITE | GST_MAP_CUDA);

class DeviceFrame : public DeviceImport {
public:
  DeviceFrame(const ContextPtr &context, const Picture &picture)
      : memory(allocDevice(context, picture.bytes.size()).take()) {
    pointer = memory.get();
    size = picture.bytes.size();
    ContextScope scope(*context);
    EXPECT_EQ(context->driver.cuMemcpyHtoDAsync(pointer, picture.bytes.data(), size, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(context->driver.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }
  DeviceMemory memory;
};

class ImportMemory : public testing::Test {
protected:
  void SetUp() override {
    if (!gst_cuda_load_library()) GTEST_SKIP() << "no CUDA driver, and no stand-in for it";
    context = gst_cuda_context_new(0);
    ASSERT_NE(context, nullptr);
    stream = gst_cuda_stream_new(context);
    ours = contextOf(context);
    ASSERT_NE(ours, nullptr);
  }
  void TearDown() override {
    ours.reset();
    gst_clear_cuda_stream(&stream);
    gst_clear_object(&context);
    EXPECT_EQ(SoftCuda::get().live(), 0u) << SoftCuda::get().liveList();
    EXPECT_EQ(SoftCuda::get().misuses(), 0u) << SoftCuda::get().misuseList();
    SoftCuda::get().reset();
  }

  GstMemory *wrap(const GstVideoInfo &info, const Picture &picture, std::function<void()> released = {},
                  Retire retire = {}) {
    auto memory = wrapImport(context, stream, info, std::make_shared<DeviceFrame>(ours, picture), std::move(released),
                             std::move(retire));
    EXPECT_TRUE(memory.ok()) << (memory.ok() ? "" : memory.error().message());
    return memory.ok() ? *memory : nullptr;
  }
  GstBuffer *frame(const GstVideoInfo &info, const Picture &picture) {
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, wrap(info, picture));
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&info),
                                   GST_VIDEO_INFO_WIDTH(&info), GST_VIDEO_INFO_HEIGHT(&info),
                                   GST_VIDEO_INFO_N_PLANES(&info), info.offset, info.stride);
    return buffer;
  }
  // What the device has, not what our mapping says that it has
  std::vector<guint8> onDevice(GstMemory *memory) {
    std::vector<guint8> bytes(memory->size);
    GstMapInfo map;
    EXPECT_TRUE(gst_memory_map(memory, &map, kCudaRead));
    {
      ContextScope scope(*ours);
      CUstream handle = gst_cuda_stream_get_handle(stream);
      EXPECT_EQ(
          ours->driver.cuMemcpyDtoHAsync(bytes.data(), reinterpret_cast<CUdeviceptr>(map.data), bytes.size(), handle),
          CUDA_SUCCESS);
      EXPECT_EQ(ours->driver.cuStreamSynchronize(handle), CUDA_SUCCESS);
    }
    gst_memory_unmap(memory, &map);
    return bytes;
  }

  GstCudaContext *context = nullptr;
  GstCudaStream *stream = nullptr;
  ContextPtr ours;
};

class ImportLayout : public ImportMemory, public testing::WithParamInterface<Layout> {};

INSTANTIATE_TEST_SUITE_P(
    , ImportLayout,
    testing::Values(
        Layout{"Nv12", GST_VIDEO_FORMAT_NV12, 1920, 1080}, Layout{"Nv12Odd", GST_VIDEO_FORMAT_NV12, 1921, 1079},
        Layout{"Nv12Pitch1984", GST_VIDEO_FORMAT_NV12, 1920, 1080, 1984},
        Layout{"Nv12Rows1088", GST_VIDEO_FORMAT_NV12, 1920, 1080, 0, 1088},
        Layout{"Nv12OddWithAPitchThatHoldsTheRowOnly", GST_VIDEO_FORMAT_NV12, 1921, 1079, 1922},
        Layout{"Nv12BehindAPage", GST_VIDEO_FORMAT_NV12, 1920, 1080, 1984, 1088, 4096},
        Layout{"P010", GST_VIDEO_FORMAT_P010_10LE, 1920, 1080},
        Layout{"P010Odd", GST_VIDEO_FORMAT_P010_10LE, 1921, 1079}, Layout{"I420", GST_VIDEO_FORMAT_I420, 1920, 1080},
        Layout{"I420Odd", GST_VIDEO_FORMAT_I420, 1921, 1079},
        Layout{"I420Pitch1984", GST_VIDEO_FORMAT_I420, 1920, 1080, 1984},
        Layout{"Rgba", GST_VIDEO_FORMAT_RGBA, 1920, 1080}, Layout{"RgbaOdd", GST_VIDEO_FORMAT_RGBA, 1921, 1079},
        Layout{"Gray", GST_VIDEO_FORMAT_GRAY8, 641, 479}, Layout{"Yuy2Odd", GST_VIDEO_FORMAT_YUY2, 641, 479}),
    [](const auto &test) { return std::string(test.param.name); });

TEST_P(ImportLayout, IsMappedForTheCpuWhole) {
  const GstVideoInfo info = infoOf(GetParam());
  const Picture picture(info);
  GstMemory *memory = wrap(info, picture);
  ASSERT_NE(memory, nullptr);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READ));
  EXPECT_EQ(map.size, info.size);
  EXPECT_TRUE(picture.sameAs(map.data));
  gst_memory_unmap(memory, &map);
  gst_memory_unref(memory);
}

TEST_P(ImportLayout, IsCopiedDeeply) {
  const GstVideoInfo info = infoOf(GetParam());
  const Picture picture(info);
  GstBuffer *buffer = frame(info, picture), *copy = gst_buffer_copy_deep(buffer), *second = gst_buffer_copy_deep(copy);
  gst_buffer_unref(buffer);
  for (GstBuffer *each : {copy, second}) {
    GstMemory *memory = gst_buffer_peek_memory(each, 0);
    EXPECT_TRUE(gst_is_cuda_memory(memory));
    EXPECT_EQ(importOf(memory), nullptr);
    EXPECT_TRUE(picture.sameAs(onDevice(memory).data()));
    EXPECT_TRUE(picture.sameAs(each, info)) << "by the buffer's GstVideoMeta, which is the source's";
  }
  gst_buffer_unref(second);
  gst_buffer_unref(copy);
}

// As in a branch of a tee that writes: the import stays as it is
TEST_P(ImportLayout, IsWrittenInACopy) {
  const GstVideoInfo info = infoOf(GetParam());
  const Picture picture(info), other(info, 99);
  GstBuffer *buffer = frame(info, picture);
  GstBuffer *branch = gst_buffer_make_writable(gst_buffer_ref(buffer));
  ASSERT_NE(branch, buffer);
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(branch, &map, GST_MAP_READWRITE));
  EXPECT_TRUE(picture.sameAs(map.data)) << "what is not overwritten stays";
  memcpy(map.data, other.bytes.data(), other.bytes.size());
  gst_buffer_unmap(branch, &map);
  EXPECT_TRUE(other.sameAs(onDevice(gst_buffer_peek_memory(branch, 0)).data()));
  EXPECT_TRUE(picture.sameAs(onDevice(gst_buffer_peek_memory(buffer, 0)).data()));
  gst_buffer_unref(branch);

  // also where nobody else has the buffer
  ASSERT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_READWRITE));
  EXPECT_TRUE(picture.sameAs(map.data));
  gst_buffer_unmap(buffer, &map);
  EXPECT_EQ(importOf(gst_buffer_peek_memory(buffer, 0)), nullptr);
  gst_buffer_unref(buffer);
}

// What the CPU wrote need not have come to the device when a copy is made
TEST_P(ImportLayout, IsCopiedWithWhatTheCpuWrote) {
  const GstVideoInfo info = infoOf(GetParam());
  const Picture picture(info), other(info, 99), third(info, 7);
  GstBuffer *buffer = frame(info, picture), *written = gst_buffer_copy_deep(buffer);
  const auto write = [&](const Picture &what) {
    GstMapInfo map;
    ASSERT_TRUE(gst_buffer_map(written, &map, GST_MAP_READWRITE));
    memcpy(map.data, what.bytes.data(), what.bytes.size());
    gst_buffer_unmap(written, &map);
  };
  write(other);
  GstBuffer *copy = gst_buffer_copy_deep(written);
  EXPECT_TRUE(other.sameAs(onDevice(gst_buffer_peek_memory(copy, 0)).data()));
  EXPECT_TRUE(other.sameAs(copy, info));
  write(third); // again, in memory that is on the device already
  GstMemory *second = gst_memory_copy(gst_buffer_peek_memory(written, 0), 0, -1);
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(third.sameAs(onDevice(second).data()));
  EXPECT_TRUE(other.sameAs(onDevice(gst_buffer_peek_memory(copy, 0)).data())) << "a copy is on its own";
  EXPECT_TRUE(third.sameAs(written, info));
  gst_memory_unref(second);
  gst_buffer_unref(copy);
  gst_buffer_unref(written);
  gst_buffer_unref(buffer);
}

TEST_P(ImportLayout, IsWrittenByTheDeviceInACopy) {
  const GstVideoInfo info = infoOf(GetParam());
  const Picture picture(info), other(info, 99);
  GstMemory *memory = wrap(info, picture), *copy = gst_memory_copy(memory, 0, -1);
  ASSERT_NE(copy, nullptr);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(copy, &map, GST_MAP_READ)); // the CPU has looked before
  gst_memory_unmap(copy, &map);
  ASSERT_TRUE(gst_memory_map(copy, &map, kCudaWrite));
  {
    ContextScope scope(*ours);
    CUstream handle = gst_cuda_stream_get_handle(stream);
    EXPECT_EQ(ours->driver.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(map.data), other.bytes.data(),
                                             other.bytes.size(), handle),
              CUDA_SUCCESS);
  }
  gst_memory_unmap(copy, &map);
  ASSERT_TRUE(gst_memory_map(copy, &map, GST_MAP_READ));
  EXPECT_TRUE(other.sameAs(map.data));
  gst_memory_unmap(copy, &map);
  gst_memory_unref(copy);
  gst_memory_unref(memory);
}

TEST_F(ImportMemory, IsCudaMemoryThatNobodyWrites) {
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48});
  GstMemory *memory = wrap(info, Picture(info));
  EXPECT_TRUE(gst_is_cuda_memory(memory));
  EXPECT_TRUE(GST_MEMORY_IS_READONLY(memory));
  EXPECT_TRUE(GST_MEMORY_IS_NO_SHARE(memory));
  EXPECT_EQ(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)), stream);
  EXPECT_NE(importOf(memory), nullptr);
  GstMapInfo map;
  EXPECT_FALSE(gst_memory_map(memory, &map, GST_MAP_WRITE));
  EXPECT_FALSE(gst_memory_map(memory, &map, kCudaWrite));
  ASSERT_TRUE(gst_memory_map(memory, &map, kCudaRead));
  EXPECT_EQ(reinterpret_cast<CUdeviceptr>(map.data), importOf(memory)->pointer);
  gst_memory_unmap(memory, &map);
  gst_memory_unref(memory);
}

TEST_F(ImportMemory, IsReleasedOnce) {
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48});
  int released = 0;
  GstMemory *memory = wrap(info, Picture(info), [&] { ++released; });
  const std::weak_ptr<DeviceImport> import = importOf(memory);
  GstMemory *copy = gst_memory_copy(memory, 0, -1);
  gst_memory_unref(memory);
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(import.expired());
  gst_memory_unref(copy);
  EXPECT_EQ(released, 1);
}

TEST_F(ImportMemory, IsReleasedWhenTheDeviceIsDone) {
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48});
  int released = 0;
  std::vector<std::function<void()>> later;
  GstMemory *memory = wrap(
      info, Picture(info), [&] { ++released; },
      [&](Readers, std::function<void()> free) { later.push_back(std::move(free)); });
  const std::weak_ptr<DeviceImport> import = importOf(memory);
  gst_memory_unref(memory);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(released, 0);
  EXPECT_FALSE(import.expired());
  std::thread(later.front()).join();
  EXPECT_EQ(later.size(), 1u);
  EXPECT_EQ(released, 1);
  EXPECT_TRUE(import.expired());

  released = 0; // where there is nothing to wait for it may be freed at once
  gst_memory_unref(wrap(info, Picture(info), [&] { ++released; }, [](Readers, std::function<void()> free) { free(); }));
  EXPECT_EQ(released, 1);
}

// On which streams it may still be read when the last user has let go: what others do with the mark tells.
TEST_F(ImportMemory, KnowsWhereItMayStillBeRead) {
  const Layout small = {"small", GST_VIDEO_FORMAT_NV12, 64, 48};
  const GstVideoInfo info = infoOf(small);
  struct Case {
    const char *what;
    bool watched;
    std::function<void(GstMemory *)> use;
    Readers readers;
  };
  const auto on_device = [](GstMemory *memory) {
    GstMapInfo map;
    ASSERT_TRUE(gst_memory_map(memory, &map, kCudaRead));
    gst_memory_unmap(memory, &map);
  };
  const auto on_another_stream = [&](GstMemory *memory) {
    gst_cuda_memory_sync(GST_CUDA_MEMORY_CAST(memory));
    on_device(memory);
  };
  const auto on_cpu = [](GstMemory *memory) {
    GstMapInfo map;
    ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READ));
    gst_memory_unmap(memory, &map);
  };
  const auto by_us = [](GstMemory *memory) { EXPECT_TRUE(DeviceMap(memory)); };
  const Case cases[] = {
      {"nobody", false, [](GstMemory *) {}, Readers::OnTheStream},
      {"nobody, watched", true, [](GstMemory *) {}, Readers::OnTheStream},
      {"the CPU", false, on_cpu, Readers::OnTheStream},
      {"the CPU, watched", true, on_cpu, Readers::OnTheStream},
      {"who holds it", false, by_us, Readers::OnTheStream},
      {"who holds it, watched", true, by_us, Readers::OnTheStream},
      {"somebody", false, on_device, Readers::Anywhere},
      {"somebody on the stream", true, on_device, Readers::OnTheStream},
      {"somebody on another stream", true, on_another_stream, Readers::Anywhere},
  };
  for (const Case &one : cases) {
    SCOPED_TRACE(one.what);
    std::optional<Readers> readers;
    GstMemory *memory = wrap(info, Picture(info), {}, [&](Readers where, const std::function<void()> &free) {
      readers = where;
      free();
    });
    EXPECT_FALSE(needsSync(memory));
    if (one.watched) watchReaders(memory);
    EXPECT_FALSE(needsSync(memory)) << "its content is there";
    one.use(memory);
    gst_memory_unref(memory);
    ASSERT_TRUE(readers.has_value());
    EXPECT_EQ(*readers, one.readers);
  }
}

TEST_F(ImportMemory, CopiesAreRetiredAsTheirSource) {
  const Layout small = {"small", GST_VIDEO_FORMAT_NV12, 64, 48};
  const GstVideoInfo info = infoOf(small);
  int retired = 0;
  GstMemory *memory = wrap(info, Picture(info), {}, [&](Readers, const std::function<void()> &free) {
    ++retired;
    free();
  });
  GstMemory *copy = gst_memory_copy(memory, 0, -1);
  gst_memory_unref(memory);
  EXPECT_EQ(retired, 1);
  gst_memory_unref(copy);
  EXPECT_EQ(retired, 2);
}

TEST_F(ImportMemory, IsPendingWhereTheDeviceStillWrites) {
  const Layout small = {"small", GST_VIDEO_FORMAT_NV12, 64, 48};
  const GstVideoInfo info = infoOf(small);
  GstMemory *memory = wrap(info, Picture(info));
  GST_MINI_OBJECT_FLAG_SET(memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
  watchReaders(memory); // adds nothing
  EXPECT_TRUE(needsSync(memory));
  gst_memory_unref(memory);
}

TEST_F(ImportMemory, IsReleasedWithNoContextCurrent) {
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48});
  CUcontext current = reinterpret_cast<CUcontext>(1);
  gst_memory_unref(wrap(info, Picture(info), [&] { ours->driver.cuCtxGetCurrent(&current); }));
  EXPECT_EQ(current, nullptr);
}

TEST_F(ImportMemory, PartsAreCopiedToSystemMemory) {
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 1921, 1079});
  const Picture picture(info);
  GstMemory *memory = wrap(info, picture), *part = gst_memory_copy(memory, 1924 * 3, 1921);
  ASSERT_NE(part, nullptr);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(part, &map, GST_MAP_READ));
  EXPECT_EQ(memcmp(map.data, &picture.bytes[1924 * 3], 1921), 0);
  gst_memory_unmap(part, &map);
  gst_memory_unref(part);
  gst_memory_unref(memory);
}

TEST_F(ImportMemory, DoesNotFitASmallerImport) {
  const GstVideoInfo small = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48}),
                     large = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 50});
  bool released = false;
  const auto memory =
      wrapImport(context, stream, large, std::make_shared<DeviceFrame>(ours, Picture(small)), [&] { released = true; });
  EXPECT_FALSE(memory.ok());
  EXPECT_FALSE(released) << "who gets an error keeps what he has";
}

TEST_F(ImportMemory, RefusesAStreamOfAnotherContext) {
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48});
  GstCudaContext *other = gst_cuda_context_new(0);
  GstCudaStream *foreign = gst_cuda_stream_new(other);
  EXPECT_FALSE(wrapImport(context, foreign, info, std::make_shared<DeviceFrame>(ours, Picture(info)), {}).ok());
  gst_clear_cuda_stream(&foreign);
  gst_clear_object(&other);
}

TEST_F(ImportMemory, OutlivesTheStreamsOwner) {
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48});
  const Picture picture(info);
  GstMemory *memory = wrap(info, picture);
  gst_clear_cuda_stream(&stream);
  ours.reset();
  gst_clear_object(&context);
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READ));
  EXPECT_TRUE(picture.sameAs(map.data));
  gst_memory_unmap(memory, &map);
  gst_memory_unref(memory);
}

TEST_F(ImportMemory, FailsToMapWhereTheDriverDoes) {
  if (!SoftCuda::get().there()) GTEST_SKIP() << "a driver cannot be told to fail";
  const GstVideoInfo info = infoOf({"", GST_VIDEO_FORMAT_NV12, 64, 48});
  const Picture picture(info);
  for (const char *function : {"cuMemHostAlloc", "cuMemcpy2DAsync_v2", "cuStreamSynchronize"}) {
    GstMemory *memory = wrap(info, picture);
    GstMapInfo map;
    SoftCuda::get().fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_FALSE(gst_memory_map(memory, &map, GST_MAP_READ)) << function;
    ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_READ)) << "the next time it works: " << function;
    EXPECT_TRUE(picture.sameAs(map.data));
    gst_memory_unmap(memory, &map);
    gst_memory_unref(memory);
  }
  for (const char *function : {"cuMemAlloc_v2", "cuMemcpy2DAsync_v2", "cuStreamSynchronize"}) {
    GstMemory *memory = wrap(info, picture);
    SoftCuda::get().fail(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(gst_memory_copy(memory, 0, -1), nullptr) << function;
    gst_memory_unref(memory);
  }
}

TEST_F(ImportMemory, ContextIsTheSameForAll) {
  EXPECT_EQ(contextOf(context), ours);
  EXPECT_EQ(contextOf(nullptr), nullptr);
  EXPECT_EQ(ours->handle, static_cast<CUcontext>(gst_cuda_context_get_handle(context)));
  const CudaContext *before = ours.get();
  const std::weak_ptr<const CudaContext> weak = ours;
  ours.reset();
  EXPECT_TRUE(weak.expired()) << "the context does not keep itself: " << before;
  ours = contextOf(context);
  EXPECT_NE(ours, nullptr);
}

} // namespace
