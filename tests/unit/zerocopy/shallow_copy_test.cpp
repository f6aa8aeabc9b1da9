// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/shallow_copy.h"

#include <gst/video/video.h>
#include <gtest/gtest.h>

using namespace gstzc;

namespace {

GstBuffer *twoMemories() {
  GstBuffer *buffer = gst_buffer_new();
  gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, 64, nullptr));
  gst_buffer_append_memory(buffer, gst_allocator_alloc(nullptr, 32, nullptr));
  GST_BUFFER_PTS(buffer) = 5 * GST_SECOND;
  gst_buffer_add_video_meta(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 8, 8);
  return buffer;
}

TEST(WritableShallow, AWritableBufferStays) {
  GstBuffer *buffer = twoMemories();
  EXPECT_EQ(writableShallow(buffer), buffer);
  gst_buffer_unref(buffer);
}

TEST(WritableShallow, OtherwiseTheSameMemoriesInANewBufferThatHoldsTheOld) {
  GstBuffer *buffer = twoMemories();
  GST_MINI_OBJECT_FLAG_SET(gst_buffer_peek_memory(buffer, 1), GST_MEMORY_FLAG_NO_SHARE);
  GstBuffer *out = writableShallow(gst_buffer_ref(buffer));
  ASSERT_NE(out, buffer);
  EXPECT_TRUE(gst_buffer_is_writable(out));
  ASSERT_EQ(gst_buffer_n_memory(out), 2u);
  for (guint i = 0; i < 2; ++i) EXPECT_EQ(gst_buffer_peek_memory(out, i), gst_buffer_peek_memory(buffer, i));
  EXPECT_EQ(GST_BUFFER_PTS(out), 5 * GST_SECOND);
  EXPECT_NE(gst_buffer_get_video_meta(out), nullptr);
  auto *parent = reinterpret_cast<GstParentBufferMeta *>(gst_buffer_get_meta(out, GST_PARENT_BUFFER_META_API_TYPE));
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(parent->buffer, buffer);
  gst_buffer_unref(out);
  EXPECT_EQ(GST_MINI_OBJECT_REFCOUNT_VALUE(buffer), 1);
  gst_buffer_unref(buffer);
}

} // namespace
