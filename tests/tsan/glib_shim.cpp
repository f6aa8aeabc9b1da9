// SPDX-License-Identifier: LGPL-2.1-or-later
// Tells ThreadSanitizer what GLib and GStreamer order between threads. Distributions build neither with it, and both
// wait on futexes and atomics of their own, which it does not see: without this every field behind a GMutex is
// reported.
//
// It is part of each test program of a ThreadSanitizer build. A program's symbols come before those of the libraries it
// loads, so calls between programs, plugins and libraries arrive here, are annotated and passed on. Calls inside one
// library do not arrive (they are bound at link time): where that matters, what crosses it is annotated around it.
// The shim itself is built without ThreadSanitizer: an atomic that it used would order threads that are not ordered.
//
// A lock or an object is known by its address. Never annotated more than is true, at worst a little: an annotation that
// is not true hides races.
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <gst/gst.h>

#define SHIM extern "C" __attribute__((visibility("default")))

// macros of GLib for its functions of these names
#undef g_once_init_enter
#undef g_once_init_enter_pointer
#undef g_once_init_leave
#undef g_once_init_leave_pointer

namespace {

// The library's own function, looked up at its first call: libraries lock before any constructor of ours has run.
template <typename F> class Real {
public:
  explicit constexpr Real(const char *name) : name_(name) {}
  template <typename... Args> auto operator()(Args... args) {
    F *f = function_.load(std::memory_order_acquire);
    if (f == nullptr) {
      f = reinterpret_cast<F *>(dlsym(RTLD_NEXT, name_));
      if (f == nullptr) {
        std::fprintf(stderr, "the annotations for ThreadSanitizer: no library has %s\n", name_);
        std::abort();
      }
      function_.store(f, std::memory_order_release);
    }
    return f(args...);
  }

private:
  const char *name_;
  std::atomic<F *> function_{nullptr};
};

#define REAL(function) static constinit Real<decltype(function)> real(#function)

// What follows an acquire has seen everything before the releases on the same address.
void acquire(const volatile void *at) { __tsan_acquire(const_cast<void *>(at)); }
void release(const volatile void *at) { __tsan_release(const_cast<void *>(at)); }

// A reader/writer lock has two orders: what writers did is seen by everybody, what readers did only by writers.
const void *readersOf(const GRWLock *lock) { return &lock->i[0]; }

// Drops a reference that is not the last one. False: it is the last, so that whoever else had one has released it.
// Object: the count is a public field, and nothing but the count changes (no toggle references in tests).
bool dropOneOfMany(int *count) {
  std::atomic_ref<int> references(*count);
  int n = references.load();
  while (n > 1)
    if (references.compare_exchange_weak(n, n - 1)) return true;
  return false;
}

// The last references to a buffer's memories go inside GStreamer: who had one has released it by then, and what ends
// the memory acquires it (below).
void endMemories(GstBuffer *buffer) {
  for (guint i = 0; i < gst_buffer_n_memory(buffer); ++i)
    for (GstMemory *memory = gst_buffer_peek_memory(buffer, i); memory != nullptr; memory = memory->parent)
      release(memory);
}

// GStreamer's own function, the same for all memories
std::atomic<GstMiniObjectFreeFunction> free_memory{nullptr};

GstMemory *acquiredBeforeItEnds(GstMemory *memory) {
  if (memory == nullptr) return nullptr;
  GstMiniObject *const object = GST_MINI_OBJECT_CAST(memory);
  const auto acquireAndFree = +[](GstMiniObject *ended) {
    acquire(ended);
    free_memory.load()(ended);
  };
  if (object->free != acquireAndFree) {
    free_memory = object->free;
    object->free = acquireAndFree;
  }
  return memory;
}

void dropped(GstMiniObject *object) {
  release(object);
  if (GST_MINI_OBJECT_TYPE(object) == GST_TYPE_BUFFER) {
    auto *const buffer = reinterpret_cast<GstBuffer *>(object);
    for (guint i = 0; i < gst_buffer_n_memory(buffer); ++i) release(gst_buffer_peek_memory(buffer, i));
  }
}

} // namespace

