// SPDX-License-Identifier: LGPL-2.1-or-later
// Route vulkan-bridge on stand-ins for libvulkan and libcuda.
#include <cerrno>
#include <cstdlib>
#include <future>

#include "ext/cuda/routes/content_check.h"
#include "ext/cuda/routes/vulkan_api.h"
#include "ext/cuda/routes/vulkan_copy.h"
#include "tests/softcuda/exchange/exchange.h"
#include "tests/support/open_fds.h"
#include "tests/unit/cuda/routes/pictures.h"
#include "tests/unit/cuda/routes/read_back.h"
#include "tests/unit/cuda/support/mutations.h"
#include "tests/unit/cuda/support/stand_ins.h"

using namespace gstzc;
using namespace gstzc::cuda;
using namespace gstzc::cuda::test;
using gstzc::test::openFds;

namespace {

bool says(const Error &error, const char *text) { return error.message().find(text) != std::string::npos; }

class VulkanBridgeTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    SOFTVULKAN(softvulkan_forget_misuses)();
    route = makeVulkanBridgeRoute(context);
  }
  void TearDown() override {
    refuse("");
    without("");
    SOFTCUDA(softcuda_set_import_fault)(nullptr);
    TestedDriver::reset();
    route.reset();
    EXPECT_EQ(SOFTVULKAN(softvulkan_live)(), 0u);
    EXPECT_EQ(SOFTVULKAN(softvulkan_misuses)(), 0u) << SOFTVULKAN(softvulkan_misuse_list)();
    DeviceTest::TearDown();
  }
  static void refuse(const char *what) { SOFTVULKAN(softvulkan_refuse)(what); }
  static void without(const char *what) { SOFTVULKAN(softvulkan_without)(what); }
  std::shared_ptr<DeviceImport> importOf(const Picture &picture) { return need(route->import(picture.source)); }

  std::unique_ptr<ImportRoute> route;
};

// With semaphores, and where they are refused by the one side or the other: the CPU waits then.
enum class Order { Semaphores, CudaRefuses, VulkanLacks };
class VulkanBridgeOrder : public VulkanBridgeTest, public testing::WithParamInterface<Order> {
protected:
  void SetUp() override {
    VulkanBridgeTest::SetUp();
    if (GetParam() == Order::CudaRefuses)
      TestedDriver::failFunction(Fn::cuImportExternalSemaphore, CUDA_ERROR_NOT_SUPPORTED);
    if (GetParam() == Order::VulkanLacks) without("VK_KHR_external_semaphore_fd");
  }
};
INSTANTIATE_TEST_SUITE_P(All, VulkanBridgeOrder,
                         testing::Values(Order::Semaphores, Order::CudaRefuses, Order::VulkanLacks),
                         [](const auto &one) {
                           return one.param == Order::Semaphores    ? "Semaphores"
                                  : one.param == Order::CudaRefuses ? "CudaRefuses"
                                                                    : "VulkanLacks";
                         });

TEST_P(VulkanBridgeOrder, BringsEveryFrame) {
  for (const ImportSource &layout : {nv12(1920, 1080, 1984), nv12(1920, 1080, 1920, 1088), nv12(1919, 1079, 1984),
                                     i420(1920, 1080, 1920), rgba(1280, 720, 1280 * 4)}) {
    SCOPED_TRACE(describe(layout));
    Picture picture(layout);
    const auto import = importOf(picture);
    ASSERT_TRUE(import);
    EXPECT_EQ(import->copyBytes(), need(copyRange(picture.source)).size);
    EXPECT_EQ(readBack(context, stream.get(), *import), packed(picture.source, picture.read()));
    picture.write(noise(layout.size, 2));
    EXPECT_EQ(readBack(context, stream.get(), *import), packed(picture.source, picture.read()));
    picture.write(noise(layout.size, 3));
    EXPECT_EQ(readBack(context, other.get(), *import), packed(picture.source, picture.read())) << "another stream";
  }
  const bool shared = GetParam() == Order::Semaphores;
  EXPECT_EQ(TestedDriver::calls(Fn::cuWaitExternalSemaphoresAsync) > 0, shared);
}

