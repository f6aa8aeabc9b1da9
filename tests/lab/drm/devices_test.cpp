// SPDX-License-Identifier: LGPL-2.1-or-later
// drmmodifiersink on displays QEMU shows, and on displays that refuse.
#include <set>
#include <string>

#include <gst/allocators/allocators.h>
#include <gst/analytics/analytics.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>
#include <grp.h>
#include <sys/wait.h>

#include "gst/drm/device/libdrm_device.h"
#include "tests/lab/drm/player.h"
#include "tests/lab/support/card.h"
#include "tests/lab/support/memory.h"
#include "tests/lab/support/only_card.h"
#include "tests/lab/support/vkms_instance.h"

using namespace gstzc;
using namespace gstzc::lab;
using namespace std::chrono_literals;

namespace {

std::string sinkOn(const char *driver) {
  auto path = cardPath(driver);
  EXPECT_TRUE(path) << path.error().message();
  return std::string(" ! drmmodifiersink name=sink message-flips=true device=") + (path ? *path : "/dev/null") + " ";
}

void expectScreen(Player &player, const char *screen) {
  ASSERT_TRUE(player.ended()) << player.errors();
  auto frame = player.lastFrame();
  ASSERT_TRUE(frame) << frame.error().message();
  // QEMU's own picture of the display is refreshed on a timer
  int distance = 256;
  for (int i = 0; i < 20 && distance > 0; ++i) {
    auto shown = screendump(screen);
    ASSERT_TRUE(shown) << shown.error().message();
    distance =
        shown->width == frame->width && shown->height == frame->height ? largestDistance(*shown, 0, 0, *frame) : 256;
    if (distance > 0) g_usleep(100000);
  }
  EXPECT_EQ(distance, 0) << player.configuration();
}

constexpr const char *kTest640 = "videotestsrc num-buffers=5 ! video/x-raw,width=640,height=480";
constexpr const char *kCamera640 =
    "v4l2src name=src io-mode=dmabuf num-buffers=5 ! video/x-raw(memory:DMABuf),format=DMA_DRM,"
    "drm-format=XR24,width=640,height=480";

// Stock kmssink shows nothing here, because its plane does not cover the mode that is set.
TEST(Virtio, StockSinkFails) {
  Player player(std::string(kTest640) + " ! kmssink name=sink driver-name=virtio_gpu");
  ASSERT_TRUE(player.play());
  EXPECT_FALSE(player.ended());
  EXPECT_NE(player.details().find("drmModeSetPlane failed: Invalid argument (22)"), std::string::npos)
      << player.details();
}

TEST(Virtio, OwnPoolShowsThePictureWithoutACopy) {
  Player player(kTest640 + sinkOn("virtio_gpu"));
  ASSERT_TRUE(player.play());
  expectScreen(player, "virtio0");
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_NE(player.configuration().find("640x480@"), std::string::npos) << player.configuration();
}

TEST(Virtio, ASizeNoModeHas) {
  Player player("videotestsrc num-buffers=5 ! video/x-raw,width=500,height=300" + sinkOn("virtio_gpu"));
  ASSERT_TRUE(player.play());
  expectScreen(player, "virtio0");
}

// With no property at all the display is the one that the machine has, virtio-gpu with its own pool too.
TEST(Virtio, WithoutAnyProperty) {
  for (const auto &[driver, screen] : {std::pair{"virtio_gpu", "virtio0"}, {"bochs-drm", "bochs0"}}) {
    auto only = OnlyCard::create(driver);
    ASSERT_TRUE(only) << only.error().message();
    Player player(std::string(kTest640) + " ! drmmodifiersink name=sink");
    ASSERT_TRUE(player.play());
    expectScreen(player, screen);
    EXPECT_EQ(player.stat("copies"), 0u);
    EXPECT_GE(player.stat("shown"), 1u);
    EXPECT_NE(player.configuration().find(driver), std::string::npos) << player.configuration();
  }
}

TEST(Vkms, WithoutAnyProperty) {
  auto only = OnlyCard::create("vkms");
  ASSERT_TRUE(only) << only.error().message();
  Player player("videotestsrc num-buffers=5 ! video/x-raw,width=64,height=48 ! drmmodifiersink name=sink");
  ASSERT_TRUE(player.play());
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_GE(player.stat("shown"), 1u);
  for (const char *part : {"(vkms) Virtual-", ", 64x48 at"})
    EXPECT_NE(player.configuration().find(part), std::string::npos) << player.configuration();
}

// Planes without any property that a driver may leave out: no layouts are listed, nothing can be turned, stacked,
// blended or told how YCbCr becomes RGB. vkms gives each of its planes some of them, and nothing takes them away.
TEST(Virtio, PlanesWithoutOptionalProperties) {
  const std::set<std::string> core = {"type",   "FB_ID",  "CRTC_ID", "IN_FENCE_FD", "CRTC_X", "CRTC_Y",
                                      "CRTC_W", "CRTC_H", "SRC_X",   "SRC_Y",       "SRC_W",  "SRC_H"};
  const auto optional = [&](const char *driver) {
    std::set<std::string> names;
    auto path = cardPath(driver);
    auto device = LibdrmDevice::openPath(path ? *path : "");
    EXPECT_TRUE(device) << device.error().message();
    auto snapshot = (*device)->snapshot();
    EXPECT_TRUE(snapshot) << snapshot.error().message();
    for (const KmsPlane &plane : snapshot->planes)
      for (const auto &[name, property] : plane.properties)
        if (!core.contains(name)) names.insert(name);
    (*device)->leave();
    return names;
  };
  for (const char *name :
       {"IN_FORMATS", "rotation", "zpos", "alpha", "COLOR_ENCODING", "COLOR_RANGE", "pixel blend mode"})
    EXPECT_FALSE(optional("virtio_gpu").contains(name)) << name;
  EXPECT_TRUE(optional("vkms").contains("rotation"));

  Player straight(kTest640 + sinkOn("virtio_gpu"));
  ASSERT_TRUE(straight.play());
  expectScreen(straight, "virtio0");
  for (const char *wish : {"rotate-method=180", "alpha=0.5", "zpos=1"}) {
    Player player(kTest640 + sinkOn("virtio_gpu") + wish);
    ASSERT_TRUE(player.play());
    EXPECT_FALSE(player.ended()) << wish;
    EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  }
}

// With several, the first that is a display: never vgem.
TEST(Virtio, WithoutAnyPropertyOfSeveral) {
  Player player(std::string(kTest640) + " ! drmmodifiersink name=sink");
  ASSERT_TRUE(player.play());
  ASSERT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.configuration().find("vgem"), std::string::npos) << player.configuration();
  EXPECT_EQ(player.stat("copies"), 0u);
}

