// SPDX-License-Identifier: LGPL-2.1-or-later
// What the parts of the stand-in for libcuda.so.1 share. One lock guards all tables, marks and queues, one condition
// variable tells of every change: a stand-in must be right, not fast. Operations run without the lock.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda.h>

#include "tests/softcuda/softcuda.h"

// A function of the driver, under the name that the library exports.
#define SOFTCUDA_API extern "C" __attribute__((visibility("default"))) CUresult

// First statement of each: counts, traces, injects failures and refuses calls that are not allowed here. Leaves `call`.
#define ENTER(...)                                            \
  ::softcuda::Call call(__func__ __VA_OPT__(, ) __VA_ARGS__); \
  if (call.error != CUDA_SUCCESS) return call.error
#define NEED(condition)                                \
  do {                                                 \
    if (!(condition)) return CUDA_ERROR_INVALID_VALUE; \
  } while (0)
#define TRY(expression)                                                                 \
  do {                                                                                  \
    if (const CUresult result_ = (expression); result_ != CUDA_SUCCESS) return result_; \
  } while (0)

namespace softcuda {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

// ---- what the device can do (profile.cpp)
// -----------------------------------------------------------------------------

struct Profile {
  const char *key, *name;
  int major, minor;                   // compute capability
  bool integrated;                    // shares the host's memory
  bool import_dmabuf;                 // external memory of type DMABUF_FD
  bool export_device_dmabuf;          // cuMemGetHandleForAddressRange of device memory
  bool export_host_dmabuf;            // … of cuMemHostAlloc's
  bool egl_images;                    // cuGraphicsEGLRegisterImage
  bool opaque_semaphores;             // external semaphores of type TIMELINE_SEMAPHORE_FD, too
  bool host_address_when_registered;  // the device address of registered memory is the host's
  bool read_only_registration = true; // of memory that the host cannot write
};
const Profile &profile(); // SOFTCUDA_PROFILE
int deviceCount();        // SOFTCUDA_DEVICES
bool peersCanAccess(int device, int peer);
int environmentNumber(const char *name, int otherwise);

// ---- objects (objects.cpp)
// --------------------------------------------------------------------------------------------

enum class Kind {
  Context,
  Stream,
  Event,
  Module,
  Function, // of a module, and gone with it
  Texture,
  Array,
  MemoryPool,
  ExternalMemory,
  ExternalSemaphore,
  GraphicsResource,
  GenericAllocation, // cuMemCreate
  AddressRange,      // cuMemAddressReserve
  DeviceMemory,      // cuMemAlloc; from here on they are Allocations
  PoolMemory,        // cuMemAllocAsync
  PinnedMemory,      // cuMemHostAlloc
  RegisteredMemory,  // cuMemHostRegister
  ExternalBuffer,    // cuExternalMemoryGetMappedBuffer
  VirtualMemory,     // cuMemMap
  IpcMemory,         // cuIpcOpenMemHandle
  GraphicsMemory,    // of a registered image
};
const char *kindName(Kind kind); // "device memory"

struct Context;
using ContextPtr = std::shared_ptr<Context>;

// Has a handle that no other object ever gets again, so that the use of a destroyed one is noticed. Destroyed without
// the lock.
struct Object {
  Object(Kind object_kind, ContextPtr object_context) : kind(object_kind), context(std::move(object_context)) {}
  virtual ~Object() = default;
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;

  const Kind kind;
  const ContextPtr context; // null for contexts, and for what belongs to the process
  uintptr_t handle = 0;
  const char *made_by = ""; // the driver's function
  unsigned users = 0;       // operations that are enqueued
  const char *used_by = ""; // the last of them
  bool counted = true;      // by the leak check
};
using ObjectPtr = std::shared_ptr<Object>;

// Registers an object and gives it its handle; made_by is the call that is running.
uintptr_t add(const ObjectPtr &object);
void add(Lock &, const ObjectPtr &object, uintptr_t handle); // one that is its own kind of number
ObjectPtr findObject(Kind kind, uintptr_t handle);           // null: never was one, or is destroyed
// Also unregisters it. A handle that was destroyed before, and one that an enqueued operation still uses where
// `may_be_used` is false, is misuse.
ObjectPtr takeObject(Kind kind, uintptr_t handle, bool may_be_used = true);
std::vector<ObjectPtr> objectsOf(Lock &, const Context *context, Kind kind);
// Everything that still belongs to a context, out of the tables; all of it leaked.
std::vector<ObjectPtr> takeAllOf(Lock &, const Context *context);
uint64_t liveObjects(const char *kind, std::string *list); // null: of all but contexts

template <typename T> std::shared_ptr<T> find(const void *handle) {
  return std::static_pointer_cast<T>(findObject(T::kKind, reinterpret_cast<uintptr_t>(handle)));
}
template <typename T> std::shared_ptr<T> take(const void *handle, bool may_be_used = true) {
  return std::static_pointer_cast<T>(takeObject(T::kKind, reinterpret_cast<uintptr_t>(handle), may_be_used));
}
template <typename H, typename T> H handleOf(const std::shared_ptr<T> &object) {
  return reinterpret_cast<H>(object->handle);
}

// ---- calls (calls.cpp)
// ------------------------------------------------------------------------------------------------

enum : unsigned {
  kNoContext = 1, // needs no current context
  kBroken = 2,    // is answered even when the context is unusable
  kRelease = 4,   // frees something: failures are reported after it is done, through call.released()
  kBeforeInit = 8
};

class Call {
public:
  explicit Call(const char *function, unsigned flags = 0);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;

