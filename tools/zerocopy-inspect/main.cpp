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
  const int status = gstzc::inspect::tell(outcome, stdout, stderr);
  return std::fclose(stdout) == 0 || status != 0 ? status : static_cast<int>(gstzc::inspect::Exit::BadInput);
}
