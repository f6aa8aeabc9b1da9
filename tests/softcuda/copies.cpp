// SPDX-License-Identifier: LGPL-2.1-or-later
// Copies. What they touch is checked when they are enqueued, and marked as used until they are done.
#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/internal.h"

#include <algorithm>
#include <cstring>

using namespace softcuda;

namespace {

// One side of a copy: where row 0 starts for the stand-in, and the object that is in use.
struct Side {
  char *host = nullptr;
  size_t pitch = 0;
  ObjectPtr object;
  bool on_device = false;
  bool tiled = false; // then `host` is of the array's first byte, and x and y say where the copy starts
  size_t x = 0, y = 0;
};

struct Place { // one side of CUDA_MEMCPY2D
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  size_t pitch, x, y;
};

CUresult hostSide(const void *pointer, size_t first, Side *side) {
  NEED(pointer);
  if (inWindow(pointer)) {
    misuse("%s is given the device address %p as one of the host", currentFunction(), pointer);
    return CUDA_ERROR_INVALID_VALUE;
  }
  side->host = static_cast<char *>(const_cast<void *>(pointer)) + first;
  side->object = allocationOfHost(pointer); // null: not known to the driver
  return CUDA_SUCCESS;
}

CUresult deviceSide(const Context *context, CUdeviceptr pointer, size_t first, size_t bytes, bool write, Side *side) {
  AllocationPtr memory;
  TRY(resolve(context, pointer, first + bytes, &memory, &side->host, write));
  side->host += first;
  side->on_device = memory->kind != Kind::PinnedMemory && memory->kind != Kind::RegisteredMemory;
  side->object = std::move(memory);
  return CUDA_SUCCESS;
}

CUresult arraySide(const Place &place, size_t width, size_t height, Side *side) {
  const auto array = find<Array>(place.array);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  const size_t row = array->width * array->channels * elementSize(array->format);
  const size_t rows = std::max<size_t>(array->height, 1);
  NEED(place.x <= row && width <= row - place.x && place.y <= rows && height <= rows - place.y);
  side->pitch = array->pitch;
  side->tiled = array->tiled;
  side->x = place.x;
  side->y = place.y;
  side->host = array->tiled ? array->host : array->host + place.y * array->pitch + place.x;
  side->object = array;
  side->on_device = true;
  return CUDA_SUCCESS;
}

CUresult sideOf(const Context *context, const Place &place, size_t width, size_t height, bool write, Side *side) {
  if (place.type == CU_MEMORYTYPE_ARRAY) return arraySide(place, width, height, side);
  side->pitch = place.pitch ? place.pitch : place.x + width;
  NEED(height == 1 || side->pitch >= place.x + width);
  const size_t first = place.y * side->pitch + place.x, bytes = (height - 1) * side->pitch + width;
  switch (place.type) {
  case CU_MEMORYTYPE_HOST: return hostSide(place.host, first, side);
  case CU_MEMORYTYPE_DEVICE: return deviceSide(context, place.device, first, bytes, write, side);
  case CU_MEMORYTYPE_UNIFIED:
    if (allocationAt(place.device)) return deviceSide(context, place.device, first, bytes, write, side);
    return hostSide(reinterpret_cast<const void *>(place.device), first, side);
  default: return CUDA_ERROR_INVALID_VALUE;
  }
}

char *at(const Side &side, size_t x, size_t y) {
  return side.host + (side.tiled ? tiledOffset(side.x + x, side.y + y, side.pitch) : y * side.pitch + x);
}

Operation copyRows(const char *function, const Side &to, const Side &from, size_t width, size_t height) {
  Operation operation{function, {}, {}, {}};
  for (const Side *side : {&to, &from})
    if (side->object) operation.uses.push_back(side->object);
  if (to.tiled || from.tiled) {
    operation.run = [to, from, width, height] {
      for (size_t y = 0; y < height; ++y)
        for (size_t x = 0; x < width; ++x) *at(to, x, y) = *at(from, x, y);
      return CUDA_SUCCESS;
    };
    return operation;
  }
  operation.run = [to = to.host, from = from.host, to_pitch = to.pitch, from_pitch = from.pitch, width, height] {
    for (size_t y = 0; y < height; ++y) memmove(to + y * to_pitch, from + y * from_pitch, width);
    return CUDA_SUCCESS;
  };
  return operation;
}

// Between two places on the device nobody waits, though the function has no stream; where the host is concerned, it
// does.
CUresult enqueue(CUstream stream, bool async, const Side &to, const Side &from, Operation operation) {
  if (async) return submit(stream, std::move(operation));
  if (to.on_device && from.on_device) return submit(nullptr, std::move(operation));
  return submitAndWait(std::move(operation));
}

CUresult copy2D(const char *function, const CUDA_MEMCPY2D *copy, CUstream stream, bool async) {
  NEED(copy);
  const ContextPtr context = contextOfStream(stream);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  const size_t width = copy->WidthInBytes, height = copy->Height;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  Side to, from;
  TRY(sideOf(context.get(),
             {copy->srcMemoryType, copy->srcHost, copy->srcDevice, copy->srcArray, copy->srcPitch, copy->srcXInBytes,
              copy->srcY},
             width, height, false, &from));
  TRY(sideOf(context.get(),
             {copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray, copy->dstPitch, copy->dstXInBytes,
              copy->dstY},
             width, height, true, &to));
  return enqueue(stream, async, to, from, copyRows(function, to, from, width, height));
}

enum class Way { HostToDevice, DeviceToHost, DeviceToDevice };

CUresult copy1D(const char *function, Way way, uintptr_t destination, uintptr_t source, size_t bytes, CUstream stream,
                bool async) {
  const ContextPtr context = contextOfStream(stream);
  if (!context) return CUDA_ERROR_INVALID_HANDLE;
  if (bytes == 0) return CUDA_SUCCESS;
  Side to, from;
  if (way == Way::HostToDevice)
    TRY(hostSide(reinterpret_cast<const void *>(source), 0, &from));
  else
    TRY(deviceSide(context.get(), source, 0, bytes, false, &from));
  if (way == Way::DeviceToHost)
    TRY(hostSide(reinterpret_cast<const void *>(destination), 0, &to));
  else
    TRY(deviceSide(context.get(), destination, 0, bytes, true, &to));
  return enqueue(stream, async, to, from, copyRows(function, to, from, bytes, 1));
}

uintptr_t number(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); }

} // namespace

