// SPDX-License-Identifier: LGPL-2.1-or-later
// The same picture in the layouts that producers use: padded rows and columns, planes in memories of their own,
// offsets, shared parts of a memory. What the model was given is the same to the bit, and what leaves is the memory
// that came.
#include "tests/elements/infer/fixture.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

#include <gst/allocators/allocators.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "gst/zerocopy/gstzcallocator.h"
#include "tests/reference/preprocess_reference.h"

namespace gstzc::test {
namespace {

constexpr int kSide = 128, kSegments = 512, kSegment = kSide * kSide / kSegments;

// 512 faces whose raw scores are the means of 512 stretches of the input, each a quarter of a row.
OnnxModel segmentMeans() {
  std::vector<EncodedFace> faces;
  for (int i = 0; i < kSegments; ++i) faces.push_back({i, 0, 0, 8, 8});
  OnnxModel model = faceFrame(kSide, faces);
  model.node("ReduceMean", {"image"}, "grey", {{"axes", {3}}})
      .constant("segments", {3}, std::vector<int64_t>{1, kSegments, kSegment})
      .node("Reshape", {"grey", "segments"}, "stretches")
      .node("ReduceMean", {"stretches"}, "scores:0", {{"axes", {2}}});
  return model;
}

reference::Picture randomPicture(const std::string &format, int width, int height) {
  reference::Picture picture;
  picture.format = format;
  picture.width = width;
  picture.height = height;
  picture.kr = 0.2126, picture.kb = 0.0722; // the caps say bt709
  picture.chroma_left = true;               // and mpeg2
  picture.full_range = format.find("RGB") == 0 || format.find("BGR") == 0;
  GstVideoInfo info;
  gst_video_info_set_format(&info, gst_video_format_from_string(format.c_str()), width, height);
  std::mt19937 random(7);
  for (guint p = 0; p < GST_VIDEO_INFO_N_PLANES(&info); ++p) {
    const int row = GST_VIDEO_INFO_COMP_WIDTH(&info, p) * GST_VIDEO_INFO_COMP_PSTRIDE(&info, p);
    picture.strides.push_back(row);
    picture.planes.emplace_back(static_cast<size_t>(row) * GST_VIDEO_INFO_COMP_HEIGHT(&info, p));
    // a random walk, so that neither rows nor columns are alike
    int value = 128;
    for (uint8_t &byte : picture.planes.back()) {
      value = std::clamp(value + static_cast<int>(random() % 21) - 10, 16, 235);
      byte = static_cast<uint8_t>(value);
    }
  }
  return picture;
}

enum class Planes { Together, Apart, Shared };

struct Layout {
  const char *name;
  std::string format;
  int width, height;
  int stride; // of plane 0; the others' in proportion
  int rows;   // of plane 0
  Planes planes;
  gsize before = 0; // bytes of the memories that come before the pixels: mem->offset
  bool dmabuf = false;
};

// Rows and columns beyond the picture and what lies around are noise.
GstMemory *allocate(GstAllocator *allocator, gsize size) {
  GstMemory *memory = gst_allocator_alloc(allocator, size, nullptr);
  GstMapInfo map;
  EXPECT_TRUE(gst_memory_map(memory, &map, GST_MAP_WRITE));
  std::mt19937 random(11);
  std::generate(map.data, map.data + size, [&] { return static_cast<guint8>(random()); });
  gst_memory_unmap(memory, &map);
  return memory;
}

void write(GstMemory *memory, gsize at, const std::vector<uint8_t> &plane, int row, int stride) {
  GstMapInfo map;
  ASSERT_TRUE(gst_memory_map(memory, &map, GST_MAP_WRITE));
  for (size_t y = 0; y * row < plane.size(); ++y)
    std::copy_n(plane.begin() + y * row, row, map.data + at + y * static_cast<size_t>(stride));
  gst_memory_unmap(memory, &map);
}

GstBuffer *place(const reference::Picture &picture, const Layout &layout, GstAllocator *allocator) {
  const size_t n = picture.planes.size();
  gsize offsets[GST_VIDEO_MAX_PLANES] = {}, sizes[GST_VIDEO_MAX_PLANES] = {}, total = 0;
  gint strides[GST_VIDEO_MAX_PLANES] = {};
  for (size_t p = 0; p < n; ++p) {
    const auto rows = static_cast<int>(picture.planes[p].size()) / picture.strides[p];
    strides[p] = p == 0 ? layout.stride : layout.stride * picture.strides[p] / picture.strides[0];
    sizes[p] = static_cast<gsize>(strides[p]) * (layout.rows * rows / picture.height);
    offsets[p] = total;
    total += sizes[p];
  }
  GstBuffer *buffer = gst_buffer_new();
  GstMemory *whole = layout.planes == Planes::Apart ? nullptr : allocate(allocator, layout.before + total);
  for (size_t p = 0; p < n; ++p) {
    GstMemory *memory = whole != nullptr ? whole : allocate(allocator, layout.before + sizes[p]);
    write(memory, layout.before + (whole != nullptr ? offsets[p] : 0), picture.planes[p], picture.strides[p],
          strides[p]);
    if (whole != nullptr) continue;
    gst_memory_resize(memory, static_cast<gssize>(layout.before), sizes[p]);
    gst_buffer_append_memory(buffer, memory);
  }
  if (layout.planes == Planes::Together) {
    gst_memory_resize(whole, static_cast<gssize>(layout.before), total);
    gst_buffer_append_memory(buffer, whole);
  } else if (layout.planes == Planes::Shared) {
    for (size_t p = 0; p < n; ++p)
      gst_buffer_append_memory(buffer, gst_memory_share(whole, static_cast<gssize>(layout.before + offsets[p]),
                                                        static_cast<gssize>(sizes[p])));
    gst_memory_unref(whole); // the parts hold it
  }
  gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, gst_video_format_from_string(layout.format.c_str()),
                                 layout.width, layout.height, static_cast<guint>(n), offsets, strides);
  return buffer;
}

class LayoutTest : public FenceInferTest {
protected:
  std::string capsFor(const Layout &layout) {
    std::string caps = layout.dmabuf ? "video/x-raw(memory:DMABuf)" : "video/x-raw";
    caps += ",format=" + layout.format + ",width=" + std::to_string(layout.width) +
            ",height=" + std::to_string(layout.height) + ",framerate=30/1";
    if (layout.format != "BGRx") caps += ",colorimetry=bt709,chroma-site=mpeg2";
    return caps;
  }

