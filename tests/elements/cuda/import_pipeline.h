// SPDX-License-Identifier: LGPL-2.1-or-later
// Pipelines with `dmabufcudaimport name=up` behind an appsrc that pushes frames of a layout.
#pragma once

#include <memory>
#include <string>

#include <gst/allocators/allocators.h>
#include <gst/app/app.h>
#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gst/zerocopy/frame_layout.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "tests/elements/upload/upload_pipeline.h"
#include "tests/support/softcuda_control.h"
#include "tests/support/video_layouts.h"

namespace gstzc::test {

constexpr Layout kSmall = {"small", GST_VIDEO_FORMAT_NV12, 64, 48};
// reaches past the 2 MiB that wrong imports show right
constexpr Layout kTelling = {"telling", GST_VIDEO_FORMAT_NV12, 1920, 1080};

inline std::string dmabufCaps(const Layout &layout) {
  return std::string("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=") + drmFormatName(layout.format) +
         ",width=" + std::to_string(layout.width) + ",height=" + std::to_string(layout.height) + ",framerate=25/1";
}

inline GstVideoInfo plainInfo(const Layout &layout) {
  return infoOf({layout.name, layout.format, layout.width, layout.height});
}

// Memory as a device's driver gives it: of the type of dma-bufs.
class Frames {
public:
  Frames() : allocator_(gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr)) {}
  ~Frames() { gst_object_unref(allocator_); }
  Frames(const Frames &) = delete;
  Frames &operator=(const Frames &) = delete;

  GstMemory *memory(gsize bytes) const { return gst_allocator_alloc(allocator_, bytes, nullptr); }

  // Past GStreamer's locks, as a device does.
  static void write(GstMemory *memory, const Picture &picture) {
    const auto written = pwrite(gst_dmabuf_memory_get_fd(memory), picture.bytes.data(), picture.bytes.size(), 0);
    ASSERT_EQ(written, static_cast<ssize_t>(picture.bytes.size()));
  }

  // Takes the memory.
  static GstBuffer *buffer(const Layout &layout, GstMemory *memory, guint64 number = 0) {
    const GstVideoInfo info = infoOf(layout);
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, memory);
    gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, layout.format, static_cast<guint>(layout.width),
                                   static_cast<guint>(layout.height), GST_VIDEO_INFO_N_PLANES(&info), info.offset,
                                   info.stride);
    GST_BUFFER_PTS(buffer) = number * 40 * GST_MSECOND;
    GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
    return buffer;
  }
  GstBuffer *buffer(const Layout &layout, const Picture &picture, guint64 number = 0) const {
    GstMemory *made = memory(picture.bytes.size());
    write(made, picture);
    return buffer(layout, made, number);
  }

private:
  GstAllocator *allocator_;
};

inline std::string sourceLine(const Layout &layout, const std::string &properties = "") {
  return "appsrc name=src format=time caps=\"" + dmabufCaps(layout) + "\" ! dmabufcudaimport name=up " + properties;
}

class CudaImport : public testing::Test {
protected:
  void SetUp() override {
    if (!gst_cuda_load_library()) GTEST_SKIP() << "no CUDA driver, and no stand-in for it";
    SoftCuda::get().reset();
    live = SoftCuda::get().live();
  }
  void TearDown() override {
    pipeline.reset();
    if (IsSkipped()) return;
    EXPECT_TRUE(nothingIsLeft()) << SoftCuda::get().liveList();
    EXPECT_EQ(SoftCuda::get().misuses(), 0u) << SoftCuda::get().misuseList();
    SoftCuda::get().reset();
    SoftCuda::get().setImportFault(nullptr);
  }
  // Of the driver's objects. What a device does not end in time is waited for behind the element's back.
  bool nothingIsLeft() const {
    for (int i = 0; i < 2'000 && SoftCuda::get().live() > live; ++i) g_usleep(10'000);
    return SoftCuda::get().live() <= live;
  }
  static bool has(const char *element) {
    GstElementFactory *factory = gst_element_factory_find(element);
    if (factory == nullptr) return false;
    gst_object_unref(factory);
    return true;
  }

  // `context`: what the application shares; null: nothing.
  void start(const std::string &line, GstCudaContext *context = nullptr) {
    pipeline = std::make_unique<Pipeline>(line);
    if (context != nullptr) {
      GstContext *shared = gst_context_new_cuda_context(context);
      gst_element_set_context(pipeline->get(), shared);
      gst_context_unref(shared);
    }
    pipeline->setState(GST_STATE_PLAYING);
  }
  void push(GstBuffer *buffer) { gst_app_src_push_buffer(GST_APP_SRC(pipeline->element("src")), buffer); }
  void end() { gst_app_src_end_of_stream(GST_APP_SRC(pipeline->element("src"))); }

  std::string chosenRoute() const {
    gchar *route = nullptr;
    g_object_get(pipeline->element("up"), "chosen-route", &route, nullptr);
    const std::string text = route != nullptr ? route : "";
    g_free(route);
    return text;
  }
  std::string stageOf(const std::string &route) const {
    GstStructure *stats = nullptr;
    g_object_get(pipeline->element("up"), "stats", &stats, nullptr);
    std::string stage;
    const GValue *routes = gst_structure_get_value(stats, "routes");
    for (guint i = 0; i < gst_value_array_get_size(routes); ++i) {
      const GstStructure *one = gst_value_get_structure(gst_value_array_get_value(routes, i));
      if (gst_structure_get_string(one, "route") == route) stage = gst_structure_get_string(one, "stage");
    }
    gst_structure_free(stats);
    return stage;
  }
  // Of the messages that wait on the bus; "" where there is none. Takes those before it off the bus.
  std::string message(GstMessageType type, GstClockTime timeout = 0) const {
    GstBus *bus = gst_element_get_bus(pipeline->get());
    GstMessage *found = gst_bus_timed_pop_filtered(bus, timeout, type);
    gst_object_unref(bus);
    if (found == nullptr) return "";
    GError *error = nullptr;
    gchar *debug = nullptr;
    if (type == GST_MESSAGE_WARNING)
      gst_message_parse_warning(found, &error, &debug);
    else
      gst_message_parse_error(found, &error, &debug);
    const std::string text = std::string(error->message) + " | " + (debug != nullptr ? debug : "");
    g_clear_error(&error);
    g_free(debug);
    gst_message_unref(found);
    return text;
  }
  // One frame through the pipeline, so that the route is chosen and trusted.
  void warmUp(const Layout &layout = kTelling) {
    push(frames.buffer(layout, Picture(infoOf(layout), 1)));
    GstSample *sample = pipeline->pull();
    ASSERT_NE(sample, nullptr) << message(GST_MESSAGE_ERROR);
    gst_sample_unref(sample);
  }

  Frames frames;
  std::unique_ptr<Pipeline> pipeline;
  uint64_t live = 0; // objects of the driver that were there before the test
};

} // namespace gstzc::test
