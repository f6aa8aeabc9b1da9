// SPDX-License-Identifier: LGPL-2.1-or-later
// Further vkms cards, made through configfs: for displays that the default one is not.
#pragma once

#include <string>

#include "gst/zerocopy/core/result.h"

namespace gstzc::lab {

// A card with CRTCs, a primary plane and a connector each (no writeback). It goes with the object; its open files have
// to be closed before.
class VkmsInstance {
public:
  enum class Output { Connected, Disconnected };

  // `name` becomes a directory in configfs: no slashes, not in use.
  static Result<VkmsInstance> create(const std::string &name, Output output, unsigned outputs = 1);
  VkmsInstance(VkmsInstance &&other) noexcept;
  VkmsInstance &operator=(VkmsInstance &&) = delete;
  ~VkmsInstance();

  const std::string &cardPath() const { return cardPath_; }

  // Plugs the screen in or out, of the first output or another one.
  Status setOutput(Output output, unsigned index = 0);

private:
  VkmsInstance(std::string directory, unsigned outputs) : directory_(std::move(directory)), outputs_(outputs) {}
  std::string directory_; // in configfs; empty when moved from
  unsigned outputs_ = 1;
  std::string cardPath_;
};

} // namespace gstzc::lab
