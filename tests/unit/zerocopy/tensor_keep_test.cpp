// SPDX-License-Identifier: LGPL-2.1-or-later
// On every GStreamer: tensors go with the copies of a frame, once, and share their bytes.
#include "gst/zerocopy/tensor_keep.h"

#include <array>
#include <string>
#include <vector>

#include <gst/analytics/analytics.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/shallow_copy.h"

using namespace gstzc;

namespace {

constexpr int kWidth = 32, kHeight = 16;

std::vector<const GstTensorMeta *> metasOf(GstBuffer *buffer) {
  std::vector<const GstTensorMeta *> metas;
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_TENSOR_META_API_TYPE))
    metas.push_back(reinterpret_cast<GstTensorMeta *>(meta));
  return metas;
}

class TensorKeep : public testing::Test {
protected:
  TensorKeep() {
    frame_ = gst_buffer_new_allocate(nullptr, kWidth * kHeight * 3, nullptr);
    gst_buffer_memset(frame_, 0, 0, gst_buffer_get_size(frame_));
    GST_BUFFER_PTS(frame_) = 0;
  }
  ~TensorKeep() override {
    gst_clear_buffer(&frame_);
    EXPECT_EQ(alive_, 0) << "the tensors' bytes are let go of";
  }

  // Adds a meta with one tensor of the given values, which count as alive until nobody has them.
  void add(const std::string &id, std::vector<float> &values) {
    ++alive_;
    GstBuffer *data = gst_buffer_new_wrapped_full(GST_MEMORY_FLAG_READONLY, values.data(),
                                                  values.size() * sizeof(float), 0, values.size() * sizeof(float), this,
                                                  [](gpointer self) { --static_cast<TensorKeep *>(self)->alive_; });
    gsize dims[] = {1, values.size()};
    GstTensor **list = g_new0(GstTensor *, 1);
    list[0] = gst_tensor_new_simple(g_quark_from_string(id.c_str()), GST_TENSOR_DATA_TYPE_FLOAT32, data,
                                    GST_TENSOR_DIM_ORDER_COL_MAJOR, 2, dims);
    auto *meta = reinterpret_cast<GstTensorMeta *>(gst_buffer_add_meta(frame_, GST_TENSOR_META_INFO, nullptr));
    gst_tensor_meta_set(meta, 1, list);
  }

  // That `buffer` has one meta for each of the values, which it shares.
  void expectTensors(GstBuffer *buffer, const std::vector<std::pair<std::string, const std::vector<float> *>> &all) {
    const auto metas = metasOf(buffer);
    ASSERT_EQ(metas.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(metas[i]->num_tensors, 1u);
      const GstTensor *tensor = metas[i]->tensors[0];
      EXPECT_EQ(g_quark_to_string(tensor->id), all[i].first);
      EXPECT_EQ(tensor->data_type, GST_TENSOR_DATA_TYPE_FLOAT32);
      EXPECT_EQ(tensor->dims_order, GST_TENSOR_DIM_ORDER_COL_MAJOR);
      ASSERT_EQ(tensor->num_dims, 2u);
      EXPECT_EQ(tensor->dims[1], all[i].second->size());
      GstMapInfo map;
      ASSERT_TRUE(gst_buffer_map(tensor->data, &map, GST_MAP_READ));
      EXPECT_EQ(map.data, reinterpret_cast<const guint8 *>(all[i].second->data())) << "no byte is copied";
      EXPECT_EQ(map.size, all[i].second->size() * sizeof(float));
      gst_buffer_unmap(tensor->data, &map);
    }
  }

  // The frame as it comes out of `elements`, which get what is not writable.
  GstBuffer *through(const std::string &elements) {
    const std::string line = "appsrc name=in format=time caps=video/x-raw,format=RGB,width=" + std::to_string(kWidth) +
                             ",height=" + std::to_string(kHeight) + ",framerate=1/1 ! " + elements +
                             " ! appsink name=out sync=false";
    GError *error = nullptr;
    GstElement *pipeline = gst_parse_launch(line.c_str(), &error);
    EXPECT_NE(pipeline, nullptr) << error->message;
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    GstElement *in = gst_bin_get_by_name(GST_BIN(pipeline), "in"), *out = gst_bin_get_by_name(GST_BIN(pipeline), "out");
    GstFlowReturn flow = GST_FLOW_ERROR;
    g_signal_emit_by_name(in, "push-buffer", frame_, &flow);
    EXPECT_EQ(flow, GST_FLOW_OK);
    GstSample *sample = nullptr;
    g_signal_emit_by_name(out, "try-pull-sample", 10 * GST_SECOND, &sample);
    EXPECT_NE(sample, nullptr) << elements;
    GstBuffer *buffer = sample != nullptr ? gst_buffer_ref(gst_sample_get_buffer(sample)) : gst_buffer_new();
    if (sample != nullptr) gst_sample_unref(sample);
    gst_element_set_state(pipeline, GST_STATE_NULL);
    gst_object_unref(in);
    gst_object_unref(out);
    gst_object_unref(pipeline);
    return buffer;
  }