  // Sorted, so that frames can be compared.
  std::vector<Box> infer(const Layout &layout, GstBuffer *in) {
    start(save(segmentMeans(), "segments.onnx"), capsFor(layout).c_str(),
          "threshold=0 iou-threshold=1 max-detections=1000 resize-mode=stretch");
    std::vector<GstMemory *> came;
    std::vector<BufferId> ids;
    const auto id = [](GstMemory *memory) {
      auto found = bufferId(gst_dmabuf_memory_get_fd(memory));
      EXPECT_TRUE(found.ok());
      return found.ok() ? *found : BufferId{};
    };
    for (guint i = 0; i < gst_buffer_n_memory(in); ++i) {
      came.push_back(gst_buffer_peek_memory(in, i));
      if (layout.dmabuf) ids.push_back(id(came.back()));
    }
    EXPECT_EQ(gst_harness_push(harness_, in), GST_FLOW_OK);
    GstBuffer *out = gst_harness_pull(harness_);
    if (out == nullptr) {
      ADD_FAILURE() << "no frame left";
      return {};
    }
    EXPECT_EQ(gst_buffer_n_memory(out), came.size());
    for (guint i = 0; i < std::min<guint>(gst_buffer_n_memory(out), came.size()); ++i) {
      EXPECT_EQ(gst_buffer_peek_memory(out, i), came[i]);
      if (!layout.dmabuf) continue;
      EXPECT_EQ(id(gst_buffer_peek_memory(out, i)), ids[i]);
    }
    EXPECT_EQ(stat("copies"), 0u);
    EXPECT_EQ(stat("bytes-copied"), 0u);
    auto boxes = boxesOf(out);
    gst_buffer_unref(out);
    stop();
    std::sort(boxes.begin(), boxes.end(),
              [](const Box &a, const Box &b) { return std::tie(a.y, a.x, a.score) < std::tie(b.y, b.x, b.score); });
    return boxes;
  }

