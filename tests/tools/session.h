// SPDX-License-Identifier: LGPL-2.1-or-later
// zerocopy-inspect as a shell calls it.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "golden.h"
#include "json.h"
#include "tool.h"

namespace gstzc::test {

using Words = std::vector<std::string>;

// What a shell would show, and the exit status.
inline std::string session(const Words &args) {
  std::string text = "$ zerocopy-inspect";
  for (const std::string &a : args) {
    const bool plain = !a.empty() && a.find_first_of(" ()!<>$&;'") == std::string::npos;
    text += plain ? " " + a : " '" + a + "'";
  }
  const inspect::Outcome outcome = inspect::runTool(args);
  EXPECT_TRUE(outcome.exit == inspect::Exit::BadInput || outcome.err.empty()) << outcome.err;
  return text + "\n" + outcome.out + outcome.err + "(status " + std::to_string(static_cast<int>(outcome.exit)) +
         ")\n\n";
}

// A failure of the tool: one line on stderr, nothing on stdout.
inline void expectRefused(const Words &args) {
  const inspect::Outcome outcome = inspect::runTool(args);
  EXPECT_EQ(outcome.exit, inspect::Exit::BadInput);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("zerocopy-inspect: ")) << outcome.err;
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
}

} // namespace gstzc::test
