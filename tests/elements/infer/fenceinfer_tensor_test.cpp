// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames that are the model's input tensor: asked of upstream, read where they lie.
#include "tests/elements/infer/fixture.h"

#include <cstring>
#include <fstream>

#include <unistd.h>

#include "gst/zerocopy/gstzcallocator.h"
#include "tests/elements/infer/pipeline.h"
#include "tests/support/small_models.h"

namespace gstzc::test {
namespace {

constexpr int kWidth = 64, kHeight = 48;

struct TensorModel {
  const char *format;
  OnnxModel::Dims dims;
  const char *properties;
};
const TensorModel kModels[] = {
    {"RGB", {1, kHeight, kWidth, 3}, ""},   {"BGR", {1, kHeight, kWidth, 3}, "channel-order=bgr"},
    {"RGBP", {1, 3, kHeight, kWidth}, ""},  {"BGRP", {1, 3, kHeight, kWidth}, "channel-order=bgr"},
    {"GRAY8", {1, kHeight, kWidth, 1}, ""}, {"GRAY8", {1, 1, kHeight, kWidth}, ""},
};

std::vector<guint8> bytesOf(GstBuffer *buffer) {
  std::vector<guint8> bytes(gst_buffer_get_size(buffer));
  gst_buffer_extract(buffer, 0, bytes.data(), bytes.size());
  return bytes;
}

// What the model was given.
std::vector<guint8> tensorOf(GstBuffer *buffer) {
  GstTensorMeta *meta = gst_buffer_get_tensor_meta(buffer);
  if (meta == nullptr || meta->num_tensors != 1) return {};
  return bytesOf(gst_tensor_meta_get(meta, 0)->data);
}

class Tensor : public FenceInferTest {
protected:
  std::string copying(const TensorModel &model) {
    return save(copyOfThePicture(kOnnxUInt8, model.dims),
                std::string(model.format) + std::to_string(model.dims[1].value) + ".onnx");
  }
  std::string rgb() { return copying(kModels[0]); }
  static std::string inferLine(const std::string &file, const std::string &properties) {
    return "fenceinfer name=infer model-file=\"" + file + "\" decoder=none output=tensor-meta " + properties;
  }
};

TEST_F(Tensor, UpstreamIsAskedForItAndTheModelReadsTheFrame) {
  for (const TensorModel &model : kModels) {
    SCOPED_TRACE(model.format);
    Pipeline pipeline("videotestsrc pattern=smpte num-buffers=5 ! video/x-raw,format=NV12,width=320,height=240 ! "
                      "videoconvertscale ! " +
                      inferLine(copying(model), std::string("layout=model ") + model.properties) +
                      " ! fakesink name=out");
    pipeline.keep("out");
    ASSERT_EQ(pipeline.run(), "");
    EXPECT_EQ(pipeline.frames("infer"), std::string(model.format) + " 64x48");
    EXPECT_EQ(pipeline.stat("infer", "inferred"), 5u);
    EXPECT_EQ(pipeline.stat("infer", "preprocessed"), 0u) << "the frames were converted all the same";
    EXPECT_EQ(pipeline.stat("infer", "copies"), 0u);
    ASSERT_EQ(pipeline.kept().size(), 5u);
    for (GstBuffer *buffer : pipeline.kept()) {
      ASSERT_EQ(gst_buffer_get_size(buffer), tensorOf(buffer).size());
      EXPECT_EQ(bytesOf(buffer), tensorOf(buffer));
    }
  }
}

// Of 30 pixels a row has 90 bytes, and GStreamer's frames 92.
TEST_F(Tensor, GapsBetweenRowsAreTakenOutAndCounted) {
  const std::string file = save(copyOfThePicture(kOnnxUInt8, {1, 20, 30, 3}));
  Pipeline pipeline("videotestsrc num-buffers=3 ! videoconvertscale ! " + inferLine(file, "layout=model") +
                    " ! fakesink name=out");
  pipeline.keep("out");
  ASSERT_EQ(pipeline.run(), "");
  EXPECT_EQ(pipeline.frames("infer"), "RGB 30x20");
  EXPECT_EQ(pipeline.stat("infer", "copies"), 3u);
  EXPECT_EQ(pipeline.stat("infer", "bytes-copied"), 3u * 30 * 20 * 3);
  ASSERT_EQ(pipeline.kept().size(), 3u);
  for (GstBuffer *buffer : pipeline.kept()) {
    const auto frame = bytesOf(buffer), tensor = tensorOf(buffer);
    ASSERT_EQ(tensor.size(), 30u * 20 * 3);
    for (size_t y = 0; y < 20; ++y)
      ASSERT_EQ(std::memcmp(frame.data() + y * 92, tensor.data() + y * 90, 90), 0) << "row " << y;
  }
}

// Both notations of the caps.
class TensorMemory : public Tensor {
protected:
  void through(GstZcMemorySource source) {
    for (const char *format : {"format=RGB", "format=DMA_DRM,drm-format=BG24"}) {
      SCOPED_TRACE(format);
      const std::string caps = std::string("video/x-raw(memory:DMABuf),") + format + ",width=64,height=48";
      start(rgb(), (caps + ",framerate=30/1").c_str(), "decoder=none output=tensor-meta");
      GstAllocator *allocator = gst_zc_allocator_new(source, nullptr, nullptr);
      ASSERT_NE(allocator, nullptr);
      constexpr gsize size = kWidth * kHeight * 3;
      GstBuffer *in = gst_buffer_new();
      gst_buffer_append_memory(in, gst_allocator_alloc(allocator, size, nullptr));
      gst_object_unref(allocator);
      std::vector<guint8> bytes(size);
      for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<guint8>(i * 7 + i / 251);
      ASSERT_EQ(gst_buffer_fill(in, 0, bytes.data(), size), size);
      ASSERT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
      GstBuffer *out = gst_harness_pull(harness_);
      ASSERT_NE(out, nullptr);
      EXPECT_EQ(tensorOf(out), bytes);
      gst_buffer_unref(out);
      EXPECT_EQ(stat("inferred"), 1u);
      EXPECT_EQ(stat("preprocessed"), 0u);
      EXPECT_EQ(stat("copies"), 0u);
      stop();
    }
  }
};

TEST_F(TensorMemory, WithADescriptor) { through(GST_ZC_MEMORY_SOURCE_MEMFD); }

TEST_F(TensorMemory, ADmaBuf) {
  if (access("/dev/udmabuf", R_OK | W_OK) != 0) GTEST_SKIP() << "/dev/udmabuf cannot be opened";
  through(GST_ZC_MEMORY_SOURCE_UDMABUF);
}

// Where somebody sees the frames or keeps them, they stay as they were.
TEST_F(Tensor, AutomaticallyOnlyWhereNobodySeesTheFrames) {
  const std::string seen = "NV12 320x240", tensor = "RGB 64x48";
  const std::string kept = "filesink location=/dev/null";
  const struct {
    std::string layout, tail, frames;
  } rows[] = {
      {"auto", "fakesink", tensor},
      {"auto", "queue ! identity ! fakesink", tensor},
      {"auto", "tee name=t t. ! queue ! fakesink async=false t. ! queue ! fakesink async=false", tensor},
      {"auto", "tee name=t t. ! queue ! fakesink async=false t. ! queue ! " + kept, seen},
      {"auto", kept, seen},
      {"auto", "appsink wait-on-eos=false", seen},
      {"auto", "videoconvert ! video/x-raw,format=I420 ! fakesink", seen},
      {"auto", "bin.( queue ! fakesink )", tensor},
      {"auto", "fakesink signal-handoffs=true", seen},
      {"auto", "fenceinfer layout=frame decoder=none output=tensor-meta model-file=\"" + rgb() + "\" ! fakesink",
       seen}, // its model may want more of the picture
      {"frame", "fakesink", seen},
      {"model", kept, tensor},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.layout + ": " + row.tail);
    Pipeline pipeline("videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=320,height=240 ! "
                      "videoconvertscale ! " +
                      inferLine(rgb(), "layout=" + row.layout) + " ! " + row.tail);
    ASSERT_EQ(pipeline.run(), "");
    EXPECT_EQ(pipeline.frames("infer"), row.frames);
    EXPECT_EQ(pipeline.stat("infer", "preprocessed"), row.frames == tensor ? 0u : 2u);
  }
}

// A scaler that is asked for the model's size does not do what resize-mode says but in the middle of black.
TEST_F(Tensor, AutomaticallyOnlyWhereTheModelSeesTheSame) {
  struct {
    const char *properties, *frames;
    int top; // rows of the borders in what the model is given
  } const rows[] = {{"layout=auto resize-mode=stretch", "RGB 64x48", 0},
                    {"layout=auto resize-mode=letterbox", "RGB 64x48", 15},
                    {"layout=frame resize-mode=letterbox", "NV12 640x180", 15},
                    {"layout=auto resize-mode=letterbox pad-value=114", "NV12 640x180", 15},
                    {"layout=auto resize-mode=crop", "NV12 640x180", 0},
                    {"layout=model resize-mode=crop", "RGB 64x48", 15}};
  for (const auto &row : rows) {
    SCOPED_TRACE(row.properties);
    Pipeline pipeline("videotestsrc pattern=white num-buffers=1 ! video/x-raw,format=NV12,width=640,height=180 ! "
                      "videoconvertscale ! " +
                      inferLine(rgb(), row.properties) + " ! fakesink name=out");
    pipeline.keep("out");
    ASSERT_EQ(pipeline.run(), "");
    EXPECT_EQ(pipeline.frames("infer"), row.frames);
    ASSERT_EQ(pipeline.kept().size(), 1u);
    const auto tensor = tensorOf(pipeline.kept()[0]);
    ASSERT_EQ(tensor.size(), static_cast<size_t>(kWidth) * kHeight * 3);
    int top = 0;
    while (top < kHeight && tensor[static_cast<size_t>(top) * kWidth * 3] < 200) ++top;
    EXPECT_EQ(top, row.top);
  }
}

// Producers whose pads appear while the pipeline runs have their frames' caps by then.
TEST_F(Tensor, WhoIsAboutToLinkIsNotRefused) {
  GstElement *infer = gst_parse_launch(inferLine(rgb(), "layout=model").c_str(), nullptr);
  ASSERT_EQ(gst_element_set_state(infer, GST_STATE_PAUSED), GST_STATE_CHANGE_SUCCESS);
  GstPad *sink = gst_element_get_static_pad(infer, "sink");
  GstCaps *caps = gst_pad_query_caps(sink, nullptr);
  GstCaps *frames = gst_caps_from_string("video/x-raw,format=NV12,width=1920,height=1080,framerate=30/1");
  EXPECT_TRUE(gst_caps_can_intersect(caps, frames));
  gint width = 0;
  EXPECT_TRUE(gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width)) << "first what is liked best";
  EXPECT_EQ(width, kWidth);
  gst_caps_unref(frames);
  gst_caps_unref(caps);
  gst_object_unref(sink);
  gst_element_set_state(infer, GST_STATE_NULL);
  gst_object_unref(infer);
}

