// SPDX-License-Identifier: LGPL-2.1-or-later
// The sides that are compared: pipelines and bare loops that take the same frames.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gst/gst.h>
#include <gst/video/video.h>

#include "gst/infer/engine/engine.h"
#include "gst/infer/preprocess/preprocess.h"
#include "tests/bench/infer_models.h"

namespace gstzc::bench {

// Different 1080p NV12 frames, more of them than a cache holds.
class Frames {
public:
  Frames();
  ~Frames();
  Frames(const Frames &) = delete;
  Frames &operator=(const Frames &) = delete;

  const GstVideoInfo &info() const { return info_; }
  GstMemory *memory(size_t n) const { return memories_[n % memories_.size()]; }
  std::string caps() const;

private:
  GstVideoInfo info_;
  std::vector<GstMemory *> memories_;
};

// What a number of frames took, from the first one given to the last one done.
struct Taken {
  double wall_ns = 0, cpu_ns = 0; // a frame
};

constexpr uint64_t kAsFastAsPossible = 0;

class Side {
public:
  virtual ~Side() = default;
  // One frame each `period` ns. Ends the program where a frame does not come through.
  virtual Taken run(int frames, uint64_t period = kAsFastAsPossible) = 0;
};

// One or several pipelines, each of which is fed every frame by a thread of its own through a pad, without a source
// element and its queue; what is taken is of a frame of one of them.
class PipelineSide : public Side {
public:
  PipelineSide(const Frames &frames, const std::vector<std::string> &filters);
  ~PipelineSide() override;
  Taken run(int frames, uint64_t period) override;

private:
  struct Pipeline {
    GstElement *pipeline = nullptr;
    GstPad *source = nullptr;
    std::mutex mutex;
    std::condition_variable left;
    int count = 0, target = 0; // of frames that left; of those that were given
  };
  void start(Pipeline &p);
  void feed(Pipeline &p, int frames, uint64_t period);

  const Frames &frames_;
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
};

// Threads that take a frame, fill a tensor, run the model.
class BareSide : public Side {
public:
  BareSide(const Frames &frames, const BenchModel &model, int threads);
  Taken run(int frames, uint64_t period) override;

private:
  const Frames &frames_;
  const int threads_;
  infer::InputPlan plan_;
  std::unique_ptr<infer::Engine> engine_;
  std::unique_ptr<infer::Preprocessor> preprocessor_;
};

} // namespace gstzc::bench
