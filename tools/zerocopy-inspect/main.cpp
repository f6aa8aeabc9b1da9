// SPDX-License-Identifier: LGPL-2.1-or-later
#include <clocale>
#include <cstdio>
#include <string>
#include <vector>

#include <gst/gst.h>
#include <unistd.h>

#include "negotiation.h"
#include "tool.h"

int main(int argc, char **argv) {
  std::setlocale(LC_CTYPE, "");
  gst_init(nullptr, nullptr);
  const auto outcome = gstzc::inspect::runTool(std::vector<std::string>(argv + 1, argv + argc));
  const int status = gstzc::inspect::tell(outcome, stdout, stderr);
  // what still runs must not find its ground taken away
  if (gstzc::inspect::elementsHang()) _exit(status);
  return status;
}