TEST_F(Tensor, AnUpstreamThatCannotMakeItSendsItsFrames) {
  const std::string nv12 = "videotestsrc num-buffers=2 ! video/x-raw,format=NV12,width=320,height=240";
  const OnnxModel floats = copyOfThePicture(kOnnxFloat, {1, kHeight, kWidth, 3});
  const struct {
    const char *what;
    std::string head, model, properties;
  } rows[] = {
      {"neither size nor format", nv12, rgb(), ""},
      {"the size only", nv12 + " ! videoscale", rgb(), ""},
      {"the format only", nv12 + " ! videoconvert", rgb(), ""},
      {"no format has floats", nv12 + " ! videoconvertscale", save(floats, "floats.onnx"), ""},
      {"a tensor with another mean", nv12 + " ! videoconvertscale", rgb(), "mean=3"},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(row.what);
    Pipeline pipeline(row.head + " ! " + inferLine(row.model, "layout=model " + row.properties) +
                      " ! fakesink name=out");
    pipeline.keep("out");
    ASSERT_EQ(pipeline.run(), "");
    EXPECT_EQ(pipeline.frames("infer"), "NV12 320x240");
    EXPECT_EQ(pipeline.stat("infer", "preprocessed"), 2u);
    ASSERT_EQ(pipeline.kept().size(), 2u);
    EXPECT_FALSE(tensorOf(pipeline.kept()[1]).empty());
  }
}