TEST_P(VulkanBridgeOrder, FrameIsCopiedWhenTheStreamIsThere) {
  Picture picture(nv12(1920, 1080, 1920));
  const auto import = importOf(picture);
  ASSERT_TRUE(import);
  const Bytes second = noise(picture.source.size, 2);
  std::future<std::vector<uint8_t>> read;
  {
    const Blocker fence(context, stream.get());
    read = std::async(std::launch::async, [&] { return readBack(context, stream.get(), *import); });
    EXPECT_EQ(read.wait_for(kGlance), std::future_status::timeout);
    picture.write(second); // the producer is done, and only then its fence
  }
  EXPECT_EQ(read.get(), packed(picture.source, second));
}

TEST_F(VulkanBridgeTest, RefreshDoesNotWaitWithSemaphores) {
  const Picture picture(nv12(640, 480, 640));
  const auto import = importOf(picture);
  ASSERT_TRUE(import);
  {
    const Blocker fence(context, stream.get());
    const ContextScope scope(*context);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(import->refresh(stream.get()).ok()); // returns though nothing can run
    EXPECT_FALSE(idle(context, stream.get()));
  }
  EXPECT_EQ(readBack(context, stream.get(), *import), packed(picture.source, picture.read()));
}

TEST_F(VulkanBridgeTest, PictureMayBeginInsideTheBuffer) {
  ImportSource layout = nv12(640, 480, 640);
  for (unsigned i : {0u, 1u}) layout.planes[i].offset += 5000;
  layout.size += 8192;
  const Picture picture(layout);
  const auto import = importOf(picture);
  ASSERT_TRUE(import);
  EXPECT_LT(import->size, layout.size);
  EXPECT_EQ(readBack(context, stream.get(), *import), packed(picture.source, picture.read()));
}

TEST_F(VulkanBridgeTest, ImportOutlivesRouteAndBuffer) {
  std::shared_ptr<DeviceImport> import;
  Bytes expected;
  {
    const Picture picture(nv12(640, 480, 640));
    expected = packed(picture.source, picture.read());
    import = importOf(picture);
  }
  ASSERT_TRUE(import);
  route.reset();
  EXPECT_EQ(readBack(context, stream.get(), *import), expected);
}

TEST_F(VulkanBridgeTest, SaysWhatIsMissing) {
  const struct {
    const char *refused, *without, *said;
  } cases[] = {
      {"instance", "", "vkCreateInstance"},
      {"physical-device", "", "no device with the UUID"},
      {"device", "", "vkCreateDevice"},
      {"", "VK_EXT_external_memory_dma_buf", "VK_EXT_external_memory_dma_buf"},
      {"", "VK_KHR_external_memory_fd", "VK_EXT_external_memory_dma_buf"},
  };
  for (const auto &c : cases) {
    SCOPED_TRACE(c.said);
    refuse(c.refused);
    without(c.without);
    const auto available = route->available();
    ASSERT_FALSE(available.ok());
    EXPECT_TRUE(says(available.error(), c.said)) << available.error().message();
  }
  refuse("");
  without("");
  EXPECT_TRUE(route->available().ok()) << "nothing of that stays";
}

TEST_F(VulkanBridgeTest, SaysWhatRefusesABuffer) {
  const Picture picture(nv12(640, 480, 640));
  const struct {
    const char *refused, *said;
  } cases[] = {{"memory", "importing a dma-buf"},
               {"dmabuf-import", "VK_ERROR_INVALID_EXTERNAL_HANDLE"},
               {"opaque-export", "vkGetMemoryFdKHR"}};
  ASSERT_TRUE(route->available().ok());
  const size_t fds = openFds();
  for (const auto &c : cases) {
    SCOPED_TRACE(c.said);
    refuse(c.refused);
    const auto import = route->import(picture.source);
    ASSERT_FALSE(import.ok());
    EXPECT_TRUE(says(import.error(), c.said)) << import.error().message();
  }
  refuse("");
  EXPECT_EQ(openFds(), fds);

  ImportSource tiled = picture.source;
  tiled.modifier = softcuda::kTiledModifier;
  const auto import = route->import(tiled);
  ASSERT_FALSE(import.ok());
  EXPECT_EQ(import.error().code, EOPNOTSUPP);
  EXPECT_TRUE(says(import.error(), "NVIDIA")) << import.error().message();
  EXPECT_TRUE(route->import(picture.source).ok());
}