  CUresult error = CUDA_SUCCESS;
  ContextPtr context; // the current one
  // What a function of kRelease returns: an earlier failure of the context or an injected one, else `result`.
  CUresult released(CUresult result = CUDA_SUCCESS) const { return result != CUDA_SUCCESS ? result : late_; }

private:
  CUresult late_ = CUDA_SUCCESS;
  const char *outer_;
};

ContextPtr currentContext();                // of this thread; null: none, or it is destroyed
const char *currentFunction();              // the driver's function that this thread is in; "" outside
CUresult deviceFault(const char *function); // what softcuda_fail_on_device() has for the operation enqueued now

// Something that is undefined on a device: printed, counted, and a failure of the leak check. SOFTCUDA_MISUSE=abort
// stops there. With the lock held or without.
void misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
std::string misuseList(uint64_t *count);
void forgetMisuses();
bool inHostFunction();
void setInHostFunction(bool is);
std::vector<ContextPtr> &contextStack();       // of this thread
CUresult errorByName(const std::string &name); // or by number; CUDA_ERROR_UNKNOWN
CUresult enterFault(const char *function);     // counts the call, and says how it is to fail
unsigned delayMicroseconds();
void trace(const char *format, ...) __attribute__((format(printf, 1, 2))); // SOFTCUDA_TRACE=1

// ---- memory (memory.cpp, windows.cpp)
// ---------------------------------------------------------------------------------

// [address, address + size) of the device. The host finds the same bytes at `host`, which is another mapping for all
// memory that a device does not share with it.
struct Allocation : Object {
  using Object::Object;
  uintptr_t address = 0;
  size_t size = 0;
  char *host = nullptr;
  char *user_host = nullptr; // registered memory: where the process has it, if not at `host`
  int device = 0;
  bool everywhere = false;          // every context may use it (memory of the host); else its own and its peers
  bool read_only = false;           // the device may not write
  std::atomic<bool> retired{false}; // freed in the order of a stream: only what is enqueued may use it
  unsigned flags = 0;
  int file = -1;                 // of its bytes, where there is one: borrowed from `release`
  uint64_t file_offset = 0;      // of `host` in it
  std::function<void()> release; // unmaps; called once nobody uses it any more, without the lock
  ~Allocation() override {
    if (release) release();
  }
};
using AllocationPtr = std::shared_ptr<Allocation>;
inline char *hostAddress(const Allocation &memory) { return memory.user_host ? memory.user_host : memory.host; }

// Enters it in the table; its address must not be taken.
void addAllocation(const AllocationPtr &allocation);
// Takes out the one that starts at `address`; null: there is none of this kind. Misuse if an operation still uses it or
// if it was freed before.
AllocationPtr takeAllocation(Kind kind, uintptr_t address);
// The live allocation that has all of [address, address + bytes), as far as `context` may use it; null context: as far
// as anybody may. `host` is where the stand-in finds them.
CUresult resolve(const Context *context, CUdeviceptr address, size_t bytes, AllocationPtr *allocation, char **host,
                 bool write = false);
AllocationPtr allocationAt(uintptr_t address);    // that contains it, of whatever context; null
AllocationPtr allocationOfHost(const void *host); // memory of the host that the device sees, by its host address
// Gives the memory a file of its own (memfd, sealed against shrinking, as udmabuf wants it) without moving `host`;
// waits until no operation uses it.
CUresult backWithFile(Allocation &allocation);
CUresult allocateDevice(const ContextPtr &context, Kind kind, size_t bytes, AllocationPtr *allocation);

// Addresses that the host cannot touch (PROT_NONE), never the same twice until very many are used up; 0: none left.
uintptr_t reserveWindow(size_t bytes, size_t alignment = 0);
void returnWindow(uintptr_t address, size_t bytes);
bool inWindow(const void *host);
size_t pageUp(size_t bytes);
constexpr unsigned char kFresh = 0xcd; // what new memory of the device is filled with

// ---- streams and queues (queue.cpp)
// -----------------------------------------------------------------------------------

// Done once. Guarded by the lock.
struct Mark {
  bool done = false;
  Clock::time_point at;
};
using MarkPtr = std::shared_ptr<Mark>;
void complete(const MarkPtr &mark); // takes the lock

struct Operation {
  const char *name = "";         // the driver's function that enqueued it
  std::function<CUresult()> run; // on the stream's thread; an error makes the context unusable
  std::vector<ObjectPtr> uses;   // freed while it is enqueued: misuse
  std::vector<MarkPtr> after;    // it starts when these are done
};

struct Queue; // a FIFO with its thread
using QueuePtr = std::shared_ptr<Queue>;

struct Stream : Object {
  static constexpr Kind kKind = Kind::Stream;
  using Object::Object;
  QueuePtr queue;
  unsigned flags = 0;
  int priority = 0;
};

struct Event : Object {
  static constexpr Kind kKind = Kind::Event;
  using Object::Object;
  unsigned flags = 0;
  bool recordable = true; // not those made of another interface's object
  MarkPtr mark;           // of the last record; null: none yet
};

struct Context : Object, std::enable_shared_from_this<Context> {
  static constexpr Kind kKind = Kind::Context;
  explicit Context(int on) : Object(Kind::Context, nullptr), device(on) {}
  const int device;
  unsigned flags = 0;
  bool primary = false;
  size_t limits[16] = {1024, 1 << 20, 8 << 20};
  QueuePtr default_queue;                  // of the legacy default stream
  std::map<uint64_t, QueuePtr> per_thread; // CU_STREAM_PER_THREAD's
  std::vector<Context *> peers;            // whose memory it may use
  std::atomic<int> sticky{CUDA_SUCCESS};   // an asynchronous failure: nothing works any more
  std::atomic<bool> destroyed{false};
};

// Enqueues on a stream of the current context or of its own. Name and uses as Operation has them; `mark` is what tells
// its end. The null handle and the two special ones are understood.
CUresult submit(CUstream stream, Operation operation, MarkPtr *mark = nullptr);
CUresult submitAndWait(Operation operation); // on the default stream
// Until the mark is done (success), or the context is unusable (its error).
CUresult wait(const ContextPtr &context, const MarkPtr &mark);
// For operations that wait for the world outside: looks again and again until `ready`, or false when nobody waits for
// the stream any more (context unusable or destroyed, process ends).
bool waitUntil(const ContextPtr &context, const std::function<bool()> &ready);
// The context that a stream handle means; null: no such stream.
ContextPtr contextOfStream(CUstream stream);
void makeSticky(Context &context, CUresult error);
void makeSticky(Lock &, Context &context, CUresult error);
QueuePtr newQueue(const ContextPtr &context, bool ordered); // with the default stream
std::vector<MarkPtr> orderedMarks(Lock &, const Context &context);
void closeQueue(Lock &, Queue &queue); // no more operations; its thread ends after those that are there
bool idle(Lock &, const Queue &queue);
MarkPtr lastMark(Lock &, const Queue &queue); // of what was enqueued last; null: nothing yet
std::vector<QueuePtr> queuesOf(Lock &, const Context &context);
void endQueues(); // the process ends: waits are given up, threads joined

// Whether a number is a texture object; then what a kernel that has it uses. Misuse: the memory under it is gone.
bool textureUses(uint64_t number, std::vector<ObjectPtr> *uses);

// ---- arrays (arrays.cpp)
// ----------------------------------------------------------------------------------------------

// Pitch-linear, or in tiles as exchange.h has them; opaque to the user.
struct Array : Object {
  static constexpr Kind kKind = Kind::Array;
  using Object::Object;
  size_t width = 0, height = 0; // elements
  size_t pitch = 0;             // bytes
  bool tiled = false;
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;
  unsigned channels = 1;
  char *host = nullptr;
  AllocationPtr memory; // under it, where it is memory that has an address
  std::function<void()> release;
  ~Array() override {
    if (release) release();
  }
};
size_t elementSize(CUarray_format format);

// ---- state (state.cpp)
// ------------------------------------------------------------------------------------------------

struct State {
  std::mutex lock;
  std::condition_variable changed;
  bool initialised = false;
  bool ending = false;                            // the process ends: all waits are given up
  std::map<uintptr_t, ObjectPtr> objects;         // by handle
  std::map<uintptr_t, AllocationPtr> allocations; // by address
  std::map<int, int> lost;                        // device → error
};
State &state(); // never destroyed: threads of others may still call while the process ends

} // namespace softcuda