  int alive_ = 0;
  GstBuffer *frame_ = nullptr;
};

TEST_F(TensorKeep, WithoutItWhatGStreamerDoesIsWhatHappens) {
  std::vector<float> values = {1, 2};
  add("a", values);
  GstBuffer *copy = gst_buffer_copy(frame_);
  EXPECT_EQ(metasOf(copy).size(), GST_TENSOR_META_INFO->transform_func == nullptr ? 0u : 1u);
  gst_buffer_unref(copy);
}

TEST_F(TensorKeep, CopiesHaveTheTensors) {
  std::vector<float> values = {1, 2, 3};
  add("a", values);
  keepTensorsOnCopies(frame_);
  keepTensorsOnCopies(frame_);
  std::array copies = {gst_buffer_copy(frame_), gst_buffer_copy_deep(frame_),
                       gst_buffer_copy_region(frame_, GST_BUFFER_COPY_ALL, 8, 8),
                       writableShallow(gst_buffer_ref(frame_))};
  gst_clear_buffer(&frame_);
  for (GstBuffer *copy : copies) {
    expectTensors(copy, {{"a", &values}});
    GstBuffer *again = gst_buffer_copy(copy);
    gst_buffer_unref(copy);
    expectTensors(again, {{"a", &values}});
    gst_buffer_unref(again);
  }
}

TEST_F(TensorKeep, OfSeveralModelsAll) {
  std::vector<float> first = {1, 2}, second = {3};
  add("a", first);
  keepTensorsOnCopies(frame_);
  add("b", second); // after the companion
  GstBuffer *copy = gst_buffer_copy(frame_);
  expectTensors(copy, {{"a", &first}, {"b", &second}});
  expectTensors(frame_, {{"a", &first}, {"b", &second}});
  gst_buffer_unref(copy);
}

TEST_F(TensorKeep, NoTensorsAreNoTensors) {
  keepTensorsOnCopies(frame_);
  GstBuffer *copy = gst_buffer_copy(frame_);
  EXPECT_TRUE(metasOf(copy).empty());
  gst_buffer_unref(copy);
}

// Such as an element that merges the metadata of two frames.
TEST_F(TensorKeep, TensorsThatAreThereStayAlone) {
  std::vector<float> mine = {1}, theirs = {2, 3};
  add("mine", mine);
  keepTensorsOnCopies(frame_);
  GstBuffer *other = gst_buffer_copy(frame_);
  gst_clear_buffer(&frame_);
  frame_ = gst_buffer_new();
  add("theirs", theirs);
  keepTensorsOnCopies(frame_);
  if (GST_TENSOR_META_INFO->transform_func == nullptr) {
    gst_buffer_copy_into(frame_, other, GST_BUFFER_COPY_META, 0, static_cast<gsize>(-1));
    expectTensors(frame_, {{"theirs", &theirs}});
  }
  gst_buffer_unref(other);
}

TEST_F(TensorKeep, ThroughElementsThatMakeNewFrames) {
  std::vector<float> values = {1, 2, 3};
  add("a", values);
  keepTensorsOnCopies(frame_);
  for (const char *elements :
       {"identity", "videoconvert ! video/x-raw,format=NV12", "videoconvert", "videoscale ! video/x-raw,width=8",
        "tee name=t ! queue ! videoconvert ! video/x-raw,format=BGRx ! fakesink async=false t. ! queue",
        "videoflip method=clockwise", "videobox left=2 ! videoconvert ! video/x-raw,format=I420"}) {
    SCOPED_TRACE(elements);
    GstBuffer *out = through(elements);
    expectTensors(out, {{"a", &values}});
    gst_buffer_unref(out);
  }
}

} // namespace
