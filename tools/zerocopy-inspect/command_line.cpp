// SPDX-License-Identifier: LGPL-2.1-or-later
#include "command_line.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include <glib.h>

#include "gstzc-config.h"

namespace gstzc::inspect {
namespace {

constexpr OptionInfo kHelp = {"help", 'h', nullptr, "This help"};
constexpr OptionInfo kProfile = {
    "profile", 'p', "FILE",
    "The display that FILE describes (a profile or the output of drm_info -j), not this machine's"};
constexpr OptionInfo kDevice = {
    "device", 'd', "NODE", "Card node, e.g. /dev/dri/card1; with --profile: the device to take from drm_info's output"};
constexpr OptionInfo kConnector = {"connector", 'c', "NAME", "Output by name or id, e.g. HDMI-A-1"};
constexpr OptionInfo kJson = {"json", 'j', nullptr, "Write JSON"};
constexpr OptionInfo kTimeout = {"timeout", 't', "SECONDS", "Give up after so long without a frame (default 10)"};

using StringPointer = std::unique_ptr<gchar, decltype(&g_free)>;

const CommandInfo *findCommand(const std::string &name) {
  for (const CommandInfo &c : commands())
    if (name == c.name) return &c;
  return nullptr;
}

std::string commandNames() {
  std::string names;
  for (const CommandInfo &c : commands()) names += (names.empty() ? "" : ", ") + std::string(c.name);
  return names;
}

// GOption's view of a command: entries that point to places of their own.
class Parser {
public:
  explicit Parser(const CommandInfo &command) {
    context_ = g_option_context_new(command.arguments);
    const std::string summary = command.summary;
    g_option_context_set_summary(context_, summary.c_str());
    g_option_context_set_help_enabled(context_, FALSE); // it would print and exit
    for (const OptionInfo &o : command.options) {
      GOptionEntry entry = {};
      entry.long_name = o.name;
      entry.short_name = o.letter;
      entry.description = o.help;
      entry.arg_description = o.argument;
      entry.arg = o.argument != nullptr ? G_OPTION_ARG_STRING : G_OPTION_ARG_NONE;
      entry.arg_data = o.argument != nullptr ? static_cast<gpointer>(&texts_[o.name]) : &switches_[o.name];
      entries_.push_back(entry);
    }
    entries_.push_back({});
    g_option_context_add_main_entries(context_, entries_.data(), nullptr);
  }
  ~Parser() {
    g_option_context_free(context_);
    for (auto &[name, text] : texts_) g_free(text);
  }
  Parser(const Parser &) = delete;
  Parser &operator=(const Parser &) = delete;

  Result<std::vector<std::string>> parse(const std::vector<std::string> &args, const CommandInfo &command) {
    gchar **argv = g_new0(gchar *, args.size() + 2);
    argv[0] = g_strdup("zerocopy-inspect");
    for (size_t i = 0; i < args.size(); ++i) argv[i + 1] = g_strdup(args[i].c_str());
    GError *error = nullptr;
    const bool ok = g_option_context_parse_strv(context_, &argv, &error);
    std::vector<std::string> rest;
    for (gchar **a = argv + 1; ok && *a != nullptr; ++a)
      if (rest.size() > 0 || std::string(*a) != "--") rest.emplace_back(*a);
    g_strfreev(argv);
    if (ok) return rest;
    const std::string what = error->message;
    g_error_free(error);
    return Error{std::string(command.name) + ": " + what, 0,
                 "See zerocopy-inspect " + std::string(command.name) + " --help"};
  }

