// SPDX-License-Identifier: LGPL-2.1-or-later
// A frame through queue, runner and an engine of the test's own: what reaches the engine, and what becomes of its
// answers.
#include "gst/infer/stream/frame_job.h"

#include <cerrno>
#include <chrono>
#include <future>
#include <mutex>
#include <new>
#include <thread>

#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "gst/infer/decode/blazeface.h"
#include "tests/support/dmabuf_memory.h"
#include "tests/support/fence_events.h"
#include "tests/support/frame_caps.h"
#include "tests/support/scale.h"
#include "tests/unit/infer/stream/queue_helpers.h"

using namespace gstzc;
using namespace gstzc::infer;
using namespace std::chrono_literals;

namespace {

// Gives fixed tensors, keeps what it was fed, and can hang until cancelled.
class FixedEngine : public Engine {
public:
  FixedEngine(TensorInfo input, std::vector<TensorInfo> outputs)
      : inputs_{std::move(input)}, outputs_(std::move(outputs)) {}
  std::string name() const override { return "fixed"; }
  const std::vector<TensorInfo> &inputs() const override { return inputs_; }
  const std::vector<TensorInfo> &outputs() const override { return outputs_; }
  Result<Outputs> run(std::span<const TensorView> inputs, Cancellation &cancel) override {
    if (out_of_memory) throw std::bad_alloc();
    if (hang) {
      std::promise<void> ended;
      Cancellation::Hook hook(cancel, [&] { ended.set_value(); });
      hanging.set_value();
      ended.get_future().wait();
      return Error{"running", ECANCELED, ""};
    }
    const auto *data = static_cast<const std::byte *>(inputs[0].data);
    {
      const std::lock_guard lock(mutex_);
      fed.emplace_back(data, data + inputs[0].bytes);
      fed_from.push_back(data);
    }
    Outputs outputs;
    for (size_t i = 0; i < outputs_.size(); ++i)
      outputs.tensors.push_back(
          {TensorType::Float32, outputs_[i].dims, values[i].data(), values[i].size() * 4, MemorySpace::Host});
    return outputs;
  }
  const float *floats(size_t run) const { return reinterpret_cast<const float *>(fed[run].data()); }

  std::vector<std::vector<float>> values;
  std::vector<std::vector<std::byte>> fed;
  std::vector<const void *> fed_from;
  bool hang = false, out_of_memory = false;
  std::promise<void> hanging;

private:
  std::vector<TensorInfo> inputs_, outputs_;
  std::mutex mutex_; // several workers
};

struct Fixture {
  FixedEngine *engine = nullptr;
  std::shared_ptr<const Model> model;
  std::shared_ptr<ModelRunner> runner;
  std::shared_ptr<FrameQueue> queue = std::make_shared<FrameQueue>();
  FrameTask task;

  // One face: anchor 0 is (4,4) of 128, the box 16x16 with its centre at (64,64), the middle of the picture.
  static Fixture faces() {
    Fixture f;
    auto engine = std::make_unique<FixedEngine>(TensorInfo{"image", TensorType::Float32, {1, 128, 128, 3}},
                                                std::vector<TensorInfo>{{"scores", TensorType::Float32, {1, 896, 1}},
                                                                        {"boxes", TensorType::Float32, {1, 896, 16}}});
    engine->values = {std::vector<float>(896, -100.0f), std::vector<float>(896 * 16, 0.0f)};
    engine->values[0][0] = 4;
    engine->values[1][0] = engine->values[1][1] = 60;
    engine->values[1][2] = engine->values[1][3] = 16;
    f.start(std::move(engine), {128, 128, TensorLayout::Nhwc, TensorType::Float32}, true);
    return f;
  }
  // Unsigned bytes as they are; one number comes out.
  static Fixture bytes(int width, int height) {
    Fixture f;
    auto engine = std::make_unique<FixedEngine>(TensorInfo{"image", TensorType::UInt8, {1, height, width, 3}},
                                                std::vector<TensorInfo>{{"out", TensorType::Float32, {1, 1}}});
    engine->values = {{7.0f}};
    f.start(std::move(engine), {width, height, TensorLayout::Nhwc, TensorType::UInt8}, false);
    return f;
  }

  void start(std::unique_ptr<FixedEngine> owned, const InputPlan &plan, bool face) {
    engine = owned.get();
    auto made = std::make_shared<Model>();
    made->plan = plan;
    if (face) {
      made->decoder = BlazeFaceDecoder::match({}, plan, owned->outputs());
      made->preprocess = made->decoder->defaults().preprocess;
      made->labels = {"face"};
    }
    made->engine = std::move(owned);
    made->file = "test.onnx";
    model = made;
    runner = std::make_shared<ModelRunner>(model, ModelRunner::Options{});
    queue->setCapacity(8);
    queue->start();
    task.keep_tensors = !face;
  }

