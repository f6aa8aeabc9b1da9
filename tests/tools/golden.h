// SPDX-License-Identifier: LGPL-2.1-or-later
// Outputs that are written down: golden/NAME. GSTZC_UPDATE_GOLDEN=1 writes them anew, to be looked at before they are
// committed.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace gstzc::test {

// TOOLS_TEST_DIR and TOOL_SOURCE_DIR come from meson.build.
inline std::string testFile(const std::string &name) { return std::string(TOOLS_TEST_DIR) + "/" + name; }
inline std::string toolFile(const std::string &name) { return std::string(TOOL_SOURCE_DIR) + "/" + name; }

inline std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The folders' names are those of the machine.
inline std::string withoutPaths(std::string text) {
  const std::string dir = TOOLS_TEST_DIR;
  for (size_t at; (at = text.find(dir)) != std::string::npos;) text.replace(at, dir.size(), "DIR");
  return text;
}

inline void expectGolden(const std::string &name, const std::string &text) {
  const std::string path = testFile("golden/" + name), now = withoutPaths(text);
  if (std::getenv("GSTZC_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << now;
    return;
  }
  EXPECT_EQ(now, readText(path)) << "golden/" << name << " differs; GSTZC_UPDATE_GOLDEN=1 writes it anew";
}

} // namespace gstzc::test
