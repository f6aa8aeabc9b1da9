// SPDX-License-Identifier: LGPL-2.1-or-later
#include "command_line.h"

#include <algorithm>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "golden.h"

namespace {

using namespace gstzc::inspect;
using namespace gstzc::test;
using Words = std::vector<std::string>;

CommandLine parsed(const Words &args) {
  auto line = parseCommandLine(args);
  EXPECT_TRUE(line) << line.error().message();
  return line ? line.take() : CommandLine{};
}

TEST(CommandLine, TakesOptionsBeforeAndAfterArguments) {
  const CommandLine line =
      parsed({"negotiate", "--profile=a.json", "videotestsrc ! identity", "-c", "DP-1", "--timeout", "7", "-j"});
  EXPECT_STREQ(line.command->name, "negotiate");
  EXPECT_EQ(line.arguments, Words{"videotestsrc ! identity"});
  EXPECT_EQ(line.profile, "a.json");
  EXPECT_EQ(line.connector, "DP-1");
  EXPECT_EQ(line.timeout, 7u);
  EXPECT_TRUE(line.json);
}

TEST(CommandLine, HasDefaults) {
  const CommandLine line = parsed({"caps"});
  EXPECT_EQ(line.profile + line.device + line.connector + line.output + line.svg + line.html, "");
  EXPECT_EQ(line.timeout, kTimeoutDefault);
  EXPECT_FALSE(line.json);
  EXPECT_EQ(line.target.width, 0);
}

TEST(CommandLine, TakesSeveralFragments) {
  const CommandLine line = parsed({"matrix", "dir", "a", "b", "--svg", "x.svg", "--html=x.html"});
  EXPECT_EQ(line.arguments, (Words{"dir", "a", "b"}));
  EXPECT_EQ(line.svg, "x.svg");
  EXPECT_EQ(line.html, "x.html");
}

TEST(CommandLine, DoubleDashEndsOptions) { EXPECT_EQ(parsed({"explain", "--", "--odd"}).arguments, Words{"--odd"}); }

TEST(CommandLine, ReadsSizes) {
  const CommandLine line = parsed({"explain", "video/x-raw", "--target=1280x720"});
  EXPECT_EQ(line.target.width, 1280);
  EXPECT_EQ(line.target.height, 720);
}

TEST(CommandLine, Golden) {
  const std::vector<Words> bad = {
      {},
      {"frobnicate"},
      {""},
      {"--json", "caps"},
      {"caps", "--frob"},
      {"caps", "extra"},
      {"caps", "--profile"},
      {"caps", "--profile="},
      {"explain"},
      {"explain", "video/x-raw", "format=NV12"},
      {"explain", "video/x-raw", "--target=1280"},
      {"explain", "video/x-raw", "--target=0x720"},
      {"explain", "video/x-raw", "--target=12x7x3"},
      {"negotiate"},
      {"negotiate", "videotestsrc", "--timeout=0"},
      {"negotiate", "videotestsrc", "--timeout=-3"},
      {"negotiate", "videotestsrc", "--timeout=soon"},
      {"negotiate", "videotestsrc", "--timeout=99999999999999"},
      {"compare", "a.json"},
      {"compare", "a.json", "b.json", "c.json"},
      {"record", "--svg=a.svg"},
      {"matrix", "dir"},
  };
  std::string text;
  for (const Words &args : bad) {
    text += "$ zerocopy-inspect";
    for (const std::string &a : args) text += a.empty() || a.find(' ') != std::string::npos ? " '" + a + "'" : " " + a;
    const auto line = parseCommandLine(args);
    ASSERT_FALSE(line) << text;
    const std::string message = line.error().message();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(line.error().remedy, "") << message;
    text += "\n" + message + "\n";
  }
  expectGolden("command-line-errors.txt", text);
}

TEST(Help, Golden) {
  std::string text = parsed({"--help"}).text;
  for (const CommandInfo &c : commands()) text += "\n" + parsed({c.name, "--help"}).text;
  expectGolden("help.txt", text);
}

TEST(Help, NeedsNoArguments) {
  for (const CommandInfo &c : commands()) {
    EXPECT_NE(parsed({c.name, "-h"}).text, "");
    EXPECT_EQ(parsed({c.name, "--help"}).text, parsed({c.name, "-h"}).text);
  }
  EXPECT_EQ(parsed({"--version"}).text.find("zerocopy-inspect "), 0u);
}

// ---- what else tells of the options has the same ones ----

std::set<std::string> longOptions(const std::string &text) {
  std::set<std::string> options;
  const std::regex option("--([a-z][a-z-]*)");
  for (std::sregex_iterator i(text.begin(), text.end(), option), end; i != end; ++i) options.insert((*i)[1]);
  return options;
}

std::set<std::string> optionsOf(const CommandInfo &command) {
  std::set<std::string> options;
  for (const OptionInfo &o : command.options) options.insert(o.name);
  return options;
}

std::string withoutBackslashes(std::string text) {
  std::erase(text, '\\');
  return text;
}

// Between a line that matches `begin` and one that matches `end`; empty where there is none.
std::string section(const std::string &text, const std::string &begin, const std::string &end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  const size_t body = text.find('\n', from + 1);
  size_t to = text.find(end, body);
  if (to == std::string::npos) to = text.size();
  return text.substr(body, to - body);
}

TEST(Drift, HelpListsTheTable) {
  for (const CommandInfo &c : commands()) {
    const std::string help = parsed({c.name, "--help"}).text;
    const std::string options = section(help, "Application Options:", "\n\n\n") + section(help, "Options:", "\n\n\n");
    EXPECT_EQ(longOptions(options), optionsOf(c)) << help;
  }
}

// One .SS a command; in it each option once, as "-p, --profile=FILE" in bold and italics.
TEST(Drift, ManPage) {
  const std::string page = readText(toolFile("zerocopy-inspect.1"));
  size_t sections = 0;
  for (size_t at = page.find("\n.SS "); at != std::string::npos; at = page.find("\n.SS ", at + 1)) ++sections;
  EXPECT_EQ(sections, commands().size());
  for (const CommandInfo &c : commands()) {
    std::string body = section(page, std::string("\n.SS ") + c.name, "\n.S");
    ASSERT_NE(body, "") << "the man page has no section " << c.name;
    std::set<std::string> tags;
    std::string heads;
    const std::regex tag("\n\\.TP\n([^\n]*)");
    for (std::sregex_iterator i(body.begin(), body.end(), tag), end; i != end; ++i)
      heads += withoutBackslashes((*i)[1]) + "\n";
    EXPECT_EQ(longOptions(heads), optionsOf(c)) << c.name;
    for (const OptionInfo &o : c.options) {
      std::string head = ".BR ";
      if (o.letter != 0) head += std::string("-") + o.letter + " \", \" ";
      head += std::string("--") + o.name + (o.argument != nullptr ? std::string(" =fI") + o.argument + "fR" : "");
      EXPECT_NE(heads.find(head + "\n"), std::string::npos) << c.name << ": \"" << head << "\" is not in\n" << heads;
    }
  }
  EXPECT_NE(page.find("\\-\\-version"), std::string::npos);
}

TEST(Drift, BashCompletion) {
  const std::string text = readText(toolFile("completion.bash"));
  std::string names;
  for (const CommandInfo &c : commands()) {
    names += std::string(c.name) + " ";
    std::string options;
    for (const OptionInfo &o : c.options) options += std::string(options.empty() ? "--" : " --") + o.name;
    EXPECT_NE(text.find("[" + std::string(c.name) + "]='" + options + "'"), std::string::npos) << c.name << options;
  }
  EXPECT_NE(text.find("\"" + names + "--help --version\""), std::string::npos) << names;
}

TEST(Drift, ZshCompletion) {
  const std::string text = readText(toolFile("completion.zsh"));
  std::set<std::string> shared; // variables, called like their option
  for (const CommandInfo &c : commands()) {
    EXPECT_NE(text.find("'" + std::string(c.name) + ":"), std::string::npos) << c.name;
    const size_t at = text.find("  " + std::string(c.name) + ") _arguments ");
    ASSERT_NE(at, std::string::npos) << c.name;
    const std::string line = text.substr(at, text.find('\n', at) - at);
    std::set<std::string> options = longOptions(line);
    const std::regex variable("\\$([a-z]+)");
    for (std::sregex_iterator i(line.begin(), line.end(), variable), end; i != end; ++i) {
      options.insert((*i)[1]);
      shared.insert((*i)[1]);
    }
    EXPECT_EQ(options, optionsOf(c)) << line;
  }
  for (const std::string &name : shared) {
    const size_t at = text.find("\n" + name + "=(");
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_TRUE(longOptions(text.substr(at, text.find('\n', at + 1) - at)).contains(name)) << name;
  }
}

} // namespace