// GMutex, GRecMutex, GRWLock, GCond

SHIM void g_mutex_lock(GMutex *mutex) {
  REAL(g_mutex_lock);
  real(mutex);
  acquire(mutex);
}

SHIM gboolean g_mutex_trylock(GMutex *mutex) {
  REAL(g_mutex_trylock);
  const gboolean locked = real(mutex);
  if (locked) acquire(mutex);
  return locked;
}

SHIM void g_mutex_unlock(GMutex *mutex) {
  REAL(g_mutex_unlock);
  release(mutex);
  real(mutex);
}

SHIM void g_rec_mutex_lock(GRecMutex *mutex) {
  REAL(g_rec_mutex_lock);
  real(mutex);
  acquire(mutex);
}

SHIM gboolean g_rec_mutex_trylock(GRecMutex *mutex) {
  REAL(g_rec_mutex_trylock);
  const gboolean locked = real(mutex);
  if (locked) acquire(mutex);
  return locked;
}

SHIM void g_rec_mutex_unlock(GRecMutex *mutex) {
  REAL(g_rec_mutex_unlock);
  release(mutex);
  real(mutex);
}

SHIM void g_rw_lock_writer_lock(GRWLock *lock) {
  REAL(g_rw_lock_writer_lock);
  real(lock);
  acquire(lock);
  acquire(readersOf(lock));
}

SHIM gboolean g_rw_lock_writer_trylock(GRWLock *lock) {
  REAL(g_rw_lock_writer_trylock);
  const gboolean locked = real(lock);
  if (locked) {
    acquire(lock);
    acquire(readersOf(lock));
  }
  return locked;
}

SHIM void g_rw_lock_writer_unlock(GRWLock *lock) {
  REAL(g_rw_lock_writer_unlock);
  release(lock);
  real(lock);
}

SHIM void g_rw_lock_reader_lock(GRWLock *lock) {
  REAL(g_rw_lock_reader_lock);
  real(lock);
  acquire(lock);
}

SHIM gboolean g_rw_lock_reader_trylock(GRWLock *lock) {
  REAL(g_rw_lock_reader_trylock);
  const gboolean locked = real(lock);
  if (locked) acquire(lock);
  return locked;
}

SHIM void g_rw_lock_reader_unlock(GRWLock *lock) {
  REAL(g_rw_lock_reader_unlock);
  release(readersOf(lock));
  real(lock);
}

// A condition orders nothing by itself; waiting for it gives the mutex away in between.
SHIM void g_cond_wait(GCond *cond, GMutex *mutex) {
  REAL(g_cond_wait);
  release(mutex);
  real(cond, mutex);
  acquire(mutex);
}

SHIM gboolean g_cond_wait_until(GCond *cond, GMutex *mutex, gint64 end_time) {
  REAL(g_cond_wait_until);
  release(mutex);
  const gboolean signalled = real(cond, mutex, end_time);
  acquire(mutex);
  return signalled;
}

SHIM void g_bit_lock(volatile gint *address, gint bit) {
  REAL(g_bit_lock);
  real(address, bit);
  acquire(address);
}

SHIM gboolean g_bit_trylock(volatile gint *address, gint bit) {
  REAL(g_bit_trylock);
  const gboolean locked = real(address, bit);
  if (locked) acquire(address);
  return locked;
}

SHIM void g_bit_unlock(volatile gint *address, gint bit) {
  REAL(g_bit_unlock);
  release(address);
  real(address, bit);
}

// Things done once: callers read the location with an atomic of their own, which is the other half.

SHIM void g_once_init_leave(volatile void *location, gsize result) {
  REAL(g_once_init_leave);
  release(location);
  real(location, result);
}

