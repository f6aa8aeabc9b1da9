// SPDX-License-Identifier: LGPL-2.1-or-later
// Further vkms cards, made through configfs: for displays that the default one is not.
#pragma once

#include <string>

#include "gst/zerocopy/core/result.h"

namespace gstzc::lab {

// A card with one CRTC, primary plane and connector (no writeback). It goes with the object; its open files have to be
// closed before.
class VkmsInstance {
public:
  enum class Output { Connected, Disconnected };

  // `name` becomes a directory in configfs: no slashes, not in use.
  static Result<VkmsInstance> create(const std::string &name, Output output);
  VkmsInstance(VkmsInstance &&other) noexcept;
  VkmsInstance &operator=(VkmsInstance &&) = delete;
  ~VkmsInstance();

  const std::string &cardPath() const { return cardPath_; }

  // Plugs the screen in or out.
  Status setOutput(Output output);

private:
  explicit VkmsInstance(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_; // in configfs; empty when moved from
  std::string cardPath_;
};

} // namespace gstzc::lab
