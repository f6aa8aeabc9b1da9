// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/element/settings.h"

#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

using namespace gstzc;
using namespace gstzc::infer;

namespace {

using Numbers = std::array<float, 3>;

Settings with(const char *mean) {
  Settings settings;
  settings.model_file = "m.onnx";
  settings.mean = mean;
  return settings;
}

TEST(Settings, NumbersOfColours) {
  struct {
    const char *text;
    std::optional<Numbers> numbers;
  } const good[] = {{"", std::nullopt},
                    {"127.5", Numbers{127.5f, 127.5f, 127.5f}},
                    {"0", Numbers{0, 0, 0}},
                    {"123.7,116.3,103.5", Numbers{123.7f, 116.3f, 103.5f}},
                    {" 1 , -2,3e-3 ", Numbers{1, -2, 0.003f}}};
  for (const auto &row : good) {
    auto options = modelOptions(with(row.text));
    ASSERT_TRUE(options.ok()) << row.text << ": " << options.error().message();
    EXPECT_EQ(options->user.mean, row.numbers) << row.text;
  }
  for (const char *text :
       {"abc", "1,2", "1,2,3,4", "1,,3", "1,2,", ",", "nan", "inf", "1;2;3", "1,2,3x", "1e999", "1e39"}) {
    auto options = modelOptions(with(text));
    ASSERT_FALSE(options.ok()) << text;
    EXPECT_NE(options.error().message().find("property mean is \"" + std::string(text) + "\""), std::string::npos)
        << options.error().message();
    EXPECT_FALSE(options.error().remedy.empty());
  }
}

TEST(Settings, AScaleOfZeroIsAnError) {
  for (const char *scale : {"0", "1,0,1"}) {
    Settings settings;
    settings.model_file = "a.onnx";
    settings.scale = scale;
    const auto options = modelOptions(settings);
    ASSERT_FALSE(options) << scale;
    EXPECT_NE(options.error().message().find("property scale is \"" + std::string(scale) + "\""), std::string::npos);
  }
}

// What belongs to a model that did not load goes back with it; what was set since, or has to do with no model, stays.
TEST(Settings, OfAModelGoBackWithIt) {
  Settings loaded;
  loaded.model_file = "old.onnx";
  loaded.labels_file = "old.txt";
  Settings asked = loaded;
  asked.model_file = "new.onnx";
  asked.labels_file = "new.txt";
  asked.mean = "1";
  asked.decoder = DecoderKind::None;
  asked.threshold = 0.25f;
  Settings now = asked;
  now.mean = "2";
  const auto changed = restoreModelSettings(now, asked, loaded);
  EXPECT_EQ(std::set<std::string>(changed.begin(), changed.end()),
            (std::set<std::string>{"model-file", "labels-file", "decoder"}));
  EXPECT_EQ(now.model_file, "old.onnx");
  EXPECT_EQ(now.labels_file, "old.txt");
  EXPECT_EQ(now.decoder, DecoderKind::Auto);
  EXPECT_EQ(now.mean, "2");
  EXPECT_EQ(now.threshold, 0.25f);
}

TEST(Settings, NothingSetIsNothingSaid) {
  Settings settings;
  EXPECT_FALSE(modelOptions(settings).ok()) << "no model file";
  settings.model_file = "m.onnx";
  auto options = modelOptions(settings);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->user, ModelConfig{}) << "a default stands above what the model says of itself";
  EXPECT_EQ(options->engine, EngineOptions{});
  EXPECT_EQ(options->batch, 1);
}

TEST(Settings, WhatIsSetIsSaid) {
  Settings s;
  s.model_file = "m.onnx";
  s.resize = static_cast<int>(ResizeMode::Crop);
  s.scaling = static_cast<int>(Scaling::Area);
  s.channel_order = Choice::Second;
  s.pad_value = 114;
  s.decoder = DecoderKind::YoloX;
  s.input_width = 640;
  s.input_height = 480;
  s.batch_size = 4;
  s.execution_provider = "";
  s.provider_options = {gst_structure_new("o", "device_id", G_TYPE_INT, 1, "text", G_TYPE_STRING, "a b", nullptr),
                        FreeStructure()};
  auto options = modelOptions(s);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->user.resize, ResizeMode::Crop);
  EXPECT_EQ(options->user.scaling, Scaling::Area);
  EXPECT_EQ(options->user.bgr, true);
  EXPECT_EQ(options->user.padding, 114.0f);
  EXPECT_EQ(options->user.decoder, DecoderKind::YoloX);
  EXPECT_EQ(options->user.width, 640);
  EXPECT_EQ(options->user.height, 480);
  EXPECT_EQ(options->batch, 4);
  EXPECT_EQ(options->engine.provider, "auto");
  EXPECT_EQ(options->engine.provider_options,
            (std::vector<std::pair<std::string, std::string>>{{"device_id", "1"}, {"text", "a b"}}));
}

TEST(Settings, RunsAndFramesHeld) {
  Settings s;
  s.workers = 3;
  s.batch_size = 8;
  s.batch_timeout = 5;
  EXPECT_EQ(queueCapacity(s), 8u) << "a batch could never fill";
  EXPECT_EQ(runnerOptions(s), (ModelRunner::Options{3, 8, std::chrono::milliseconds(5)}));
  s.workers = 0;
  s.intra_threads = 256;
  EXPECT_EQ(runnerOptions(s).workers, 1) << "more threads than cores";
  s.intra_threads = 1;
  EXPECT_GE(runnerOptions(s).workers, 1);
  s.max_in_flight = 1;
  s.batch_size = 1;
  EXPECT_EQ(runnerOptions(s).workers, 1) << "more runs than frames";
}

TEST(Settings, ThresholdsAreTheFamilysUnlessSet) {
  Model model;
  model.threshold = 0.25f;
  model.iou_threshold = 0.45f;
  Settings s;
  EXPECT_EQ(decodeOptions(s, model).threshold, 0.25f);
  EXPECT_EQ(decodeOptions(s, model).iou_threshold, 0.45f);
  s.threshold = 0;
  s.iou_threshold = 1;
  EXPECT_EQ(decodeOptions(s, model).threshold, 0.0f);
  EXPECT_EQ(decodeOptions(s, model).iou_threshold, 1.0f);
  EXPECT_EQ(decodeOptions(s, model).max_detections, 100);
}

} // namespace
