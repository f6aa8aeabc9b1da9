// SPDX-License-Identifier: LGPL-2.1-or-later
// Frames of libgbm, on the stand-in for it (tests/softgbm).
#include "gst/drm/gbm/gbm_frames.h"

#include <cerrno>
#include <string>

#include <gst/allocators/allocators.h>
#include <gtest/gtest.h>

#include "gst/zerocopy/core/dmabuf.h"
#include "tests/softgbm/softgbm.h"
#include "tests/support/open_fds.h"
#include "tests/unit/drm/device/profile_fixture.h"

using namespace gstzc;
using namespace gstzc::testdata;
using gstzc::test::openFds;

namespace {

constexpr uint64_t kY = I915_FORMAT_MOD_Y_TILED, kYCcs = I915_FORMAT_MOD_Y_TILED_CCS;

FrameCaps capsOf(const char *drm_format, int width = 640, int height = 480) {
  GstCaps *caps =
      gst_caps_from_string(("video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=" + std::string(drm_format) +
                            ",framerate=30/1,width=" + std::to_string(width) + ",height=" + std::to_string(height))
                               .c_str());
  auto parsed = parseFrameCaps(caps);
  EXPECT_TRUE(parsed) << parsed.error().message();
  gst_caps_unref(caps);
  return *parsed;
}
const char kXrY[] = "XR24:0x0100000000000002", kXrCcs[] = "XR24:0x0100000000000004", kNvY[] = "NV12:0x0100000000000002";

KmsSnapshot tiledDesk() {
  KmsSnapshot s = desk();
  s.planes[0].formats = {kXr24, {DRM_FORMAT_XRGB8888, kY}, {DRM_FORMAT_XRGB8888, kYCcs}};
  return s;
}

class Gbm : public ProfileTest {
protected:
  Gbm() : ProfileTest(profileOf(tiledDesk())) {
    softgbm_reset();
    before_ = openFds();
  }
  ~Gbm() override {
    EXPECT_EQ(softgbm_live_devices(), 0u);
    EXPECT_EQ(softgbm_live_buffers(), 0u);
    EXPECT_EQ(softgbm_violation(), nullptr) << softgbm_violation();
    EXPECT_EQ(openFds(), before_);
  }
  std::shared_ptr<FrameSource> frames() {
    auto made = gbmFrames(*device_, GbmLibrary::get());
    EXPECT_TRUE(made) << made.error().message();
    return made ? *made : nullptr;
  }

