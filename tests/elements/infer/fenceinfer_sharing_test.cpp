// SPDX-License-Identifier: LGPL-2.1-or-later
// Elements that share a model by model-instance-id: one set of threads and batches, everybody's own results.
#include "tests/elements/infer/fixture.h"

#include <algorithm>
#include <fstream>
#include <memory>

#include <sched.h>

#include "tests/support/small_models.h"
#include "tests/support/worker_threads.h"

namespace gstzc::test {
namespace {

constexpr const char *kCaps = "video/x-raw,format=RGB,width=16,height=16,framerate=30/1";

// One element in a harness of its own.
class Sharer {
public:
  Sharer(const std::string &file, const std::string &properties) {
    const std::string line = "fenceinfer model-file=\"" + file + "\" decoder=none output=tensor-meta " + properties;
    GstElement *element = gst_parse_launch(line.c_str(), nullptr);
    harness_ = gst_harness_new_with_element(element, "sink", "src");
    gst_object_unref(element);
    gst_harness_set_src_caps_str(harness_, kCaps);
  }
  ~Sharer() { gst_harness_teardown(harness_); }
  Sharer(const Sharer &) = delete;
  Sharer &operator=(const Sharer &) = delete;

  void push(guint8 value) {
    ASSERT_EQ(gst_harness_push(harness_, solid("RGB", 16, 16, {value, value, value})), GST_FLOW_OK);
  }
  void end() { gst_harness_push_event(harness_, gst_event_new_eos()); }
  // The mean of the picture that the model saw for the frame that leaves next.
  float pull() {
    GstBuffer *out = gst_harness_pull(harness_);
    GstTensorMeta *meta = out != nullptr ? gst_buffer_get_tensor_meta(out) : nullptr;
    float values[3] = {-1, -1, -1};
    EXPECT_NE(meta, nullptr);
    if (meta != nullptr) {
      GstBuffer *data = gst_tensor_meta_get(meta, 0)->data;
      EXPECT_EQ(gst_buffer_get_size(data), sizeof values) << "not of one picture";
      gst_buffer_extract(data, 0, values, sizeof values);
    }
    gst_clear_buffer(&out);
    return values[0];
  }
  double meanBatch() {
    GstStructure *stats = nullptr;
    g_object_get(harness_->element, "stats", &stats, nullptr);
    gdouble mean = 0;
    EXPECT_TRUE(gst_structure_get_double(stats, "batch-size-mean", &mean));
    gst_structure_free(stats);
    return mean;
  }

private:
  GstHarness *harness_ = nullptr;
};

class Sharing : public FenceInferTest {
protected:
  std::string means() { return save(colourClassifier({"batch", 3, 16, 16}), "means.onnx"); }
};

// The batch waits for four pictures: only both together bring them.
TEST_F(Sharing, BatchesAreOfBothAndResultsEveryonesOwn) {
  const std::string shared =
      "model-instance-id=one batch-size=4 batch-timeout=10000 workers=1 max-in-flight=4 mean=0 scale=1";
  Sharer first(means(), shared), second(means(), shared);
  for (guint8 round = 0; round < 3; ++round) {
    for (guint8 i = 0; i < 2; ++i) {
      first.push(static_cast<guint8>(10 * round + i));
      second.push(static_cast<guint8>(100 + 10 * round + i));
    }
    for (guint8 i = 0; i < 2; ++i) {
      EXPECT_FLOAT_EQ(first.pull(), static_cast<float>(10 * round + i));
      EXPECT_FLOAT_EQ(second.pull(), static_cast<float>(100 + 10 * round + i));
    }
  }
  EXPECT_DOUBLE_EQ(first.meanBatch(), 4.0);
  EXPECT_DOUBLE_EQ(second.meanBatch(), 4.0);
}

TEST_F(Sharing, OtherNamesShareNothing) {
  const std::string apart = " batch-size=4 batch-timeout=10000 workers=1 max-in-flight=4 mean=0 scale=1";
  Sharer first(means(), "model-instance-id=one" + apart), second(means(), "model-instance-id=two" + apart);
  first.push(1);
  second.push(2);
  first.end();
  second.end();
  EXPECT_FLOAT_EQ(first.pull(), 1);
  EXPECT_FLOAT_EQ(second.pull(), 2);
  EXPECT_DOUBLE_EQ(first.meanBatch(), 1.0);
  EXPECT_DOUBLE_EQ(second.meanBatch(), 1.0);
}

// One set of workers however many share it; without a name everybody has one.
TEST_F(Sharing, ThreadsAreSharedToo) {
  const auto of_four = [file = means()](const std::string &properties) {
    std::vector<std::unique_ptr<Sharer>> sharers;
    for (int i = 0; i < 4; ++i) sharers.push_back(std::make_unique<Sharer>(file, properties));
    return workerCount();
  };
  ASSERT_EQ(settled(workerCount, 0), 0u);
  EXPECT_EQ(of_four("workers=3 model-instance-id=one"), 3u);
  EXPECT_EQ(settled(workerCount, 0), 0u);
  EXPECT_EQ(of_four("workers=3"), 12u);
  EXPECT_EQ(settled(workerCount, 0), 0u) << "they outlive their elements";
}

// Without being told, an element starts no more than there are cores for, and ONNX Runtime none of its own.
TEST_F(Sharing, ThreadsAreNoMoreThanCores) {
  const std::string file = means();
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  ASSERT_EQ(settled(workerCount, 0), 0u);
  const size_t before = threadCount();
  Sharer first(file, "max-in-flight=64 mean=0 scale=1");
  const auto count = static_cast<size_t>(CPU_COUNT(&cores));
  EXPECT_EQ(workerCount(), std::min<size_t>(count, 64));
  first.push(1);
  EXPECT_FLOAT_EQ(first.pull(), 1);
  EXPECT_LE(threadCount(), before + count + 2) << "the pad's task and GStreamer's pool, but no more";
}

TEST_F(Sharing, OneStopsAndTheOthersGoOn) {
  const std::string shared = "model-instance-id=one batch-size=2 batch-timeout=1 workers=1 mean=0 scale=1";
  Sharer first(means(), shared);
  {
    Sharer second(means(), shared);
    for (guint8 i = 0; i < 4; ++i) {
      first.push(i);
      second.push(static_cast<guint8>(50 + i));
    }
    EXPECT_FLOAT_EQ(second.pull(), 50);
  } // stops with frames on their way
  for (guint8 i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(first.pull(), static_cast<float>(i));
  first.push(9);
  EXPECT_FLOAT_EQ(first.pull(), 9);
  Sharer third(means(), shared); // and others may still join
  third.push(7);
  EXPECT_FLOAT_EQ(third.pull(), 7);
}

TEST_F(Sharing, ThresholdsAreEveryonesOwn) {
  std::ofstream(dir_.file("labels.txt")) << "one\ntwo\nthree\n";
  const std::string file =
      save(placedObjects(32, {{0, 0, 0.5f, 0.5f, 0, 0.9f}, {0.5f, 0.5f, 1, 1, 1, 0.7f}, {0, 0.5f, 0.5f, 1, 2, 0.5f}}));
  const std::string properties = "model-instance-id=one labels-file=\"" + dir_.file("labels.txt") + "\" threshold=";
  const struct {
    const char *threshold;
    size_t boxes;
  } rows[] = {{"0.8", 1}, {"0.6", 2}, {"0.1", 3}};
  std::vector<GstHarness *> harnesses;
  for (const auto &row : rows) {
    const std::string line = "fenceinfer model-file=\"" + file + "\" " + properties + row.threshold;
    harnesses.push_back(gst_harness_new_parse(line.c_str()));
    gst_harness_set_src_caps_str(harnesses.back(), kCaps);
  }
  for (int round = 0; round < 5; ++round)
    for (GstHarness *harness : harnesses)
      ASSERT_EQ(gst_harness_push(harness, solid("RGB", 16, 16, {1, 2, 3})), GST_FLOW_OK);
  for (size_t i = 0; i < harnesses.size(); ++i) {
    for (int round = 0; round < 5; ++round) {
      GstBuffer *out = gst_harness_pull(harnesses[i]);
      EXPECT_EQ(boxesOf(out).size(), rows[i].boxes) << rows[i].threshold;
      gst_buffer_unref(out);
    }
    gst_harness_teardown(harnesses[i]);
  }
}

// Two models side by side in one process, without a name: neither sees the other's pictures, options or labels.
TEST_F(Sharing, TwoModelsInOneProcess) {
  const std::string copies = save(copyOfThePicture(kOnnxFloat, {1, 1, 1, 3}), "copies.onnx");
  Sharer first(means(), "mean=0 scale=1"), second(copies, "mean=0 scale=2 workers=2");
  for (guint8 i = 0; i < 20; ++i) {
    first.push(i);
    second.push(static_cast<guint8>(100 + i));
    EXPECT_FLOAT_EQ(first.pull(), static_cast<float>(i));
    EXPECT_FLOAT_EQ(second.pull(), static_cast<float>(2 * (100 + i)));
  }
}

} // namespace
} // namespace gstzc::test
