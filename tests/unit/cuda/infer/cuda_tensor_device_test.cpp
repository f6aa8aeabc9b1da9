// SPDX-License-Identifier: LGPL-2.1-or-later
// Tensors that a CUDA device makes: the CPU's numbers, what waits for what, and what becomes of frames when the driver
// refuses, hangs or is lost.
#include "ext/cuda/infer/cuda_tensor_device.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "ext/cuda/memory/import_memory.h"
#include "ext/cuda/sync/cuda_event.h"
#include "gst/infer/preprocess/pixel_plan.h"
#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/gstzcfencemeta.h"
#include "tests/support/dmabuf_memory.h"
#include "tests/support/frame_caps.h"
#include "tests/unit/cuda/support/device_test.h"
#include "tests/unit/cuda/support/tested_driver.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using namespace gstzc::infer;
using namespace std::chrono_literals;

namespace {

constexpr const char *kDmaBufCaps = "video/x-raw(memory:DMABuf),format=NV12,width=64,height=48";
constexpr const char *kCudaCaps = "video/x-raw(memory:CUDAMemory),format=NV12,width=64,height=48";
constexpr int kFrameBytes = 64 * 48 * 3 / 2;

const InputPlan kInput = {.width = 20, .height = 12};

std::vector<guint8> content(int seed) {
  std::vector<guint8> bytes(kFrameBytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<guint8>(i * 7 + i / 64 * 3 + static_cast<size_t>(seed) * 11);
  return bytes;
}

// What the CPU makes of it.
std::vector<float> expected(const std::vector<guint8> &bytes, const FrameCaps &caps) {
  auto preprocessor = Preprocessor::create(caps.info, kInput, {});
  EXPECT_TRUE(preprocessor.ok());
  FramePlanes planes;
  planes.data = {bytes.data(), bytes.data() + 64 * 48};
  planes.stride = {64, 64};
  std::vector<float> tensor(kInput.bytes() / sizeof(float));
  preprocessor->run(planes, tensor.data());
  return tensor;
}

// The calls of a device.
struct Ended {
  std::promise<Status> promise;
  std::future<Status> future = promise.get_future();
  std::atomic<int> calls = 0;
  bool within(std::chrono::milliseconds time) { return future.wait_for(time) == std::future_status::ready; }
};

class TensorDeviceTest : public DeviceTest {
protected:
  void makeDevice() {
    auto made = makeCudaTensorDevice(context);
    ASSERT_TRUE(made.ok()) << made.error().message();
    device_ = made.take();
  }
  GstBuffer *dmaBufFrame(int seed = 1) {
    const auto bytes = content(seed);
    gstzc::UniqueFd fd = gstzc::test::memfd(bytes.size());
    EXPECT_EQ(pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, wrapper_.wrap(fd.get(), bytes.size()));
    return buffer;
  }
  // Null: nothing was begun.
  std::shared_ptr<Ended> fill(GstBuffer *frame, const char *caps_text = kDmaBufCaps) {
    const FrameCaps caps = gstzc::test::frameCaps(caps_text);
    auto plan = makePixelPlan(caps.info, kInput, {});
    EXPECT_TRUE(plan.ok());
    auto memory = device_->newHostMemory(kInput.bytes());
    if (!memory) return nullptr;
    memory_ = memory.take();
    auto ended = std::make_shared<Ended>();
    const Status begun = device_->fill(frame, caps, *plan, {MemorySpace::Host, memory_, kInput.bytes()}, Made::Done,
                                       [ended](Status status) {
                                         if (++ended->calls == 1) ended->promise.set_value(std::move(status));
                                       });
    return begun ? ended : nullptr;
  }
  void expectTensor(int seed, const char *caps_text = kDmaBufCaps) {
    const auto right = expected(content(seed), gstzc::test::frameCaps(caps_text));
    for (size_t i = 0; i < right.size(); ++i)
      ASSERT_NEAR(static_cast<const float *>(memory_.get())[i], right[i], 1e-6) << i;
  }
  static bool isFree(GstBuffer *buffer) { return gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffer)); }

  gstzc::test::Wrapper wrapper_;
  std::shared_ptr<TensorDevice> device_;
  std::shared_ptr<void> memory_;
};

TEST_F(TensorDeviceTest, MakesTheCpusTensorOfADmaBuf) {
  makeDevice();
  EXPECT_EQ(device_->name().find("CUDA device 0 ("), 0u);
  for (int seed = 1; seed < 4; ++seed) {
    GstBuffer *frame = dmaBufFrame(seed);
    auto ended = fill(frame);
    ASSERT_NE(ended, nullptr);
    ASSERT_TRUE(ended->within(kPatience));
    const Status status = ended->future.get();
    ASSERT_TRUE(status.ok()) << status.error().message();
    expectTensor(seed);
    EXPECT_TRUE(isFree(frame)) << "released before the call";
    gst_buffer_unref(frame);
  }
  EXPECT_EQ(device_->copies(), 0u);
}