  void setCaps(const char *text) {
    auto setup = FrameSetup::create(model, test::frameCaps(text));
    ASSERT_TRUE(setup.ok()) << setup.error().message();
    task.setup = setup.take();
  }

  // Takes the buffer; its job when it has left the queue.
  std::shared_ptr<FrameJob> run(GstBuffer *buffer) {
    auto job = std::make_shared<FrameJob>(buffer, task, queue, runner);
    queue->pushBuffer(buffer, job, FrameFences{}, 1s);
    auto item = queue->pop();
    EXPECT_TRUE(item && item->work == job);
    EXPECT_TRUE(gst_mini_object_is_writable(item->object)) << "somebody holds the buffer still";
    gst_mini_object_unref(item->object);
    queue->finishedBuffer();
    return job;
  }
};

GstBuffer *filled(gsize size, guint8 value) {
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, size, nullptr);
  gst_buffer_memset(buffer, 0, value, size);
  return buffer;
}

TEST(FrameJob, BoxesInPixelsOfALetterboxedFrame) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=256,height=128");
  auto result = f.run(filled(256 * 128 * 3, 255))->takeResult();
  ASSERT_TRUE(result.ok()) << result.error().message();
  ASSERT_EQ(result->pictures.size(), 1u);
  EXPECT_EQ(result->pictures[0].object, std::nullopt);
  ASSERT_EQ(result->pictures[0].findings.boxes.size(), 1u);
  const FrameBox &box = result->pictures[0].findings.boxes[0];
  EXPECT_EQ(box.x, 112);
  EXPECT_EQ(box.y, 48);
  EXPECT_EQ(box.width, 32);
  EXPECT_EQ(box.height, 32);
  EXPECT_EQ(box.label, "face");
  EXPECT_EQ(box.keypoints.size(), 6u);
  // white within the letterbox, black outside: 1 and -1
  EXPECT_FLOAT_EQ(f.engine->floats(0)[(64 * 128 + 5) * 3], 1.0f);
  EXPECT_FLOAT_EQ(f.engine->floats(0)[(5 * 128 + 64) * 3], -1.0f);
  EXPECT_EQ(result->copies, 0u);
  EXPECT_FALSE(result->pictures[0].in_place);
  EXPECT_GT(result->took.count(), 0);
}

TEST(FrameJob, AFrameThatIsTheTensorIsReadWhereItLies) {
  auto f = Fixture::bytes(16, 8);
  f.setCaps("video/x-raw,format=RGB,width=16,height=8");
  GstBuffer *buffer = filled(16 * 8 * 3, 9);
  GstMapInfo map;
  gst_buffer_map(buffer, &map, GST_MAP_READ);
  const void *const at = map.data;
  gst_buffer_unmap(buffer, &map);
  auto result = f.run(buffer)->takeResult();
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_EQ(f.engine->fed_from[0], at) << "the model did not read the frame's own memory";
  EXPECT_TRUE(result->pictures[0].in_place);
  EXPECT_EQ(result->copies, 0u);
  ASSERT_EQ(result->pictures[0].tensors.tensors.size(), 1u);
  EXPECT_EQ(static_cast<const float *>(result->pictures[0].tensors.tensors[0].data)[0], 7.0f);
}

TEST(FrameJob, GapsBetweenRowsAreACopyThatIsCounted) {
  auto f = Fixture::bytes(15, 8); // a row of 45 bytes, by default 48 apart
  f.setCaps("video/x-raw,format=RGB,width=15,height=8");
  auto result = f.run(filled(48 * 8, 9))->takeResult();
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_FALSE(result->pictures[0].in_place);
  EXPECT_EQ(result->copies, 1u);
  EXPECT_EQ(result->bytes_copied, 15u * 8 * 3);
  EXPECT_EQ(f.engine->fed[0].size(), 15u * 8 * 3);
  EXPECT_EQ(f.engine->fed[0].back(), std::byte{9});
}

