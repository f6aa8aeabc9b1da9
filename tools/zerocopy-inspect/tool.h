// SPDX-License-Identifier: LGPL-2.1-or-later
// The tool as a function, so that tests call it like a shell does.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "command_line.h"
#include "gst/zerocopy/core/result.h"

namespace gstzc::inspect {

enum class Exit { Shown = 0, Impossible = 1, BadInput = 2 };

// What a command has to say on stdout. An error is bad input.
struct Answer {
  Exit exit = Exit::Shown;
  std::string text;
};

Result<Answer> caps(const CommandLine &line);
Result<Answer> explainCaps(const CommandLine &line);
Result<Answer> negotiateFragment(const CommandLine &line);
Result<Answer> compareProfiles(const CommandLine &line);
Result<Answer> recordProfile(const CommandLine &line);
Result<Answer> matrix(const CommandLine &line);

struct Outcome {
  Exit exit = Exit::Shown;
  std::string out, err;
};

// `args` without the program's name. GStreamer is initialised.
Outcome runTool(const std::vector<std::string> &args);

// Control characters and what is no UTF-8 as U+FFFD, except ends of lines and tabs: nothing in it commands a terminal.
std::string printable(const std::string &text);

// Writes it, closes `out`, and returns the exit status: what does not get out is bad input, with one line on `err`.
int tell(const Outcome &outcome, FILE *out, FILE *err);

// Of a whole file, or the error with its name. What is there and no file (a device, a pipe) is written to.
Status writeFile(const std::string &path, const std::string &text);

} // namespace gstzc::inspect
