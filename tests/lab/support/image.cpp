// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/lab/support/image.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <png.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "gst/zerocopy/core/unique_fd.h"

extern char **environ;

namespace gstzc::lab {

namespace {
constexpr int kScreendumpLimitMs = 40000; // the command itself gives up after 30 s

// Runs a command to its end; its exit status, or an error when it cannot be started or takes too long.
Result<int> runWithin(std::vector<std::string> command, int limitMs) {
  std::vector<char *> argv;
  for (std::string &word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (int rc = posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ))
    return Error{"start " + command[0], rc, ""};
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended = {process.get(), POLLIN, 0};
  const bool inTime = poll(&ended, 1, limitMs) == 1;
  if (!inTime) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  if (!inTime) return Error{command[0] + " did not end within " + std::to_string(limitMs) + " ms", ETIMEDOUT, ""};
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
} // namespace

int distance(uint32_t a, uint32_t b) {
  int largest = 0;
  for (int shift : {0, 8, 16})
    largest =
        std::max(largest, std::abs(static_cast<int>((a >> shift) & 0xff) - static_cast<int>((b >> shift) & 0xff)));
  return largest;
}

Status writePng(const Image &image, const std::string &path) {
  std::vector<uint8_t> bytes;
  bytes.reserve(image.pixels.size() * 3);
  for (uint32_t pixel : image.pixels)
    for (int shift : {16, 8, 0}) bytes.push_back(static_cast<uint8_t>(pixel >> shift));
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = image.width;
  png.height = image.height;
  png.format = PNG_FORMAT_RGB;
  if (!png_image_write_to_file(&png, path.c_str(), 0, bytes.data(), static_cast<png_int_32>(image.width * 3), nullptr))
    return Error{"write " + path + ": " + png.message, 0, ""};
  return Nothing{};
}

Result<Image> readPpm(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{"open " + path, errno, ""};
  std::string magic;
  Image image;
  uint32_t maximum = 0;
  file >> magic >> image.width >> image.height >> maximum;
  file.get(); // the one white space character before the pixels
  constexpr uint32_t kLargest = 16384;
  if (!file || magic != "P6" || maximum != 255 || image.width > kLargest || image.height > kLargest)
    return Error{path + " is no binary PPM of 8 bit components", EINVAL, ""};
  std::vector<char> bytes(size_t{image.width} * image.height * 3);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return Error{path + " is too short", EINVAL, ""};
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  for (size_t i = 0; i < bytes.size(); i += 3) image.pixels.push_back(byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2));
  return image;
}

Result<Image> screendump(const std::string &device) {
  char directory[] = "/tmp/screendump-XXXXXX";
  if (!mkdtemp(directory)) return Error{"make a directory in /tmp", errno, ""};
  const std::string path = std::string(directory) + "/picture.ppm";
  auto status = runWithin({"lab-screendump", device, path}, kScreendumpLimitMs);
  Result<Image> image =
      !status.ok()   ? Result<Image>(status.error())
      : *status != 0 ? Result<Image>(Error{"lab-screendump " + device + " failed (its message is in the log)", EIO, ""})
                     : readPpm(path);
  ::unlink(path.c_str());
  ::rmdir(directory);
  return image;
}

} // namespace gstzc::lab
