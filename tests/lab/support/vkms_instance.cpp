// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/vkms_instance.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

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

// symbolic links of output `n`: target and place
std::vector<std::pair<std::string, std::string>> linksOf(const std::string &n) {
  return {{"/crtcs/crtc" + n, "/planes/plane" + n + "/possible_crtcs/crtc"},
          {"/crtcs/crtc" + n, "/encoders/encoder" + n + "/possible_crtcs/crtc"},
          {"/encoders/encoder" + n, "/connectors/connector" + n + "/possible_encoders/encoder"}};
}

const char *statusOf(VkmsInstance::Output output) { return output == VkmsInstance::Output::Connected ? "1" : "2"; }

} // namespace

Result<VkmsInstance> VkmsInstance::create(const std::string &name, Output output, unsigned outputs) {
  VkmsInstance instance("/sys/kernel/config/vkms/" + name, outputs);
  const std::string &top = instance.directory_;
  if (::mkdir(top.c_str(), 0755) != 0) {
    Error error{"make " + top, errno, ""};
    instance.directory_.clear();
    return error;
  }
  for (unsigned i = 0; i < outputs; ++i) {
    const std::string n = std::to_string(i);
    for (const char *part : {"/planes/plane", "/crtcs/crtc", "/encoders/encoder", "/connectors/connector"})
      if (::mkdir((top + part + n).c_str(), 0755) != 0) return Error{"make " + top + part + n, errno, ""};
    for (const auto &[to, from] : linksOf(n))
      if (::symlink((top + to).c_str(), (top + from).c_str()) != 0) return Error{"link " + top + from, errno, ""};
    if (auto done = writeValue(top + "/planes/plane" + n + "/type", "1"); !done) return done.error();
    if (auto done = instance.setOutput(output, i); !done) return done.error();
  }
  if (auto done = writeValue(top + "/enabled", "1"); !done) return done.error();

  std::error_code none;
  for (const auto &entry : fs::directory_iterator("/sys/bus/faux/devices/" + name + "/drm", none))
    if (entry.path().filename().string().starts_with("card"))
      instance.cardPath_ = "/dev/dri/" + entry.path().filename().string();
  if (instance.cardPath_.empty()) return Error{"the vkms instance " + name + " has no card", ENODEV, ""};
  return instance;
}

VkmsInstance::VkmsInstance(VkmsInstance &&other) noexcept
    : directory_(std::exchange(other.directory_, {})), outputs_(other.outputs_), cardPath_(std::move(other.cardPath_)) {
}

VkmsInstance::~VkmsInstance() {
  if (directory_.empty()) return;
  // configfs takes its items back one by one, and only when nothing links to them; what was never made is no matter
  // here
  (void)writeValue(directory_ + "/enabled", "0");
  for (unsigned i = 0; i < outputs_; ++i) {
    const std::string n = std::to_string(i);
    for (const auto &[to, from] : linksOf(n)) ::unlink((directory_ + from).c_str());
    for (const char *part : {"/planes/plane", "/crtcs/crtc", "/encoders/encoder", "/connectors/connector"})
      ::rmdir((directory_ + part + n).c_str());
  }
  ::rmdir(directory_.c_str());
}

Status VkmsInstance::setOutput(Output output, unsigned index) {
  return writeValue(directory_ + "/connectors/connector" + std::to_string(index) + "/status", statusOf(output));
}

} // namespace gstzc::lab