TEST(Virtio, ForeignDmaBufIsOneErrorWithTheErrno) {
  Player player(kCamera640 + sinkOn("virtio_gpu"));
  ASSERT_TRUE(player.play());
  EXPECT_FALSE(player.ended());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  for (const char *part : {"ENODEV", "(19)", "virtio_gpu", "allow-copy=true"})
    EXPECT_NE(player.errors().find(part), std::string::npos) << player.errors();
  EXPECT_EQ(player.stat("copies"), 0u);
}

// A producer of dma-bufs keeps its own memory unless the display could not import it.
TEST(Pools, DevicesAreAskedWhatForeignMemoryTheyTake) {
  const std::pair<const char *, ForeignMemory> devices[] = {
      {"vkms", ForeignMemory::Any}, {"bochs-drm", ForeignMemory::Any}, {"virtio_gpu", ForeignMemory::None}};
  for (const auto &[driver, takes] : devices) {
    auto path = cardPath(driver);
    ASSERT_TRUE(path) << path.error().message();
    auto device = LibdrmDevice::openPath(*path);
    ASSERT_TRUE(device) << device.error().message();
    EXPECT_EQ((*device)->foreignMemory(), takes) << driver;
  }
}

TEST(Pools, AreOfferedForDmaBufsWhereForeignOnesAreRefused) {
  for (const auto &[driver, memory] :
       {std::pair{"vkms", "udmabuf"}, {"bochs-drm", "udmabuf"}, {"virtio_gpu", "virtio_gpu"}}) {
    Player player(kTest640 + std::string(" ! dmabufupload") + sinkOn(driver));
    std::string seen;
    player.at_sink = [&](GstBuffer *buffer) {
      GstMemory *first = gst_buffer_peek_memory(buffer, 0);
      seen = gst_is_dmabuf_memory(first) ? exporter(gst_dmabuf_memory_get_fd(first)) : "no dma-buf";
    };
    ASSERT_TRUE(player.play());
    ASSERT_TRUE(player.ended()) << player.errors();
    EXPECT_EQ(seen, memory) << driver;
    EXPECT_EQ(player.stat("copies"), 0u);
  }
}

