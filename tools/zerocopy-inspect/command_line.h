// SPDX-License-Identifier: LGPL-2.1-or-later
// The tool's commands and options: one table, from which the parser and the help are made, and with which tests compare
// the man page and the shell completions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gst/zerocopy/core/result.h"

namespace gstzc::inspect {

struct OptionInfo {
  const char *name;     // without the dashes
  char letter;          // 0: none
  const char *argument; // "FILE"; null: a switch
  const char *help;
};

struct CommandInfo {
  const char *name;
  const char *arguments; // "'CAPS'", as in a usage line
  const char *summary;   // one line
  size_t min_arguments, max_arguments;
  const char *missing; // what to write where arguments are missing
  std::vector<OptionInfo> options;
};

const std::vector<CommandInfo> &commands();

constexpr unsigned kTimeoutDefault = 10; // s
constexpr unsigned kTimeoutMax = 600;    // s

struct Size {
  int width = 0, height = 0; // pixels; 0: not asked for
};

// What the user asked for.
struct CommandLine {
  const CommandInfo *command = nullptr; // null: only `text` is wanted
  std::string text;                     // help or version, for stdout
  std::vector<std::string> arguments;   // of the command
  std::string profile, device, connector, output, svg, html;
  Size target;
  bool json = false;
  unsigned timeout = kTimeoutDefault; // s
};

// `args` without the program's name. Errors name the word that is wrong and what could be there.
Result<CommandLine> parseCommandLine(const std::vector<std::string> &args);

// Of the tool (null) or of one command.
std::string helpText(const CommandInfo *command);

} // namespace gstzc::inspect
