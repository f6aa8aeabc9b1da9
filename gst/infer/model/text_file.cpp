// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/text_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib.h>

#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::infer {

Result<std::string> readTextFile(const std::string &what, const std::string &path, size_t limit) {
  const std::string named = what + " " + path;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a FIFO must not block here
  if (!fd.isValid()) return Error{named, errno, "Name a readable text file"};
  struct stat st = {};
  if (fstat(fd.get(), &st) != 0) return Error{named, errno, "Name a readable text file"};
  if (!S_ISREG(st.st_mode)) return Error{named + " is no regular file", 0, "Name a text file"};

  std::string text;
  char block[16384];
  for (;;) {
    const ssize_t got = read(fd.get(), block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error{named, errno, "Name a readable text file"};
    if (got == 0) break;
    text.append(block, static_cast<size_t>(got));
    if (text.size() > limit)
      return Error{named + " is longer than " + std::to_string(limit) + " bytes", 0,
                   "It is hardly the file that was meant"};
  }

  const gchar *bad = nullptr; // g_utf8_validate() stops at null bytes too
  if (g_utf8_validate(text.data(), static_cast<gssize>(text.size()), &bad) == FALSE) {
    const auto line = 1 + std::count(static_cast<const char *>(text.data()), bad, '\n');
    return Error{named + " is no UTF-8 text: line " + std::to_string(line), 0,
                 "Name a text file, and save it as UTF-8"};
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

} // namespace gstzc::infer