// A model that is swapped in has a tensor of its own.
TEST_F(Tensor, UpstreamIsAskedAgainForTheNextModelsTensor) {
  const std::string smaller = save(copyOfThePicture(kOnnxUInt8, {1, 3, 24, 32}), "smaller.onnx");
  Pipeline pipeline("videotestsrc ! video/x-raw,format=NV12,width=320,height=240 ! videoconvertscale ! " +
                    inferLine(rgb(), "layout=model") + " ! fakesink name=out");
  pipeline.play();
  ASSERT_EQ(gst_element_get_state(pipeline.element(), nullptr, nullptr, 10 * GST_SECOND), GST_STATE_CHANGE_SUCCESS);
  EXPECT_EQ(pipeline.frames("infer"), "RGB 64x48");
  pipeline.withElement("infer",
                       [&](GstElement *infer) { g_object_set(infer, "model-file", smaller.c_str(), nullptr); });
  for (int i = 0; i < 1000 && pipeline.frames("infer") != "RGBP 32x24"; ++i) g_usleep(10000);
  EXPECT_EQ(pipeline.frames("infer"), "RGBP 32x24");
  GstMessage *error = pipeline.next(GST_MESSAGE_ERROR);
  EXPECT_EQ(error, nullptr);
  gst_clear_message(&error);
}

} // namespace
} // namespace gstzc::test
