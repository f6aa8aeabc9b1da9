// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/semaphore_gate.h"
#include "gstzc-config.h"

#include <cerrno>

#if GSTZC_HAVE_VULKAN
#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "ext/cuda/routes/vulkan_cuda.h"
#include "ext/cuda/sync/wait_points.h"
#endif

namespace gstzc::cuda {

#if GSTZC_HAVE_VULKAN
namespace {

constexpr size_t kMostSlots = 16;                          // frames that wait at a time
constexpr size_t kMostFences = 8;                          // of a frame
constexpr std::chrono::milliseconds kDestroyPatience{100}; // then what still waits is kept instead of destroyed

// A timeline semaphore for one hold at a time. The n-th sets it to 2n when its fences are over; the stream waits for
// 2n - 1 only, which the host may set before: a value has to be less than what is still pending.
struct Slot {
  VulkanSemaphore timeline;
  ExternalSemaphore cuda;
  Event passed; // the stream has done its wait
  std::vector<VulkanSemaphore> fences;
  uint64_t value = 0;    // 2n
  bool given_up = false; // the host let the stream pass
};

struct Hold {
  Slot *slot = nullptr;
  StreamGate::Ended ended;
  std::unique_ptr<FenceWait> wait;
  bool resolved = false; // before `wait` was there
};

// Outlives the gate where a fence that never ends keeps the queue.
class GateState {
public:
  GateState(ContextPtr context, VulkanDevicePtr device, FencePoller &poller)
      : context_(std::move(context)), device_(std::move(device)), poller_(poller) {}

  // Not taken: `fences` and `ended` are as they were.
  Status hold(CUstream work, std::vector<Fence> &fences, StreamGate::Clock::time_point deadline,
              StreamGate::Ended &ended) {
    if (isOpen() && std::any_of(fences.begin(), fences.end(), [](const Fence &f) { return !fenceNow(f); })) {
      cancelled(ended);
      return Nothing{};
    }
    std::vector<UniqueFd> pending;
    for (const Fence &fence : fences) {
      if (fenceNow(fence)) continue;
      if (fence.kind != Fence::Kind::SyncFile)
        return Error{"a fence that is no sync_file cannot become a semaphore", EOPNOTSUPP, ""};
      pending.push_back(UniqueFd::duplicate(fence.fd.get()));
      if (!pending.back().isValid()) return Error{"duplicating a fence", errno, ""};
    }
    Slot *slot = nullptr;
    if (!pending.empty()) {
      auto found = freeSlot();
      if (!found) return found.error();
      slot = *found;
      if (auto submitted = submit(*slot, pending); !submitted) return submitted.error();
    }

    // From here on the poller has the fences, so nothing can be enqueued that nobody lets pass.
    uint64_t id = 0;
    {
      const std::lock_guard lock(lock_);
      id = ++last_id_;
      holds_[id].slot = slot;
    }
    auto wait = FenceWait::start(duplicates(fences), deadline, [this, id] { resolve(id); }, poller_);
    if (!wait) {
      const std::lock_guard lock(lock_);
      holds_.erase(id);
      return wait.error();
    }
    if (slot != nullptr)
      if (auto enqueued = enqueue(*slot, work); !enqueued) {
        forget(id);
        return enqueued.error();
      }

    fences.clear();
    bool over = (*wait)->result().has_value(), opened = true;
    {
      const std::lock_guard lock(lock_);
      const auto found = holds_.find(id);
      if (found != holds_.end()) {
        opened = false;
        over = over || found->second.resolved;
        found->second.ended = std::move(ended);
        found->second.wait = wait.take();
      }
    }
    if (opened) {
      wait.value().reset();
      cancelled(ended);
    } else if (over) {
      resolve(id);
    } else if (isOpen()) { // since then
      open();
    }
    return Nothing{};
  }

  void keepOpen(bool on) {
    {
      const std::lock_guard lock(lock_);
      open_ = on;
    }
    if (on) open();
  }

  void open() {
    std::map<uint64_t, Hold> holds;
    {
      const std::lock_guard lock(lock_);
      holds.swap(holds_);
    }
    for (auto &[id, hold] : holds) {
      hold.wait.reset(); // nobody else will say how it ended
      cancelled(hold.ended);
      letPass(hold.slot);
    }
  }

  size_t pending() const {
    const std::lock_guard lock(lock_);
    return holds_.size();
  }

  // After open(): nobody is about to tell how fences ended.
  void waitForResolving() {
    std::unique_lock lock(lock_);
    resolved_.wait(lock, [&] { return resolving_ == 0; });
  }

  // Neither Vulkan's queue nor a stream of CUDA's uses a semaphore any more.
  bool isIdle() {
    const std::lock_guard lock(lock_);
    const ContextScope scope(*context_);
    return std::all_of(slots_.begin(), slots_.end(), [&](const std::unique_ptr<Slot> &slot) {
      return reached(*slot, slot->value) &&
             (!slot->passed || context_->driver.cuEventQuery(slot->passed.get()) != CUDA_ERROR_NOT_READY);
    });
  }

private:
  bool isOpen() const {
    const std::lock_guard lock(lock_);
    return open_;
  }

