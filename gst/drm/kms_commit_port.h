// SPDX-License-Identifier: LGPL-2.1-or-later
// Commits of a device.
#pragma once

#include "gst/drm/committer.h"

namespace gstzc {

// The flip is told by the commit's out-fence, whose signal is the flip event itself with the same time stamp: an event
// in the device's file would go to whoever reads that file first, and where the application gave us its descriptor that
// may be the application.
class KmsCommitPort : public CommitPort {
public:
  KmsCommitPort(std::shared_ptr<KmsDevice> device, const KmsSnapshot &snapshot, const Output &output);
  int commit(const ScreenState &state, int in_fence, UniqueFd *flipped) override;
  int64_t flipTime(int flipped) override;
  bool takesInFence(const ScreenState &state) const override;
  int signalledFence() const override { return signalled_.get(); }

private:
  std::shared_ptr<KmsDevice> device_;
  const KmsSnapshot snapshot_;
  const Output output_;
  const UniqueFd signalled_;
};

} // namespace gstzc
