// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/softcuda/vulkan/state.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace softvulkan {
namespace {

std::set<std::string> split(const char *text) {
  std::set<std::string> parts;
  const std::string all = text ? text : "";
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find(',', at), all.size());
    parts.insert(all.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

struct LeakCheck {
  ~LeakCheck() {
    if (!softcuda::leakCheckWanted()) return;
    const Lock lock(state().lock);
    for (const auto &[handle, object] : state().objects)
      fprintf(stderr, "softvulkan: leaked %s %#zx\n", kindName(object->kind), handle);
    if (!state().objects.empty() || !state().misuses.empty()) _exit(99);
  }
} leak_check;

} // namespace

State::State() : refused(split(getenv("SOFTVULKAN_REFUSE"))), without(split(getenv("SOFTVULKAN_WITHOUT"))) {}

State &state() {
  static State *const all = new State; // never destroyed: a queue's thread may still run while the process ends
  return *all;
}

void misuse(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "softvulkan: misuse: %s\n", text);
  state().misuses.emplace_back(text);
}

bool refused(const char *what) { return state().refused.contains(what); }

const char *kindName(Kind kind) {
  switch (kind) {
  case Kind::Instance: return "instance";
  case Kind::Device: return "device";
  case Kind::Memory: return "memory";
  case Kind::Buffer: return "buffer";
  case Kind::Semaphore: return "semaphore";
  case Kind::Fence: return "fence";
  case Kind::CommandPool: return "command pool";
  case Kind::CommandBuffer: return "command buffer";
  }
  return "";
}

ObjectPtr findObject(Kind kind, uintptr_t handle, const char *function) {
  const auto found = state().objects.find(handle);
  if (found != state().objects.end() && found->second->kind == kind) return found->second;
  const bool was_one = state().gone.contains(handle) && state().gone[handle] == kind;
  misuse("%s: %#zx is no %s%s", function, handle, kindName(kind), was_one ? " any more" : "");
  return nullptr;
}

uintptr_t addObject(ObjectPtr object, uintptr_t device) {
  const uintptr_t handle = state().next_handle += 16;
  object->device = device;
  state().objects[handle] = std::move(object);
  return handle;
}

ObjectPtr takeObject(Kind kind, uintptr_t handle, const char *function) {
  if (handle == 0) return nullptr;
  ObjectPtr object = findObject(kind, handle, function);
  if (!object) return nullptr;
  if (object->pending > 0) misuse("%s: the %s is in use by the queue", function, kindName(kind));
  state().objects.erase(handle);
  state().gone[handle] = kind;
  return object;
}

bool hasExtension(const Device &device, const char *name, const char *function) {
  if (device.extensions.contains(name)) return true;
  misuse("%s: the device was made without %s", function, name);
  return false;
}

} // namespace softvulkan

using namespace softvulkan;

SOFTVULKAN_API void softvulkan_refuse(const char *what) {
  const Lock lock(state().lock);
  state().refused = split(what);
}

SOFTVULKAN_API void softvulkan_without(const char *what) {
  const Lock lock(state().lock);
  state().without = split(what);
}

SOFTVULKAN_API uint64_t softvulkan_misuses(void) {
  const Lock lock(state().lock);
  return state().misuses.size();
}

SOFTVULKAN_API const char *softvulkan_misuse_list(void) {
  static thread_local std::string text;
  const Lock lock(state().lock);
  text.clear();
  for (const std::string &one : state().misuses) text += one + "\n";
  return text.c_str();
}

SOFTVULKAN_API void softvulkan_forget_misuses(void) {
  const Lock lock(state().lock);
  state().misuses.clear();
}

SOFTVULKAN_API uint64_t softvulkan_live(void) {
  const Lock lock(state().lock);
  return state().objects.size();
}
