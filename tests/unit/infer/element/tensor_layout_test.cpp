// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/tensor_layout.h"

#include <string>

#include <gtest/gtest.h>

using namespace gstzc::infer;

namespace {

std::string text(GstCaps *caps) {
  gchar *text = caps != nullptr ? gst_caps_to_string(caps) : nullptr;
  const std::string copy = text != nullptr ? text : "none";
  g_free(text);
  return copy;
}

Model bytes(TensorLayout layout, bool bgr, int channels = 3) {
  Model model;
  model.plan = {32, 16, layout, TensorType::UInt8, channels};
  model.preprocess.normalisation.bgr = bgr;
  return model;
}

TEST(TensorCaps, AreTheFramesThatAreTheTensor) {
  struct {
    TensorLayout layout;
    bool bgr;
    const char *format;
    bool drm;
  } const rows[] = {{TensorLayout::Nhwc, false, "RGB", true},
                    {TensorLayout::Nhwc, true, "BGR", true},
                    {TensorLayout::Nchw, false, "RGBP", false},
                    {TensorLayout::Nchw, true, "BGRP", false}};
  for (const auto &row : rows) {
    GstCaps *caps = tensorCaps(bytes(row.layout, row.bgr));
    ASSERT_NE(caps, nullptr) << row.format;
    EXPECT_EQ(gst_caps_get_size(caps), row.drm ? 3u : 2u) << text(caps);
    GstCaps *frame = gst_caps_from_string(
        ("video/x-raw,format=" + std::string(row.format) + ",width=32,height=16,framerate=30/1").c_str());
    EXPECT_TRUE(gst_caps_is_subset(frame, caps)) << text(caps);
    gst_caps_set_simple(frame, "width", G_TYPE_INT, 33, nullptr);
    EXPECT_FALSE(gst_caps_can_intersect(frame, caps));
    gst_caps_unref(frame);
    gst_caps_unref(caps);
  }
  Model floats = bytes(TensorLayout::Nhwc, false);
  floats.plan.type = TensorType::Float32;
  EXPECT_EQ(tensorCaps(floats), nullptr);
  Model scaled = bytes(TensorLayout::Nhwc, false);
  scaled.preprocess.normalisation.scale = {2, 2, 2};
  EXPECT_EQ(tensorCaps(scaled), nullptr);
}

// A scaler in front that is asked for the tensor's size must not do what the resize mode does not.
TEST(TensorCaps, KeepTheShapeWhereTheModelDoes) {
  struct {
    ResizeMode resize;
    float padding;
    bool square, automatic;
  } const rows[] = {{ResizeMode::Stretch, 0, false, true},
                    {ResizeMode::Letterbox, 0, true, true},
                    {ResizeMode::Letterbox, 114, true, false},
                    {ResizeMode::LetterboxTopLeft, 0, true, false},
                    {ResizeMode::Crop, 0, true, false}};
  for (const auto &row : rows) {
    Model model = bytes(TensorLayout::Nhwc, false);
    model.preprocess.resize = row.resize;
    model.preprocess.normalisation.padding = row.padding;
    GstCaps *caps = tensorCaps(model);
    GstCaps *flat = gst_caps_from_string("video/x-raw,format=RGB,width=32,height=16,pixel-aspect-ratio=32/9");
    EXPECT_EQ(gst_caps_can_intersect(flat, caps), !row.square) << text(caps);
    EXPECT_EQ(scalersDoTheSame(model), row.automatic) << static_cast<int>(row.resize) << " " << row.padding;
    gst_caps_unref(flat);
    gst_caps_unref(caps);
  }
}

TEST(TensorCaps, AreComparedWhereThereAreSome) {
  const Model rgb = bytes(TensorLayout::Nhwc, false), same = bytes(TensorLayout::Nhwc, false);
  Model wider = bytes(TensorLayout::Nhwc, false), none = bytes(TensorLayout::Nhwc, false);
  wider.plan.width = 64;
  none.plan.type = TensorType::Float32;
  EXPECT_TRUE(sameTensorCaps(rgb, same));
  EXPECT_TRUE(sameTensorCaps(none, none));
  EXPECT_FALSE(sameTensorCaps(rgb, wider));
  EXPECT_FALSE(sameTensorCaps(rgb, none));
  EXPECT_FALSE(sameTensorCaps(none, rgb));
  Model cropped = bytes(TensorLayout::Nhwc, false);
  cropped.preprocess.resize = ResizeMode::Crop;
  EXPECT_FALSE(sameTensorCaps(rgb, cropped));
}

TEST(PreferTensor, PutsItFirstOrTakesOnlyIt) {
  GstCaps *tensor = tensorCaps(bytes(TensorLayout::Nhwc, false));
  const char *all = "video/x-raw, format={ NV12, RGB }, width=[ 1, 100 ], height=[ 1, 100 ]";
  GstCaps *first = preferTensor(gst_caps_from_string(all), tensor, false);
  const GstStructure *structure = gst_caps_get_structure(first, 0);
  EXPECT_STREQ(gst_structure_get_string(structure, "format"), "RGB") << text(first);
  GstCaps *nv12 = gst_caps_from_string("video/x-raw,format=NV12,width=64,height=64");
  EXPECT_TRUE(gst_caps_can_intersect(first, nv12)) << "the rest is gone";
  GstCaps *only = preferTensor(gst_caps_from_string(all), tensor, true);
  EXPECT_FALSE(gst_caps_can_intersect(only, nv12)) << text(only);
  EXPECT_FALSE(gst_caps_is_empty(only));
  GstCaps *none = preferTensor(gst_caps_ref(nv12), tensor, true);
  EXPECT_TRUE(gst_caps_is_equal(none, nv12)) << "what downstream cannot take is not asked for";
  for (GstCaps *caps : {tensor, first, nv12, only, none}) gst_caps_unref(caps);
}

// The source pad of the element "x" in the pipeline.
bool unseen(const std::string &branch) {
  GError *error = nullptr;
  GstElement *pipeline = gst_parse_launch(("identity name=x ! " + branch).c_str(), &error);
  EXPECT_EQ(error, nullptr) << branch << ": " << (error != nullptr ? error->message : "");
  g_clear_error(&error);
  GstElement *element = gst_bin_get_by_name(GST_BIN(pipeline), "x");
  GstPad *src = gst_element_get_static_pad(element, "src");
  const bool result = endsUnseen(src);
  gst_object_unref(src);
  gst_object_unref(element);
  gst_object_unref(pipeline);
  return result;
}

TEST(EndsUnseen, OnlyWhereEveryWayEndsInAFakesink) {
  EXPECT_TRUE(unseen("fakesink"));
  EXPECT_TRUE(unseen("queue ! identity ! capsfilter ! fakesink"));
  EXPECT_TRUE(unseen("tee name=t t. ! queue ! fakesink t. ! fakesink"));
  EXPECT_FALSE(unseen("filesink location=/dev/null"));
  EXPECT_FALSE(unseen("tee name=t t. ! queue ! fakesink t. ! filesink location=/dev/null"));
  EXPECT_FALSE(unseen("videoconvert ! fakesink")) << "who converts frames uses them";
  EXPECT_FALSE(unseen("queue")) << "nobody is there yet";
  EXPECT_FALSE(unseen("tee")) << "nobody is there yet";
}

TEST(EndsUnseen, ThroughTheBordersOfBins) {
  GstElement *pipeline = gst_pipeline_new(nullptr);
  GstElement *inner = gst_parse_bin_from_description("identity name=x ! queue", TRUE, nullptr);
  GstElement *outer = gst_parse_bin_from_description("queue ! fakesink", TRUE, nullptr);
  gst_bin_add_many(GST_BIN(pipeline), inner, outer, nullptr);
  ASSERT_TRUE(gst_element_link(inner, outer));
  GstElement *element = gst_bin_get_by_name(GST_BIN(inner), "x");
  GstPad *src = gst_element_get_static_pad(element, "src");
  EXPECT_TRUE(endsUnseen(src));
  gst_element_unlink(inner, outer);
  EXPECT_FALSE(endsUnseen(src));
  gst_object_unref(src);
  gst_object_unref(element);
  gst_object_unref(pipeline);
}

TEST(EndsUnseen, ALoopHasNoEnd) {
  GstElement *bin = gst_bin_new(nullptr);
  GstElement *a = gst_element_factory_make("queue", nullptr), *b = gst_element_factory_make("queue", nullptr);
  gst_bin_add_many(GST_BIN(bin), a, b, nullptr);
  ASSERT_TRUE(gst_element_link(a, b));
  ASSERT_TRUE(gst_element_link(b, a));
  GstPad *src = gst_element_get_static_pad(a, "src");
  EXPECT_FALSE(endsUnseen(src));
  gst_object_unref(src);
  gst_object_unref(bin);
}

} // namespace
