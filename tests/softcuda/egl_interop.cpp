// SPDX-License-Identifier: LGPL-2.1-or-later
// EGLImages as memory of the device: those of our stand-in for libEGL, and those of Mesa, which can be exported as
// dma-bufs again. Mesa does not tell a picture's size: softcuda_set_egl_display() does, else it is the most that its
// memory can hold.
#include <dlfcn.h>
#include <unistd.h>

#include <cudaEGL.h>

#include <algorithm>
#include <atomic>

#include "tests/softcuda/egl/softegl.h"
#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/exchange/formats.h"
#include "tests/softcuda/interop.h"

namespace softcuda {
namespace {

std::atomic<void *> mesa_display{nullptr};
std::atomic<unsigned> mesa_width{0}, mesa_height{0};

struct Picture : softegl_picture {
  Picture() : softegl_picture{} { std::fill(std::begin(fds), std::end(fds), -1); }
  ~Picture() {
    for (const int fd : fds)
      if (fd >= 0) ::close(fd);
  }
  Picture(const Picture &) = delete;
  Picture &operator=(const Picture &) = delete;
};

struct GraphicsResource : Object {
  static constexpr Kind kKind = Kind::GraphicsResource;
  using Object::Object;
  CUeglFrame frame{};
  std::vector<AllocationPtr> memory; // one of each file
  std::vector<std::shared_ptr<Array>> arrays;
};

template <typename F> F symbol(void *library, const char *name) { return reinterpret_cast<F>(dlsym(library, name)); }

bool exportFromMesa(void *library, void *image, Picture *picture) {
  using Lookup = void *(*)(const char *);
  using Query = unsigned (*)(void *, void *, int *, int *, uint64_t *);
  using Export = unsigned (*)(void *, void *, int *, int32_t *, int32_t *);
  void *const display = mesa_display;
  const auto lookup = symbol<Lookup>(library, "eglGetProcAddress");
  if (!lookup || !display) return false;
  const auto query = reinterpret_cast<Query>(lookup("eglExportDMABUFImageQueryMESA"));
  const auto export_image = reinterpret_cast<Export>(lookup("eglExportDMABUFImageMESA"));
  int fourcc = 0, planes = 0;
  uint64_t modifiers[4] = {};
  int32_t pitches[4] = {}, offsets[4] = {};
  if (!query || !export_image || !query(display, image, &fourcc, &planes, nullptr) || planes < 1 || planes > 3)
    return false;
  if (!query(display, image, nullptr, nullptr, modifiers) ||
      !export_image(display, image, picture->fds, pitches, offsets))
    return false;
  picture->fourcc = static_cast<uint32_t>(fourcc);
  picture->n_planes = static_cast<uint32_t>(planes);
  picture->modifier = modifiers[0];
  for (int i = 0; i < planes; i++) {
    picture->pitches[i] = static_cast<uint32_t>(pitches[i]);
    picture->offsets[i] = static_cast<uint32_t>(offsets[i]);
  }
  const PictureFormat *const format = pictureFormat(picture->fourcc);
  if (!format || picture->pitches[0] == 0) return false;
  const bool one_file = planes == 1 || picture->fds[1] < 0 || sameFile(picture->fds[0], picture->fds[1]);
  const uint64_t end = planes > 1 && one_file && picture->offsets[1] > picture->offsets[0] ? picture->offsets[1]
                                                                                           : sizeOf(picture->fds[0]);
  const unsigned width = mesa_width, height = mesa_height;
  picture->width = width ? width : picture->pitches[0] / format->planes[0].bytes;
  picture->height = height ? height : static_cast<uint32_t>((end - picture->offsets[0]) / picture->pitches[0]);
  return true;
}

bool describe(void *image, Picture *picture) {
  void *const library = dlopen("libEGL.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) return false;
  const auto ours = symbol<decltype(&softegl_image)>(library, "softegl_image");
  const bool known = ours ? ours(image, picture) != 0 : exportFromMesa(library, image, picture);
  dlclose(library);
  return known;
}

// The address of the device at which a plane's file starts; files that are the same are mapped once.
AllocationPtr mapPlane(const ContextPtr &context, const Picture &picture, uint32_t plane, bool writable,
                       std::vector<std::pair<int, AllocationPtr>> *mapped) {
  // a file that holds all planes can be given once only
  const int fd = picture.fds[plane] >= 0 ? picture.fds[plane] : picture.fds[0];
  for (const auto &[other, allocation] : *mapped)
    if (sameFile(fd, other)) return allocation;
  const AllocationPtr allocation =
      mapForDevice(context, Kind::GraphicsMemory, fd, 0, sizeOf(fd), writable, importFault("egl"));
  if (allocation) mapped->emplace_back(fd, allocation);
  return allocation;
}

void unregister(GraphicsResource &resource) {
  for (const auto &array : resource.arrays) takeObject(Kind::Array, array->handle, false);
  for (const AllocationPtr &memory : resource.memory) takeAllocation(Kind::GraphicsMemory, memory->address);
}

CUresult fill(GraphicsResource &resource, const Picture &picture, const PictureFormat &format, unsigned flags) {
  const bool writable = flags != CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY,
             linear = picture.modifier == DRM_FORMAT_MOD_LINEAR;
  NEED(picture.n_planes == format.n_planes);
  CUeglFrame &frame = resource.frame;
  frame.width = picture.width;
  frame.height = picture.height;
  frame.depth = 1;
  frame.pitch = linear ? picture.pitches[0] : 0;
  frame.planeCount = format.n_planes;
  frame.numChannels = format.planes[0].channels;
  frame.frameType = linear ? CU_EGL_FRAME_TYPE_PITCH : CU_EGL_FRAME_TYPE_ARRAY;
  frame.eglColorFormat = format.egl_color_format;
  frame.cuFormat = format.sixteen_bit ? CU_AD_FORMAT_UNSIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT8;
  std::vector<std::pair<int, AllocationPtr>> mapped;
  for (uint32_t i = 0; i < format.n_planes; i++) {
    const AllocationPtr memory = mapPlane(resource.context, picture, i, writable, &mapped);
    if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
    if (resource.memory.size() < mapped.size()) resource.memory.push_back(memory);
    if (linear) {
      frame.frame.pPitch[i] = reinterpret_cast<void *>(memory->address + picture.offsets[i]);
      continue;
    }
    auto array = std::make_shared<Array>(Kind::Array, resource.context);
    array->channels = format.planes[i].channels;
    array->format = frame.cuFormat;
    array->width = format.rowBytes(i, picture.width) / format.planes[i].bytes;
    array->height = format.rows(i, picture.height);
    array->pitch = picture.pitches[i];
    array->host = memory->host + picture.offsets[i];
    array->memory = memory;
    array->tiled = picture.modifier == kTiledModifier;
    add(array);
    frame.frame.pArray[i] = handleOf<CUarray>(array);
    resource.arrays.push_back(array);
  }
  return CUDA_SUCCESS;
}

} // namespace
} // namespace softcuda

using namespace softcuda;

extern "C" __attribute__((visibility("default"))) void softcuda_set_egl_display(void *display, unsigned width,
                                                                                unsigned height) {
  mesa_display = display;
  mesa_width = width;
  mesa_height = height;
}

SOFTCUDA_API cuGraphicsEGLRegisterImage(CUgraphicsResource *out, void *image, unsigned int flags) {
  ENTER();
  NEED(out && flags <= 2);
  // desktop drivers have the function, too, and nobody says what it does there
  if (!environmentNumber("SOFTCUDA_EGL_IMAGES", profile().egl_images)) return CUDA_ERROR_NOT_SUPPORTED;
  Picture picture;
  if (!image || !describe(image, &picture)) return CUDA_ERROR_INVALID_HANDLE;
  const PictureFormat *const format = pictureFormat(picture.fourcc);
  NEED(format);
  auto resource = std::make_shared<GraphicsResource>(Kind::GraphicsResource, call.context);
  if (const CUresult result = fill(*resource, picture, *format, flags); result != CUDA_SUCCESS) {
    unregister(*resource);
    return result;
  }
  add(resource);
  *out = handleOf<CUgraphicsResource>(resource);
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuGraphicsResourceGetMappedEglFrame(CUeglFrame *frame, CUgraphicsResource handle, unsigned int index,
                                                 unsigned int mip_level) {
  ENTER();
  NEED(frame && index == 0 && mip_level == 0);
  const auto resource = find<GraphicsResource>(handle);
  if (!resource) return CUDA_ERROR_INVALID_HANDLE;
  *frame = resource->frame;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuGraphicsUnregisterResource(CUgraphicsResource handle) {
  ENTER(kRelease);
  const auto resource = take<GraphicsResource>(handle);
  if (!resource) return call.released(CUDA_ERROR_INVALID_HANDLE);
  unregister(*resource);
  return call.released();
}

SOFTCUDA_API cuEventCreateFromEGLSync(CUevent *out, void *, unsigned int) {
  ENTER();
  NEED(out);
  return CUDA_ERROR_NOT_SUPPORTED;
}