TEST_F(VulkanBridgeTest, ALostDeviceIsReplaced) {
  const Picture picture(nv12(640, 480, 640));
  auto import = importOf(picture);
  ASSERT_TRUE(import);
  EXPECT_EQ(readBack(context, stream.get(), *import), packed(picture.source, picture.read()));
  refuse("submit");
  {
    const ContextScope scope(*context);
    const auto refreshed = import->refresh(stream.get());
    ASSERT_FALSE(refreshed.ok());
    EXPECT_EQ(refreshed.error().code, ENODEV);
    EXPECT_TRUE(says(refreshed.error(), "VK_ERROR_DEVICE_LOST")) << refreshed.error().message();
    EXPECT_FALSE(import->refresh(stream.get()).ok()) << "it does not come back";
  }
  EXPECT_TRUE(becomesIdle(context, stream.get())) << "nothing waits for a copy that will not come";
  refuse("");
  import = importOf(picture);
  ASSERT_TRUE(import);
  EXPECT_EQ(readBack(context, stream.get(), *import), packed(picture.source, picture.read()));
}

TEST_F(VulkanBridgeTest, NothingIsLeftWhenACallFails) {
  const Picture picture(nv12(640, 480, 640));
  ASSERT_TRUE(route->import(picture.source).ok());
  const size_t fds = openFds();
  const auto live = SOFTVULKAN(softvulkan_live)();
  long failures = 0;
  for (long n = 1;; ++n) {
    ASSERT_LT(n, 200);
    TestedDriver::failCall(n);
    bool refreshed = false;
    auto import = route->import(picture.source);
    if (import) {
      const ContextScope scope(*context);
      refreshed = (*import)->refresh(stream.get()).ok();
    }
    const bool failed = TestedDriver::hasFailed();
    TestedDriver::reset();
    EXPECT_TRUE(becomesIdle(context, stream.get())) << "after a failure of call " << n;
    failures += !import.ok() || !refreshed;
    import = Error{};
    EXPECT_EQ(openFds(), fds) << "after a failure of call " << n;
    EXPECT_EQ(SOFTVULKAN(softvulkan_live)(), live) << "after a failure of call " << n;
    route = makeVulkanBridgeRoute(context); // one that did not fall back to the CPU
    ASSERT_TRUE(route->available().ok());
    if (!failed) break;
  }
  EXPECT_GE(failures, 4);
}

TEST_F(VulkanBridgeTest, WrongContentIsFound) {
  for (const char *fault : {"vulkan:2M", "opaque:2M"}) {
    SCOPED_TRACE(fault);
    const Picture picture(nv12(1920, 1080, 1920));
    SOFTCUDA(softcuda_set_import_fault)(fault);
    const auto import = importOf(picture);
    ASSERT_TRUE(import) << "that is the fault: it succeeds";
    const ContextScope scope(*context);
    auto check = checkContent(*context, picture.source, *import);
    ASSERT_TRUE(check.ok()) << check.error().message();
    EXPECT_EQ(check->verdict, ContentVerdict::Different);
    EXPECT_GE(check->first_difference, kTellingOffset);
    SOFTCUDA(softcuda_set_import_fault)("");
    const auto right = importOf(picture);
    ASSERT_TRUE(right);
    check = checkContent(*context, picture.source, *right);
    ASSERT_TRUE(check.ok());
    EXPECT_EQ(check->verdict, ContentVerdict::Same);
  }
}

TEST_F(VulkanBridgeTest, FramesCostNoObjects) {
  const Picture picture(nv12(64, 48, 64));
  const auto import = importOf(picture);
  ASSERT_TRUE(import);
  readBack(context, stream.get(), *import);
  const auto live = SOFTVULKAN(softvulkan_live)();
  const size_t fds = openFds();
  for (int i = 0; i < 200; ++i) {
    const ContextScope scope(*context);
    ASSERT_TRUE(import->refresh(stream.get()).ok());
  }
  EXPECT_EQ(readBack(context, stream.get(), *import), packed(picture.source, picture.read()));
  EXPECT_EQ(SOFTVULKAN(softvulkan_live)(), live);
  EXPECT_EQ(openFds(), fds);
}

