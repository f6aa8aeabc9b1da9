// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer against GStreamer's own inference element and against a loop that does nothing else than fill tensors and
// run the model: time and CPU time a frame, 1080p NV12 frames from memory, the same inference library and model. Both
// sides are measured by turns.
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include <gst/gst.h>

#include "tests/bench/infer_models.h"
#include "tests/bench/infer_sides.h"
#include "tests/bench/measure.h"
#include "tests/support/temp_dir.h"

namespace gstzc::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 8;
constexpr int kConcurrent = 2;     // runs at a time, of fenceinfer and of the bare loop
constexpr double kPhaseNs = 0.8e9; // how long a side is measured in a round
constexpr int kPacedFrames = 60;
constexpr uint64_t kPeriod = 1'000'000'000 / 30;

struct Samples {
  std::vector<double> wall, cpu;
  void add(const Taken &t) {
    wall.push_back(t.wall_ns);
    cpu.push_back(t.cpu_ns);
  }
};

struct Comparison {
  Samples a, b;
};

double spreadOf(const std::vector<double> &a, const std::vector<double> &b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return quantile(ratios, 0.75) - quantile(ratios, 0.25);
}

// How many frames fill a phase.
int phaseOf(Side &side) {
  side.run(40); // warm
  return std::max(20, static_cast<int>(kPhaseNs / side.run(40).wall_ns));
}

Comparison byTurns(Side &a, Side &b, int frames_a, int frames_b, uint64_t period) {
  Comparison c;
  const auto turn = [&](Side &side, int frames, Samples &samples) {
    std::this_thread::sleep_for(50ms); // the other one's threads have come to rest
    samples.add(side.run(frames, period));
  };
  for (int i = 0; i < kRounds; ++i) { // both orders as often, so that what drifts counts for neither
    if (i % 2 == 0) turn(a, frames_a, c.a);
    turn(b, frames_b, c.b);
    if (i % 2 != 0) turn(a, frames_a, c.a);
  }
  return c;
}

Comparison throughput(Side &a, Side &b) { return byTurns(a, b, phaseOf(a), phaseOf(b), kAsFastAsPossible); }

void reportRatio(const std::string &name, const std::vector<double> &a, const std::vector<double> &b,
                 const std::string &against, double limit) {
  report({name, median(a) / 1000, "us", median(a) / median(b), against, spreadOf(a, b), limit});
}

// major.minor.micro, of the library that runs
struct Version {
  guint major = 0, minor = 0, micro = 0;
  Version() {
    guint nano = 0;
    gst_version(&major, &minor, &micro, &nano);
  }
  // 1.28 has another onnxinference than 1.26: twice as fast, and told of the model in a file beside it
  bool hasNewOnnxInference() const { return major > 1 || minor >= 27; }
  std::string text() const { return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(micro); }
};

std::string ours(const BenchModel &model, const std::string &properties = "") {
  return "fenceinfer resize-mode=stretch workers=" + std::to_string(kConcurrent) + " model-file=\"" + model.file +
         "\" " + properties;
}

std::string upstream(const BenchModel &model, const std::string &file) {
  std::string line = "videoconvertscale ! video/x-raw,format=RGB,width=" + std::to_string(model.width) +
                     ",height=" + std::to_string(model.height) + " ! onnxinference optimization-level=enable-all " +
                     "model-file=\"" + file + "\"";
  if (Version().hasNewOnnxInference()) return line;
  gchar text[2][G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_dtostr(text[0], sizeof text[0], -static_cast<double>(model.mean));
  g_ascii_dtostr(text[1], sizeof text[1], model.divisor);
  return line + " input-image-format=" + (model.channels_first ? "chw" : "hwc") + " input-tensor-offset=" + text[0] +
         " input-tensor-scale=" + text[1];
}

bool againstUpstream(const Frames &frames, const BenchModel &model, double fps_gain, double cpu_limit) {
  test::TempDir dir;
  const std::string copy = dir.file("model.onnx");
  if (!copyForOnnxInference(model, copy)) {
    std::fprintf(stderr, "%s cannot be copied for onnxinference\n", model.file.c_str());
    return false;
  }
  PipelineSide a(frames, {ours(model)}), b(frames, {upstream(model, copy)});
  const Comparison c = throughput(a, b);
  const std::string against = "videoconvertscale ! onnxinference of GStreamer " + Version().text();
  reportRatio(model.name + ", time a frame", c.a.wall, c.b.wall, against, 1 / fps_gain);
  reportRatio(model.name + ", CPU a frame", c.a.cpu, c.b.cpu, against, cpu_limit);
  return true;
}

void againstBareLoop(const Frames &frames, const BenchModel &model) {
  PipelineSide a(frames, {ours(model)});
  BareSide b(frames, model, kConcurrent);
  const Comparison fast = throughput(a, b);
  reportRatio(model.name + ", time a frame, bare", fast.a.wall, fast.b.wall,
              "the same preprocessing and runs in a loop of " + std::to_string(kConcurrent) + " threads", 1 / 0.95);
  const Comparison paced = byTurns(a, b, kPacedFrames, kPacedFrames, kPeriod);
  reportRatio(model.name + ", CPU a frame at 30 frames/s", paced.a.cpu, paced.b.cpu,
              "the same preprocessing and runs in a paced loop", 1.1);
}

// Two pipelines in which the same model looks at all frames: as one, in batches, against each for itself.
void shared(const Frames &frames, const BenchModel &model, const std::string &properties) {
  const std::string own = ours(model, properties);
  const std::string together = own + " model-instance-id=bench batch-size=2 batch-timeout=2";
  PipelineSide a(frames, {together, together}), b(frames, {own, own});
  const Comparison c = throughput(a, b);
  reportRatio(model.name + ", two share it, time a frame", c.a.wall, c.b.wall,
              "two elements with a model each; the limit is what the ratio spreads by",
              1 + spreadOf(c.a.wall, c.b.wall));
}

} // namespace
} // namespace gstzc::bench

// bench-infer [upstream|bare|shared]: all of them, or one.
int main(int argc, char **argv) {
  using namespace gstzc::bench;
  gst_init(&argc, &argv);
  const std::string only = argc > 1 ? argv[1] : "";
  const auto wanted = [&](const char *part) { return only.empty() || only == part; };
  const bool newer = Version().hasNewOnnxInference();
  struct {
    BenchModel model;
    double fps_gain, fps_gain_newer; // what is claimed against onnxinference before 1.28, and since
  } const rows[] = {{blazeFaceFront(), 3, 2}, {rfb320(), 3, 1.4}};
  const Frames frames;
  for (const auto &row : rows) {
    if (!row.model.present()) {
      std::fprintf(stderr, "%s is not on this machine: its cases are left out\n", row.model.name.c_str());
      continue;
    }
    if (wanted("upstream") &&
        !againstUpstream(frames, row.model, newer ? row.fps_gain_newer : row.fps_gain, newer ? 0 : 0.4))
      return 1;
    if (wanted("bare")) againstBareLoop(frames, row.model);
  }
  if (const BenchModel model = yuNet(); model.present() && wanted("shared"))
    shared(frames, model, "input-width=320 input-height=320");
  return 0;
}
