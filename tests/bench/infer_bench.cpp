// SPDX-License-Identifier: LGPL-2.1-or-later
// fenceinfer against GStreamer's own inference element and against a loop that does nothing else than fill tensors and
// run the model: time and CPU time a frame, 1080p NV12 frames from memory, the same inference library and model. All
// sides are measured by turns and read the same frames, more than a cache holds; the loop neither decodes outputs nor
// attaches what is in them.
//
// No element on that library is faster than the loop. Where the loop itself is not as far ahead of the other element as
// is asked of ours, what is asked of ours in that run is to be as close to the loop as the comparison with it asks. The
// loop against the other element is a case of its own, without a limit.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gst/gst.h>

#include "tests/bench/infer_models.h"
#include "tests/bench/infer_sides.h"
#include "tests/bench/measure.h"
#include "tests/support/temp_dir.h"

namespace gstzc::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kRounds = 8;
// Two sessions of one model differ by up to 4 % for as long as they live, by where their memory lies. What is compared
// more closely than that is loaded anew several times.
constexpr int kPairs = 4, kClosePairs = 10, kPairRounds = 4, kPacedRounds = 2;
constexpr int kConcurrent = 2;     // runs at a time, of fenceinfer and of the bare loop
constexpr double kPhaseNs = 0.8e9; // how long a side is measured in a round
constexpr int kPacedFrames = 60;   // in a round
constexpr uint64_t kPeriod = 1'000'000'000 / 30;
constexpr double kToBare = 1 / 0.95; // the largest ratio to the bare loop

struct Samples {
  std::vector<double> wall, cpu;
  void add(const Taken &t) {
    wall.push_back(t.wall_ns);
    cpu.push_back(t.cpu_ns);
  }
  void add(const Samples &more) {
    wall.insert(wall.end(), more.wall.begin(), more.wall.end());
    cpu.insert(cpu.end(), more.cpu.begin(), more.cpu.end());
  }
};

struct Turn {
  Side &side;
  int frames;
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

// As many samples of each as there are rounds, in the order of the turns.
std::vector<Samples> byTurns(const std::vector<Turn> &turns, uint64_t period, int rounds) {
  std::vector<Samples> samples(turns.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < turns.size(); ++i) { // both orders as often, so that what drifts counts for none
      const size_t k = round % 2 == 0 ? i : turns.size() - 1 - i;
      std::this_thread::sleep_for(50ms); // the other one's threads have come to rest
      samples[k].add(turns[k].side.run(turns[k].frames, period));
    }
  }
  return samples;
}

std::vector<Samples> throughput(const std::vector<Side *> &sides, int rounds = kRounds) {
  std::vector<Turn> turns;
  for (Side *side : sides) turns.push_back({*side, phaseOf(*side)});
  return byTurns(turns, kAsFastAsPossible, rounds);
}

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

std::string shown(double ratio) {
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];
  return g_ascii_formatd(text, sizeof text, "%.3f", ratio);
}

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
  Samples taken[3];
  for (int pair = 0; pair < kPairs; ++pair) {
    PipelineSide a(frames, {ours(model)}), b(frames, {upstream(model, copy)});
    BareSide bare(frames, model, kConcurrent);
    const std::vector<Samples> t = throughput({&a, &b, &bare}, kPairRounds);
    for (size_t side = 0; side < 3; ++side) taken[side].add(t[side]);
  }
  const Samples &own = taken[0], &theirs = taken[1], &loop = taken[2];
  const std::string against = "videoconvertscale ! onnxinference of GStreamer " + Version().text();
  const auto compare = [&](const char *what, std::vector<double> Samples::*values, double asked) {
    const std::string name = model.name + ", " + what + " a frame";
    const double reachable = kToBare * median(loop.*values) / median(theirs.*values);
    if (asked > 0 && reachable > asked)
      reportRatio(name, own.*values, theirs.*values,
                  against + "; asked is " + shown(asked) + ", the bare loop is the limit", reachable);
    else
      reportRatio(name, own.*values, theirs.*values, against, asked);
    reportRatio(name + " of the bare loop", loop.*values, theirs.*values, against, 0);
  };
  compare("time", &Samples::wall, 1 / fps_gain);
  compare("CPU", &Samples::cpu, cpu_limit);
  return true;
}

// Of values taken in pairs, so many rounds each: what a round's two sides share counts for none, and a pair for one.
class PairedRatio {
public:
  void add(const std::vector<double> &a, const std::vector<double> &b) {
    std::vector<double> rounds;
    for (size_t i = 0; i < a.size(); ++i) rounds.push_back(a[i] / b[i]);
    ratios_.push_back(median(rounds));
    values_.push_back(median(a));
  }
  void report(const std::string &name, const std::string &against, double limit) const {
    bench::report({name, median(values_) / 1000, "us", middleMean(ratios_), against,
                   quantile(ratios_, 0.75) - quantile(ratios_, 0.25), limit});
  }

private:
  std::vector<double> ratios_, values_;
};

void againstBareLoop(const Frames &frames, const BenchModel &model) {
  PairedRatio fast, paced;
  for (int pair = 0; pair < kClosePairs; ++pair) {
    std::optional<PipelineSide> a;
    std::optional<BareSide> b;
    if (pair % 2 == 0) a.emplace(frames, std::vector{ours(model)});
    b.emplace(frames, model, kConcurrent);
    if (!a) a.emplace(frames, std::vector{ours(model)});
    const std::vector<Samples> f = throughput({&*a, &*b}, kPairRounds);
    const std::vector<Samples> p = byTurns({{*a, kPacedFrames}, {*b, kPacedFrames}}, kPeriod, kPacedRounds);
    fast.add(f[0].wall, f[1].wall);
    paced.add(p[0].cpu, p[1].cpu);
  }
  fast.report(model.name + ", time a frame, bare",
              "the same preprocessing and runs in a loop of " + std::to_string(kConcurrent) + " threads", kToBare);
  paced.report(model.name + ", CPU a frame at 30 frames/s", "the same preprocessing and runs in a paced loop", 1.1);
}

// Two pipelines in which the same model looks at all frames: as one, in batches, against each for itself.
void shared(const Frames &frames, const BenchModel &model, const std::string &properties) {
  const std::string own = ours(model, properties);
  const std::string together = own + " model-instance-id=bench batch-size=2 batch-timeout=2";
  PipelineSide a(frames, {together, together}), b(frames, {own, own});
  const std::vector<Samples> taken = throughput({&a, &b});
  reportRatio(model.name + ", two share it, time a frame", taken[0].wall, taken[1].wall,
              "two elements with a model each; the limit is what the ratio spreads by",
              1 + spreadOf(taken[0].wall, taken[1].wall));
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