// Each of the two waits is needed: the copy for the frame, and the stream for the copy.
TEST_P(VulkanBridgeOrder, MissingWaitsAreNoticed) {
  Picture picture(nv12(3840, 2160, 3840));
  const auto import = importOf(picture);
  ASSERT_TRUE(import);
  uint32_t frame = 0;
  expectNoticed("bridge-copy-done", [&](std::chrono::milliseconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    bool right = true;
    do {
      const Bytes bytes = noise(picture.source.size, 100 + frame++);
      picture.write(bytes);
      right = readBack(context, stream.get(), *import) == packed(picture.source, bytes);
      EXPECT_TRUE(becomesIdle(context, stream.get()));
    } while (right && std::chrono::steady_clock::now() < end);
    return right;
  });
  expectNoticed("bridge-frame-ready", [&](std::chrono::milliseconds) {
    const Bytes bytes = noise(picture.source.size, 1000 + frame++);
    picture.write(Bytes(picture.source.size));
    std::future<std::vector<uint8_t>> read;
    {
      const Blocker fence(context, stream.get());
      read = std::async(std::launch::async, [&] { return readBack(context, stream.get(), *import); });
      read.wait_for(kGlance * 5); // time enough for a copy that does not wait
      picture.write(bytes);
    }
    return read.get() == packed(picture.source, bytes);
  });
}

// A buffer that is asked for on one stream and then on another: the second does not overtake the first.
TEST_F(VulkanBridgeTest, TheOrderOfTwoStreamsIsNoticed) {
  const Picture picture(nv12(640, 480, 640));
  expectNoticed("bridge-stream-order", [&](std::chrono::milliseconds patience) {
    const auto import = importOf(picture);
    bool early = false;
    {
      const Blocker fence(context, stream.get());
      const ContextScope scope(*context);
      EXPECT_TRUE(import->refresh(stream.get()).ok());
      EXPECT_TRUE(import->refresh(other.get()).ok());
      early = becomesIdle(context, other.get(), patience);
    }
    EXPECT_TRUE(becomesIdle(context, other.get()));
    if (early) { // what came of it is undefined
      SOFTVULKAN(softvulkan_forget_misuses)();
      SOFTCUDA(softcuda_reset)();
    }
    return !early;
  });
}

// A copy that the stream does not wait for, because that failed, may be under way when the import goes.
TEST_F(VulkanBridgeTest, AnImportsEndWaitsForItsCopy) {
  const Picture picture(nv12(640, 480, 640));
  expectNoticed("bridge-destroy", [&](std::chrono::milliseconds) {
    auto import = importOf(picture);
    TestedDriver::failFunction(Fn::cuWaitExternalSemaphoresAsync, CUDA_ERROR_UNKNOWN);
    std::future<void> later;
    {
      const Blocker fence(context, stream.get());
      {
        const ContextScope scope(*context);
        EXPECT_FALSE(import->refresh(stream.get()).ok());
      }
      later = std::async(std::launch::async, [&] {
        std::this_thread::sleep_for(kGlance);
        fence.release();
      });
      import.reset();
      later.get();
    }
    TestedDriver::failFunction(Fn::kCount, CUDA_SUCCESS);
    const bool right = SOFTVULKAN(softvulkan_misuses)() == 0;
    SOFTVULKAN(softvulkan_forget_misuses)();
    if (!right) SOFTCUDA(softcuda_reset)();
    return right;
  });
}

TEST(VulkanDevices, OthersAreNotTaken) {
  auto device = VulkanDevice::create(DeviceUuid{0xab, 0xcd});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ENODEV);
  EXPECT_TRUE(says(device.error(), "abcd0000")) << device.error().message();
  setenv("GSTZC_VULKAN_DEVICE", "any", 1);
  EXPECT_TRUE(VulkanDevice::create(DeviceUuid{0xab, 0xcd}).ok());
  unsetenv("GSTZC_VULKAN_DEVICE");
  device = VulkanDevice::create("libvulkan-of-nobody.so.1", DeviceUuid{});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ENOENT);
}

} // namespace