SHIM void g_once_init_leave_pointer(void *location, gpointer result) {
  REAL(g_once_init_leave_pointer);
  release(location);
  real(location, result);
}

SHIM gboolean g_once_init_enter(volatile void *location) {
  REAL(g_once_init_enter);
  const gboolean first = real(location);
  if (!first) acquire(location);
  return first;
}

SHIM gboolean g_once_init_enter_pointer(void *location) {
  REAL(g_once_init_enter_pointer);
  const gboolean first = real(location);
  if (!first) acquire(location);
  return first;
}

// Callers that find it done look at the status alone: the release has to come before GLib sets that.
SHIM gpointer g_once_impl(GOnce *once, GThreadFunc function, gpointer argument) {
  REAL(g_once_impl);
  struct Call {
    GOnce *once;
    GThreadFunc function;
    gpointer argument;
  } call{once, function, argument};
  const gpointer result = real(
      once,
      [](gpointer data) {
        const auto *const asked = static_cast<const Call *>(data);
        const gpointer made = asked->function(asked->argument);
        release(&asked->once->status);
        return made;
      },
      &call);
  acquire(&once->status);
  return result;
}

// Reference counts: who drops one has done with the object, who drops the last one ends it after them.

SHIM gboolean g_atomic_ref_count_dec(gatomicrefcount *count) {
  REAL(g_atomic_ref_count_dec);
  release(count);
  const gboolean last = real(count);
  if (last) acquire(count);
  return last;
}

SHIM void g_object_unref(gpointer object) {
  REAL(g_object_unref);
  release(object);
  if (G_IS_OBJECT(object) && dropOneOfMany(reinterpret_cast<int *>(&static_cast<GObject *>(object)->ref_count))) return;
  acquire(object);
  real(object);
}

SHIM void gst_mini_object_unref(GstMiniObject *object) {
  REAL(gst_mini_object_unref);
  dropped(object);
  if (dropOneOfMany(&object->refcount)) return;
  acquire(object);
  if (GST_MINI_OBJECT_TYPE(object) == GST_TYPE_BUFFER) endMemories(reinterpret_cast<GstBuffer *>(object));
  real(object);
}

// Memories, from where they are made.

SHIM void gst_memory_init(GstMemory *memory, GstMemoryFlags flags, GstAllocator *allocator, GstMemory *parent,
                          gsize maxsize, gsize align, gsize offset, gsize size) {
  REAL(gst_memory_init);
  real(memory, flags, allocator, parent, maxsize, align, offset, size);
  acquiredBeforeItEnds(memory);
}

SHIM GstMemory *gst_memory_new_wrapped(GstMemoryFlags flags, gpointer data, gsize maxsize, gsize offset, gsize size,
                                       gpointer user_data, GDestroyNotify notify) {
  REAL(gst_memory_new_wrapped);
  return acquiredBeforeItEnds(real(flags, data, maxsize, offset, size, user_data, notify));
}

SHIM GstBuffer *gst_buffer_new_wrapped_full(GstMemoryFlags flags, gpointer data, gsize maxsize, gsize offset,
                                            gsize size, gpointer user_data, GDestroyNotify notify) {
  REAL(gst_buffer_new_wrapped_full);
  GstBuffer *const buffer = real(flags, data, maxsize, offset, size, user_data, notify);
  acquiredBeforeItEnds(gst_buffer_peek_memory(buffer, 0));
  return buffer;
}

SHIM GstMemory *gst_allocator_alloc(GstAllocator *allocator, gsize size, GstAllocationParams *params) {
  REAL(gst_allocator_alloc);
  return acquiredBeforeItEnds(real(allocator, size, params));
}

// These drop a reference inside GStreamer.

SHIM gboolean gst_mini_object_replace(GstMiniObject **place, GstMiniObject *object) {
  REAL(gst_mini_object_replace);
  if (GstMiniObject *const old = *place; old != nullptr) {
    dropped(old);
    acquire(old);
  }
  return real(place, object);
}

