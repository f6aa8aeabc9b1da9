// SPDX-License-Identifier: LGPL-2.1-or-later
// How fenceinfer comes by a device, and by memory that it can write.
#include "gst/infer/device/tensor_device.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gst/infer/device/tensor_pool.h"
#include "gst/zerocopy/core/offers.h"
#include "tests/support/fake_tensor_device.h"

using namespace gstzc;
using namespace gstzc::infer;

namespace {

GstElement *asked = nullptr;

Result<std::shared_ptr<TensorDevice>> makeFake(GstElement *element) {
  asked = element;
  return std::shared_ptr<TensorDevice>(std::make_shared<test::FakeTensorDevice>());
}
Result<std::shared_ptr<TensorDevice>> makeNone(GstElement *) { return Error{"no such device", ENODEV, "Buy one"}; }

TEST(TensorDevices, ThePluginsMakerIsCalledForTheElement) {
  registerTensorDevice("test", makeFake);
  EXPECT_TRUE(haveTensorDevice("test"));
  GstElement *element = gst_bin_new(nullptr);
  auto device = makeTensorDevice("test", element);
  ASSERT_TRUE(device.ok()) << device.error().message();
  EXPECT_EQ(asked, element);
  EXPECT_EQ((*device)->name(), "fake device 0");
  gst_object_unref(element);
  registerTensorDevice("test", makeNone);
  EXPECT_EQ(makeTensorDevice("test", nullptr).error().code, ENODEV);
  registerTensorDevice("test", nullptr);
  EXPECT_FALSE(haveTensorDevice("test"));
}

TEST(TensorDevices, AnErrorNamesThePluginThatIsMissing) {
  EXPECT_FALSE(haveTensorDevice("abacus"));
  auto device = makeTensorDevice("abacus", nullptr);
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message().find("zerocopyabacus is not installed"), std::string::npos)
      << device.error().message();
}

TEST(TensorDevices, APluginWithoutOneIsNamed) {
  auto device = makeTensorDevice("", nullptr); // the plugin zerocopy itself
  ASSERT_FALSE(device.ok());
  EXPECT_NE(device.error().message().find("zerocopy has no device"), std::string::npos) << device.error().message();
}

TEST(Offers, AreFoundWhileOthersAreMade) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      const std::string name = "test/" + std::to_string(i);
      for (int repeat = 0; repeat < 1000; ++repeat) {
        offer(name, reinterpret_cast<AnyFunction>(makeFake));
        EXPECT_EQ(offered(name), reinterpret_cast<AnyFunction>(makeFake));
        offer(name, nullptr);
        EXPECT_EQ(offered(name), nullptr);
      }
    });
  for (std::thread &thread : threads) thread.join();
}

TEST(TensorPool, MemoryIsUsedAgain) {
  auto device = std::make_shared<test::FakeTensorDevice>();
  TensorPool pool(device, 64);
  auto a = pool.get(), b = pool.get();
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->get(), b->get());
  const void *const first = a->get();
  a->reset();
  EXPECT_EQ(pool.unused(), 1u);
  auto c = pool.get();
  EXPECT_EQ(c->get(), first);
  EXPECT_EQ(device->memories, 2);
  device->refuse_memory = true;
  EXPECT_FALSE(pool.get().ok());
}

TEST(TensorPool, MemoryOutlivesPoolAndDevice) {
  const int before = test::FakeTensorDevice::destroyed();
  std::shared_ptr<void> memory;
  {
    TensorPool pool(std::make_shared<test::FakeTensorDevice>(), 64);
    memory = pool.get().take();
  }
  EXPECT_EQ(test::FakeTensorDevice::destroyed(), before + 1) << "memory must not keep the device";
  std::memset(memory.get(), 1, 64);
}

} // namespace
