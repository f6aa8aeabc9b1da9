// SPDX-License-Identifier: LGPL-2.1-or-later
// races KIND: real races, each in the neighbourhood of something that the shim annotates. ThreadSanitizer has to report
// raced_value in all of them. The threads are kept in the racing order by a flag that orders nothing (relaxed).
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include <gst/gst.h>

int raced_value;

namespace {

std::atomic<bool> first_is_done;

void race(const std::function<void()> &first, const std::function<void()> &second) {
  std::thread one([&] {
    first();
    first_is_done.store(true, std::memory_order_relaxed);
  });
  std::thread two([&] {
    while (!first_is_done.load(std::memory_order_relaxed)) std::this_thread::yield();
    second();
  });
  one.join();
  two.join();
}

void writeValue() { ++raced_value; }

void underLock(GMutex *mutex) {
  g_mutex_lock(mutex);
  writeValue();
  g_mutex_unlock(mutex);
}

} // namespace

int main(int argc, char **argv) {
  gst_init(&argc, &argv);
  const char *kind = argc > 1 ? argv[1] : "";
  static GMutex a, b;
  static GRWLock lock;
  if (std::strcmp(kind, "no-lock") == 0) {
    race([] { underLock(&a); }, writeValue);
  } else if (std::strcmp(kind, "other-lock") == 0) {
    race([] { underLock(&a); }, [] { underLock(&b); });
  } else if (std::strcmp(kind, "two-readers") == 0) {
    const auto reader = [] {
      g_rw_lock_reader_lock(&lock);
      writeValue();
      g_rw_lock_reader_unlock(&lock);
    };
    race(reader, reader);
  } else if (std::strcmp(kind, "after-unlock") == 0) {
    race(
        [] {
          underLock(&a);
          writeValue();
        },
        [] { underLock(&a); });
  } else if (std::strcmp(kind, "after-unref") == 0) {
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_ref(buffer);
    race(
        [&] {
          gst_buffer_unref(buffer);
          writeValue();
        },
        [&] {
          gst_buffer_unref(buffer);
          writeValue();
        });
  } else if (std::strcmp(kind, "earlier-reference") == 0) { // dropping one of many is no order for who drops another
    GObject *object = static_cast<GObject *>(g_object_new(G_TYPE_OBJECT, nullptr));
    for (int i = 0; i < 2; ++i) g_object_ref(object);
    const auto drop = [&] {
      writeValue();
      g_object_unref(object);
    };
    race(drop, [&] {
      g_object_unref(object);
      writeValue();
    });
    g_object_unref(object);
  } else {
    std::fprintf(stderr, "no race is called '%s'\n", kind);
    return 2;
  }
  gst_deinit();
  return 0;
}
