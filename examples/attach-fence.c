/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An application that hands frames on before their pixels are there.
 *
 *     cc attach-fence.c -o attach-fence $(pkg-config --cflags --libs gstzerocopy-1.0 gstreamer-app-1.0) -pthread
 *     ./attach-fence                            # waits for the fences itself and looks at the pixels
 *     ./attach-fence "fenceinfer ! fakesink"    # or any other elements that wait for fences
 *
 * A "device" renders frames slowly and one after the other. The application queues a frame there, attaches the fence
 * that the device gave for it, and pushes the frame downstream at once. Whoever reads it waits for the fence.
 */
#include <string.h>

#include <gst/app/gstappsink.h>
#include <gst/app/gstappsrc.h>
#include <gst/zerocopy/zerocopy.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define WIDTH 320
#define HEIGHT 240
#define N_FRAMES 30
#define RENDER_TIME (10 * G_TIME_SPAN_MILLISECOND)
#define CAPS "video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=XR24,width=320,height=240,framerate=30/1"

/* ---- the device: in a real application a GPU, codec or camera driver ---- */

/* The kernel's fences for tests, which need root and debugfs: there the device gives sync_files, as drivers do. */
struct sw_sync_create_fence {
  guint32 value;
  char name[32];
  gint32 fence;
};
#define SW_SYNC_CREATE_FENCE _IOWR('W', 0, struct sw_sync_create_fence)
#define SW_SYNC_INC _IOW('W', 1, guint32)

typedef struct {
  GThreadPool *queue; /* of one thread, so that it renders in order */
  int timeline;       /* sw_sync, or -1 */
  guint32 next_value;
} Device;

typedef struct {
  GstBuffer *frame;
  guint8 shade;
  int signal; /* an eventfd to write to when it is done, or -1 where the timeline says so */
} Job;

static void render(gpointer data, gpointer user_data) {
  Device *device = user_data;
  Job *job = data;
  GstMemory *memory = gst_buffer_peek_memory(job->frame, 0);
  gsize size = memory->maxsize;
  void *pixels = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, gst_dmabuf_memory_get_fd(memory), 0);

  g_usleep(RENDER_TIME);
  if (pixels != MAP_FAILED) {
    memset(pixels, job->shade, size);
    munmap(pixels, size);
  }
  if (job->signal >= 0) {
    eventfd_write(job->signal, 1);
    close(job->signal);
  } else {
    guint32 one = 1;
    ioctl(device->timeline, SW_SYNC_INC, &one);
  }
  gst_buffer_unref(job->frame);
  g_free(job);
}

static void device_open(Device *device) {
  device->queue = g_thread_pool_new(render, device, 1, TRUE, NULL);
  device->timeline = open("/sys/kernel/debug/sync/sw_sync", O_RDWR | O_CLOEXEC);
  device->next_value = 0;
}

static void device_close(Device *device) {
  g_thread_pool_free(device->queue, FALSE, TRUE); /* finishes what is queued */
  if (device->timeline >= 0) close(device->timeline);
}

/* The next job, and what will say that it is done: a sync_file or, where the device has none, an eventfd. */
static Job *device_new_job(Device *device, int *sync_file, int *event_fd) {
  struct sw_sync_create_fence fence = {.value = device->next_value + 1, .name = "attach-fence", .fence = -1};
  Job *job = g_new0(Job, 1);

  *sync_file = *event_fd = job->signal = -1;
  if (device->timeline >= 0 && ioctl(device->timeline, SW_SYNC_CREATE_FENCE, &fence) == 0) {
    ++device->next_value;
    *sync_file = fence.fence;
  } else {
    *event_fd = eventfd(0, EFD_CLOEXEC);
    job->signal = fcntl(*event_fd, F_DUPFD_CLOEXEC, 0);
  }
  return job;
}

static void device_start(Device *device, Job *job, GstBuffer *frame, guint8 shade) {
  job->frame = frame;
  job->shade = shade;
  g_thread_pool_push(device->queue, job, NULL);
}

/* ---- the application ---- */

/* The one step that this example is about. */
static gboolean attach_fence(GstBuffer *frame, int sync_file, int event_fd, guint64 number, GError **error) {
  if (sync_file >= 0) {
    /* the buffer owns the sync_file from here on */
    if (gst_buffer_add_zc_fence_meta(frame, sync_file, number, error) != NULL) return TRUE;
    close(sync_file);
  } else {
    GstZcDeviceEvent *event = gst_zc_device_event_new_eventfd(event_fd, error);
    if (event != NULL) {
      gst_buffer_add_zc_event_meta(frame, event, number);
      gst_zc_device_event_unref(event);
      return TRUE;
    }
    close(event_fd);
  }
  return FALSE;
}

static GstBufferPool *make_pool(GstCaps *caps, GError **error) {
  GstAllocator *allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_AUTO, NULL, error);
  GstBufferPool *pool;
  GstStructure *config;

  if (allocator == NULL) {
    /* no dma-bufs on this machine: memory that can stand in for them within one process */
    g_printerr("%s\n", (*error)->message);
    g_clear_error(error);
    allocator = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, NULL, error);
    if (allocator == NULL) return NULL;
  }
  pool = gst_zc_pool_new(allocator, 0);
  gst_object_unref(allocator);
  config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, 0, 4, 0);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  if (!gst_buffer_pool_set_config(pool, config) || !gst_buffer_pool_set_active(pool, TRUE)) gst_clear_object(&pool);
  return pool;
}

