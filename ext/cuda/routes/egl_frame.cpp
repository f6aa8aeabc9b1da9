// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/egl_frame.h"

#include <algorithm>
#include <cerrno>

namespace gstzc::cuda {
namespace {

constexpr uint64_t kPitchAlignment = 256, kPlaneAlignment = 512; // bytes

constexpr uint64_t alignUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

std::string sized(unsigned width, unsigned height, unsigned planes) {
  return std::to_string(width) + "x" + std::to_string(height) + " in " + std::to_string(planes) +
         (planes == 1 ? " plane" : " planes");
}

CUdeviceptr address(const CUeglFrame &frame, unsigned plane) {
  return static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(frame.frame.pPitch[plane]));
}

} // namespace

Result<EglFramePlan> planEglFrame(const CUeglFrame &frame, const ImportSource &source, uint64_t range) {
  if (frame.planeCount != source.n_planes || frame.width != source.width || frame.height != source.height ||
      source.n_planes == 0 || source.n_planes > CUDA_EGL_MAX_PLANES)
    return Error{"CUDA made of the EGL image a frame of " + sized(frame.width, frame.height, frame.planeCount) +
                     " instead of " + sized(source.width, source.height, source.n_planes),
                 EOPNOTSUPP, ""};
  EglFramePlan plan;
  const bool linear = frame.frameType == CU_EGL_FRAME_TYPE_PITCH;
  bool one_range = linear;
  for (unsigned i = 0; i < source.n_planes; ++i) {
    ImportPlane &plane = plan.planes[i];
    plane = source.planes[i];
    if (!linear) continue;
    // CUDA tells only the first plane's pitch: the others are as much wider or narrower as in the picture.
    plane.pitch = i == 0 || source.planes[0].pitch == 0
                      ? frame.pitch
                      : static_cast<uint32_t>(uint64_t{frame.pitch} * source.planes[i].pitch / source.planes[0].pitch);
    if (plane.pitch < plane.row_bytes)
      return Error{"CUDA made of the EGL image a frame with " + std::to_string(plane.pitch) +
                       " bytes a row instead of " + std::to_string(plane.row_bytes) + " or more",
                   EOPNOTSUPP, ""};
    plan.from[i] = address(frame, i);
    plan.from_pitch[i] = plane.pitch;
    plane.offset = plan.from[i] - plan.from[0];
    const uint64_t bytes = plane.rows == 0 ? 0 : uint64_t{plane.pitch} * (plane.rows - 1) + plane.row_bytes;
    const uint64_t limit = range != 0 ? range : source.size;
    if (plan.from[i] < plan.from[0] || plane.offset > limit || bytes > limit - plane.offset)
      one_range = false;
    else
      plan.size = std::max(plan.size, plane.offset + bytes);
  }
  if (one_range) {
    plan.in_place = true;
    plan.pointer = plan.from[0];
    return plan;
  }
  plan.size = 0;
  for (unsigned i = 0; i < source.n_planes; ++i) {
    ImportPlane &plane = plan.planes[i];
    plane.offset = alignUp(plan.size, kPlaneAlignment);
    plane.pitch = static_cast<uint32_t>(alignUp(plane.row_bytes, kPitchAlignment));
    plan.size = plane.offset + uint64_t{plane.pitch} * plane.rows;
  }
  return plan;
}

} // namespace gstzc::cuda