TEST_F(TensorDeviceTest, OtherMemoryIsAnErrorThatSaysWhich) {
  makeDevice();
  for (const char *caps : {kDmaBufCaps, kCudaCaps}) {
    GstBuffer *frame = gst_buffer_new_allocate(nullptr, kFrameBytes, nullptr);
    auto ended = fill(frame, caps);
    ASSERT_NE(ended, nullptr);
    ASSERT_TRUE(ended->within(kPatience));
    const Status status = ended->future.get();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message().find("memory 0 of the frame"), std::string::npos) << status.error().message();
    EXPECT_FALSE(status.error().remedy.empty());
    gst_buffer_unref(frame);
  }
}

// --- time

class BlockedFrame { // whose event is not over until release()
public:
  BlockedFrame(const ContextPtr &context, CUstream producer, GstBuffer *frame)
      : blocker_(std::make_unique<Blocker>(context, producer)), source_(need(EventSource::create(context))) {
    GstZcDeviceEvent *event = need(source_->record(producer, nullptr));
    gst_buffer_add_zc_event_meta(frame, event, 1);
    gst_zc_device_event_unref(event);
  }
  void release() { blocker_.reset(); }

private:
  std::unique_ptr<Blocker> blocker_;
  std::shared_ptr<EventSource> source_;
};

TEST_F(TensorDeviceTest, AFramesEventIsWaitedForOnTheDevice) {
  makeDevice();
  GstBuffer *warm = dmaBufFrame(); // the first import is checked, which takes its time
  auto first = fill(warm);
  ASSERT_TRUE(first && first->within(kPatience));
  GstBuffer *frame = dmaBufFrame(2);
  BlockedFrame blocked(context, other.get(), frame);
  auto ended = fill(frame);
  ASSERT_NE(ended, nullptr);
  EXPECT_FALSE(ended->within(kGlance));
  EXPECT_FALSE(isFree(frame));
  blocked.release();
  ASSERT_TRUE(ended->within(kPatience));
  EXPECT_TRUE(ended->future.get().ok());
  expectTensor(2);
  gst_buffer_unref(frame);
  gst_buffer_unref(warm);
}

TEST_F(TensorDeviceTest, ItsEndDoesNotWaitForADeviceThatHangs) {
  makeDevice();
  GstBuffer *warm = dmaBufFrame();
  auto first = fill(warm);
  ASSERT_TRUE(first && first->within(kPatience));
  GstBuffer *frame = dmaBufFrame(2);
  auto blocked = std::make_unique<BlockedFrame>(context, other.get(), frame);
  auto ended = fill(frame);
  ASSERT_NE(ended, nullptr);
  const auto before = std::chrono::steady_clock::now();
  device_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 3s);
  blocked->release();
  EXPECT_TRUE(ended->within(kPatience)) << "what was under way ends by itself";
  EXPECT_TRUE(eventually([&] { return isFree(frame); }));
  gst_buffer_unref(frame);
  gst_buffer_unref(warm);
  memory_.reset();
  blocked.reset();
  EXPECT_TRUE(eventually([&] { return context.use_count() == 1 + 2; })) << "the device's thread has gone; two streams";
}

TEST_F(TensorDeviceTest, ItMayEndWithinItsOwnCall) {
  makeDevice();
  GstBuffer *frame = dmaBufFrame();
  const FrameCaps caps = gstzc::test::frameCaps(kDmaBufCaps);
  auto plan = makePixelPlan(caps.info, kInput, {});
  auto memory = need(device_->newHostMemory(kInput.bytes()));
  auto last = std::make_shared<std::shared_ptr<TensorDevice>>(device_);
  std::promise<void> gone;
  TensorDevice *const raw = device_.get();
  device_.reset();
  ASSERT_TRUE(raw->fill(frame, caps, *plan, {MemorySpace::Host, memory, kInput.bytes()}, Made::Done,
                        [last, &gone](Status) {
                          last->reset();
                          gone.set_value();
                        })
                  .ok());
  EXPECT_EQ(gone.get_future().wait_for(kPatience), std::future_status::ready);
  gst_buffer_unref(frame);
  memory.reset();
  EXPECT_TRUE(eventually([&] { return context.use_count() == 1 + 2; }));
}

// --- refusals

