// SPDX-License-Identifier: LGPL-2.1-or-later
// Pipelines with fenceinfer whose frames a CUDA device reads, and what it made of them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <dlfcn.h>

#include <gst/analytics/analytics.h>
#include <gtest/gtest.h>

#include "tests/elements/infer/fixture.h"
#include "tests/elements/infer/pipeline.h"
#include "tests/support/small_models.h"

namespace gstzc::test {

using namespace std::chrono_literals;

// The stand-in's own functions; null on a real driver.
template <typename F> F *softcuda(const char *name) { return reinterpret_cast<F *>(dlsym(RTLD_DEFAULT, name)); }

inline void *driverLibrary() {
  static void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return library;
}

using Tensors = std::vector<std::vector<float>>; // of each frame, its first tensor

inline Tensors tensorsOf(const std::vector<GstBuffer *> &frames) {
  Tensors all;
  for (GstBuffer *frame : frames) {
    GstTensorMeta *meta = gst_buffer_get_tensor_meta(frame);
    std::vector<float> values;
    if (meta != nullptr) {
      GstMapInfo map;
      gst_buffer_map(meta->tensors[0]->data, &map, GST_MAP_READ);
      values.resize(map.size / sizeof(float));
      std::memcpy(values.data(), map.data, map.size);
      gst_buffer_unmap(meta->tensors[0]->data, &map);
    }
    all.push_back(std::move(values));
  }
  return all;
}

inline float largestDifference(const Tensors &a, const Tensors &b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() || a[i].empty()) return INFINITY;
    for (size_t k = 0; k < a[i].size(); ++k) largest = std::max(largest, std::abs(a[i][k] - b[i][k]));
  }
  return largest;
}

// Objects whose scores are the means of the picture's channels.
inline OnnxModel colouredObjects(int side) {
  const std::vector<float> boxes = {0.1f, 0.1f, 0.4f, 0.3f, 0.5f, 0.2f, 0.8f, 0.6f, 0.2f, 0.7f, 0.9f, 0.95f},
                           classes = {1, 2, 3}, count = {3};
  OnnxModel model;
  model.input("image", kOnnxFloat, {1, side, side, 3})
      .constant("boxes", {1, 3, 4}, boxes)
      .constant("classes", {1, 3}, classes)
      .constant("count", {1}, count)
      .node("Identity", {"boxes"}, "detection_boxes")
      .node("Identity", {"classes"}, "detection_classes")
      .node("ReduceMean", {"image"}, "detection_scores", {{"axes", {1, 2}}, OnnxAttribute::integer("keepdims", 0)})
      .node("Identity", {"count"}, "num_detections")
      .output("detection_boxes", kOnnxFloat, {1, 3, 4})
      .output("detection_classes", kOnnxFloat, {1, 3})
      .output("detection_scores", kOnnxFloat, {1, 3})
      .output("num_detections", kOnnxFloat, {1});
  return model;
}

class OnCuda : public testing::Test {
protected:
  OnCuda() {
    driverLibrary();
    if (auto *reset = softcuda<void()>("softcuda_reset")) reset();
  }
  // What was still under way when an element stopped ends behind its back.
  ~OnCuda() override {
    if (auto *reset = softcuda<void()>("softcuda_reset")) reset();
    auto *live = softcuda<uint64_t(const char *)>("softcuda_live");
    for (int i = 0; i < 3000 && live != nullptr && live(nullptr) > 0; ++i) std::this_thread::sleep_for(10ms);
    if (live != nullptr) {
      EXPECT_EQ(live(nullptr), 0u) << "something keeps objects of the device";
    }
  }

  // The picture itself comes out, 40x24 with padding at its sides or above.
  std::string picture() {
    copyOfThePicture(kOnnxFloat, {1, 3, 24, 40}).save(dir_.file("picture.onnx"));
    return dir_.file("picture.onnx");
  }
  std::string infer(const std::string &properties = "", const std::string &file = "") {
    return "fenceinfer name=infer model-file=" + (file.empty() ? picture() : file) +
           " decoder=none output=tensor-meta resize-mode=letterbox mean=10,20,30 scale=0.02 " + properties;
  }
  static std::string source(const std::string &caps, int frames = 3) {
    return "videotestsrc pattern=smpte num-buffers=" + std::to_string(frames) + " ! video/x-raw," + caps +
           ",framerate=30/1 ! ";
  }
  static constexpr const char *kUpload = "dmabufupload memory=memfd ! ";
  static constexpr const char *kImport = "dmabufupload memory=memfd ! dmabufcudaimport name=import ! ";

  Tensors run(const std::string &line) {
    Pipeline pipeline(line + " ! fakesink name=out");
    pipeline.keep("out");
    EXPECT_EQ(pipeline.run(), "") << line;
    last_device_ = deviceOf(pipeline);
    return tensorsOf(pipeline.kept());
  }
  static std::string deviceOf(Pipeline &pipeline) {
    std::string name;
    pipeline.withElement("infer", [&](GstElement *element) {
      GstStructure *stats = nullptr;
      g_object_get(element, "stats", &stats, nullptr);
      if (const char *text = gst_structure_get_string(stats, "device")) name = text;
      gst_structure_free(stats);
    });
    return name;
  }

  // Of all frames.
  std::vector<Box> boxes(const std::string &line) {
    Pipeline pipeline(line + " ! fakesink name=out");
    pipeline.keep("out");
    EXPECT_EQ(pipeline.run(), "") << line;
    last_device_ = deviceOf(pipeline);
    std::vector<Box> all;
    for (GstBuffer *frame : pipeline.kept()) {
      const auto found = boxesOf(frame);
      all.insert(all.end(), found.begin(), found.end());
    }
    return all;
  }
  static void expectSame(const std::vector<Box> &cpu, const std::vector<Box> &cuda) {
    ASSERT_EQ(cpu.size(), cuda.size());
    for (size_t i = 0; i < cpu.size(); ++i) {
      EXPECT_EQ(cpu[i].label, cuda[i].label) << i;
      EXPECT_EQ(std::tie(cpu[i].x, cpu[i].y, cpu[i].w, cpu[i].h), std::tie(cuda[i].x, cuda[i].y, cuda[i].w, cuda[i].h))
          << i;
      EXPECT_NEAR(cpu[i].score, cuda[i].score, 1e-5f) << i;
    }
  }

  TempDir dir_;
  std::string last_device_;
};

} // namespace gstzc::test
