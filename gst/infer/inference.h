// SPDX-License-Identifier: LGPL-2.1-or-later
// One model ready for frames: engine, decoder and the way from a frame's pixels to its boxes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/decode/decoder.h"
#include "gst/infer/engine/engine.h"
#include "gst/infer/output/frame_result.h"
#include "gst/infer/preprocess/preprocess.h"
#include "gst/zerocopy/core/mapping.h"
#include "gst/zerocopy/frame_layout.h"

namespace gstzc::infer {

struct FrameResult {
  std::vector<FrameBox> boxes;
  guint64 preprocess_ns = 0;
  guint64 infer_ns = 0;
};

// Formats and layouts that setCaps() takes; the error says what is in the way.
Status checkReadable(const FrameCaps &caps);

// Nothing throws: memory that runs out is an error with code ENOMEM.
class Inference {
public:
  // Takes the engine. Errors: an input that no picture fits, outputs that no decoder fits (see planInput, makeDecoder).
  static Result<std::unique_ptr<Inference>> create(std::unique_ptr<Engine> engine, DecoderKind decoder,
                                                   std::optional<ResizeMode> resize);

  const Engine &engine() const { return *engine_; }
  const Decoder &decoder() const { return *decoder_; }
  const InputPlan &plan() const { return plan_; }

  // For the frames that follow.
  Status setCaps(const FrameCaps &caps);
  bool hasCaps() const { return preprocessor_.has_value(); }
  // Of all that read frames in this process: imports are mappings made.
  ImportCache::Counters mappingCounters() const { return mappings_->counters(); }

  // Reads the frame, whose producer has to be done with it, runs the model, decodes. Error codes: ECANCELED, else the
  // frame or the model is broken.
  Result<FrameResult> process(GstBuffer *buffer, const DecodeOptions &options, Cancellation &cancel);

private:
  Inference() = default;
  Result<FrameResult> processFrame(GstBuffer *buffer, const DecodeOptions &options, Cancellation &cancel);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Decoder> decoder_;
  InputPlan plan_;
  PreprocessOptions preprocess_;
  FrameCaps caps_;
  std::optional<Preprocessor> preprocessor_;
  std::shared_ptr<MappingCache> mappings_ = MappingCache::process();
  std::vector<float> tensor_; // floats for their alignment; plan_.bytes() are used
};

} // namespace gstzc::infer