TEST_F(TensorDeviceTest, AnyCallOfTheDriverMayFailOnce) {
  for (long nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    TestedDriver::reset();
    TestedDriver::failCall(nth);
    auto made = makeCudaTensorDevice(context);
    if (!made) {
      EXPECT_EQ(made.error().message().find("CUDA device"), 0u) << made.error().message();
      continue;
    }
    device_ = made.take();
    GstBuffer *frame = dmaBufFrame(3);
    auto ended = fill(frame);
    if (ended != nullptr) {
      ASSERT_TRUE(ended->within(kPatience)) << "nobody says what became of it";
      const Status status = ended->future.get();
      if (status) {
        expectTensor(3);
      } else {
        EXPECT_FALSE(status.error().what.empty());
      }
    }
    EXPECT_TRUE(eventually([&] { return isFree(frame); }));
    gst_buffer_unref(frame);
    const bool failed = TestedDriver::hasFailed();
    device_.reset();
    memory_.reset();
    if (!failed && ended != nullptr) break;
    ASSERT_LT(nth, 1000);
  }
}

TEST_F(TensorDeviceTest, ALostDeviceEndsEveryFrameWithAnError) {
  makeDevice();
  GstBuffer *warm = dmaBufFrame();
  auto first = fill(warm);
  ASSERT_TRUE(first && first->within(kPatience));
  gst_buffer_unref(warm);
  std::vector<GstBuffer *> frames;
  auto memory = memory_;
  TestedDriver::loseDevice();
  const FrameCaps caps = gstzc::test::frameCaps(kDmaBufCaps);
  auto plan = makePixelPlan(caps.info, kInput, {});
  std::vector<std::shared_ptr<Ended>> all;
  for (int i = 0; i < 4; ++i) {
    frames.push_back(dmaBufFrame(i));
    all.push_back(std::make_shared<Ended>());
    ASSERT_TRUE(device_
                    ->fill(frames.back(), caps, *plan, {MemorySpace::Host, memory, kInput.bytes()}, Made::Done,
                           [ended = all.back()](Status status) { ended->promise.set_value(std::move(status)); })
                    .ok());
  }
  for (auto &ended : all) {
    ASSERT_TRUE(ended->within(kPatience));
    EXPECT_FALSE(ended->future.get().ok());
  }
  TestedDriver::reset(); // the stand-in has to get rid of what was registered
  device_.reset();
  for (GstBuffer *frame : frames) gst_buffer_unref(frame);
}

// --- CUDA memory of GStreamer

class CudaFrames : public TensorDeviceTest {
protected:
  void SetUp() override {
    TensorDeviceTest::SetUp();
    ASSERT_TRUE(gst_cuda_load_library());
    gst_context_ = gst_cuda_context_new(0);
    ASSERT_NE(gst_context_, nullptr);
    gst_stream_ = gst_cuda_stream_new(gst_context_);
    makeDevice();
  }
  void TearDown() override {
    device_.reset();
    memory_.reset();
    gst_clear_cuda_stream(&gst_stream_);
    gst_clear_object(&gst_context_);
    TensorDeviceTest::TearDown();
  }
  GstBuffer *cudaFrame(int seed) {
    GstVideoInfo info;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, 64, 48);
    GstMemory *memory = need(newCudaMemory(gst_context_, gst_stream_, info));
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, memory);
    const auto bytes = content(seed);
    gst_buffer_fill(buffer, 0, bytes.data(), bytes.size());
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 48, 2, info.offset,
                                   info.stride);
    return buffer;
  }

  GstCudaContext *gst_context_ = nullptr;
  GstCudaStream *gst_stream_ = nullptr;
};

TEST_F(CudaFrames, AreReadInTheirOwnContext) {
  for (int seed = 1; seed < 4; ++seed) {
    GstBuffer *frame = cudaFrame(seed);
    auto ended = fill(frame, kCudaCaps);
    ASSERT_TRUE(ended && ended->within(kPatience));
    const Status status = ended->future.get();
    ASSERT_TRUE(status.ok()) << status.error().message();
    expectTensor(seed, kCudaCaps);
    EXPECT_TRUE(isFree(frame));
    gst_buffer_unref(frame);
  }
}

TEST_F(CudaFrames, PlanesOfDifferentContextsAreExplained) {
  GstCudaContext *second = gst_cuda_context_new(0);
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 64, 72); // as many bytes as NV12 has
  GstBuffer *frame = gst_buffer_new();
  gst_buffer_append_memory(frame, need(newCudaMemory(gst_context_, nullptr, info)));
  gst_buffer_append_memory(frame, need(newCudaMemory(second, nullptr, info)));
  gsize offsets[] = {0, 64 * 72};
  gint strides[] = {64, 64};
  gst_buffer_add_video_meta_full(frame, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 64, 48, 2, offsets, strides);
  auto ended = fill(frame, kCudaCaps);
  ASSERT_TRUE(ended && ended->within(kPatience));
  const Status status = ended->future.get();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("different CUDA contexts"), std::string::npos) << status.error().message();
  gst_buffer_unref(frame);
  gst_object_unref(second);
}

