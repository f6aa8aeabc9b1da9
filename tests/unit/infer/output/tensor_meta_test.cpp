// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/tensor_meta.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/shallow_copy.h"

using namespace gstzc::infer;

namespace {

// Outputs whose memory says when it is let go of.
struct Memory {
  std::vector<float> boxes = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f};
  std::vector<uint16_t> scores = {0x3c00, 0x3800};
  explicit Memory(bool *alive) : alive_(alive) { *alive_ = true; }
  ~Memory() { *alive_ = false; }

private:
  bool *alive_;
};

std::vector<const GstTensorMeta *> metasOf(GstBuffer *buffer) {
  std::vector<const GstTensorMeta *> metas;
  gpointer state = nullptr;
  while (GstMeta *meta = gst_buffer_iterate_meta_filtered(buffer, &state, GST_TENSOR_META_API_TYPE))
    metas.push_back(reinterpret_cast<GstTensorMeta *>(meta));
  return metas;
}

std::vector<gsize> dimsOf(const GstTensor *tensor) { return {tensor->dims, tensor->dims + tensor->num_dims}; }

TensorInfo info(const std::string &name) {
  TensorInfo i;
  i.name = name;
  return i;
}

class Tensors : public testing::Test {
protected:
  Tensors() {
    auto memory = std::make_shared<Memory>(&alive_);
    outputs_.tensors = {{TensorType::Float32, {1, 2, 4}, memory->boxes.data(), 32, MemorySpace::Host},
                        {TensorType::Float16, {1, 2}, memory->scores.data(), 4, MemorySpace::Host}};
    data_ = {memory->boxes.data(), memory->scores.data()};
    outputs_.owner = memory;
  }
  ~Tensors() override {
    outputs_ = {};
    gst_clear_buffer(&frame_);
    EXPECT_FALSE(alive_);
  }

  void expectTensors(GstBuffer *buffer) {
    const auto metas = metasOf(buffer);
    ASSERT_EQ(metas.size(), 1u);
    ASSERT_EQ(metas[0]->num_tensors, 2u);
    for (size_t i = 0; i < 2; ++i) {
      GstMapInfo map;
      ASSERT_TRUE(gst_buffer_map(metas[0]->tensors[i]->data, &map, GST_MAP_READ));
      EXPECT_EQ(map.data, data_[i]) << "no byte is copied";
      EXPECT_EQ(map.size, i == 0 ? 32u : 4u);
      gst_buffer_unmap(metas[0]->tensors[i]->data, &map);
    }
  }

  bool alive_ = false;
  std::array<void *, 2> data_ = {};
  Outputs outputs_;
  const std::vector<TensorInfo> infos_ = {info("out:0"), info("out:1")};
  GstBuffer *frame_ = gst_buffer_new_allocate(nullptr, 64, nullptr);
};

TEST_F(Tensors, AreTheOutputsMemory) {
  ASSERT_TRUE(attachTensors(frame_, outputs_, infos_, {{"my-boxes", "my-group", true}, {}}));
  outputs_ = {};
  EXPECT_TRUE(alive_) << "the frame holds it";
  expectTensors(frame_);
  const GstTensorMeta *meta = metasOf(frame_)[0];
  const GstTensor *boxes = meta->tensors[0], *scores = meta->tensors[1];
  EXPECT_STREQ(g_quark_to_string(boxes->id), "my-boxes");
  EXPECT_EQ(boxes->data_type, GST_TENSOR_DATA_TYPE_FLOAT32);
  EXPECT_EQ(boxes->layout, GST_TENSOR_LAYOUT_CONTIGUOUS);
  EXPECT_EQ(boxes->dims_order, GST_TENSOR_DIM_ORDER_COL_MAJOR);
  EXPECT_EQ(dimsOf(boxes), (std::vector<gsize>{1, 2, 4}));
  EXPECT_STREQ(g_quark_to_string(scores->id), "out:1") << "its own name, without a tag";
  EXPECT_EQ(scores->data_type, GST_TENSOR_DATA_TYPE_FLOAT16);
  EXPECT_EQ(scores->dims_order, GST_TENSOR_DIM_ORDER_ROW_MAJOR);
  EXPECT_EQ(dimsOf(scores), (std::vector<gsize>{1, 2}));
  EXPECT_EQ(gst_tensor_meta_get_index_from_id(const_cast<GstTensorMeta *>(meta), g_quark_from_string("my-boxes")), 0);
}

TEST_F(Tensors, AreConstant) {
  ASSERT_TRUE(attachTensors(frame_, outputs_, infos_, {}));
  GstBuffer *data = metasOf(frame_)[0]->tensors[0]->data;
  EXPECT_TRUE(GST_MEMORY_IS_READONLY(gst_buffer_peek_memory(data, 0)));
}

TEST_F(Tensors, GoWithCopiesWithoutAByteOfThem) {
  ASSERT_TRUE(attachTensors(frame_, outputs_, infos_, {}));
  outputs_ = {};
  std::array copies = {gst_buffer_copy(frame_), gst_buffer_copy_deep(frame_),
                       gst_buffer_copy_region(frame_, GST_BUFFER_COPY_ALL, 8, 8),
                       gstzc::writableShallow(gst_buffer_ref(frame_))};
  gst_clear_buffer(&frame_);
  for (GstBuffer *copy : copies) {
    EXPECT_TRUE(alive_);
    expectTensors(copy);
    gst_buffer_unref(copy);
  }
}