SHIM gboolean gst_mini_object_take(GstMiniObject **place, GstMiniObject *object) {
  REAL(gst_mini_object_take);
  if (GstMiniObject *const old = *place; old != nullptr) {
    dropped(old);
    acquire(old);
  }
  return real(place, object);
}

// Queues without locks: what passes is handed over.

SHIM GstFlowReturn gst_buffer_pool_acquire_buffer(GstBufferPool *pool, GstBuffer **buffer,
                                                  GstBufferPoolAcquireParams *params) {
  REAL(gst_buffer_pool_acquire_buffer);
  const GstFlowReturn flow = real(pool, buffer, params);
  if (flow == GST_FLOW_OK) {
    acquire(*buffer); // whoever had it before
    for (guint i = 0; i < gst_buffer_n_memory(*buffer); ++i) acquire(gst_buffer_peek_memory(*buffer, i));
  }
  return flow;
}

SHIM gboolean gst_bus_post(GstBus *bus, GstMessage *message) {
  REAL(gst_bus_post);
  release(message);
  return real(bus, message);
}

SHIM gboolean gst_element_post_message(GstElement *element, GstMessage *message) {
  REAL(gst_element_post_message);
  release(message);
  return real(element, message);
}

SHIM GstMessage *gst_bus_timed_pop_filtered(GstBus *bus, GstClockTime timeout, GstMessageType types) {
  REAL(gst_bus_timed_pop_filtered);
  GstMessage *const message = real(bus, timeout, types);
  if (message != nullptr) acquire(message);
  return message;
}

SHIM GstMessage *gst_bus_timed_pop(GstBus *bus, GstClockTime timeout) {
  return gst_bus_timed_pop_filtered(bus, timeout, GST_MESSAGE_ANY);
}

SHIM GstMessage *gst_bus_pop(GstBus *bus) { return gst_bus_timed_pop_filtered(bus, 0, GST_MESSAGE_ANY); }

SHIM GstMessage *gst_bus_pop_filtered(GstBus *bus, GstMessageType types) {
  return gst_bus_timed_pop_filtered(bus, 0, types);
}

// Threads of a pool inside GStreamer: the call sees what was before it was asked for.
namespace {
struct LaterCall {
  GstElementCallAsyncFunc function;
  gpointer data;
  GDestroyNotify destroy;
};
} // namespace

SHIM void gst_element_call_async(GstElement *element, GstElementCallAsyncFunc function, gpointer data,
                                 GDestroyNotify destroy) {
  REAL(gst_element_call_async);
  auto *const call = new LaterCall{function, data, destroy};
  release(call);
  real(
      element,
      [](GstElement *on, gpointer pointer) {
        acquire(pointer);
        const auto *const later = static_cast<LaterCall *>(pointer);
        later->function(on, later->data);
      },
      call,
      [](gpointer pointer) {
        acquire(pointer);
        const auto *const later = static_cast<LaterCall *>(pointer);
        if (later->destroy != nullptr) later->destroy(later->data);
        delete later;
      });
}

SHIM void g_async_queue_push(GAsyncQueue *queue, gpointer data) {
  REAL(g_async_queue_push);
  release(data);
  real(queue, data);
}

SHIM gpointer g_async_queue_pop(GAsyncQueue *queue) {
  REAL(g_async_queue_pop);
  const gpointer data = real(queue);
  acquire(data);
  return data;
}

SHIM gpointer g_async_queue_try_pop(GAsyncQueue *queue) {
  REAL(g_async_queue_try_pop);
  const gpointer data = real(queue);
  if (data != nullptr) acquire(data);
  return data;
}

SHIM gpointer g_async_queue_timeout_pop(GAsyncQueue *queue, guint64 timeout) {
  REAL(g_async_queue_timeout_pop);
  const gpointer data = real(queue, timeout);
  if (data != nullptr) acquire(data);
  return data;
}