  std::string text(const char *name) const {
    const auto it = texts_.find(name);
    return it == texts_.end() || it->second == nullptr ? "" : it->second;
  }
  bool given(const char *name) const {
    const auto it = texts_.find(name);
    return it != texts_.end() && it->second != nullptr;
  }
  bool on(const char *name) const {
    const auto it = switches_.find(name);
    return it != switches_.end() && it->second;
  }
  std::string help() const {
    // the program's name is that of the process, which may be a test
    const StringPointer name(g_strdup(g_get_prgname()), g_free);
    g_set_prgname("zerocopy-inspect");
    const StringPointer text(g_option_context_get_help(context_, TRUE, nullptr), g_free);
    g_set_prgname(name.get());
    return text.get();
  }

private:
  GOptionContext *context_;
  std::map<std::string, gchar *> texts_;
  std::map<std::string, gboolean> switches_;
  std::vector<GOptionEntry> entries_;
};

Result<unsigned> parseTimeout(const std::string &text) {
  unsigned seconds = 0;
  char rest = 0;
  if (text.find_first_not_of("0123456789") != std::string::npos ||
      std::sscanf(text.c_str(), "%9u%c", &seconds, &rest) != 1 || seconds == 0 || seconds > kTimeoutMax)
    return Error{"--timeout=" + text + " is no number of seconds from 1 to " + std::to_string(kTimeoutMax), 0,
                 "For example --timeout=30"};
  return seconds;
}

Result<Size> parseTarget(const std::string &text) {
  Size size;
  char rest = 0;
  if (text.find_first_not_of("0123456789x") != std::string::npos ||
      std::sscanf(text.c_str(), "%5dx%5d%c", &size.width, &size.height, &rest) != 2 || size.width < 1 ||
      size.height < 1)
    return Error{"--target=" + text + " is no size", 0, "Write WIDTHxHEIGHT in pixels, for example --target=1920x1080"};
  return size;
}

} // namespace

const std::vector<CommandInfo> &commands() {
  static const std::vector<CommandInfo> all = {
      {"caps",
       "",
       "What a display takes: planes, formats and layouts in order of preference, and the caps.",
       0,
       0,
       "",
       {kProfile, kDevice, kConnector, kJson, kHelp}},
      {"explain",
       "'CAPS'",
       "Which plane would show frames of these caps, or why none does, step by step.",
       1,
       1,
       "give the caps of a frame, for example 'video/x-raw(memory:DMABuf),format=DMA_DRM,drm-format=NV12,"
       "width=1920,height=1080'",
       {kProfile,
        kDevice,
        kConnector,
        {"target", 0, "WIDTHxHEIGHT", "Size on the display in pixels (default: the frame's own)"},
        kJson,
        kHelp}},
      {"negotiate",
       "'FRAGMENT'",
       "Negotiates between a launch fragment and a display: each link's answers, and where it fails.",
       1,
       1,
       "give a launch fragment that ends before the sink, for example 'videotestsrc ! videoconvert'",
       {kProfile, kDevice, kConnector, kTimeout, kJson, kHelp}},
      {"compare",
       "FILE1 FILE2",
       "What two displays take differently; fails if the second lacks something of the first.",
       2,
       2,
       "give two profiles",
       {kConnector, kJson, kHelp}},
      {"record",
       "",
       "Writes the profile of a display, for --profile elsewhere.",
       0,
       0,
       "",
       {kProfile, kDevice, {"output", 'o', "FILE", "Write to FILE, not to standard output"}, kJson, kHelp}},
      {"matrix",
       "DIR 'FRAGMENT'…",
       "Negotiates each fragment with each profile in a folder: a table, a heat map.",
       2,
       64,
       "give a folder of profiles and one or more launch fragments",
       {kTimeout,
        {"svg", 0, "FILE", "Write a heat map as SVG too"},
        {"html", 0, "FILE", "Write a heat map as HTML page too"},
        kJson,
        kHelp}},
  };
  return all;
}

std::string helpText(const CommandInfo *command) {
  if (command != nullptr) return Parser(*command).help();
  std::string text = "Usage:\n  zerocopy-inspect COMMAND [OPTION…] [ARGUMENT…]\n\n"
                     "What a display takes, and whether a pipeline gets there without copies.\n\nCommands:\n";
  for (const CommandInfo &c : commands()) {
    std::string usage = "  " + std::string(c.name) + (*c.arguments != 0 ? " " : "") + c.arguments;
    usage.resize(std::max<size_t>(usage.size(), 27 + (usage.find("…") != std::string::npos ? 2 : 0)), ' ');
    text += usage + " " + c.summary + "\n";
  }
  text += "\nOptions:\n  -h, --help                  This help; after a command, its options\n"
          "  --version                   The version\n\n"
          "Exit status: 0 shown or possible, 1 impossible, 2 bad input.\n";
  return text;
}

Result<CommandLine> parseCommandLine(const std::vector<std::string> &args) {
  CommandLine result;
  if (args.empty()) return Error{"no command", 0, "There are " + commandNames() + "; see zerocopy-inspect --help"};
  const std::string &first = args.front();
  if (first == "--help" || first == "-h") {
    result.text = helpText(nullptr);
    return result;
  }
  if (first == "--version") {
    result.text = std::string("zerocopy-inspect ") + GSTZC_VERSION + "\n";
    return result;
  }
  if (first.starts_with("-") && first.size() > 1)
    return Error{"option " + first + " before the command", 0,
                 "Write the command first: zerocopy-inspect COMMAND " + first + " …; there are " + commandNames()};
  const CommandInfo *command = findCommand(first);
  if (command == nullptr) return Error{"no command \"" + first + "\"", 0, "There are " + commandNames()};

  Parser parser(*command);
  auto rest = parser.parse({args.begin() + 1, args.end()}, *command);
  if (!rest) return rest.error();
  if (parser.on("help")) {
    result.text = parser.help();
    return result;
  }
  result.command = command;
  result.arguments = rest.take();
  if (result.arguments.size() < command->min_arguments)
    return Error{std::string(command->name) + ": " +
                     (result.arguments.empty() ? "nothing to work on" : "an argument is missing"),
                 0, std::string(1, static_cast<char>(g_ascii_toupper(*command->missing))) + (command->missing + 1)};
  if (result.arguments.size() > command->max_arguments)
    return Error{
        std::string(command->name) + ": \"" + result.arguments[command->max_arguments] + "\" is one too many", 0,
        command->max_arguments == 0
            ? "It takes options only"
            : "Put quotes around what belongs together: " + std::string(command->name) + " " + command->arguments};
  for (const char *name : {"profile", "device", "connector", "output", "svg", "html"})
    if (parser.given(name) && parser.text(name).empty())
      return Error{std::string(command->name) + ": --" + name + " is empty", 0,
                   "Give it a value, or leave the option away"};
  result.profile = parser.text("profile");
  result.device = parser.text("device");
  result.connector = parser.text("connector");
  result.output = parser.text("output");
  result.svg = parser.text("svg");
  result.html = parser.text("html");
  result.json = parser.on("json");
  if (parser.given("timeout")) {
    auto seconds = parseTimeout(parser.text("timeout"));
    if (!seconds) return seconds.error();
    result.timeout = *seconds;
  }
  if (parser.given("target")) {
    auto size = parseTarget(parser.text("target"));
    if (!size) return size.error();
    result.target = *size;
  }
  return result;
}

} // namespace gstzc::inspect
