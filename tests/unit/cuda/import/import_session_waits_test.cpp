// SPDX-License-Identifier: LGPL-2.1-or-later
// Each wait of the way to the device is needed: left out, somebody has a frame that is not there yet, or the producer
// has one back that is still read.
#include "ext/cuda/import/import_session.h"

#include <cstring>
#include <future>
#include <memory>
#include <vector>

#include <gst/allocators/allocators.h>
#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ext/cuda/import/frame_source.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/dmabuf_memory.h"
#include "tests/support/fence_events.h"
#include "tests/support/frame_caps.h"
#include "tests/unit/cuda/support/gst_device_test.h"
#include "tests/unit/cuda/support/mutations.h"
#include "tests/unit/cuda/support/stand_ins.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using std::chrono::milliseconds;

namespace {

constexpr const char *kCaps = "video/x-raw(memory:DMABuf),format=NV12,width=64,height=48";
constexpr gsize kBytes = 64 * 48 * 3 / 2;
constexpr guint8 kGrey = 100;
constexpr int kUnknownFailure = 999; // CUresult

class ImportSessionMutations : public GstDeviceTest {
protected:
  struct MapBehind {
    bool mapped, early; // it succeeded; it had ended after `patience`, while the stream was still blocked
  };
  // Maps the memory for the CPU behind a writer on its stream; `before`: what is done while that is there already.
  template <typename F> MapBehind mapBehind(GstMemory *memory, milliseconds patience, const F &before) {
    GstMapInfo map;
    bool early = false;
    std::future<bool> mapping;
    {
      const Blocker writer(context_, streamOf(memory));
      before();
      mapping = std::async(std::launch::async, [&] { return gst_memory_map(memory, &map, GST_MAP_READ) != 0; });
      early = mapping.wait_for(patience) == std::future_status::ready;
    }
    const bool mapped = mapping.get();
    if (mapped) gst_memory_unmap(memory, &map);
    return {mapped, early};
  }

  void TearDown() override {
    session_.reset();
    GstDeviceTest::TearDown();
  }
  void open(const char *route, bool allow_copy = false) {
    session_ =
        need(ImportSession::open(gst_context_, {route, allow_copy}, std::make_shared<ImportSession::Counters>()));
  }
  static void write(int fd, guint8 grey) {
    const std::vector<guint8> bytes(kBytes, grey);
    EXPECT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // Another one in memory of a frame before it, as of a pool: its import is known, and not looked at again.
  static GstBuffer *frameIn(GstBuffer *before) {
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, gst_memory_ref(gst_buffer_peek_memory(before, 0)));
    return buffer;
  }
  GstBuffer *frame() const {
    const UniqueFd fd = gstzc::test::memfd(kBytes);
    write(fd.get(), kGrey);
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, wrapper_.wrap(fd.get(), kBytes));
    return buffer;
  }
  static void addEvent(GstBuffer *buffer, const gstzc::test::EventSource &producer) {
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(UniqueFd::duplicate(producer.fd()).release(), nullptr);
    gst_buffer_add_zc_event_meta(buffer, event, 0);
    gst_zc_device_event_unref(event);
  }
  // The frame as CUDA memory, as the element does it.
  ImportSession::Imported import(GstBuffer *buffer) {
    const FrameCaps caps = gstzc::test::frameCaps(kCaps);
    ImportSession::Request request;
    request.frame = buffer;
    request.source = need(importSource(buffer, need(frameLayout(buffer, caps))));
    request.timeout = kPatience;
    request.interrupted = [] { return false; };
    const auto prepared = need(session_->prepare(request, [](const FenceResult &, milliseconds) {}));
    EXPECT_NE(prepared.import, nullptr);
    return need(session_->wrap(prepared, buffer, caps.info));
  }
  static void drop(const ImportSession::Imported &imported) {
    if (imported.event != nullptr) gst_zc_device_event_unref(imported.event);
    if (imported.memory != nullptr) gst_memory_unref(imported.memory);
  }
  static bool isOver(GstZcDeviceEvent *event) { return event == nullptr || gst_zc_device_event_get_status(event) != 0; }
  static CUstream streamOf(GstMemory *memory) {
    return gst_cuda_stream_get_handle(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(memory)));
  }

  gstzc::test::Wrapper wrapper_;
  std::unique_ptr<ImportSession> session_;
};