/* A consumer that reads the pixels with the CPU. Elements of gst-zerocopy do the same without blocking a thread. */
static gboolean check(GstSample *sample) {
  GstBuffer *frame = gst_sample_get_buffer(sample);
  guint64 number = gst_zc_fence_meta_get_sequence(gst_buffer_get_zc_fence_meta(frame));
  gint64 begin = g_get_monotonic_time();
  GError *error = NULL;
  guint8 pixel = 0;

  if (!gst_buffer_wait_zc_fences(frame, GST_ZC_FENCE_ACCESS_READ, GST_SECOND, &error)) {
    g_printerr("frame %" G_GUINT64_FORMAT ": %s\n", number, error->message);
    g_clear_error(&error);
    return FALSE;
  }
  gst_buffer_extract(frame, 0, &pixel, 1);
  g_print("frame %" G_GUINT64_FORMAT " was ready after %" G_GINT64_FORMAT " ms, its first byte is %u\n", number,
          (g_get_monotonic_time() - begin) / G_TIME_SPAN_MILLISECOND, pixel);
  return pixel == (guint8)number;
}

/* Takes a frame of the pool, has the device render into it and pushes it without waiting. */
static gboolean push_frame(Device *device, GstBufferPool *pool, GstAppSrc *src, guint64 number, GError **error) {
  GstBuffer *frame = NULL;
  int sync_file, event_fd;
  Job *job;

  if (gst_buffer_pool_acquire_buffer(pool, &frame, NULL) != GST_FLOW_OK) return FALSE;
  GST_BUFFER_PTS(frame) = number * GST_SECOND / 30;
  GST_BUFFER_DURATION(frame) = GST_SECOND / 30;

  job = device_new_job(device, &sync_file, &event_fd);
  if (!attach_fence(frame, sync_file, event_fd, number, error)) {
    gst_buffer_unref(frame);
    if (job->signal >= 0) close(job->signal);
    g_free(job);
    return FALSE;
  }
  /*
   * The device has a reference until it is done: consumers that give up waiting drop theirs, and then the buffer must
   * not return to its pool. From here on the buffer is shared, and its metadata constant.
   */
  device_start(device, job, gst_buffer_ref(frame), (guint8)number);
  return gst_app_src_push_buffer(src, frame) == GST_FLOW_OK;
}

int main(int argc, char **argv) {
  Device device;
  GstElement *pipeline, *src = NULL, *sink = NULL;
  GstBufferPool *pool = NULL;
  GstCaps *caps;
  GstMessage *message;
  GstBus *bus;
  GError *error = NULL;
  gboolean ok;
  gchar *description;
  guint64 number;

  gst_init(&argc, &argv);
  caps = gst_caps_from_string(CAPS);
  device_open(&device);
  g_print("the device gives %s\n", device.timeline >= 0 ? "sync_files" : "eventfds");
  description =
      g_strdup_printf("appsrc name=src format=time ! %s", argc > 1 ? argv[1] : "appsink name=sink sync=false");
  pipeline = gst_parse_launch(description, &error);
  if (pipeline != NULL) pool = make_pool(caps, &error);
  ok = pool != NULL;
  if (ok) {
    src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
    sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
    gst_app_src_set_caps(GST_APP_SRC(src), caps);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
  }

  for (number = 0; ok && number < N_FRAMES; ++number) {
    ok = push_frame(&device, pool, GST_APP_SRC(src), number, &error);
    if (ok && argc == 1) {
      GstSample *sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), 5 * GST_SECOND);
      ok = sample != NULL && check(sample);
      g_clear_pointer(&sample, gst_sample_unref);
    }
  }
  if (ok && argc > 1) {
    gst_app_src_end_of_stream(GST_APP_SRC(src));
    bus = gst_element_get_bus(pipeline);
    message = gst_bus_timed_pop_filtered(bus, 60 * GST_SECOND, GST_MESSAGE_EOS | GST_MESSAGE_ERROR);
    ok = message != NULL && GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS;
    if (message != NULL && !ok) gst_message_parse_error(message, &error, NULL);
    g_clear_pointer(&message, gst_message_unref);
    gst_object_unref(bus);
  }
  if (!ok) g_printerr("%s\n", error != NULL ? error->message : "the pipeline stopped, or has no frame in time");

  if (src != NULL) gst_element_set_state(pipeline, GST_STATE_NULL);
  device_close(&device); /* before the pool: its jobs have buffers of it */
  if (pool != NULL) gst_buffer_pool_set_active(pool, FALSE);
  gst_clear_object(&pool);
  gst_clear_object(&src);
  gst_clear_object(&sink);
  gst_clear_object(&pipeline);
  gst_caps_unref(caps);
  g_free(description);
  g_clear_error(&error);
  return ok ? 0 : 1;
}