  static void expectSame(const std::vector<Box> &a, const std::vector<Box> &b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].x, b[i].x) << i;
      ASSERT_EQ(a[i].y, b[i].y) << i;
      ASSERT_EQ(a[i].score, b[i].score) << i;
    }
  }

  void run(const std::vector<Layout> &rows) {
    GstAllocator *memfds = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
    ASSERT_NE(memfds, nullptr);
    for (const Layout &row : rows) {
      SCOPED_TRACE(row.name);
      const auto picture = randomPicture(row.format, row.width, row.height);
      const Layout tight = {"tight",    row.format,      row.width, row.height, picture.strides[0],
                            row.height, Planes::Together};
      const auto expected = infer(tight, place(picture, tight, nullptr));
      const auto boxes = infer(row, place(picture, row, row.dmabuf ? memfds : nullptr));
      ASSERT_EQ(boxes.size(), static_cast<size_t>(kSegments));
      expectSame(boxes, expected);
      expectReference(boxes, picture);
    }
    gst_object_unref(memfds);
  }

  // The scores are those of another implementation of the preprocessing.
  static void expectReference(const std::vector<Box> &boxes, const reference::Picture &picture) {
    reference::Target target;
    target.width = target.height = kSide;
    for (int c = 0; c < 3; ++c) target.mean[c] = 127.5, target.scale[c] = 1 / 127.5;
    const std::vector<double> tensor = reference::preprocess(picture, target);
    std::vector<double> expected(kSegments, 0.0), found;
    for (size_t i = 0; i < tensor.size(); ++i) expected[i / (kSegment * 3)] += tensor[i] / (kSegment * 3);
    for (double &score : expected) score = 1 / (1 + std::exp(-score));
    for (const Box &box : boxes) found.push_back(box.score);
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
  }
};

TEST_F(LayoutTest, PaddedRowsAndColumns) {
  run({
      {"1984 for 1920", "NV12", 1920, 1080, 1984, 1080, Planes::Together},
      {"1088 rows for 1080", "NV12", 1920, 1080, 1920, 1088, Planes::Together},
      {"both", "NV12", 1920, 1080, 1984, 1088, Planes::Together},
      {"1920 for 1280", "NV12", 1280, 720, 1920, 736, Planes::Together},
      {"three planes", "I420", 1280, 720, 1920, 736, Planes::Together},
      {"packed", "BGRx", 1280, 720, 1920 * 4, 736, Planes::Together},
  });
}

TEST_F(LayoutTest, PlanesInMemoriesOfTheirOwn) {
  run({
      {"apart", "NV12", 1920, 1080, 1984, 1088, Planes::Apart},
      {"apart with an offset", "NV12", 1920, 1080, 1920, 1080, Planes::Apart, 4096},
      {"three apart with an odd offset", "I420", 1280, 720, 1920, 736, Planes::Apart, 33},
  });
}

TEST_F(LayoutTest, PartsOfAMemory) {
  run({
      {"an offset", "NV12", 1920, 1080, 1984, 1088, Planes::Together, 4096},
      {"shared", "NV12", 1920, 1080, 1984, 1088, Planes::Shared},
      {"shared with an offset", "NV12", 1280, 720, 1920, 720, Planes::Shared, 640},
      {"packed, shared", "BGRx", 1280, 720, 5120, 736, Planes::Shared, 64},
  });
}

TEST_F(LayoutTest, MemoriesWithDescriptors) {
  run({
      {"both paddings", "NV12", 1920, 1080, 1984, 1088, Planes::Together, 0, true},
      {"1920 for 1280", "NV12", 1280, 720, 1920, 736, Planes::Together, 4096, true},
      {"apart with an offset", "NV12", 1920, 1080, 1984, 1088, Planes::Apart, 4096, true},
      {"shared with an offset", "NV12", 1920, 1080, 1984, 1088, Planes::Shared, 640, true},
      {"three shared", "I420", 1280, 720, 1920, 736, Planes::Shared, 4096, true},
  });
}

// What comes round again is not mapped again.
TEST_F(LayoutTest, RecycledBuffersKeepTheirMappings) {
  constexpr guint kBuffers = 4;
  const Layout layout = {"", "NV12", 640, 480, 704, 480, Planes::Together, 0, true};
  const auto picture = randomPicture(layout.format, layout.width, layout.height);
  GstAllocator *memfds = gst_zc_allocator_new(GST_ZC_MEMORY_SOURCE_MEMFD, nullptr, nullptr);
  std::vector<GstBuffer *> buffers;
  for (guint i = 0; i < kBuffers; ++i) buffers.push_back(place(picture, layout, memfds));
  gst_object_unref(memfds);
  start(save(constantFaces(kSide, {kMiddleFace}, 3.0f)), capsFor(layout).c_str());
  guint64 made = 0, hits = 0;
  for (int round = 0; round < 5; ++round) {
    for (GstBuffer *buffer : buffers) {
      ASSERT_EQ(gst_harness_push(harness_, gst_buffer_ref(buffer)), GST_FLOW_OK);
      gst_buffer_unref(gst_harness_pull(harness_));
    }
    if (round == 0) made = stat("mappings-made"), hits = stat("mapping-hits");
  }
  EXPECT_EQ(stat("mappings"), kBuffers);
  EXPECT_EQ(stat("mappings-made"), made);
  EXPECT_GE(stat("mapping-hits"), hits + 4 * kBuffers);
  for (GstBuffer *buffer : buffers) gst_buffer_unref(buffer);
}

} // namespace
} // namespace gstzc::test
