// SPDX-License-Identifier: LGPL-2.1-or-later
// Commits of a device.
#pragma once

#include "gst/drm/committer.h"

namespace gstzc {

class KmsCommitPort : public CommitPort {
public:
  KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output);
  int commit(const ScreenState &state, int in_fence, UniqueFd *flipped) override;
  int64_t flipTime(int flipped) override;
  bool takesInFence(const ScreenState &state) const override;
  int signalledFence() const override { return device_->signalledFence(); }
  bool regain() override { return device_->regainMaster(); }

private:
  std::shared_ptr<KmsDevice> device_;
  const KmsSnapshot snapshot_;
  const Output output_;
  AtomicRequest request_; // kept, so that a frame allocates nothing
};

} // namespace gstzc
