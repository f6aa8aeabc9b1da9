// SPDX-License-Identifier: LGPL-2.1-or-later
// The table of all handles.
#include "tests/softcuda/internal.h"

#include <algorithm>
#include <cstring>

namespace softcuda {
namespace {

constexpr uintptr_t kFirstHandle = 0x5c0000000000;
constexpr unsigned kKindShift = 3,
                   kNumberShift = 8; // the kind is in the handle: so the destroyed are told from the never made
uintptr_t g_number = 1;

uintptr_t newHandle(Kind kind) { return kFirstHandle + (g_number++ << kNumberShift) + (uintptr_t(kind) << kKindShift); }

bool wasHandle(Kind kind, uintptr_t handle) {
  if (handle < kFirstHandle) return false;
  const uintptr_t offset = handle - kFirstHandle;
  return offset >> kNumberShift < g_number && (offset & 0xff) == uintptr_t(kind) << kKindShift;
}

void describe(const Object &object, std::string *list) {
  char line[200];
  if (object.kind >= Kind::DeviceMemory) {
    const auto &memory = static_cast<const Allocation &>(object);
    snprintf(line, sizeof line, "softcuda: left: %s %#zx, %zu bytes, of %s\n", kindName(object.kind),
             size_t(memory.address), memory.size, object.made_by);
  } else {
    snprintf(line, sizeof line, "softcuda: left: %s %#zx of %s\n", kindName(object.kind), size_t(object.handle),
             object.made_by);
  }
  *list += line;
}

} // namespace

const char *kindName(Kind kind) {
  switch (kind) {
  case Kind::Context: return "context";
  case Kind::Stream: return "stream";
  case Kind::Event: return "event";
  case Kind::Module: return "module";
  case Kind::Function: return "function";
  case Kind::Texture: return "texture";
  case Kind::Array: return "array";
  case Kind::MemoryPool: return "memory pool";
  case Kind::ExternalMemory: return "external memory";
  case Kind::ExternalSemaphore: return "external semaphore";
  case Kind::GraphicsResource: return "graphics resource";
  case Kind::GenericAllocation: return "allocation handle";
  case Kind::AddressRange: return "address range";
  case Kind::DeviceMemory: return "device memory";
  case Kind::PoolMemory: return "pool memory";
  case Kind::PinnedMemory: return "pinned memory";
  case Kind::RegisteredMemory: return "registered memory";
  case Kind::ExternalBuffer: return "external buffer";
  case Kind::VirtualMemory: return "virtual memory";
  case Kind::IpcMemory: return "inter-process memory";
  case Kind::GraphicsMemory: return "graphics memory";
  }
  return "?";
}

uintptr_t add(const ObjectPtr &object) {
  Lock lock(state().lock);
  add(lock, object, newHandle(object->kind));
  return object->handle;
}

void add(Lock &, const ObjectPtr &object, uintptr_t handle) {
  object->handle = handle;
  object->made_by = currentFunction();
  state().objects[handle] = object;
}

ObjectPtr findObject(Kind kind, uintptr_t handle) {
  if (handle == 0) return nullptr;
  Lock lock(state().lock);
  const auto at = state().objects.find(handle);
  if (at != state().objects.end()) return at->second->kind == kind ? at->second : nullptr;
  if (wasHandle(kind, handle)) misuse("%s uses a %s that was destroyed", currentFunction(), kindName(kind));
  return nullptr;
}

ObjectPtr takeObject(Kind kind, uintptr_t handle, bool may_be_used) {
  ObjectPtr object = findObject(kind, handle);
  if (!object) return nullptr;
  Lock lock(state().lock);
  if (state().objects.erase(handle) == 0) return nullptr;                         // another thread was quicker
  const bool spoilt = object->context && object->context->sticky != CUDA_SUCCESS; // nothing is executed any more
  if (object->users > 0 && !may_be_used && !spoilt)
    misuse("%s of a %s that %s still uses", currentFunction(), kindName(kind), object->used_by);
  return object;
}

std::vector<ObjectPtr> objectsOf(Lock &, const Context *context, Kind kind) {
  std::vector<ObjectPtr> found;
  for (const auto &[handle, object] : state().objects)
    if (object->kind == kind && object->context.get() == context) found.push_back(object);
  return found;
}

std::vector<ObjectPtr> takeAllOf(Lock &, const Context *context) {
  std::vector<ObjectPtr> taken;
  const auto take_from = [&](auto &table) {
    for (auto at = table.begin(); at != table.end();) {
      if (at->second->context.get() != context) {
        ++at;
        continue;
      }
      taken.push_back(at->second);
      at = table.erase(at);
    }
  };
  take_from(state().objects);
  take_from(state().allocations);
  return taken;
}

uint64_t liveObjects(const char *kind, std::string *list) {
  Lock lock(state().lock);
  uint64_t count = 0;
  const auto look_at = [&](const Object &object) {
    if (!object.counted) return;
    if (kind ? strcmp(kind, kindName(object.kind)) != 0 : object.kind == Kind::Context) return;
    ++count;
    if (list) describe(object, list);
  };
  for (const auto &[handle, object] : state().objects) look_at(*object);
  for (const auto &[address, memory] : state().allocations)
    if (!memory->retired) look_at(*memory); // else it goes as soon as its stream gets there
  return count;
}

} // namespace softcuda