// Whoever keeps a frame of the sink's pool keeps its memory, not the display.
TEST(Pools, AFrameKeptBeyondTheEndKeepsNobodyOut) {
  for (const char *driver : {"vkms", "bochs-drm", "virtio_gpu"}) {
    GstSample *kept = nullptr;
    {
      Player player(kTest640 + sinkOn(driver));
      ASSERT_TRUE(player.play());
      ASSERT_TRUE(player.ended()) << player.errors();
      g_object_get(player.sink(), "last-sample", &kept, nullptr);
      ASSERT_TRUE(player.stop());
    }
    ASSERT_NE(kept, nullptr);
    GstMemory *memory = gst_buffer_peek_memory(gst_sample_get_buffer(kept), 0);
    EXPECT_TRUE(gst_is_dmabuf_memory(memory)) << "not of the pool";
    Player player(kTest640 + sinkOn(driver));
    ASSERT_TRUE(player.play());
    EXPECT_TRUE(player.ended()) << player.errors();
    gst_sample_unref(kept);
  }
}

// By default 47 rows of luma are 48 long; the kernel's framebuffer has no such gap.
constexpr const char *kOddNv12 = "video/x-raw,format=NV12,width=64,height=47";

TEST(Pools, OtherLayoutsThanTheDefaultTakeTheMeta) {
  Player player("appsrc" + sinkOn("vkms"));
  player.start();
  GstPad *pad = gst_element_get_static_pad(player.sink(), "sink");
  const auto takes = [&](const char *text, bool with_meta) {
    GstCaps *caps = gst_caps_from_string(text);
    GstQuery *query = gst_query_new_allocation(caps, TRUE);
    GstBufferPool *pool = nullptr;
    guint size = 0;
    EXPECT_TRUE(gst_pad_query(pad, query));
    gst_query_parse_nth_allocation_pool(query, 0, &pool, &size, nullptr, nullptr);
    EXPECT_NE(pool, nullptr);
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, size, 1, 0);
    if (with_meta) gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
    const bool result = gst_buffer_pool_set_config(pool, config);
    gst_object_unref(pool);
    gst_query_unref(query);
    gst_caps_unref(caps);
    return result;
  };
  EXPECT_TRUE(takes(kOddNv12, true));
  EXPECT_FALSE(takes(kOddNv12, false));
  EXPECT_TRUE(takes("video/x-raw,format=NV12,width=64,height=48", false));
  gst_object_unref(pad);
}

TEST(Pools, CopiesOfSuchFramesAreMade) {
  Player player(std::string("videotestsrc num-buffers=3 ! ") + kOddNv12 + " ! identity drop-allocation=true" +
                sinkOn("vkms") + "allow-copy=true sync=false");
  ASSERT_TRUE(player.play());
  EXPECT_TRUE(player.ended()) << player.errors();
  EXPECT_EQ(player.stat("copies"), 3u);
}

TEST(Virtio, AllowedCopiesAreCounted) {
  Player player(kCamera640 + sinkOn("virtio_gpu") + "allow-copy=true sync=false");
  ASSERT_TRUE(player.play());
  expectScreen(player, "virtio0");
  EXPECT_EQ(player.stat("frames"), 5u);
  EXPECT_EQ(player.stat("copies"), 5u);
  EXPECT_EQ(player.stat("bytes-copied"), 5u * 640 * 480 * 4);
}

TEST(Virtio, SystemMemoryOfOthersIsAnErrorOrACopy) {
  // identity with drop-allocation keeps the sink's pool from upstream
  const std::string source = std::string(kTest640) + " ! identity drop-allocation=true";
  {
    Player player(source + sinkOn("virtio_gpu"));
    ASSERT_TRUE(player.play());
    EXPECT_FALSE(player.ended());
    EXPECT_EQ(player.errorCount(), 1u) << player.errors();
    EXPECT_NE(player.errors().find("dmabufupload"), std::string::npos) << player.errors();
  }
  Player player(source + sinkOn("virtio_gpu") + "allow-copy=true sync=false");
  ASSERT_TRUE(player.play());
  expectScreen(player, "virtio0");
  EXPECT_EQ(player.stat("copies"), 5u);
}

TEST(Virtio, NoPlaneForOverlaysIsOneInfo) {
  Player player(kTest640 + sinkOn("virtio_gpu"));
  player.at_sink = [](GstBuffer *buffer) {
    GstAnalyticsRelationMeta *meta = gst_buffer_add_analytics_relation_meta(buffer);
    GstAnalyticsODMtd box;
    gst_analytics_relation_meta_add_od_mtd(meta, g_quark_from_string("face"), 20, 10, 30, 20, 0.9f, &box);
  };
  ASSERT_TRUE(player.play());
  expectScreen(player, "virtio0");
  ASSERT_EQ(player.infos().size(), 1u);
  EXPECT_NE(player.infos()[0].find("no free ARGB8888 plane"), std::string::npos) << player.infos()[0];
}