  size_t before_ = 0;
};

TEST_F(Gbm, FramesHaveTheLayoutThatTheLibraryTells) {
  const auto source = frames();
  ASSERT_NE(source, nullptr);
  struct Case {
    const char *format;
    guint planes;
    gint strides[2];
    gsize offsets[2];
  };
  // tiles of 128 bytes x 32 rows
  for (const Case &c : {Case{kXrY, 1, {2560, 0}, {0, 0}}, Case{kXrCcs, 2, {2560, 128}, {0, 2560 * 480}},
                        Case{kNvY, 2, {640, 640}, {0, 640 * 480}}}) {
    auto frame = source->make(capsOf(c.format));
    ASSERT_TRUE(frame) << frame.error().message();
    ASSERT_EQ(frame->memories.size(), 1u);
    EXPECT_EQ(frame->format, GST_VIDEO_FORMAT_DMA_DRM);
    EXPECT_FALSE(frame->usual);
    ASSERT_EQ(frame->n_planes, c.planes) << c.format;
    for (guint p = 0; p < c.planes; ++p) {
      EXPECT_EQ(frame->strides[p], c.strides[p]) << c.format;
      EXPECT_EQ(frame->offsets[p], c.offsets[p]) << c.format;
    }
    EXPECT_EQ(frame->size(), *fileSize(frame->memories[0].fd.get()));
  }
}

TEST_F(Gbm, PlanesInMemoriesOfTheirOwnFollowOneAnother) {
  const SoftGbmFaults faults = {.own_memory = true};
  softgbm_set_faults(&faults);
  auto frame = frames()->make(capsOf(kNvY));
  ASSERT_TRUE(frame) << frame.error().message();
  ASSERT_EQ(frame->memories.size(), 2u);
  EXPECT_EQ(frame->offsets[0], 0u);
  EXPECT_EQ(frame->offsets[1], frame->memories[0].size);
  EXPECT_NE(*bufferId(frame->memories[0].fd.get()), *bufferId(frame->memories[1].fd.get()));
}

TEST_F(Gbm, LinearFramesHaveTheirFormatsName) {
  const SoftGbmFaults faults = {.other_modifier = DRM_FORMAT_MOD_INVALID}; // as of a driver without modifiers
  softgbm_set_faults(&faults);
  EXPECT_FALSE(frames()->make(capsOf(kXrY)));
  auto frame = frames()->make(capsOf("XR24"));
  ASSERT_TRUE(frame) << frame.error().message();
  EXPECT_EQ(frame->format, GST_VIDEO_FORMAT_BGRx);
}

struct Fault {
  const char *name;
  SoftGbmFaults faults;
  const char *format;
  int code;
  std::vector<const char *> parts; // of the message
};
void PrintTo(const Fault &f, std::ostream *out) { *out << f.name; }

class GbmFault : public Gbm, public testing::WithParamInterface<Fault> {};

TEST_P(GbmFault, IsOneErrorAndLeavesNothing) {
  const Fault &f = GetParam();
  softgbm_set_faults(&f.faults);
  auto source = gbmFrames(*device_, GbmLibrary::get());
  const Error error = [&] {
    if (!source) return source.error();
    auto frame = (*source)->make(capsOf(f.format));
    return frame ? Error{"none", 0, ""} : frame.error();
  }();
  EXPECT_EQ(error.code, f.code) << error.message();
  for (const char *part : f.parts) EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
}

INSTANTIATE_TEST_SUITE_P(
    Faults, GbmFault,
    testing::Values(
        Fault{"device", {.create_device = ENODEV}, kXrY, ENODEV, {"libgbm's device for", "/dev/dri/card0", "invented"}},
        Fault{"buffer", {.create_bo = ENOMEM}, kXrY, ENOMEM, {"libgbm (stand-in", "XR24", "640x480"}},
        Fault{"unknown pair", {}, "XR24:0x0100000000000001", ENOSYS, {"INTEL_X_TILED"}},
        Fault{"another modifier", {.other_modifier = kYCcs}, kXrY, 0, {"came as", "CCS"}},
        Fault{"a plane too many", {.extra_planes = 1}, kXrY, 0, {"in 2 memory planes, not 1"}},
        Fault{"planes without end", {.extra_planes = 7}, kXrY, 0, {"in 8 memory planes"}},
        Fault{"export", {.export_plane = 1}, kNvY, EMFILE, {"export of memory plane 1"}},
        Fault{"second of two memories", {.export_plane = 1, .own_memory = true}, kNvY, EMFILE, {"memory plane 1"}},
        Fault{"a plane outside", {.offset_outside = true}, kNvY, 0, {"memory plane 1 with rows of 640 bytes"}}));

TEST_F(Gbm, ALibraryThatIsNotThereOrTooOldIsNamed) {
  const auto none = GbmLibrary::open("libgbm-of-nobody.so.1");
  ASSERT_FALSE(none);
  for (const char *part : {"libgbm-of-nobody.so.1", "Install libgbm.so.1"})
    EXPECT_NE(none.error().message().find(part), std::string::npos) << none.error().message();
  const auto old = GbmLibrary::open(GSTZC_OLD_GBM);
  ASSERT_FALSE(old);
  EXPECT_NE(old.error().message().find("has no gbm_bo_create_with_modifiers2"), std::string::npos)
      << old.error().message();
  const auto frames = gbmFrames(*device_, old);
  ASSERT_FALSE(frames);
  EXPECT_EQ(frames.error().message(), old.error().message());
}

TEST_F(Gbm, TheDisplayIsAskedWhetherItTakesTheFrame) {
  const auto source = frames();
  auto fine = source->make(capsOf(kXrCcs));
  ASSERT_TRUE(fine);
  EXPECT_TRUE(takesFrame(*device_, *fine, capsOf(kXrCcs)));
  const SoftGbmFaults faults = {.own_memory = true};
  softgbm_set_faults(&faults);
  auto two = source->make(capsOf(kXrCcs));
  ASSERT_TRUE(two);
  EXPECT_TRUE(takesFrame(*device_, *two, capsOf(kXrCcs)));
  auto nv12 = source->make(capsOf(kNvY));
  ASSERT_TRUE(nv12);
  EXPECT_TRUE(takesFrame(*device_, *nv12, capsOf(kNvY)));
  const auto refused = takesFrame(*device_, *nv12, capsOf("NV12:0x0100000000000001"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_NE(refused.error().what.find("a framebuffer of NV12 INTEL_X_TILED"), std::string::npos)
      << refused.error().what;
  const auto counters = device_->counters();
  EXPECT_EQ(counters.live_framebuffers, 0u);
  EXPECT_EQ(counters.live_handles, 0u);
  EXPECT_EQ(counters.bad_closes, 0u);
}

// The pool, as an upstream element uses it.
class GbmPool : public Gbm {
protected:
  GstBufferPool *configured(const char *format, bool meta = true) {
    GstBufferPool *pool = newDisplayPool(frames());
    GstStructure *config = gst_buffer_pool_get_config(pool);
    GstCaps *caps = gst_caps_from_string(
        ("video/x-raw(memory:DMABuf),format=DMA_DRM,width=640,height=480,drm-format=" + std::string(format)).c_str());
    gst_buffer_pool_config_set_params(config, caps, 0, 2, 0);
    gst_caps_unref(caps);
    if (meta) gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    taken_ = gst_buffer_pool_set_config(pool, config);
    return pool;
  }
  bool taken_ = false;
};

TEST_F(GbmPool, BuffersTellTheirPlanesAndComeBack) {
  GstBufferPool *pool = configured(kNvY);
  ASSERT_TRUE(taken_);
  ASSERT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  const unsigned made = softgbm_buffers();
  EXPECT_EQ(made, 3u) << "one to learn the size, and two";
  for (int i = 0; i < 10; ++i) {
    GstBuffer *buffer = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    auto layout = frameLayout(buffer, capsOf(kNvY));
    ASSERT_TRUE(layout) << layout.error().message();
    EXPECT_TRUE(layout->allDmaBuf());
    EXPECT_EQ(layout->n_planes, 2u);
    EXPECT_EQ(layout->planes[1].offset, 640u * 480);
    EXPECT_EQ(layout->planes[1].stride, 640);
    gst_buffer_unref(buffer);
  }
  EXPECT_EQ(softgbm_buffers(), made) << "used again";
  // the library's side ends with the device's last user, frames live on
  GstBuffer *kept = nullptr;
  ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &kept, nullptr), GST_FLOW_OK);
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
  EXPECT_TRUE(gst_is_dmabuf_memory(gst_buffer_peek_memory(kept, 0)));
  gst_buffer_unref(kept);
}

TEST_F(GbmPool, TakesUsersOfVideoMetaOnly) {
  GstBufferPool *pool = configured(kXrY, false);
  EXPECT_FALSE(taken_);
  gst_object_unref(pool);
}

TEST_F(GbmPool, RefusesWhatTheLibraryRefuses) {
  GstBufferPool *pool = configured("XR24:0x0100000000000001");
  EXPECT_FALSE(taken_);
  gst_object_unref(pool);
}

TEST_F(GbmPool, ABufferThatCannotBeMadeIsAnErrorOfThePool) {
  GstBufferPool *pool = configured(kXrY);
  ASSERT_TRUE(taken_);
  const SoftGbmFaults faults = {.create_bo = ENOMEM};
  softgbm_set_faults(&faults);
  EXPECT_FALSE(gst_buffer_pool_set_active(pool, TRUE));
  gst_object_unref(pool);
}

} // namespace