// Without an event of ours there is the memory's stream.
TEST_F(CudaFrames, WithoutAnEventTheProducersStreamIsWaitedFor) {
  GstBuffer *frame = cudaFrame(2);
  GST_MINI_OBJECT_FLAG_SET(gst_buffer_peek_memory(frame, 0), GST_CUDA_MEMORY_TRANSFER_NEED_SYNC);
  auto blocker = std::make_unique<Blocker>(contextOf(gst_context_), gst_cuda_stream_get_handle(gst_stream_));
  auto ended = fill(frame, kCudaCaps);
  EXPECT_FALSE(ended->within(kGlance));
  blocker.reset();
  EXPECT_TRUE(ended->within(kPatience));
  gst_buffer_unref(frame);
}

// --- results in the device's memory

class ResultsTest : public TensorDeviceTest {
protected:
  struct Came {
    std::promise<Result<Outputs>> promise;
    std::future<Result<Outputs>> future = promise.get_future();
  };
  void SetUp() override {
    TensorDeviceTest::SetUp();
    makeDevice();
    for (const size_t bytes : {12, 100}) {
      auto memory = need(device_->newDeviceMemory(bytes));
      run_.tensors.push_back(
          {TensorType::UInt8, {static_cast<int64_t>(bytes)}, memory.get(), bytes, MemorySpace::Device});
      owner_->push_back(memory);
    }
    run_.owner = owner_;
    run_.on_stream = true;
  }
  // As a run would.
  void write(int value) {
    source_ = need(allocPinned(context, 100));
    std::memset(source_.get(), value, 100);
    const Driver &driver = **Driver::get();
    const ContextScope scope(*context);
    for (const TensorView &view : run_.tensors)
      ASSERT_EQ(driver.cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(view.data), source_.get(), view.bytes,
                                         static_cast<CUstream>(device_->stream())),
                CUDA_SUCCESS);
  }
  std::shared_ptr<Came> toHost() {
    auto came = std::make_shared<Came>();
    device_->toHost(run_, [came](Result<Outputs> outputs) { came->promise.set_value(std::move(outputs)); });
    return came;
  }

  std::shared_ptr<std::vector<std::shared_ptr<void>>> owner_ = std::make_shared<std::vector<std::shared_ptr<void>>>();
  Outputs run_;
  PinnedMemory source_;
};

TEST_F(ResultsTest, ComeToTheHostWhenTheStreamHasWrittenThem) {
  std::shared_ptr<Came> came;
  std::weak_ptr<void> held = owner_;
  {
    const Blocker blocker(context, static_cast<CUstream>(device_->stream()));
    write(7);
    came = toHost();
    run_ = {};
    owner_.reset();
    EXPECT_NE(came->future.wait_for(kGlance), std::future_status::ready);
    EXPECT_FALSE(held.expired()) << "the run still writes there";
  }
  ASSERT_EQ(came->future.wait_for(kPatience), std::future_status::ready);
  auto outputs = came->future.get();
  ASSERT_TRUE(outputs.ok()) << outputs.error().message();
  EXPECT_TRUE(held.expired());
  EXPECT_FALSE(outputs->on_stream);
  ASSERT_EQ(outputs->tensors.size(), 2u);
  for (const TensorView &view : outputs->tensors) {
    EXPECT_EQ(view.space, MemorySpace::Host);
    const auto *bytes = static_cast<const guint8 *>(view.data);
    for (size_t i = 0; i < view.bytes; ++i) ASSERT_EQ(bytes[i], 7) << i;
  }
}

TEST_F(ResultsTest, MemoryOfTheHostIsUsedAgain) {
  write(1);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(toHost()->future.get().ok());
  const long before = TestedDriver::calls(Fn::cuMemHostAlloc);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(toHost()->future.get().ok());
  EXPECT_EQ(TestedDriver::calls(Fn::cuMemHostAlloc), before);
}

TEST_F(ResultsTest, WhatFailsIsToldOnce) {
  write(1);
  for (const Fn function : {Fn::cuMemcpyDtoHAsync, Fn::cuMemHostAlloc, Fn::cuEventRecord}) {
    TestedDriver::failFunction(function, CUDA_ERROR_UNKNOWN);
    auto outputs = toHost()->future.get();
    TestedDriver::failFunction(Fn::kCount, CUDA_SUCCESS);
    EXPECT_FALSE(outputs.ok()) << static_cast<size_t>(function);
  }
  ASSERT_TRUE(toHost()->future.get().ok());
  TestedDriver::loseDevice();
  auto lost = toHost()->future.get();
  EXPECT_FALSE(lost.ok());
}

TEST_F(ResultsTest, WithoutAContextOfGStreamersNothingIsShared) {
  auto shared = device_->share(run_);
  ASSERT_FALSE(shared.ok());
  EXPECT_EQ(shared.error().code, ENOSYS);
}

} // namespace