  static void cancelled(const StreamGate::Ended &ended) {
    if (ended) ended({FenceOutcome::Cancelled, ECANCELED, 0});
  }

  static std::vector<Fence> duplicates(const std::vector<Fence> &fences) {
    std::vector<Fence> copies;
    for (const Fence &fence : fences) copies.push_back({fence.kind, UniqueFd::duplicate(fence.fd.get()), fence.status});
    return copies;
  }

  // A device that does not answer any more has nothing pending either.
  bool reached(const Slot &slot, uint64_t value) const {
    uint64_t now = 0;
    return device_->vk().vkGetSemaphoreCounterValue(device_->handle(), slot.timeline.get(), &now) != VK_SUCCESS ||
           now >= value;
  }

  Result<Slot *> freeSlot() {
    const std::lock_guard lock(lock_);
    Slot *found = nullptr;
    for (const auto &slot : slots_) {
      if (!reached(*slot, slot->value)) {
        // the queue would have this frame wait for that fence, too
        if (slot->given_up) return Error{"an earlier fence that was given up still blocks the queue", EBUSY, ""};
        continue;
      }
      slot->given_up = false;
      found = slot.get();
    }
    if (found != nullptr) return found;
    if (slots_.size() >= kMostSlots)
      return Error{std::to_string(kMostSlots) + " frames wait for their fences already", EBUSY, ""};
    auto slot = std::make_unique<Slot>();
    auto timeline = newTimeline(device_);
    if (!timeline) return timeline.error();
    slot->timeline = timeline.take();
    auto cuda = importTimeline(context_, device_, slot->timeline.get());
    if (!cuda) return cuda.error();
    slot->cuda = cuda.take();
    auto passed = newEvent(context_);
    if (!passed) return passed.error();
    slot->passed = passed.take();
    slots_.push_back(std::move(slot));
    return slots_.back().get();
  }

