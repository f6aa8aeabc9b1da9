# SPDX-License-Identifier: LGPL-2.1-or-later
"""The public library through GObject introspection. Environment: GI_TYPELIB_PATH and LD_LIBRARY_PATH lead to the build's."""

import errno
import os
import unittest

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstAnalytics", "1.0")
gi.require_version("GstVideo", "1.0")
gi.require_version("GstZerocopy", "1.0")
from gi.repository import GLib, Gst, GstAnalytics, GstVideo, GstZerocopy  # noqa: E402, F401

Gst.init(None)


class Fences(unittest.TestCase):
    def setUp(self):
        self.buffer = Gst.Buffer.new_allocate(None, 64, None)

    def test_sequence_only(self):
        self.assertIsNone(GstZerocopy.buffer_get_zc_fence_meta(self.buffer))
        GstZerocopy.buffer_add_zc_fence_meta(self.buffer, -1, 7)
        meta = GstZerocopy.buffer_get_zc_fence_meta(self.buffer)
        self.assertEqual(meta.get_sequence(), 7)
        self.assertEqual(meta.dup_fd(), -1)
        self.assertIsNone(meta.get_event())
        self.assertEqual(GstZerocopy.buffer_get_zc_ready_fence(self.buffer, GstZerocopy.FenceAccess.READ), (True, -1))

    def test_event(self):
        fd = os.eventfd(0)
        event = GstZerocopy.DeviceEvent.new_eventfd(os.dup(fd))
        self.assertEqual(event.get_kind(), "eventfd")
        GstZerocopy.buffer_add_zc_event_meta(self.buffer, event, 1)
        self.assertEqual(GstZerocopy.buffer_get_zc_fence_meta(self.buffer).get_event().get_status(), 0)
        with self.assertRaises(GLib.Error) as pending:
            GstZerocopy.buffer_wait_zc_fences(self.buffer, GstZerocopy.FenceAccess.READ, Gst.MSECOND)
        self.assertTrue(pending.exception.matches(Gst.ResourceError.quark(), Gst.ResourceError.BUSY))
        os.eventfd_write(fd, 1)
        self.assertTrue(
            GstZerocopy.buffer_wait_zc_fences(self.buffer, GstZerocopy.FenceAccess.READ, 10 * Gst.SECOND)
        )
        os.close(fd)

    def test_what_is_no_fence_is_refused(self):
        with open("/dev/null") as null:
            with self.assertRaises(GLib.Error):
                GstZerocopy.buffer_add_zc_fence_meta(self.buffer, null.fileno(), 1)
            os.fstat(null.fileno())  # still ours
            self.assertEqual(GstZerocopy.fence_fd_get_status(null.fileno()), -errno.ENOTTY)

    def test_functions_of_devices_are_for_c(self):
        self.assertFalse(hasattr(GstZerocopy, "DeviceEventFuncs"))


class Memory(unittest.TestCase):
    def test_allocator_and_pool(self):
        allocator = GstZerocopy.Allocator.new(GstZerocopy.MemorySource.MEMFD, None)
        memory = allocator.try_alloc(4096, None)
        self.assertTrue(GstZerocopy.is_zc_memory(memory))
        self.assertEqual(GstZerocopy.memory_get_source(memory), GstZerocopy.MemorySource.MEMFD)

        pool = GstZerocopy.Pool.new(allocator, 0)
        config = pool.get_config()
        caps = Gst.Caps.from_string("video/x-raw,format=NV12,width=64,height=48")
        Gst.BufferPool.config_set_params(config, caps, 0, 1, 1)
        Gst.BufferPool.config_add_option(config, "GstBufferPoolOptionVideoMeta")
        self.assertTrue(pool.set_config(config))
        self.assertTrue(pool.set_active(True))
        flow, frame = pool.acquire_buffer(None)
        self.assertEqual(flow, Gst.FlowReturn.OK)
        self.assertEqual(GstVideo.buffer_get_video_meta(frame).stride[0], GstZerocopy.DEFAULT_STRIDE_ALIGN)
        self.assertEqual(pool.get_n_allocated(), 1)
        del frame
        pool.set_active(False)

    def test_errors_have_words(self):
        with self.assertRaises(GLib.Error) as refused:
            GstZerocopy.Allocator.new(GstZerocopy.MemorySource.DMA_HEAP, "no-such-heap")
        self.assertIn("no-such-heap", refused.exception.message)


class Inference(unittest.TestCase):
    def setUp(self):
        self.buffer = Gst.Buffer.new_allocate(None, 64, None)

    def test_whose_results_of_which_frame(self):
        self.assertIsNone(GstZerocopy.buffer_get_zc_inference_meta(self.buffer, None))
        GstZerocopy.buffer_add_zc_inference_meta(self.buffer, "faces", 5 * Gst.SECOND, 2)
        meta = GstZerocopy.buffer_get_zc_inference_meta(self.buffer.copy(), "faces")
        self.assertEqual(meta.get_source(), "faces")
        self.assertEqual(meta.get_timestamp(), 5 * Gst.SECOND)
        self.assertEqual(meta.get_age(), 2)
        self.assertFalse(meta.is_fresh())

    def test_keypoints(self):
        relations = GstAnalytics.buffer_add_analytics_relation_meta(self.buffer)
        added, points = GstZerocopy.analytics_relation_meta_add_zc_keypoints_mtd(relations, [1, 2.5, 3, 4], [0.5, 0.25])
        self.assertTrue(added)
        self.assertEqual(GstZerocopy.keypoints_mtd_get_count(points), 2)
        self.assertEqual(GstZerocopy.keypoints_mtd_get_position(points, 0), (True, 1, 2.5, 0.5))
        added, sure = GstZerocopy.analytics_relation_meta_add_zc_keypoints_mtd(relations, [7, 8], None)
        self.assertEqual(GstZerocopy.keypoints_mtd_get_position(sure, 0), (True, 7, 8, 1))
        found, again = GstZerocopy.analytics_relation_meta_get_zc_keypoints_mtd(relations, points.id)
        self.assertTrue(found)
        self.assertEqual(GstZerocopy.keypoints_mtd_get_position(again, 1), (True, 3, 4, 0.25))


if __name__ == "__main__":
    unittest.main()
