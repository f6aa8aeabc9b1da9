// SPDX-License-Identifier: LGPL-2.1-or-later
// A texture object is the address of its description: kernels get it as a number. Descriptions stay when their objects
// are destroyed, so that a kernel that comes too late finds a dead one.
#include "tests/softcuda/internal.h"

#include <deque>

using namespace softcuda;

namespace {

constexpr size_t kAlignment = 512, kPitchAlignment = 32; // as the attributes say

struct Texture : Object {
  static constexpr Kind kKind = Kind::Texture;
  using Object::Object;
  softcuda_texture *description = nullptr;
  std::weak_ptr<Object> under; // its memory or array, which it does not keep
};

softcuda_texture *newDescription(Lock &) {
  static auto &all = *new std::deque<softcuda_texture>;
  return &all.emplace_back();
}

CUresult describe(const CUDA_RESOURCE_DESC &resource, const ContextPtr &context, softcuda_texture *texture,
                  ObjectPtr *under) {
  char *host = nullptr;
  switch (resource.resType) {
  case CU_RESOURCE_TYPE_PITCH2D: {
    const auto &plane = resource.res.pitch2D;
    const size_t row = plane.width * plane.numChannels * elementSize(plane.format);
    NEED(plane.width > 0 && plane.height > 0 && plane.pitchInBytes >= row && row > 0);
    NEED(plane.devPtr % kAlignment == 0 && plane.pitchInBytes % kPitchAlignment == 0);
    AllocationPtr memory;
    TRY(resolve(context.get(), plane.devPtr, (plane.height - 1) * plane.pitchInBytes + row, &memory, &host));
    *under = std::move(memory);
    texture->width = plane.width;
    texture->height = plane.height;
    texture->pitch = plane.pitchInBytes;
    texture->format = plane.format;
    texture->channels = int(plane.numChannels);
    break;
  }
  case CU_RESOURCE_TYPE_ARRAY: {
    const auto array = find<Array>(resource.res.array.hArray);
    if (!array) return CUDA_ERROR_INVALID_HANDLE;
    *under = array;
    host = array->host;
    texture->width = array->width;
    texture->height = array->height > 0 ? array->height : 1;
    texture->pitch = array->pitch;
    texture->format = array->format;
    texture->channels = int(array->channels);
    break;
  }
  default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  texture->data = reinterpret_cast<unsigned char *>(host);
  return CUDA_SUCCESS;
}

} // namespace

bool softcuda::textureUses(uint64_t number, std::vector<ObjectPtr> *uses) {
  ObjectPtr object;
  {
    Lock lock(state().lock);
    const auto at = state().objects.find(number);
    if (at == state().objects.end() || at->second->kind != Kind::Texture) return false;
    object = at->second;
  }
  ObjectPtr under = static_cast<const Texture &>(*object).under.lock();
  if (under)
    uses->push_back(std::move(under));
  else
    misuse("%s uses a texture whose memory is gone", currentFunction());
  uses->push_back(std::move(object));
  return true;
}

SOFTCUDA_API cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampling,
                               const CUDA_RESOURCE_VIEW_DESC *view) {
  ENTER();
  NEED(out && resource && sampling && resource->flags == 0);
  if (view) return CUDA_ERROR_NOT_SUPPORTED;
  softcuda_texture description = {};
  ObjectPtr under;
  TRY(describe(*resource, call.context, &description, &under));
  description.linear = sampling->filterMode == CU_TR_FILTER_MODE_LINEAR;
  description.normalized = (sampling->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  description.as_integer = (sampling->flags & CU_TRSF_READ_AS_INTEGER) != 0;
  NEED(!description.linear || !description.as_integer);
  for (int i = 0; i < 2; ++i) description.address_mode[i] = sampling->addressMode[i];
  for (int i = 0; i < 4; ++i) description.border[i] = sampling->borderColor[i];
  description.live = 1;

  auto texture = std::make_shared<Texture>(Kind::Texture, call.context);
  texture->under = under;
  Lock lock(state().lock);
  texture->description = newDescription(lock);
  *texture->description = description;
  add(lock, texture, reinterpret_cast<uintptr_t>(texture->description));
  *out = texture->handle;
  return CUDA_SUCCESS;
}

SOFTCUDA_API cuTexObjectDestroy(CUtexObject handle) {
  ENTER(kRelease);
  const auto texture = take<Texture>(reinterpret_cast<void *>(handle), false);
  if (!texture) return CUDA_ERROR_INVALID_HANDLE;
  __atomic_store_n(&texture->description->live, 0, __ATOMIC_RELEASE);
  return call.released();
}
