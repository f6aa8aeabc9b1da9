// SPDX-License-Identifier: LGPL-2.1-or-later
// What GLib and GStreamer order is not reported: the program fails by ThreadSanitizer's exit status if anything is.
#include <array>
#include <functional>
#include <future>
#include <thread>

#include <gst/gst.h>
#include <gtest/gtest.h>

namespace {

constexpr int kRounds = 2000;

void inTwoThreads(const std::function<void()> &work) {
  std::thread other([&] {
    for (int i = 0; i < kRounds; ++i) work();
  });
  for (int i = 0; i < kRounds; ++i) work();
  other.join();
}

TEST(Locks, AMutexGuards) {
  GMutex mutex;
  g_mutex_init(&mutex);
  int counter = 0;
  inTwoThreads([&] {
    if (!g_mutex_trylock(&mutex)) g_mutex_lock(&mutex);
    ++counter;
    g_mutex_unlock(&mutex);
  });
  g_mutex_clear(&mutex);
  EXPECT_EQ(counter, 2 * kRounds);
}

TEST(Locks, ARecursiveMutexGuards) {
  GRecMutex mutex;
  g_rec_mutex_init(&mutex);
  int counter = 0;
  inTwoThreads([&] {
    g_rec_mutex_lock(&mutex);
    if (g_rec_mutex_trylock(&mutex)) {
      ++counter;
      g_rec_mutex_unlock(&mutex);
    }
    g_rec_mutex_unlock(&mutex);
  });
  g_rec_mutex_clear(&mutex);
  EXPECT_EQ(counter, 2 * kRounds);
}

TEST(Locks, AReaderWriterLockGuards) {
  GRWLock lock;
  g_rw_lock_init(&lock);
  int counter = 0, seen = 0;
  inTwoThreads([&] {
    g_rw_lock_writer_lock(&lock);
    ++counter;
    g_rw_lock_writer_unlock(&lock);
    g_rw_lock_reader_lock(&lock);
    const int now = counter;
    g_rw_lock_reader_unlock(&lock);
    if (!g_rw_lock_writer_trylock(&lock)) return;
    seen = std::max(seen, now);
    g_rw_lock_writer_unlock(&lock);
  });
  g_rw_lock_clear(&lock);
  EXPECT_EQ(counter, 2 * kRounds);
  EXPECT_LE(seen, counter);
}

TEST(Locks, ABitLockGuards) {
  gint word = 0;
  int counter = 0;
  inTwoThreads([&] {
    g_bit_lock(&word, 3);
    ++counter;
    g_bit_unlock(&word, 3);
  });
  EXPECT_EQ(counter, 2 * kRounds);
}

TEST(Locks, AConditionHandsOver) {
  GMutex mutex;
  GCond cond;
  g_mutex_init(&mutex);
  g_cond_init(&cond);
  int turn = 0, counter = 0;
  const auto play = [&](int mine) {
    for (int i = 0; i < kRounds; ++i) {
      g_mutex_lock(&mutex);
      while (turn != mine) {
        if (i % 2 == 0)
          g_cond_wait(&cond, &mutex);
        else
          g_cond_wait_until(&cond, &mutex, g_get_monotonic_time() + 10 * G_TIME_SPAN_SECOND);
      }
      g_mutex_unlock(&mutex);
      ++counter; // whose turn it is may
      g_mutex_lock(&mutex);
      turn = 1 - mine;
      g_cond_signal(&cond);
      g_mutex_unlock(&mutex);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  g_cond_clear(&cond);
  g_mutex_clear(&mutex);
  EXPECT_EQ(counter, 2 * kRounds);
}

TEST(Once, WhatIsMadeOnceIsSeenByAll) {
  for (int round = 0; round < 50; ++round) {
    gsize ready = 0;
    GOnce once = G_ONCE_INIT;
    std::array<int, 4> made = {};
    const auto use = [&] {
      if (g_once_init_enter(&ready)) {
        made[0] = 1;
        g_once_init_leave(&ready, 1);
      }
      g_once(
          &once,
          [](gpointer value) -> gpointer {
            *static_cast<int *>(value) = 2;
            return value;
          },
          &made[1]);
      return made[0] + made[1];
    };
    std::thread other([&] { EXPECT_EQ(use(), 3); });
    EXPECT_EQ(use(), 3);
    other.join();
  }
}

// Both threads write into their part while they have a reference; who drops the last one reads all.
struct Parts {
  std::array<int, 2> part = {};
  int *ended = nullptr;
};
void endParts(gpointer data) {
  auto *const parts = static_cast<Parts *>(data);
  *parts->ended += parts->part[0] + parts->part[1];
  delete parts;
}

template <typename Drop> void dropInTwoThreads(Parts *parts, Drop drop) {
  std::thread other([&] {
    parts->part[1] = 1;
    drop();
  });
  parts->part[0] = 1;
  drop();
  other.join();
}

TEST(References, OfObjects) {
  for (int round = 0; round < kRounds / 10; ++round) {
    int ended = 0;
    auto *const parts = new Parts{{}, &ended};
    auto *object = static_cast<GObject *>(g_object_new(G_TYPE_OBJECT, nullptr));
    g_object_set_data_full(object, "parts", parts, endParts);
    g_object_ref(object);
    dropInTwoThreads(parts, [&] { g_object_unref(object); });
    ASSERT_EQ(ended, 2);
  }
}

TEST(References, OfBuffersAndTheirMemory) {
  for (int round = 0; round < kRounds / 10; ++round) {
    int ended = 0;
    auto *const parts = new Parts{{}, &ended};
    GstBuffer *const buffer = gst_buffer_new_wrapped_full({}, parts, sizeof *parts, 0, sizeof *parts, parts, endParts);
    GstBuffer *const second = gst_buffer_new(); // of the same memory
    gst_buffer_append_memory(second, gst_memory_ref(gst_buffer_peek_memory(buffer, 0)));
    GstBuffer *const share = gst_buffer_new(); // its parent is that memory
    gst_buffer_append_memory(share, gst_memory_share(gst_buffer_peek_memory(buffer, 0), 0, 4));
    std::thread other([&] {
      parts->part[1] = 1;
      gst_buffer_unref(second);
    });
    parts->part[0] = 1;
    gst_buffer_unref(share);
    gst_buffer_unref(buffer);
    other.join();
    ASSERT_EQ(ended, 2);
  }
}

TEST(References, OfPlainCounts) {
  for (int round = 0; round < kRounds / 10; ++round) {
    int ended = 0;
    auto *const parts = new Parts{{}, &ended};
    gatomicrefcount count;
    g_atomic_ref_count_init(&count);
    g_atomic_ref_count_inc(&count);
    dropInTwoThreads(parts, [&] {
      if (g_atomic_ref_count_dec(&count)) endParts(parts);
    });
    ASSERT_EQ(ended, 2);
  }
}

// A pool's buffers go round between two threads, and each writes into them.
TEST(Pools, ABufferComesBackWithWhatWasWritten) {
  GstBufferPool *pool = gst_buffer_pool_new();
  GstStructure *config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, nullptr, sizeof(int), 1, 2);
  gst_buffer_pool_set_config(pool, config);
  gst_buffer_pool_set_active(pool, TRUE);
  inTwoThreads([&] {
    GstBuffer *buffer = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    GstMapInfo map;
    gst_buffer_map(buffer, &map, GST_MAP_WRITE);
    ++*reinterpret_cast<int *>(map.data);
    gst_buffer_unmap(buffer, &map);
    gst_buffer_unref(buffer);
  });
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

TEST(Elements, ACallInAnotherThreadSeesWhatWasBefore) {
  struct Data {
    int before = 0;
    std::promise<int> seen, gone;
  };
  GstElement *element = GST_ELEMENT(gst_object_ref_sink(gst_bin_new(nullptr)));
  for (int i = 0; i < 100; ++i) {
    auto *data = new Data;
    auto seen = data->seen.get_future(), gone = data->gone.get_future();
    data->before = i;
    gst_element_call_async(
        element,
        [](GstElement *, gpointer pointer) {
          auto *const mine = static_cast<Data *>(pointer);
          mine->seen.set_value(mine->before);
        },
        data,
        [](gpointer pointer) {
          std::promise<int> last = std::move(static_cast<Data *>(pointer)->gone);
          delete static_cast<Data *>(pointer);
          last.set_value(0);
        });
    EXPECT_EQ(seen.get(), i);
    gone.get();
  }
  gst_object_unref(element);
}

// Frames cross two queues; what a probe wrote in the first thread is read in the last, and the counts after the end.
TEST(Pipelines, QueuesHandOver) {
  GstElement *pipeline =
      gst_parse_launch("fakesrc name=source num-buffers=300 sizetype=fixed sizemax=64 filltype=zero ! queue "
                       "max-size-buffers=3 ! identity ! queue ! fakesink name=sink sync=false",
                       nullptr);
  ASSERT_NE(pipeline, nullptr);
  struct Seen {
    int written = 0, read = 0;
  } seen;
  const auto probe = [&](const char *element, const char *pad_name, GstPadProbeCallback callback) {
    GstElement *found = gst_bin_get_by_name(GST_BIN(pipeline), element);
    GstPad *pad = gst_element_get_static_pad(found, pad_name);
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, callback, &seen, nullptr);
    gst_object_unref(pad);
    gst_object_unref(found);
  };
  probe("source", "src", [](GstPad *, GstPadProbeInfo *info, gpointer data) {
    GstMapInfo map;
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    if (!gst_buffer_map(buffer, &map, GST_MAP_WRITE)) return GST_PAD_PROBE_OK;
    *reinterpret_cast<int *>(map.data) = ++static_cast<Seen *>(data)->written;
    gst_buffer_unmap(buffer, &map);
    return GST_PAD_PROBE_OK;
  });
  probe("sink", "sink", [](GstPad *, GstPadProbeInfo *info, gpointer data) {
    GstMapInfo map;
    if (!gst_buffer_map(GST_PAD_PROBE_INFO_BUFFER(info), &map, GST_MAP_READ)) return GST_PAD_PROBE_OK;
    EXPECT_EQ(*reinterpret_cast<const int *>(map.data), ++static_cast<Seen *>(data)->read);
    gst_buffer_unmap(GST_PAD_PROBE_INFO_BUFFER(info), &map);
    return GST_PAD_PROBE_OK;
  });
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstBus *bus = gst_element_get_bus(pipeline);
  GstMessage *message = gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND,
                                                   static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(GST_MESSAGE_TYPE(message), GST_MESSAGE_EOS);
  gst_message_unref(message);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(pipeline);
  EXPECT_EQ(seen.written, 300);
  EXPECT_EQ(seen.read, 300);
}

} // namespace
