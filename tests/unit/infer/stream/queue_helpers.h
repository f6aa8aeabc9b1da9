// SPDX-License-Identifier: LGPL-2.1-or-later
// Buffers to tell apart, and calls in other threads that return or wait.
#pragma once

#include <chrono>
#include <future>

#include <gst/gst.h>

namespace gstzc::test {

inline GstBuffer *numbered(guint64 n) {
  GstBuffer *buffer = gst_buffer_new();
  GST_BUFFER_OFFSET(buffer) = n;
  return buffer;
}

template <typename T> bool finishes(std::future<T> &future) {
  return future.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}
template <typename T> bool waits(std::future<T> &future) {
  return future.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout;
}

} // namespace gstzc::test
