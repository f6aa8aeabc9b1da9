// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tool.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <glib.h>
#include <unistd.h>

#include "gst/drm/profile/device_profile.h"
#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::inspect {

namespace {

// What comes through a pipe once is read by several: it becomes a file for as long as the command runs.
class Spool {
public:
  ~Spool() {
    if (path_.empty()) return;
    unlink(path_.c_str());
    rmdir(dir_);
  }
  Spool() = default;
  Spool(const Spool &) = delete;
  Spool &operator=(const Spool &) = delete;

  // `profile`: what the user gave; "-" is standard input. Files stay what they are.
  Status take(std::string *profile) {
    struct stat st = {};
    const bool input = *profile == "-";
    if (!input && (profile->empty() || stat(profile->c_str(), &st) != 0 || !S_ISFIFO(st.st_mode))) return Nothing{};
    auto text = readProfileText(input ? "/dev/stdin" : *profile);
    if (!text) {
      Error error = text.error();
      if (const size_t at = error.what.find("/dev/stdin"); input && at != std::string::npos)
        error.what.replace(at, std::string("/dev/stdin").size(), "- (standard input)");
      return error;
    }
    if (mkdtemp(dir_) == nullptr) return Error{"make a folder for the profile that was read", errno, ""};
    path_ = std::string(dir_) + (input ? "/stdin" : "/pipe");
    if (auto written = writeFile(path_, *text); !written) return written.error();
    given_ = input ? "- (standard input)" : *profile;
    *profile = path_;
    return Nothing{};
  }
  // The user's name of it where a text has the file's.
  std::string withGivenName(std::string text) const {
    for (size_t at = 0; !path_.empty() && (at = text.find(path_, at)) != std::string::npos; at += given_.size())
      text.replace(at, path_.size(), given_);
    return text;
  }

private:
  char dir_[32] = "/tmp/zerocopy-inspect-XXXXXX";
  std::string path_, given_;
};

} // namespace

std::string printable(const std::string &text) {
  static const std::string kReplacement = "\xef\xbf\xbd"; // U+FFFD: as wide as what it stands for
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const gunichar c = g_utf8_get_char_validated(text.data() + i, static_cast<gssize>(text.size() - i));
    const bool valid = c != static_cast<gunichar>(-1) && c != static_cast<gunichar>(-2) && text[i] != '\0';
    const size_t bytes = valid ? static_cast<size_t>(g_unichar_to_utf8(c, nullptr)) : 1;
    const bool line = text[i] == '\n' || text[i] == '\t';
    if (valid && (line || !g_unichar_iscntrl(c)))
      result.append(text, i, bytes);
    else
      result += kReplacement;
    i += bytes;
  }
  return result;
}

Outcome runTool(const std::vector<std::string> &args) {
  Spool spool;
  const auto refused = [&](const Error &error) {
    std::string text = printable(spool.withGivenName(error.message()));
    std::replace(text.begin(), text.end(), '\n', ' '); // one line
    return Outcome{Exit::BadInput, "", "zerocopy-inspect: " + text + "\n"};
  };
  auto line = parseCommandLine(args);
  if (!line) return refused(line.error());
  if (line->command == nullptr) return {Exit::Shown, line->text, ""};
  if (!line->text.empty()) return {Exit::Shown, line->text, ""};
  static const std::map<std::string, Result<Answer> (*)(const CommandLine &)> functions = {
      {"caps", caps},
      {"explain", explainCaps},
      {"negotiate", negotiateFragment},
      {"compare", compareProfiles},
      {"record", recordProfile},
      {"matrix", matrix},
  };
  if (auto spooled = spool.take(&line->profile); !spooled) return refused(spooled.error());
  auto answer = functions.at(line->command->name)(*line);
  if (!answer) return refused(answer.error());
  // what profiles, caps and elements say reaches a terminal as text; JSON has escapes of its own
  const bool json = line->json || (answer->exit == Exit::Shown && line->command->name == std::string("record") &&
                                   line->output.empty());
  return {answer->exit, json ? std::move(answer->text) : printable(answer->text), ""};
}

namespace {

Error writeError(const std::string &what, int code) {
  return {"write " + what, code,
          code == ENOSPC ? "Make room, or write elsewhere" : "Choose a folder that exists and may be written to"};
}

// All of it, as far as the kernel says when the file is closed: 0 or an errno.
int writeAndClose(UniqueFd fd, const std::string &text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    done += static_cast<size_t>(n);
  }
  return close(fd.release()) == 0 ? 0 : errno;
}

} // namespace

Status writeFile(const std::string &path, const std::string &text) {
  struct stat st = {};
  const bool exists = stat(path.c_str(), &st) == 0;
  if (exists && !S_ISREG(st.st_mode)) { // a device or a pipe is written to, and not replaced
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const int code = fd.isValid() ? writeAndClose(std::move(fd), text) : errno;
    if (code != 0) return writeError(path, code);
    return Nothing{};
  }
  const std::string part = path + ".part"; // a reader never sees half a file
  UniqueFd fd(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.isValid()) return writeError(path, errno);
  int code = writeAndClose(std::move(fd), text);
  if (code == 0 && rename(part.c_str(), path.c_str()) != 0) code = errno;
  if (code == 0) return Nothing{};
  unlink(part.c_str());
  return writeError(path, code);
}

int tell(const Outcome &outcome, FILE *out, FILE *err) {
  errno = 0;
  bool written =
      std::fwrite(outcome.out.data(), 1, outcome.out.size(), out) == outcome.out.size() && std::fflush(out) == 0;
  int code = errno;
  if (std::fclose(out) != 0 && written && !outcome.out.empty()) {
    written = false;
    code = errno;
  }
  std::fwrite(outcome.err.data(), 1, outcome.err.size(), err);
  if (written) return static_cast<int>(outcome.exit);
  const Error error{"write standard output", code,
                    code == ENOSPC ? "Make room, or write elsewhere" : "Let it go to a terminal, a file or a pipe"};
  const std::string text = "zerocopy-inspect: " + error.message() + "\n";
  std::fwrite(text.data(), 1, text.size(), err);
  return static_cast<int>(Exit::BadInput);
}

} // namespace gstzc::inspect
