// SPDX-License-Identifier: LGPL-2.1-or-later
// Commits of a device.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gst/drm/commit_port.h"

namespace gstzc {

class KmsCommitPort : public CommitPort {
public:
  // `async`: frames that only take the place of others come on screen at once, without waiting for a vertical blank,
  // where device and driver can.
  KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output,
                bool async = false);
  ~KmsCommitPort() override;
  int commit(const ScreenState &state, UniqueFd *flipped) override;
  int64_t flipTime(int flipped) override;
  int flipEvents() override { return events_; }
  std::optional<int64_t> readFlip() override;
  bool takesInFence(size_t plane) const override;
  int signalledFence() const override { return device_->signalledFence(); }
  bool regain() override { return device_->regainMaster(); }
  void forget() override { known_.forget(); }

  std::optional<std::string> news() override { return std::exchange(news_, std::nullopt); }

private:
  // What asynchronous flips may carry: kernels before 6.12 take no fence with them.
  enum class Async { Off, WithFence, Alone };
  int attempt(const ScreenState &state, Async async, UniqueFd *flipped);

  std::shared_ptr<KmsDevice> device_;
  const KmsSnapshot snapshot_;
  const Output output_;
  AtomicRequest request_; // kept, so that a frame allocates nothing
  KnownPlanes known_;
  Async async_ = Async::Off;
  std::optional<std::string> news_;
  int events_ = -1;
  std::atomic<uint64_t> token_ = 0; // of the last commit
};

} // namespace gstzc