TEST(Virtio, NoPlaneForOverlaysIsAnErrorWhereOneIsAskedFor) {
  Player player(kTest640 + sinkOn("virtio_gpu") + "overlay=plane");
  ASSERT_TRUE(player.play());
  EXPECT_FALSE(player.ended());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  EXPECT_NE(player.errors().find("no free ARGB8888 plane"), std::string::npos) << player.errors();
  EXPECT_NE(player.errors().find("overlay=auto"), std::string::npos) << player.errors();
}

// A ramp of greys at 100, 100.
GstVideoOverlayComposition *drawRamp(GstElement *, GstSample *, gpointer) {
  constexpr guint kWidth = 64, kHeight = 48;
  GstBuffer *pixels = gst_buffer_new_allocate(nullptr, kWidth * kHeight * 4, nullptr);
  for (guint i = 0; i < kWidth * kHeight; ++i) {
    gst_buffer_memset(pixels, i * 4, static_cast<guint8>(i / kWidth * 5), 3);
    gst_buffer_memset(pixels, i * 4 + 3, 0xff, 1);
  }
  gst_buffer_add_video_meta(pixels, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_OVERLAY_COMPOSITION_FORMAT_RGB, kWidth,
                            kHeight);
  GstVideoOverlayRectangle *rectangle =
      gst_video_overlay_rectangle_new_raw(pixels, 100, 100, kWidth, kHeight, GST_VIDEO_OVERLAY_FORMAT_FLAG_NONE);
  GstVideoOverlayComposition *composition = gst_video_overlay_composition_new(rectangle);
  gst_video_overlay_rectangle_unref(rectangle);
  gst_buffer_unref(pixels);
  return composition;
}

// Who cannot leave it to the display draws into the frame.
TEST(Virtio, CompositionsAreBlendedWhereNoPlaneIs) {
  Player player("videotestsrc num-buffers=3 pattern=black ! video/x-raw,width=640,height=480,format=BGRx ! "
                "overlaycomposition name=text" +
                sinkOn("virtio_gpu"));
  GstElement *text = gst_bin_get_by_name(GST_BIN(player.pipeline()), "text");
  g_signal_connect(text, "draw", G_CALLBACK(drawRamp), nullptr);
  gst_object_unref(text);
  bool attached = false;
  player.at_sink = [&](GstBuffer *buffer) {
    attached |= gst_buffer_get_video_overlay_composition_meta(buffer) != nullptr;
  };
  ASSERT_TRUE(player.play());
  expectScreen(player, "virtio0"); // where the frame is, with what was drawn into it
  EXPECT_FALSE(attached);
  EXPECT_TRUE(player.infos().empty());
}

TEST(Bochs, ShowsTheCamerasOwnMemory) {
  Player player(kCamera640 + sinkOn("bochs-drm"));
  ASSERT_TRUE(player.play());
  expectScreen(player, "bochs0");
  EXPECT_EQ(player.stat("copies"), 0u);
  EXPECT_EQ(player.sinkBuffers(), player.sourceBuffers());
}

// The console, or whatever the kernel's own client shows, is on the screen again.
TEST(Bochs, TheConsoleComesBack) {
  const auto state = [] {
    auto card = openCard("bochs-drm");
    EXPECT_TRUE(card);
    std::map<std::string, uint64_t> values;
    for (const PlaneInfo &plane : planes(card->get()))
      for (const char *name : {"FB_ID", "CRTC_ID", "SRC_W", "SRC_H", "CRTC_W", "CRTC_H"})
        values[std::to_string(plane.id) + name] = property(card->get(), plane.id, DRM_MODE_OBJECT_PLANE, name).value;
    const DrmPtr<drmModeRes> resources(drmModeGetResources(card->get()));
    const DrmPtr<drmModeCrtc> crtc(drmModeGetCrtc(card->get(), resources->crtcs[0]));
    values["width"] = crtc->width;
    values["height"] = crtc->height;
    values["clock"] = crtc->mode_valid ? crtc->mode.clock : 0;
    return values;
  };
  const auto before = state();
  {
    // somebody has the card open: the kernel does not put its console back by itself when the sink closes it
    auto bystander = openCard("bochs-drm");
    ASSERT_TRUE(bystander);
    ASSERT_EQ(drmDropMaster(bystander->get()), 0);
    Player player("videotestsrc num-buffers=3 ! video/x-raw,width=800,height=600" + sinkOn("bochs-drm"));
    ASSERT_TRUE(player.play());
    ASSERT_TRUE(player.ended()) << player.errors();
    EXPECT_NE(state(), before);
    EXPECT_TRUE(player.stop());
    EXPECT_EQ(state(), before);
  }
}

