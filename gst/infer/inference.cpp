// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/inference.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <new>

#include "gst/infer/stream/frame_access.h"

namespace gstzc::infer {
namespace {

guint64 nanosecondsSince(std::chrono::steady_clock::time_point start) {
  return static_cast<guint64>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
}

// The callers are C functions that no exception may pass through.
template <typename F> auto withMemory(const char *what, F &&f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc &) {
    return Error{what, ENOMEM, "Use a model with smaller tensors, or give the process more memory"};
  }
}

} // namespace

Status checkReadable(const FrameCaps &caps) {
  if (!caps.linear()) {
    gchar *name = gst_video_dma_drm_fourcc_to_string(caps.fourcc, caps.modifier);
    const std::string format = name != nullptr ? name : "an unknown format";
    g_free(name);
    return Error{"frames in the tiled layout " + format + " cannot be read by the CPU", 0,
                 "Ask the producer for the linear layout: drm-format without a modifier, such as drm-format=" +
                     format.substr(0, format.find(':'))};
  }
  const GstVideoFormat format = GST_VIDEO_INFO_FORMAT(&caps.info);
  const auto formats = readableFormats();
  if (std::find(formats.begin(), formats.end(), format) != formats.end()) return Nothing{};
  gchar *name = caps.drm_notation ? gst_video_dma_drm_fourcc_to_string(caps.fourcc, caps.modifier) : nullptr;
  const std::string shown = name != nullptr ? name : gst_video_format_to_string(format);
  g_free(name);
  return Error{"frames in format " + shown + " are not read", 0,
               "Convert them to NV12, RGB or BGRx first; gst-inspect-1.0 fenceinfer lists all formats"};
}

Result<std::unique_ptr<Inference>> Inference::create(std::unique_ptr<Engine> engine, DecoderKind decoder,
                                                     std::optional<ResizeMode> resize) {
  return withMemory("preparing for the model", [&]() -> Result<std::unique_ptr<Inference>> {
    auto plan = planInput(engine->inputs());
    if (!plan) return plan.error();
    auto made = makeDecoder({.kind = decoder}, *plan, engine->outputs());
    if (!made) return made.error();
    std::unique_ptr<Inference> inference(new Inference);
    inference->engine_ = std::move(engine);
    inference->decoder_ = made.take();
    inference->plan_ = *plan;
    inference->preprocess_ = inference->decoder_->defaults().preprocess;
    if (resize) inference->preprocess_.resize = *resize;
    inference->tensor_.resize((plan->bytes() + sizeof(float) - 1) / sizeof(float));
    return inference;
  });
}

Status Inference::setCaps(const FrameCaps &caps) {
  return withMemory("preparing for the caps", [&]() -> Status {
    if (auto readable = checkReadable(caps); !readable) return readable;
    auto preprocessor = Preprocessor::create(caps.info, plan_, preprocess_);
    if (!preprocessor) return preprocessor.error();
    caps_ = caps;
    preprocessor_ = preprocessor.take();
    return Nothing{};
  });
}

Result<FrameResult> Inference::process(GstBuffer *buffer, const DecodeOptions &options, Cancellation &cancel) {
  return withMemory("running the model on a frame", [&] { return processFrame(buffer, options, cancel); });
}

Result<FrameResult> Inference::processFrame(GstBuffer *buffer, const DecodeOptions &options, Cancellation &cancel) {
  if (!preprocessor_) return Error{"a frame before its caps", 0, ""};
  auto layout = frameLayout(buffer, caps_);
  if (!layout) return layout.error();

  FrameResult result;
  const auto start = std::chrono::steady_clock::now();
  {
    auto mapped = MappedFrame::map(buffer, *layout, preprocessor_->planes(), *mappings_);
    if (!mapped) return mapped.error();
    preprocessor_->run(mapped->planes(), tensor_.data());
  } // unmapped before the model runs: the frame is no longer needed
  result.preprocess_ns = nanosecondsSince(start);

  const auto run = std::chrono::steady_clock::now();
  const TensorView input = {plan_.type, plan_.dims(), tensor_.data(), plan_.bytes(), MemorySpace::Host};
  auto outputs = engine_->run({&input, 1}, cancel);
  if (!outputs) return outputs.error();
  auto findings = decoder_->decode(*outputs, options);
  if (!findings) return findings.error();
  result.infer_ns = nanosecondsSince(run);
  result.boxes =
      toFrame(*findings, decoder_->defaults().labels, plan_, preprocessor_->mapping(), caps_.width(), caps_.height())
          .boxes;
  return result;
}

} // namespace gstzc::infer
