// SPDX-License-Identifier: LGPL-2.1-or-later
// EGLImages of dma-bufs, with every attribute looked at.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/softcuda/egl/state.h"
#include "tests/softcuda/exchange/formats.h"

namespace softegl {

Image::~Image() {
  for (uint32_t i = 0; i < picture.n_planes; i++) close(picture.fds[i]);
}

namespace {

constexpr uint32_t kPlanes = 4;

struct PlaneAttributes {
  std::optional<EGLAttrib> fd, offset, pitch, modifier_lo, modifier_hi;
  bool any() const { return fd || offset || pitch || modifier_lo || modifier_hi; }
};
struct Attributes {
  std::optional<EGLAttrib> width, height, fourcc;
  PlaneAttributes planes[kPlanes];
};

std::optional<EGLAttrib> *slot(Attributes &attributes, EGLAttrib name) {
  static constexpr EGLint kNames[kPlanes][5] = {
      {EGL_DMA_BUF_PLANE0_FD_EXT, EGL_DMA_BUF_PLANE0_OFFSET_EXT, EGL_DMA_BUF_PLANE0_PITCH_EXT,
       EGL_DMA_BUF_PLANE0_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE0_MODIFIER_HI_EXT},
      {EGL_DMA_BUF_PLANE1_FD_EXT, EGL_DMA_BUF_PLANE1_OFFSET_EXT, EGL_DMA_BUF_PLANE1_PITCH_EXT,
       EGL_DMA_BUF_PLANE1_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE1_MODIFIER_HI_EXT},
      {EGL_DMA_BUF_PLANE2_FD_EXT, EGL_DMA_BUF_PLANE2_OFFSET_EXT, EGL_DMA_BUF_PLANE2_PITCH_EXT,
       EGL_DMA_BUF_PLANE2_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE2_MODIFIER_HI_EXT},
      {EGL_DMA_BUF_PLANE3_FD_EXT, EGL_DMA_BUF_PLANE3_OFFSET_EXT, EGL_DMA_BUF_PLANE3_PITCH_EXT,
       EGL_DMA_BUF_PLANE3_MODIFIER_LO_EXT, EGL_DMA_BUF_PLANE3_MODIFIER_HI_EXT}};
  switch (name) {
  case EGL_WIDTH: return &attributes.width;
  case EGL_HEIGHT: return &attributes.height;
  case EGL_LINUX_DRM_FOURCC_EXT: return &attributes.fourcc;
  default: break;
  }
  for (uint32_t i = 0; i < kPlanes; i++) {
    PlaneAttributes &plane = attributes.planes[i];
    std::optional<EGLAttrib> *const slots[] = {&plane.fd, &plane.offset, &plane.pitch, &plane.modifier_lo,
                                               &plane.modifier_hi};
    for (int k = 0; k < 5; k++)
      if (kNames[i][k] == name) return slots[k];
  }
  return nullptr;
}

// Hints that change nothing here.
bool isHint(EGLAttrib name) {
  return name == EGL_YUV_COLOR_SPACE_HINT_EXT || name == EGL_SAMPLE_RANGE_HINT_EXT ||
         name == EGL_YUV_CHROMA_HORIZONTAL_SITING_HINT_EXT || name == EGL_YUV_CHROMA_VERTICAL_SITING_HINT_EXT ||
         name == EGL_IMAGE_PRESERVED_KHR;
}

template <typename T> EGLint parse(const T *list, Attributes *attributes) {
  for (; list && list[0] != EGL_NONE; list += 2) {
    const EGLAttrib name = static_cast<EGLAttrib>(list[0]);
    if (isHint(name)) continue;
    std::optional<EGLAttrib> *const place = slot(*attributes, name);
    if (!place || place->has_value()) return EGL_BAD_PARAMETER; // unknown, or said twice
    *place = static_cast<EGLAttrib>(list[1]);
  }
  return EGL_SUCCESS;
}

constexpr uint64_t low(EGLAttrib value) { return static_cast<uint32_t>(value); }

EGLint layout(const PlaneAttributes &plane, const softcuda::PictureFormat &format, uint32_t i,
              softegl_picture *picture) {
  if (!plane.fd || !plane.offset || !plane.pitch) return EGL_BAD_PARAMETER;
  if (plane.modifier_lo.has_value() != plane.modifier_hi.has_value()) return EGL_BAD_PARAMETER;
  const uint64_t modifier =
      plane.modifier_lo ? low(*plane.modifier_hi) << 32 | low(*plane.modifier_lo) : uint64_t{DRM_FORMAT_MOD_LINEAR};
  if (i > 0 && modifier != picture->modifier) return EGL_BAD_PARAMETER;
  if (modifier != DRM_FORMAT_MOD_LINEAR && modifier != softcuda::kTiledModifier) return EGL_BAD_MATCH;
  if (modifier == DRM_FORMAT_MOD_LINEAR && hidden("linear")) return EGL_BAD_MATCH;
  const int fd = static_cast<int>(*plane.fd);
  if (!softcuda::isOpen(fd)) return EGL_BAD_PARAMETER;
  uint64_t rows = format.rows(i, picture->height);
  const uint64_t bytes = format.rowBytes(i, picture->width);
  const EGLAttrib pitch = *plane.pitch, offset = *plane.offset;
  if (pitch <= 0 || offset < 0 || static_cast<uint64_t>(pitch) < bytes) return EGL_BAD_ACCESS;
  if (modifier == softcuda::kTiledModifier) {
    if (pitch % softcuda::kTileBytes != 0) return EGL_BAD_ACCESS;
    rows = (rows + softcuda::kTileRows - 1) / softcuda::kTileRows * softcuda::kTileRows;
  }
  const uint64_t end = modifier == softcuda::kTiledModifier ? rows * static_cast<uint64_t>(pitch)
                                                            : (rows - 1) * static_cast<uint64_t>(pitch) + bytes;
  if (static_cast<uint64_t>(offset) + end > softcuda::sizeOf(fd)) return EGL_BAD_ACCESS;
  picture->modifier = modifier;
  picture->offsets[i] = static_cast<uint32_t>(offset);
  picture->pitches[i] = static_cast<uint32_t>(pitch);
  picture->fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3); // EGL never takes a plane's descriptor
  if (picture->fds[i] < 0) return EGL_BAD_ALLOC;
  picture->n_planes = i + 1; // these are closed with the image
  return EGL_SUCCESS;
}

EGLint describe(const Attributes &attributes, softegl_picture *picture) {
  if (!attributes.width || !attributes.height || !attributes.fourcc) return EGL_BAD_PARAMETER;
  if (*attributes.width <= 0 || *attributes.height <= 0) return EGL_BAD_PARAMETER;
  picture->width = static_cast<uint32_t>(*attributes.width);
  picture->height = static_cast<uint32_t>(*attributes.height);
  picture->fourcc = static_cast<uint32_t>(*attributes.fourcc);
  const softcuda::PictureFormat *const format = softcuda::pictureFormat(picture->fourcc);
  if (!format) return EGL_BAD_MATCH;
  for (uint32_t i = format->n_planes; i < kPlanes; i++)
    if (attributes.planes[i].any()) return EGL_BAD_ATTRIBUTE;
  for (uint32_t i = 0; i < format->n_planes; i++)
    if (const EGLint error = layout(attributes.planes[i], *format, i, picture); error != EGL_SUCCESS) return error;
  return EGL_SUCCESS;
}

template <typename T>
EGLImage create(EGLDisplay display, EGLContext context, EGLenum target, EGLClientBuffer buffer, const T *list) {
  {
    const std::lock_guard guard(state().lock);
    if (!usable(display)) return EGL_NO_IMAGE;
  }
  if (target != EGL_LINUX_DMA_BUF_EXT || hidden("EGL_EXT_image_dma_buf_import"))
    return fail(EGL_BAD_PARAMETER, EGL_NO_IMAGE);
  if (context != EGL_NO_CONTEXT || buffer != nullptr) return fail(EGL_BAD_PARAMETER, EGL_NO_IMAGE);
  Attributes attributes;
  auto image = std::make_shared<Image>();
  if (const EGLint error = parse(list, &attributes); error != EGL_SUCCESS) return fail(error, EGL_NO_IMAGE);
  if (hidden("EGL_EXT_image_dma_buf_import_modifiers") &&
      std::ranges::any_of(attributes.planes, [](const auto &plane) { return plane.modifier_lo || plane.modifier_hi; }))
    return fail(EGL_BAD_PARAMETER, EGL_NO_IMAGE);
  if (const EGLint error = describe(attributes, &image->picture); error != EGL_SUCCESS)
    return fail(error, EGL_NO_IMAGE);
  if (refused("image")) return fail(EGL_BAD_ALLOC, EGL_NO_IMAGE);
  const std::lock_guard guard(state().lock);
  void *const handle = newHandle();
  state().images[handle] = std::move(image);
  return handle;
}

EGLBoolean destroy(EGLDisplay display, EGLImage handle) {
  const std::lock_guard guard(state().lock);
  if (!usable(display)) return EGL_FALSE;
  if (state().images.erase(handle) > 0) {
    state().gone.insert(handle);
    return EGL_TRUE;
  }
  if (state().gone.contains(handle)) misuse("an EGLImage was destroyed twice");
  return fail(EGL_BAD_PARAMETER);
}

} // namespace
} // namespace softegl