TEST_F(Tensors, OfASecondModelAreAMetaOfTheirOwn) {
  ASSERT_TRUE(attachTensors(frame_, outputs_, infos_, {{"a", "", false}, {"b", "", false}}));
  Outputs second = outputs_;
  second.tensors.resize(1);
  ASSERT_TRUE(attachTensors(frame_, second, {info("c")}, {}));
  GstBuffer *copy = gst_buffer_copy(frame_);
  for (GstBuffer *buffer : {frame_, copy}) {
    const auto metas = metasOf(buffer);
    ASSERT_EQ(metas.size(), 2u);
    EXPECT_EQ(metas[0]->num_tensors, 2u);
    ASSERT_EQ(metas[1]->num_tensors, 1u);
    EXPECT_STREQ(g_quark_to_string(metas[1]->tensors[0]->id), "c");
  }
  gst_buffer_unref(copy);
}

TEST_F(Tensors, OfEveryType) {
  alignas(8) std::array<uint8_t, 8> bytes = {};
  const struct {
    TensorType type;
    size_t size;
    GstTensorDataType expected;
  } rows[] = {
      {TensorType::Float32, 4, GST_TENSOR_DATA_TYPE_FLOAT32}, {TensorType::Float16, 2, GST_TENSOR_DATA_TYPE_FLOAT16},
      {TensorType::UInt8, 1, GST_TENSOR_DATA_TYPE_UINT8},     {TensorType::Int8, 1, GST_TENSOR_DATA_TYPE_INT8},
      {TensorType::Int32, 4, GST_TENSOR_DATA_TYPE_INT32},     {TensorType::Int64, 8, GST_TENSOR_DATA_TYPE_INT64}};
  for (const auto &row : rows) {
    GstBuffer *buffer = gst_buffer_new();
    ASSERT_TRUE(
        attachTensors(buffer, {{{row.type, {1}, bytes.data(), row.size, MemorySpace::Host}}, {}}, {info("x")}, {}))
        << tensorTypeName(row.type);
    EXPECT_EQ(metasOf(buffer).at(0)->tensors[0]->data_type, row.expected);
    gst_buffer_unref(buffer);
  }
}

// A scalar has no dimensions, and an output that found nothing no elements.
TEST_F(Tensors, ScalarsAndNothing) {
  float scalar = 3;
  ASSERT_TRUE(attachTensors(frame_,
                            {{{TensorType::Float32, {}, &scalar, 4, MemorySpace::Host},
                              {TensorType::Float32, {0, 4}, nullptr, 0, MemorySpace::Host},
                              {TensorType::Float32, {0, INT64_MAX, 4}, nullptr, 0, MemorySpace::Host}},
                             {}},
                            {info("scalar"), info("nothing"), info("as little")}, {}));
  const GstTensorMeta *meta = metasOf(frame_).at(0);
  EXPECT_EQ(meta->tensors[0]->num_dims, 0u);
  EXPECT_EQ(dimsOf(meta->tensors[1]), (std::vector<gsize>{0, 4}));
  GstMapInfo map;
  ASSERT_TRUE(gst_buffer_map(meta->tensors[1]->data, &map, GST_MAP_READ));
  EXPECT_EQ(map.size, 0u);
  gst_buffer_unmap(meta->tensors[1]->data, &map);
}

TEST_F(Tensors, WhatCannotBeAttachedIsAnError) {
  const TensorView good = outputs_.tensors[0];
  const auto with = [&](auto change) {
    TensorView view = good;
    change(view);
    return view;
  };
  const struct {
    TensorView view;
    const char *why;
  } rows[] = {{with([](TensorView &v) { v.type = TensorType::Other; }), "no such type"},
              {with([](TensorView &v) { v.space = MemorySpace::Device; }), "device"},
              {with([](TensorView &v) { v.bytes = 28; }), "28 bytes"},
              {with([](TensorView &v) { v.dims = {1, -1, 4}; }), "shape"},
              {with([](TensorView &v) { v.dims = {INT64_MAX, INT64_MAX, 4}; }), "shape"},
              {with([](TensorView &v) { v.data = nullptr; }), "shape"}};
  for (const auto &row : rows) {
    Outputs outputs = outputs_;
    outputs.tensors[1] = row.view; // the first is good
    const auto status = attachTensors(frame_, outputs, infos_, {});
    ASSERT_FALSE(status) << row.why;
    const std::string text = status.error().message();
    EXPECT_NE(text.find("out:1"), std::string::npos) << text;
    EXPECT_NE(text.find(row.why), std::string::npos) << text;
    EXPECT_TRUE(metasOf(frame_).empty());
  }
  const auto status = attachTensors(frame_, outputs_, {info("only")}, {});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message().find("1 outputs and gave 2"), std::string::npos) << status.error().message();
}

TEST_F(Tensors, OfADeviceAreTheBuffersThatItShares) {
  for (TensorView &view : outputs_.tensors) view.space = MemorySpace::Device;
  EXPECT_FALSE(attachTensors(frame_, outputs_, infos_, {}).ok()) << "the host cannot read them";
  std::vector<BufferRef> shared;
  shared.emplace_back(gst_buffer_new_allocate(nullptr, 32, nullptr));
  EXPECT_FALSE(attachTensors(frame_, outputs_, infos_, {}, shared).ok()) << "one for two outputs";
  EXPECT_TRUE(metasOf(frame_).empty());
  shared.emplace_back(gst_buffer_new_allocate(nullptr, 4, nullptr));
  ASSERT_TRUE(attachTensors(frame_, outputs_, infos_, {}, shared).ok());
  const auto metas = metasOf(frame_);
  ASSERT_EQ(metas.size(), 1u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(metas[0]->tensors[i]->data, shared[i].get());
    EXPECT_EQ(dimsOf(metas[0]->tensors[i]), i == 0 ? (std::vector<gsize>{1, 2, 4}) : (std::vector<gsize>{1, 2}));
  }
}

} // namespace