// Of a frame that is complete, the copy is not: those who know of fences and those who do not are told.
TEST_F(ImportSessionMutations, ACopyIsToldOf) {
  open("staged-copy", true);
  GstBuffer *buffer = frame();
  const auto first = import(buffer);
  ASSERT_NE(first.memory, nullptr);
  expectNoticed("import-copy-event", [&](milliseconds) {
    const Blocker blocker(context_, streamOf(first.memory));
    const auto next = import(buffer);
    const bool told = !isOver(next.event) && GST_MEMORY_FLAG_IS_SET(next.memory, GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
    blocker.release();
    EXPECT_TRUE(becomesIdle(context_, streamOf(first.memory)));
    drop(next);
    return told;
  });
  drop(first);
  gst_buffer_unref(buffer);
}

TEST_F(ImportSessionMutations, WhereTheDeviceCannotWaitTheHostDoes) {
  open("host-register");
  GstBuffer *warm = frame();
  const auto first = import(warm);
  ASSERT_NE(first.memory, nullptr);
  expectNoticed("import-hold-refused", [&](milliseconds patience) {
    gstzc::test::EventSource producer;
    GstBuffer *buffer = frameIn(warm);
    addEvent(buffer, producer);
    SOFTCUDA(softcuda_fail)("cuStreamWaitValue32_v2", 0, kUnknownFailure);
    auto coming = std::async(std::launch::async, [&] { return import(buffer); });
    const bool came = coming.wait_for(patience) == std::future_status::ready;
    if (!came) producer.signal();
    const auto imported = coming.get();
    const bool early = came && (eventually([&] { return isOver(imported.event); }, patience));
    producer.signal();
    SOFTCUDA(softcuda_reset)();
    drop(imported);
    gst_buffer_unref(buffer);
    return !early;
  });
  drop(first);
  gst_buffer_unref(warm);
}

// A reader in another context, as those on other devices are
TEST_F(ImportSessionMutations, AMemoryWaitsForReadersInOtherContexts) {
  for (const bool outlives : {false, true}) {
    SCOPED_TRACE(outlives ? "after the session" : "");
    expectNoticed("retire-contexts", [&](milliseconds patience) {
      open("host-register");
      GstCudaContext *elsewhere = gst_cuda_context_new(0);
      GstCudaStream *readers = gst_cuda_stream_new(elsewhere);
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(session_->readIn(elsewhere).ok()) << "once or more";
      EXPECT_TRUE(session_->readIn(gst_context_).ok());
      GstBuffer *buffer = frame();
      const auto imported = import(buffer);
      GstMapInfo map;
      EXPECT_TRUE(gst_memory_map(imported.memory, &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)));
      gst_memory_unmap(imported.memory, &map);
      if (outlives) session_.reset();
      std::future<void> dropping;
      bool early = false;
      {
        const Blocker reader(contextOf(elsewhere), gst_cuda_stream_get_handle(readers));
        dropping = std::async(std::launch::async, [&] { drop(imported); });
        early = eventually([&] { return GST_MINI_OBJECT_REFCOUNT_VALUE(buffer) == 1; }, patience);
      }
      dropping.wait();
      session_.reset();
      EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(buffer), 1);
      gst_buffer_unref(buffer);
      gst_clear_cuda_stream(&readers);
      gst_object_unref(elsewhere);
      return !early;
    });
  }
}

TEST_F(ImportSessionMutations, AMemoryThatOutlivesTheSessionWaitsForItsStream) {
  expectNoticed("retire-after-session", [this](milliseconds patience) {
    open("host-register");
    GstBuffer *buffer = frame();
    const auto imported = import(buffer);
    GstCudaStream *own = gst_cuda_stream_ref(gst_cuda_memory_get_stream(GST_CUDA_MEMORY_CAST(imported.memory)));
    session_.reset();
    bool early = false;
    std::future<void> gone;
    {
      const Blocker reader(context_, gst_cuda_stream_get_handle(own));
      gone = std::async(std::launch::async, [&] { drop(imported); });
      early = eventually([&] { return GST_MINI_OBJECT_REFCOUNT_VALUE(buffer) == 1; }, patience);
    }
    gone.get();
    EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(buffer), 1);
    gst_cuda_stream_unref(own);
    gst_buffer_unref(buffer);
    return !early;
  });
}

// Where the device reads a copy, that is made again for each frame.
TEST_F(ImportSessionMutations, EachFrameIsBroughtToTheDevice) {
  open("staged-copy", true);
  GstBuffer *warm = frame();
  drop(import(warm));
  guint8 grey = kGrey;
  expectNoticed("import-refresh", [&](milliseconds) {
    GstBuffer *buffer = frameIn(warm);
    write(gst_dmabuf_memory_get_fd(gst_buffer_peek_memory(buffer, 0)), ++grey);
    const auto imported = import(buffer);
    GstMapInfo map;
    EXPECT_TRUE(gst_memory_map(imported.memory, &map, GST_MAP_READ));
    const bool right = map.data[0] == grey;
    gst_memory_unmap(imported.memory, &map);
    drop(imported);
    gst_buffer_unref(buffer);
    return right;
  });
  gst_buffer_unref(warm);
}

// The CPU's view of the memory.
TEST_F(ImportSessionMutations, WhoMapsAFrameWaitsForItsDownload) {
  open("host-register");
  expectNoticed("map-copied", [this](milliseconds patience) {
    GstBuffer *buffer = frame();
    const auto imported = import(buffer);
    const MapBehind end = mapBehind(imported.memory, patience, [] {});
    EXPECT_TRUE(end.mapped);
    drop(imported);
    gst_buffer_unref(buffer);
    return !end.early;
  });
}

// A refusal does not say that the device has stopped writing.
TEST_F(ImportSessionMutations, ADownloadThatFailsIsWaitedForToo) {
  open("host-register");
  expectNoticed("map-failed", [this](milliseconds patience) {
    GstBuffer *buffer = frame();
    const auto imported = import(buffer);
    const MapBehind end = mapBehind(imported.memory, patience,
                                    [] { SOFTCUDA(softcuda_fail)("cuStreamSynchronize", 1, kUnknownFailure); });
    EXPECT_FALSE(end.mapped);
    SOFTCUDA(softcuda_reset)();
    drop(imported);
    gst_buffer_unref(buffer);
    return !end.early;
  });
}

} // namespace
