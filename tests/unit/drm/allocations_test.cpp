// SPDX-License-Identifier: LGPL-2.1-or-later
// What a frame costs once the first ones have been shown: nothing is allocated for it. Counted is operator new of the
// whole program but for what the described device does itself: a kernel would do that.
#include <cstring>

#include "gst/drm/display.h"
#include "tests/unit/drm/device/profile_fixture.h"
#include "tests/unit/drm/overlay/count_allocations.h"

using namespace gstzc;
using namespace gstzc::testdata;
using namespace std::chrono_literals;

namespace {

class UncountedDevice : public KmsDevice {
public:
  explicit UncountedDevice(DeviceProfile profile) : device_(ProfileDevice::create(std::move(profile))) {
    path_ = device_->path();
    driver_ = device_->driver();
  }
  Result<KmsSnapshot> snapshot(Outputs outputs) const override { return device_->snapshot(outputs); }
  ForeignMemory foreignMemory() const override { return device_->foreignMemory(); }
  UniqueFd openAgain() const override { return device_->openAgain(); }
  int addFramebuffer(const FramebufferRequest &request, uint32_t *id) override {
    return device_->addFramebuffer(request, id);
  }
  void removeFramebuffer(uint32_t id) override { device_->removeFramebuffer(id); }
  int importHandle(int dmabuf, uint32_t *handle) override { return device_->importHandle(dmabuf, handle); }
  void closeHandle(uint32_t handle) override { device_->closeHandle(handle); }
  int createBlob(const void *data, size_t size, uint32_t *id) override { return device_->createBlob(data, size, id); }
  void destroyBlob(uint32_t id) override { device_->destroyBlob(id); }
  int commit(const AtomicRequest &request, uint32_t flags, UniqueFd *flipped) override {
    const Uncounted guard;
    settings_ = request.settings().size();
    return device_->commit(request, flags, flipped);
  }
  int64_t flipTime(int flipped) const override {
    const Uncounted guard;
    return device_->flipTime(flipped);
  }
  int signalledFence() override { return device_->signalledFence(); }
  int createDumb(uint32_t width, uint32_t height, uint32_t bits, DumbMemory *memory) override {
    return device_->createDumb(width, height, bits, memory);
  }
  void destroyDumb(uint32_t handle) override { device_->destroyDumb(handle); }
  int mapDumb(const DumbMemory &memory, void **data) override { return device_->mapDumb(memory, data); }
  int exportDumb(uint32_t handle, UniqueFd *dmabuf) override { return device_->exportDumb(handle, dmabuf); }
  Status enter() override { return device_->enter(); }
  void leave() override { device_->leave(); }
  bool regainMaster() override { return device_->regainMaster(); }
  std::shared_ptr<void> watchOutputs(std::function<void()> changed) override {
    return device_->watchOutputs(std::move(changed));
  }

  size_t lastSettings() const { return settings_; }

private:
  std::shared_ptr<ProfileDevice> device_;
  std::atomic<size_t> settings_ = 0;
};

class Frames : public testing::Test {
protected:
  void SetUp() override {
    device_ = std::make_shared<UncountedDevice>(profileOf(desk()));
    Display::Options options;
    options.open.device = device_;
    Display::Events events;
    events.commit.flipped = [this](const DisplayFrame &, uint64_t) { ++flips_; };
    auto display = Display::open(options, events);
    ASSERT_TRUE(display) << display.error().message();
    display_ = display.take();
    FrameNeed need;
    need.format = kXr24;
    need.width = 640;
    need.height = 480;
    ASSERT_TRUE(display_->setFrames(need, {}));
    for (UniqueFd &fd : memory_) fd = memory(640 * 480 * 4);
  }

  Result<Committer::Submitted> show(size_t i, bool wait) {
    DisplayFrameRequest request;
    ImportKey &key = request.source.key;
    const int fd = memory_[i % memory_.size()].get();
    key.n_planes = 1;
    key.fourcc = kXr24.fourcc;
    key.modifier = kXr24.modifier;
    key.width = 640;
    key.height = 480;
    key.buffers[0] = *bufferId(fd);
    key.pitches[0] = 2560;
    request.source.fds[0] = fd;
    request.wait = wait;
    auto fb = display_->import(request.source);
    if (!fb) return fb.error();
    return display_->show(std::move(*fb), std::move(request));
  }

  std::shared_ptr<UncountedDevice> device_;
  std::atomic<unsigned> flips_ = 0;
  std::array<UniqueFd, 4> memory_;
  std::unique_ptr<Display> display_;
};

TEST_F(Frames, AllocateNothingAfterTheFirstOnes) {
  if (!allocationsSoFar()) GTEST_SKIP() << "the sanitizer allocates";
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(show(i, true));
  ASSERT_TRUE(display_->drain());
  const uint64_t before = *allocationsSoFar();
  for (size_t i = 0; i < 60; ++i) ASSERT_TRUE(show(i, true));
  ASSERT_TRUE(display_->drain());
  EXPECT_EQ(*allocationsSoFar() - before, 0u);
  EXPECT_EQ(flips_, 80u);
  EXPECT_EQ(display_->counters().imports, memory_.size());
}

TEST_F(Frames, TheFirstThatAreDroppedAllocateNothing) {
  if (!allocationsSoFar()) GTEST_SKIP() << "the sanitizer allocates";
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(show(i, true));
  ASSERT_TRUE(display_->drain());
  const uint64_t before = *allocationsSoFar();
  for (size_t i = 0; i < 20; ++i) ASSERT_TRUE(show(i, false));
  ASSERT_TRUE(display_->drain());
  EXPECT_EQ(*allocationsSoFar() - before, 0u);
  EXPECT_GT(display_->counters().commit.dropped, 0u);
}

TEST_F(Frames, ThatAreDroppedAllocateNothingEither) {
  if (!allocationsSoFar()) GTEST_SKIP() << "the sanitizer allocates";
  for (size_t i = 0; i < 500; ++i) ASSERT_TRUE(show(i, false)); // as many at a time as there ever are
  ASSERT_TRUE(display_->drain());
  const uint64_t before = *allocationsSoFar();
  for (size_t i = 0; i < 500; ++i) ASSERT_TRUE(show(i, false));
  ASSERT_TRUE(display_->drain());
  EXPECT_EQ(*allocationsSoFar() - before, 0u);
  EXPECT_GT(display_->counters().commit.dropped, 100u);
}

// Of a frame in the place of another one the kernel is told the framebuffer and its fence.
TEST_F(Frames, TellTheKernelWhatIsNew) {
  ASSERT_TRUE(show(0, true));
  ASSERT_TRUE(display_->drain());
  EXPECT_GT(device_->lastSettings(), 10u);
  ASSERT_TRUE(show(1, true));
  ASSERT_TRUE(display_->drain());
  EXPECT_EQ(device_->lastSettings(), 2u);
  DisplayLook look;
  look.rectangle = Rect{10, 10, 320, 240};
  display_->setLook(look);
  ASSERT_TRUE(show(2, true));
  ASSERT_TRUE(display_->drain());
  EXPECT_GT(device_->lastSettings(), 10u) << "another rectangle";
  ASSERT_TRUE(show(3, true));
  ASSERT_TRUE(display_->drain());
  EXPECT_EQ(device_->lastSettings(), 2u);
}

} // namespace
