// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/routes/route.h"

#include <cerrno>

#include "gst/zerocopy/core/drm_format.h"

namespace gstzc::cuda {
namespace {

Error badPlane(const ImportSource &source, unsigned p, const std::string &what) {
  const ImportPlane &plane = source.planes[p];
  return Error{"plane " + std::to_string(p) + " of " + describe(source) + " (offset " + std::to_string(plane.offset) +
                   ", pitch " + std::to_string(plane.pitch) + ", " + std::to_string(plane.rows) + " rows of " +
                   std::to_string(plane.row_bytes) + " bytes) " + what,
               EINVAL, ""};
}

} // namespace

std::string describe(const ImportSource &source) {
  const DrmFormat format{source.fourcc, source.modifier};
  return (source.fourcc == 0 ? std::string("a frame") : gstzc::describe(format)) + " " + std::to_string(source.width) +
         "x" + std::to_string(source.height) + " in dma-buf " + source.id.toString() + " of " +
         std::to_string(source.size) + " bytes";
}

Status checkSource(const ImportSource &source) {
  if (source.n_planes == 0 || source.n_planes > kMaxImportPlanes || source.size == 0)
    return Error{describe(source) + " with " + std::to_string(source.n_planes) + " planes", EINVAL, ""};
  for (unsigned p = 0; p < source.n_planes; ++p) {
    const ImportPlane &plane = source.planes[p];
    if (plane.offset >= source.size) return badPlane(source, p, "begins behind its end");
    if (source.modifier != 0) continue;
    if (plane.rows == 0 || plane.row_bytes == 0) return badPlane(source, p, "is empty");
    if (plane.rows > 1 && plane.pitch < plane.row_bytes) return badPlane(source, p, "has rows that overlap");
    // the numbers are of 32 bits: their product, and with the last row, fit into 64
    const uint64_t bytes = uint64_t{plane.rows - 1} * plane.pitch + plane.row_bytes;
    if (bytes > source.size - plane.offset) return badPlane(source, p, "ends behind its end");
  }
  return Nothing{};
}

Status linearOnly(const ImportSource &source) {
  if (source.modifier == 0) return Nothing{};
  return Error{describe(source) + ": this route brings the bytes as they are, and only linear ones can be read",
               EOPNOTSUPP, ""};
}

} // namespace gstzc::cuda