  // Has the queue wait for the fences and set the timeline.
  Status submit(Slot &slot, std::vector<UniqueFd> &fences) {
    if (fences.size() > kMostFences)
      return Error{std::to_string(fences.size()) + " fences of one frame are too many for a queue", EOPNOTSUPP, ""};
    std::vector<VkSemaphore> semaphores;
    for (size_t i = 0; i < fences.size(); ++i) {
      if (slot.fences.size() <= i) {
        auto made = newBinarySemaphore(device_);
        if (!made) return made.error();
        slot.fences.push_back(made.take());
      }
      VkImportSemaphoreFdInfoKHR info = {VK_STRUCTURE_TYPE_IMPORT_SEMAPHORE_FD_INFO_KHR};
      info.semaphore = slot.fences[i].get();
      info.flags = VK_SEMAPHORE_IMPORT_TEMPORARY_BIT;
      info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_SYNC_FD_BIT;
      info.fd = fences[i].get();
      if (auto imported = device_->check(device_->vk().vkImportSemaphoreFdKHR(device_->handle(), &info),
                                         "vkImportSemaphoreFdKHR of a sync_file");
          !imported)
        return imported.error();
      (void)fences[i].release(); // the driver's since then
      semaphores.push_back(info.semaphore);
    }
    const std::vector<VkPipelineStageFlags> stages(semaphores.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    const std::vector<uint64_t> unused(semaphores.size(), 0); // of binary semaphores
    const uint64_t value = slot.value + 2;
    const VkSemaphore timeline = slot.timeline.get();
    VkTimelineSemaphoreSubmitInfo values = {VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.waitSemaphoreValueCount = static_cast<uint32_t>(unused.size());
    values.pWaitSemaphoreValues = unused.data();
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    VkSubmitInfo info = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.pNext = &values;
    info.waitSemaphoreCount = static_cast<uint32_t>(semaphores.size());
    info.pWaitSemaphores = semaphores.data();
    info.pWaitDstStageMask = stages.data();
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &timeline;
    if (auto submitted = device_->submit(info); !submitted) return submitted;
    const std::lock_guard lock(lock_);
    slot.value = value;
    return Nothing{};
  }

  Status enqueue(Slot &slot, CUstream work) {
    const ContextScope scope(*context_);
    if (auto current = scope.status(); !current) return current;
    if (waitPoint("semaphore-gate"))
      if (auto waits = waitOnStream(*context_, slot.cuda.get(), slot.value - 1, work); !waits) return waits;
    const auto recorded =
        context_->driver.check(context_->driver.cuEventRecord(slot.passed.get(), work), "cuEventRecord");
    if (!recorded) letPass(&slot); // the wait is enqueued, and nobody would know when it is over
    return recorded;
  }

  // The frame's fences are over, or their deadline is.
  void resolve(uint64_t id) {
    Hold hold;
    {
      const std::lock_guard lock(lock_);
      const auto found = holds_.find(id);
      if (found == holds_.end()) return;
      if (!found->second.wait) { // hold() is not that far yet
        found->second.resolved = true;
        return;
      }
      hold = std::move(found->second);
      holds_.erase(found);
      ++resolving_;
    }
    const FenceResult result = hold.wait->result().value_or(FenceResult{FenceOutcome::Cancelled, ECANCELED, 0});
    if (hold.ended) hold.ended(result);
    if (result.outcome == FenceOutcome::TimedOut || result.outcome == FenceOutcome::Cancelled) letPass(hold.slot);
    hold = {};
    const std::lock_guard lock(lock_);
    --resolving_;
    resolved_.notify_all(); // with the lock held: after it this may be gone
  }

  void forget(uint64_t id) {
    const std::lock_guard lock(lock_);
    holds_.erase(id);
  }

  // The host takes the fences' place. Where they end in the same moment the look before is not enough, and a driver
  // may find the value to be past: nothing waits for it then.
  void letPass(Slot *slot) {
    if (slot == nullptr) return;
    const std::lock_guard lock(lock_);
    if (reached(*slot, slot->value - 1)) return;
    slot->given_up = true;
    VkSemaphoreSignalInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
    info.semaphore = slot->timeline.get();
    info.value = slot->value - 1;
    (void)device_->check(device_->vk().vkSignalSemaphore(device_->handle(), &info), "vkSignalSemaphore");
  }

  const ContextPtr context_;
  const VulkanDevicePtr device_;
  FencePoller &poller_;
  mutable std::mutex lock_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::map<uint64_t, Hold> holds_;
  uint64_t last_id_ = 0;
  bool open_ = false; // nothing waits
  unsigned resolving_ = 0;
  std::condition_variable resolved_;
};

// Gates whose queue was still waiting for a fence when they went: destroyed when some later one finds them idle.
class Graveyard {
public:
  static Graveyard &process() {
    static auto *const graveyard = new Graveyard(); // never destroyed: drivers may be gone by then
    return *graveyard;
  }
  void bury(std::shared_ptr<GateState> state) {
    const std::lock_guard lock(lock_);
    states_.push_back(std::move(state));
  }
  void sweep() {
    std::vector<std::shared_ptr<GateState>> idle; // destroyed without the lock
    const std::lock_guard lock(lock_);
    const auto rest =
        std::partition(states_.begin(), states_.end(), [](const auto &state) { return !state->isIdle(); });
    std::move(rest, states_.end(), std::back_inserter(idle));
    states_.erase(rest, states_.end());
  }

private:
  std::mutex lock_;
  std::vector<std::shared_ptr<GateState>> states_;
};

class SemaphoreGate : public StreamGate {
public:
  SemaphoreGate(std::shared_ptr<GateState> state, std::unique_ptr<StreamGate> otherwise)
      : state_(std::move(state)), otherwise_(std::move(otherwise)) {}

  ~SemaphoreGate() override {
    keepOpen(true);
    state_->waitForResolving();
    const auto deadline = Clock::now() + kDestroyPatience;
    bool idle = state_->isIdle();
    while (!idle && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      idle = state_->isIdle();
    }
    if (!idle) Graveyard::process().bury(state_);
    Graveyard::process().sweep();
  }

  const char *name() const override { return "external-semaphore"; }

  Status hold(CUstream work, std::vector<Fence> fences, Clock::time_point deadline, Ended ended) override {
    const auto held = state_->hold(work, fences, deadline, ended);
    if (held || !otherwise_) return held;
    return otherwise_->hold(work, std::move(fences), deadline, std::move(ended));
  }

  void open() override {
    state_->open();
    if (otherwise_) otherwise_->open();
  }

  void keepOpen(bool on) override {
    state_->keepOpen(on);
    if (otherwise_) otherwise_->keepOpen(on);
  }

  size_t pending() const override { return state_->pending() + (otherwise_ ? otherwise_->pending() : 0); }

private:
  const std::shared_ptr<GateState> state_;
  const std::unique_ptr<StreamGate> otherwise_;
};

} // namespace

Result<std::unique_ptr<StreamGate>> makeSemaphoreGate(ContextPtr context, FencePoller &poller,
                                                      std::unique_ptr<StreamGate> otherwise) {
  Graveyard::process().sweep();
  auto uuid = uuidOf(*context);
  if (!uuid) return uuid.error();
  auto device = VulkanDevice::create(*uuid); // one of its own: its queue waits for others
  if (!device) return device.error();
  if (!(*device)->importsSyncFiles())
    return Error{"the Vulkan device " + (*device)->name() + " does not import sync_files", EOPNOTSUPP, ""};
  if (auto shared = semaphoresShared(*context, **device); !shared) return shared.error();
  auto state = std::make_shared<GateState>(std::move(context), device.take(), poller);
  return std::unique_ptr<StreamGate>(std::make_unique<SemaphoreGate>(std::move(state), std::move(otherwise)));
}

#else

Result<std::unique_ptr<StreamGate>> makeSemaphoreGate(ContextPtr, FencePoller &, std::unique_ptr<StreamGate>) {
  return Error{"built without Vulkan", ENOSYS, "Build with libvulkan-dev installed"};
}

#endif

} // namespace gstzc::cuda
