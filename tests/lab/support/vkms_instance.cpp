// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/vkms_instance.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <sys/stat.h>

#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::lab {

namespace fs = std::filesystem;

namespace {

Status writeValue(const std::string &path, const std::string &value) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.isValid() || ::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return Error{"write " + value + " to " + path, errno, ""};
  return Nothing{};
}

const char *statusOf(VkmsInstance::Output output) { return output == VkmsInstance::Output::Connected ? "1" : "2"; }

} // namespace

Result<VkmsInstance> VkmsInstance::create(const std::string &name, Output output) {
  VkmsInstance instance("/sys/kernel/config/vkms/" + name);
  const std::string &top = instance.directory_;
  if (::mkdir(top.c_str(), 0755) != 0) {
    Error error{"make " + top, errno, ""};
    instance.directory_.clear();
    return error;
  }
  for (const char *part : {"/planes/plane", "/crtcs/crtc", "/encoders/encoder", "/connectors/connector"})
    if (::mkdir((top + part).c_str(), 0755) != 0) return Error{"make " + top + part, errno, ""};
  const std::pair<const char *, const char *> links[] = {
      {"/crtcs/crtc", "/planes/plane/possible_crtcs/crtc"},
      {"/crtcs/crtc", "/encoders/encoder/possible_crtcs/crtc"},
      {"/encoders/encoder", "/connectors/connector/possible_encoders/encoder"}};
  for (const auto &[to, from] : links)
    if (::symlink((top + to).c_str(), (top + from).c_str()) != 0) return Error{"link " + top + from, errno, ""};
  for (const auto &[file, value] :
       {std::pair{"/planes/plane/type", "1"}, std::pair{"/connectors/connector/status", statusOf(output)},
        std::pair{"/enabled", "1"}})
    if (auto done = writeValue(top + file, value); !done) return done.error();

  std::error_code none;
  for (const auto &entry : fs::directory_iterator("/sys/bus/faux/devices/" + name + "/drm", none))
    if (entry.path().filename().string().starts_with("card"))
      instance.cardPath_ = "/dev/dri/" + entry.path().filename().string();
  if (instance.cardPath_.empty()) return Error{"the vkms instance " + name + " has no card", ENODEV, ""};
  return instance;
}

VkmsInstance::VkmsInstance(VkmsInstance &&other) noexcept
    : directory_(std::exchange(other.directory_, {})), cardPath_(std::move(other.cardPath_)) {}

VkmsInstance::~VkmsInstance() {
  if (directory_.empty()) return;
  // configfs takes its items back one by one, and only when nothing links to them; what was never made is no matter
  // here
  (void)writeValue(directory_ + "/enabled", "0");
  for (const char *link : {"/planes/plane/possible_crtcs/crtc", "/encoders/encoder/possible_crtcs/crtc",
                           "/connectors/connector/possible_encoders/encoder"})
    ::unlink((directory_ + link).c_str());
  for (const char *part : {"/planes/plane", "/crtcs/crtc", "/encoders/encoder", "/connectors/connector", ""})
    ::rmdir((directory_ + part).c_str());
}

Status VkmsInstance::setOutput(Output output) {
  return writeValue(directory_ + "/connectors/connector/status", statusOf(output));
}

} // namespace gstzc::lab
