// SPDX-License-Identifier: LGPL-2.1-or-later
// What the parts of the stand-in for libvulkan.so.1 share: one physical device that is the CUDA device, with one queue.
// Breaches of valid usage are printed, counted and answered with an error where there is one. One lock guards
// everything; the queue's thread works without it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <vulkan/vulkan_core.h>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/vulkan/softvulkan.h"

#define SOFTVULKAN_API extern "C" __attribute__((visibility("default")))

namespace softvulkan {

enum class Kind { Instance, Device, Memory, Buffer, Semaphore, Fence, CommandPool, CommandBuffer };

struct Object {
  explicit Object(Kind object_kind) : kind(object_kind) {}
  virtual ~Object() = default;
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;
  const Kind kind;
  unsigned pending = 0; // submissions that use it and are not over
  uintptr_t device = 0; // the handle of the device it belongs to
};
using ObjectPtr = std::shared_ptr<Object>;

struct Instance : Object {
  static constexpr Kind kKind = Kind::Instance;
  Instance() : Object(kKind) {}
};

struct Memory : Object {
  static constexpr Kind kKind = Kind::Memory;
  Memory() : Object(kKind) {}
  ~Memory() override;
  uint64_t size = 0;
  uint32_t type = 0;
  VkExternalMemoryHandleTypeFlags exports = 0;
  VkExternalMemoryHandleTypeFlags imported = 0;
  uintptr_t dedicated = 0; // the buffer's handle
  int fd = -1;             // of its bytes
  int taken = -1;          // the descriptor that an import took: nobody else may close it
  std::unique_ptr<softcuda::FileView> view;
  bool mapped = false;
};

struct Buffer : Object {
  static constexpr Kind kKind = Kind::Buffer;
  Buffer() : Object(kKind) {}
  uint64_t size = 0;
  VkBufferUsageFlags usage = 0;
  VkExternalMemoryHandleTypeFlags external = 0;
  std::shared_ptr<Memory> memory; // bound
  uint64_t offset = 0;
  bool needsDedicated() const { return external & VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT; }
  char *data() const { return memory->view->data() + offset; }
};

struct Semaphore : Object {
  static constexpr Kind kKind = Kind::Semaphore;
  Semaphore() : Object(kKind) {}
  ~Semaphore() override;
  bool timeline = false;
  VkExternalSemaphoreHandleTypeFlags exports = 0;
  std::shared_ptr<softcuda::SharedSemaphore> payload;
  bool shared = false;            // others may signal it
  bool will_be_signalled = false; // a binary one: by what was submitted
  bool temporary = false;         // a sync_file stands for the payload until the next wait
  int sync_fd = -1;               // of it; -1: signalled already
  std::vector<int> exported;      // eventfds that the next signal writes instead of the payload
};

struct Fence : Object {
  static constexpr Kind kKind = Kind::Fence;
  Fence() : Object(kKind) {}
  bool signalled = false;
};

struct CommandPool : Object {
  static constexpr Kind kKind = Kind::CommandPool;
  CommandPool() : Object(kKind) {}
  VkCommandPoolCreateFlags flags = 0;
};

struct CommandBuffer : Object {
  static constexpr Kind kKind = Kind::CommandBuffer;
  CommandBuffer() : Object(kKind) {}
  enum class Stage { Initial, Recording, Executable, Invalid } stage = Stage::Initial;
  uintptr_t pool = 0;
  bool resettable = false, one_time = false, simultaneous = false;
  std::vector<std::function<void()>> commands;
  std::vector<ObjectPtr> uses;
  std::set<uintptr_t> acquired, released; // buffers, from and to others by barriers
};

struct Batch {
  struct Wait {
    std::shared_ptr<softcuda::SharedSemaphore> payload; // or
    int sync_fd = -1;                                   // owned
    uint64_t value = 0;
  };
  struct Signal {
    std::shared_ptr<Semaphore> semaphore;
    uint64_t value = 0;
  };
  std::vector<Wait> waits;
  std::vector<std::function<void()>> commands;
  std::vector<Signal> signals;
  std::shared_ptr<Fence> fence;
  std::vector<ObjectPtr> uses;
};

struct Device : Object {
  static constexpr Kind kKind = Kind::Device;
  Device() : Object(kKind) {}
  std::set<std::string> extensions;
  bool timeline_semaphores = false, synchronization2 = false;
  bool lost = false, stop = false;
  std::deque<Batch> queue; // the front one is being worked on
  std::thread thread;
};
using DevicePtr = std::shared_ptr<Device>;
constexpr const char *kPhysicalDeviceTag = "softvulkan";

struct State {
  std::mutex lock;
  std::condition_variable changed;
  std::map<uintptr_t, ObjectPtr> objects; // by handle; handles are never used again
  std::map<uintptr_t, Kind> gone;
  uintptr_t next_handle = 0x56f000;
  std::set<std::string> refused, without;
  std::vector<std::string> misuses;
  State();
};
State &state();
using Lock = std::unique_lock<std::mutex>;

void misuse(const char *format, ...) __attribute__((format(printf, 1, 2))); // with the lock held
bool refused(const char *what);                                             // with the lock held
const char *kindName(Kind kind);

template <typename H> uintptr_t number(H handle) { return reinterpret_cast<uintptr_t>(handle); }

// With the lock held. A handle that is unknown or destroyed is misuse, and null is found.
ObjectPtr findObject(Kind kind, uintptr_t handle, const char *function);
uintptr_t addObject(ObjectPtr object, uintptr_t device);
// Takes it out of the table; one that a submission uses is misuse. The null handle is nothing.
ObjectPtr takeObject(Kind kind, uintptr_t handle, const char *function);

template <typename T, typename H> std::shared_ptr<T> find(H handle, const char *function) {
  return std::static_pointer_cast<T>(findObject(T::kKind, number(handle), function));
}
template <typename T, typename H> std::shared_ptr<T> take(H handle, const char *function) {
  return std::static_pointer_cast<T>(takeObject(T::kKind, number(handle), function));
}
template <typename H> H toHandle(uintptr_t value) { return reinterpret_cast<H>(value); }

// The structure of a type in a chain; null: there is none. Those of other types are none of ours.
template <typename T> const T *chained(const void *next, VkStructureType type) {
  for (auto *in = static_cast<const VkBaseInStructure *>(next); in; in = in->pNext)
    if (in->sType == type) return reinterpret_cast<const T *>(in);
  return nullptr;
}
template <typename T> T *chainedOut(void *next, VkStructureType type) {
  for (auto *out = static_cast<VkBaseOutStructure *>(next); out; out = out->pNext)
    if (out->sType == type) return reinterpret_cast<T *>(out);
  return nullptr;
}

VkPhysicalDevice physicalDevice();
VkQueue queueOf(uintptr_t device);
uintptr_t deviceOfQueue(VkQueue queue);
void startQueue(const DevicePtr &device);
void stopQueue(Lock &lock, const DevicePtr &device);
bool hasExtension(const Device &device, const char *name, const char *function); // misuse where it is not enabled

constexpr uint32_t kMemoryTypes = 3;
constexpr uint32_t kOpaqueTypes = 0b001, kDmabufBufferTypes = 0b011, kDmabufImportTypes = 0b110, kPlainTypes = 0b111;
constexpr uint64_t kBufferAlignment = 256;
constexpr VkExternalMemoryHandleTypeFlags kOpaqueFd = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
constexpr VkExternalMemoryHandleTypeFlags kDmabuf = VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT;

} // namespace softvulkan