TEST(FrameJob, EachObjectIsAPicture) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=256,height=128");
  f.task.objects = true;
  f.task.object_classes = {"person"};
  GstBuffer *buffer = filled(256 * 128 * 3, 255);
  auto *meta = gst_buffer_add_analytics_relation_meta(buffer);
  GstAnalyticsODMtd od;
  const GQuark person = g_quark_from_static_string("person"), dog = g_quark_from_static_string("dog");
  gst_analytics_relation_meta_add_od_mtd(meta, dog, 0, 0, 50, 50, 0.9f, &od);
  gst_analytics_relation_meta_add_od_mtd(meta, person, 0, 0, 64, 64, 0.9f, &od);
  gst_analytics_relation_meta_add_od_mtd(meta, person, 192, 64, 64, 64, 0.9f, &od);
  const guint last = od.id;
  auto result = f.run(buffer)->takeResult();
  ASSERT_TRUE(result.ok()) << result.error().message();
  ASSERT_EQ(result->pictures.size(), 2u);
  EXPECT_EQ(result->pictures[1].object, last);
  ASSERT_EQ(result->pictures[1].findings.boxes.size(), 1u);
  // the middle of the object, at half the size: it was scaled from 64 to 128
  EXPECT_EQ(result->pictures[1].findings.boxes[0].x, 192 + 28);
  EXPECT_EQ(result->pictures[1].findings.boxes[0].y, 64 + 28);
  EXPECT_EQ(result->pictures[1].findings.boxes[0].width, 8);
}

TEST(FrameJob, NoObjectNoRun) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=256,height=128");
  f.task.objects = true;
  auto result = f.run(filled(256 * 128 * 3, 255))->takeResult();
  ASSERT_TRUE(result.ok()) << result.error().message();
  EXPECT_TRUE(result->pictures.empty());
  EXPECT_GT(result->took.count(), 0);
  EXPECT_TRUE(f.engine->fed.empty());
}

TEST(FrameJob, BrokenFramesAreErrorsThatSayWhat) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=NV12,width=64,height=48");
  auto result = f.run(filled(100, 0))->takeResult();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("plane 0"), std::string::npos) << result.error().message();
}

TEST(FrameJob, NumbersThatAreNoneAreAnErrorThatNamesTheTensor) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=8,height=8");
  f.engine->values[1][700] = std::numeric_limits<float>::quiet_NaN();
  auto result = f.run(filled(8 * 8 * 3, 0))->takeResult();
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("test.onnx: output boxes (float32 [1,896,16])"), std::string::npos)
      << result.error().message();
}

TEST(FrameJob, MemoryThatRunsOutIsAnError) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=8,height=8");
  f.engine->out_of_memory = true;
  auto result = f.run(filled(8 * 8 * 3, 0))->takeResult();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ENOMEM);
  EXPECT_FALSE(result.error().remedy.empty());
}

TEST(FrameJob, AFlushEndsARunThatHangs) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=8,height=8");
  f.engine->hang = true;
  GstBuffer *buffer = filled(8 * 8 * 3, 0);
  auto job = std::make_shared<FrameJob>(buffer, f.task, f.queue, f.runner);
  std::weak_ptr<FrameJob> gone = job;
  f.queue->pushBuffer(buffer, std::move(job), FrameFences{}, 1s);
  f.engine->hanging.get_future().wait();
  f.queue->setFlushing();
  EXPECT_EQ(f.queue->clear().buffers, 1u);
  EXPECT_FALSE(gone.expired()) << "the worker has it";
  f.runner->dropUnwanted();
  for (int i = 0; i < 10000 && !gone.expired(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(gone.expired());
}

// A frame of 64x64 with six objects, and a fence of which the workers learn only when they look at it.
GstBuffer *sixObjects(int fence) {
  GstBuffer *buffer = filled(64 * 64 * 3, 255);
  auto *meta = gst_buffer_add_analytics_relation_meta(buffer);
  for (int i = 0; i < 6; ++i) {
    GstAnalyticsODMtd od;
    gst_analytics_relation_meta_add_od_mtd(meta, 0, 8 * i, 0, 16, 16, 0.9f, &od);
  }
  const test::Wrapper wrapper;
  gst_buffer_append_memory(buffer, wrapper.wrap(fence, 16));
  return buffer;
}

// Workers that look at the objects of one frame side by side, find it being written into and send it back to wait,
// all as one.
TEST(FrameJob, ObjectsWaitForTheirFrameTogether) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=64,height=64");
  f.runner = std::make_shared<ModelRunner>(f.model, ModelRunner::Options{.workers = 4});
  f.task.objects = true;
  f.task.fence_timeout = 30s;
  for (int repeat = 0; repeat < test::rounds(100); ++repeat) {
    const test::EventSource producer;
    GstBuffer *buffer = sixObjects(producer.fd());
    auto job = std::make_shared<FrameJob>(buffer, f.task, f.queue, f.runner);
    f.queue->pushBuffer(buffer, job, FrameFences{}, 30s);
    while (FencePoller::process().counters().pending == 0) std::this_thread::sleep_for(100us);
    producer.signal();
    auto item = f.queue->pop();
    gst_mini_object_unref(item->object);
    f.queue->finishedBuffer();
    auto result = job->takeResult();
    ASSERT_TRUE(result.ok()) << result.error().message();
    ASSERT_EQ(result->pictures.size(), 6u);
    for (const PictureResult &picture : result->pictures) EXPECT_EQ(picture.findings.boxes.size(), 1u);
  }
}

