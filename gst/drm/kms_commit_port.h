// SPDX-License-Identifier: LGPL-2.1-or-later
// Commits of a device.
#pragma once

#include <atomic>
#include <memory>

#include "gst/drm/commit_port.h"

namespace gstzc {

class KmsCommitPort : public CommitPort {
public:
  KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output);
  ~KmsCommitPort() override;
  int commit(const ScreenState &state, UniqueFd *flipped) override;
  int64_t flipTime(int flipped) override;
  int flipEvents() override { return events_; }
  std::optional<int64_t> readFlip() override;
  bool takesInFence(size_t plane) const override;
  int signalledFence() const override { return device_->signalledFence(); }
  bool regain() override { return device_->regainMaster(); }
  void forget() override { known_.forget(); }

private:
  std::shared_ptr<KmsDevice> device_;
  const KmsSnapshot snapshot_;
  const Output output_;
  AtomicRequest request_; // kept, so that a frame allocates nothing
  KnownPlanes known_;
  int events_ = -1;
  std::atomic<uint64_t> token_ = 0; // of the last commit
};

} // namespace gstzc