TEST(Refusals, NoOutputConnected) {
  auto card = VkmsInstance::create("drmsink-none", VkmsInstance::Output::Disconnected);
  ASSERT_TRUE(card) << card.error().message();
  Player player(std::string(kTest640) + " ! drmmodifiersink name=sink device=" + card->cardPath());
  ASSERT_TRUE(player.play());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  for (const std::string &part :
       {card->cardPath(), std::string("no output is connected"), std::string(" disconnected")})
    EXPECT_NE(player.errors().find(part), std::string::npos) << player.errors();
  EXPECT_TRUE(player.stop());
}

TEST(Refusals, NoSuchConnector) {
  Player player(kTest640 + sinkOn("vkms") + "connector=HDMI-A-7");
  ASSERT_TRUE(player.play());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  EXPECT_NE(player.errors().find("no output is called \"HDMI-A-7\": Virtual-"), std::string::npos) << player.errors();
  EXPECT_EQ(player.errors().find("Writeback"), std::string::npos) << player.errors();
}

TEST(Refusals, AnotherMaster) {
  auto other = openCard("vkms");
  ASSERT_TRUE(other);
  ASSERT_TRUE(drmIsMaster(other->get()));
  Player player(kTest640 + sinkOn("vkms"));
  ASSERT_TRUE(player.play());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  auto path = cardPath("vkms");
  EXPECT_NE(player.errors().find("another process is master of " + *path), std::string::npos) << player.errors();
  EXPECT_NE(player.errors().find("fd="), std::string::npos) << player.errors();
}

TEST(Refusals, NoModesetting) {
  Player player(kTest640 + sinkOn("vgem"));
  ASSERT_TRUE(player.play());
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  EXPECT_NE(player.errors().find("(vgem) has no atomic modesetting"), std::string::npos) << player.errors();
}

void expectOneError(const std::string &caps, const char *part) {
  Player player("appsrc name=src format=time num-buffers=1 caps=\"" + caps + ",framerate=30/1\"" + sinkOn("vkms"));
  GstElement *source = gst_bin_get_by_name(GST_BIN(player.pipeline()), "src");
  player.start();
  GstFlowReturn flow;
  GstBuffer *buffer = gst_buffer_new_allocate(nullptr, 64, nullptr);
  g_signal_emit_by_name(source, "push-buffer", buffer, &flow);
  gst_buffer_unref(buffer);
  ASSERT_TRUE(player.wait(20s));
  EXPECT_EQ(player.errorCount(), 1u) << player.errors();
  EXPECT_NE(player.errors().find(part), std::string::npos) << player.errors();
  EXPECT_TRUE(player.stop());
  gst_object_unref(source);
}

TEST(Refusals, SizesNoDisplayHas) {
  expectOneError("video/x-raw,format=BGRx,width=0,height=480", "0x480");
  expectOneError("video/x-raw,format=BGRx,width=640,height=0", "640x0");
  expectOneError("video/x-raw,format=BGRx,width=20000,height=16", "20000x16");
}

TEST(Refusals, TiledFrames) {
  const std::string dmabuf = "video/x-raw(memory:DMABuf),format=DMA_DRM,width=640,height=480,drm-format=(string)";
  expectOneError(dmabuf + "NV12:0x0100000000000002", "Ask upstream for drm-format=NV12");
  expectOneError(dmabuf + "XR24:0x0100000000000001", "Ask upstream for drm-format=XR24");
}

// As on a desktop, where udev gives the nodes to a group; the laboratory has no udev.
TEST(Refusals, TheGroupToJoinIsNamed) {
  auto path = cardPath("vkms");
  ASSERT_TRUE(path);
  const struct group *video = getgrnam("video");
  ASSERT_NE(video, nullptr);
  ASSERT_EQ(chown(path->c_str(), 0, video->gr_gid), 0);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd out(ends[0]), in(ends[1]);
  const pid_t child = fork();
  if (child == 0) { // an ordinary user
    if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    OpenRequest request;
    request.path = *path;
    auto device = openDisplay(request);
    const std::string text = device ? "opened" : device.error().message();
    _exit(write(in.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  in.reset();
  char text[512] = {};
  EXPECT_GT(read(out.get(), text, sizeof text - 1), 0);
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(chown(path->c_str(), 0, 0), 0);
  for (const std::string &part : {*path, std::string("Permission denied (13)"), std::string("usermod -aG video")})
    EXPECT_NE(std::string(text).find(part), std::string::npos) << text;
}

} // namespace