// One that waits for its producer can be given up, whoever looked at it before.
TEST(FrameJob, AFrameThatWaitsAgainCanBeGivenUp) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=64,height=64");
  f.runner = std::make_shared<ModelRunner>(f.model, ModelRunner::Options{.workers = 4});
  f.task.objects = true;
  f.task.fence_timeout = 30s;
  f.queue->setCapacity(1);
  f.queue->setWhenFull(FrameQueue::WhenFull::DropOldest);
  const test::EventSource never;
  const guint64 repeats = static_cast<guint64>(test::rounds(100));
  for (guint64 repeat = 0; repeat < repeats; ++repeat) {
    GstBuffer *buffer = sixObjects(never.fd());
    f.queue->pushBuffer(buffer, std::make_shared<FrameJob>(buffer, f.task, f.queue, f.runner), FrameFences{}, 30s);
    while (FencePoller::process().counters().pending == 0 || f.runner->waiting() > 0)
      std::this_thread::sleep_for(100us);
    EXPECT_EQ(f.queue->counts().dropped, repeat) << "the one before was in the way";
  }
  f.queue->setFlushing();
  EXPECT_EQ(f.queue->clear().buffers, 1u);
}

TEST(FrameJob, ADroppedFrameIsHeldByNobodyWhileTheWorkerIsBusy) {
  auto f = Fixture::faces();
  f.setCaps("video/x-raw,format=RGB,width=8,height=8");
  f.engine->hang = true;
  f.queue->setCapacity(2);
  f.queue->setWhenFull(FrameQueue::WhenFull::DropOldest);
  GstBuffer *buffers[3];
  for (GstBuffer *&buffer : buffers) {
    buffer = filled(8 * 8 * 3, 0);
    f.queue->pushBuffer(gst_buffer_ref(buffer), std::make_shared<FrameJob>(buffer, f.task, f.queue, f.runner),
                        FrameFences{}, 1s);
    if (buffer == buffers[0]) f.engine->hanging.get_future().wait(); // the only worker has it
  }
  EXPECT_FALSE(gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffers[0])));
  EXPECT_TRUE(gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffers[1]))) << "its producer does not get it back";
  EXPECT_FALSE(gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffers[2])));
  f.queue->setFlushing();
  EXPECT_EQ(f.queue->clear().buffers, 2u);
  EXPECT_TRUE(gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffers[2])));
  f.runner->dropUnwanted();
  const auto held = [&] { return !gst_mini_object_is_writable(GST_MINI_OBJECT_CAST(buffers[0])); };
  for (int i = 0; i < 10000 && held(); ++i) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(held());
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer);
}

TEST(FrameJob, TheEndOfTheStreamEndsTheWaitOfABatchForAFrameWithFences) {
  auto f = Fixture::faces();
  auto model = std::const_pointer_cast<Model>(f.model);
  model->plan.batch = 4;
  model->plan.open_batch = true;
  f.setCaps("video/x-raw,format=RGB,width=8,height=8");
  f.runner = std::make_shared<ModelRunner>(
      f.model, ModelRunner::Options{.workers = 1, .batch = 4, .batch_timeout = test::kLong});
  const test::Producer producer;
  GstBuffer *buffer = filled(8 * 8 * 3, 0);
  f.queue->pushBuffer(buffer, std::make_shared<FrameJob>(buffer, f.task, f.queue, f.runner), producer.fences(),
                      test::kLong);
  f.queue->pushEvent(gst_event_new_eos());
  f.runner->hurry();
  const auto before = std::chrono::steady_clock::now();
  producer.finish();
  for (int i = 0; i < 2; ++i) gst_mini_object_unref(f.queue->pop()->object);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
}

TEST(CheckReadable, NamesTiledLayoutsAndFormats) {
  auto tiled = checkReadable(test::frameCaps(
      "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12:0x0100000000000002,width=64,height=48"));
  ASSERT_FALSE(tiled.ok());
  EXPECT_NE(tiled.error().message().find("NV12:0x0100000000000002"), std::string::npos) << tiled.error().message();
  EXPECT_NE(tiled.error().message().find("drm-format=NV12"), std::string::npos) << tiled.error().message();
  auto deep = checkReadable(test::frameCaps("video/x-raw,format=Y412_LE,width=64,height=48"));
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().message().find("Y412_LE"), std::string::npos);
  EXPECT_TRUE(
      checkReadable(test::frameCaps("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,width=64,height=48"))
          .ok());
}

} // namespace