using namespace softegl;

SOFTEGL_API EGLImageKHR EGLAPIENTRY eglCreateImageKHR(EGLDisplay display, EGLContext context, EGLenum target,
                                                      EGLClientBuffer buffer, const EGLint *attributes) {
  return create(display, context, target, buffer, attributes);
}

SOFTEGL_API EGLImage EGLAPIENTRY eglCreateImage(EGLDisplay display, EGLContext context, EGLenum target,
                                                EGLClientBuffer buffer, const EGLAttrib *attributes) {
  return create(display, context, target, buffer, attributes);
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglDestroyImageKHR(EGLDisplay display, EGLImageKHR image) {
  return destroy(display, image);
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglDestroyImage(EGLDisplay display, EGLImage image) {
  return destroy(display, image);
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglQueryDmaBufFormatsEXT(EGLDisplay display, EGLint room, EGLint *formats,
                                                            EGLint *count) {
  const std::lock_guard guard(state().lock);
  if (!usable(display)) return EGL_FALSE;
  if (!count || room < 0 || (room > 0 && !formats)) return fail(EGL_BAD_PARAMETER);
  EGLint n = 0;
  for (const softcuda::PictureFormat &format : softcuda::kPictureFormats) {
    if (n < room) formats[n] = static_cast<EGLint>(format.fourcc);
    n++;
  }
  *count = room == 0 ? n : std::min(n, room);
  return EGL_TRUE;
}

SOFTEGL_API EGLBoolean EGLAPIENTRY eglQueryDmaBufModifiersEXT(EGLDisplay display, EGLint fourcc, EGLint room,
                                                              EGLuint64KHR *modifiers, EGLBoolean *external_only,
                                                              EGLint *count) {
  const bool linear = !hidden("linear");
  const std::lock_guard guard(state().lock);
  if (!usable(display)) return EGL_FALSE;
  const softcuda::PictureFormat *const format = softcuda::pictureFormat(static_cast<uint32_t>(fourcc));
  if (!format || !count || room < 0 || (room > 0 && !modifiers)) return fail(EGL_BAD_PARAMETER);
  std::vector<uint64_t> all = {softcuda::kTiledModifier};
  if (linear) all.insert(all.begin(), DRM_FORMAT_MOD_LINEAR);
  const EGLint n = static_cast<EGLint>(all.size());
  for (EGLint i = 0; i < std::min(n, room); i++) {
    modifiers[i] = all[static_cast<size_t>(i)];
    if (external_only) external_only[i] = format->yuv ? EGL_TRUE : EGL_FALSE;
  }
  *count = room == 0 ? n : std::min(n, room);
  return EGL_TRUE;
}

SOFTEGL_API int softegl_image(void *handle, softegl_picture *picture) {
  const std::lock_guard guard(state().lock);
  const auto found = state().images.find(handle);
  if (found == state().images.end()) {
    if (state().gone.contains(handle)) misuse("a destroyed EGLImage was handed to another interface");
    return 0;
  }
  *picture = found->second->picture;
  for (uint32_t i = picture->n_planes; i < kPlanes; i++) picture->fds[i] = -1;
  for (uint32_t i = 0; i < picture->n_planes; i++) picture->fds[i] = fcntl(picture->fds[i], F_DUPFD_CLOEXEC, 3);
  return 1;
}
