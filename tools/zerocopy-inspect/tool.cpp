// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tool.h"

#include <cerrno>
#include <cstdio>
#include <map>

#include <fcntl.h>
#include <unistd.h>

#include "gst/zerocopy/core/unique_fd.h"

namespace gstzc::inspect {

Outcome runTool(const std::vector<std::string> &args) {
  const auto refused = [](const Error &error) {
    return Outcome{Exit::BadInput, "", "zerocopy-inspect: " + error.message() + "\n"};
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
  auto answer = functions.at(line->command->name)(*line);
  if (!answer) return refused(answer.error());
  return {answer->exit, std::move(answer->text), ""};
}

Status writeFile(const std::string &path, const std::string &text) {
  const std::string part = path + ".part"; // a reader never sees half a file
  const auto failed = [&](int code) {
    unlink(part.c_str());
    return Error{"write " + path, code, "Choose a folder that exists and may be written to"};
  };
  UniqueFd fd(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.isValid()) return failed(errno);
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(n < 0 ? errno : EIO);
    done += static_cast<size_t>(n);
  }
  if (rename(part.c_str(), path.c_str()) != 0) return failed(errno);
  return Nothing{};
}

} // namespace gstzc::inspect