SOFTCUDA_API cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) {
  ENTER();
  return copy2D(__func__, copy, nullptr, false);
}

SOFTCUDA_API cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) {
  ENTER();
  return copy2D(__func__, copy, nullptr, false);
}

SOFTCUDA_API cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
  ENTER();
  return copy2D(__func__, copy, stream, true);
}

SOFTCUDA_API cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER();
  return copy1D(__func__, Way::HostToDevice, to, number(from), bytes, nullptr, false);
}

SOFTCUDA_API cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER();
  return copy1D(__func__, Way::DeviceToHost, number(to), from, bytes, nullptr, false);
}

SOFTCUDA_API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  ENTER();
  return copy1D(__func__, Way::DeviceToDevice, to, from, bytes, nullptr, false);
}

SOFTCUDA_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  ENTER();
  return copy1D(__func__, Way::HostToDevice, to, number(from), bytes, stream, true);
}

SOFTCUDA_API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER();
  return copy1D(__func__, Way::DeviceToHost, number(to), from, bytes, stream, true);
}

SOFTCUDA_API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  ENTER();
  return copy1D(__func__, Way::DeviceToDevice, to, from, bytes, stream, true);
}

// Between contexts, which need not see each other's memory.
SOFTCUDA_API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                               size_t bytes, CUstream stream) {
  ENTER();
  const auto target = find<Context>(to_context), origin = find<Context>(from_context);
  if (!target || !origin) return CUDA_ERROR_INVALID_CONTEXT;
  Side to_side, from_side;
  TRY(deviceSide(target.get(), to, 0, bytes, true, &to_side));
  TRY(deviceSide(origin.get(), from, 0, bytes, false, &from_side));
  return submit(stream, copyRows(__func__, to_side, from_side, bytes, 1));
}
