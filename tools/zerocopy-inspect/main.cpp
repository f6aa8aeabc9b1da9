// SPDX-License-Identifier: LGPL-2.1-or-later
#include <clocale>
#include <cstdio>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "tool.h"

int main(int argc, char **argv) {
  std::setlocale(LC_CTYPE, "");
  gst_init(nullptr, nullptr);
  const auto outcome = gstzc::inspect::runTool(std::vector<std::string>(argv + 1, argv + argc));
  std::fwrite(outcome.out.data(), 1, outcome.out.size(), stdout);
  std::fwrite(outcome.err.data(), 1, outcome.err.size(), stderr);
  return static_cast<int>(outcome.exit);
}
