// SPDX-License-Identifier: LGPL-2.1-or-later
// Runs a fuzz target on files and on all files of folders: what fuzzing has found and what it began with stays tested,
// with any compiler. Status 1 where there was none.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/target.h"

namespace fs = std::filesystem;

int main(int argc, char **argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_directory(argv[i])) {
      for (const auto &entry : fs::recursive_directory_iterator(argv[i]))
        if (entry.is_regular_file()) files.push_back(entry.path());
    } else {
      files.emplace_back(argv[i]);
    }
  }
  std::sort(files.begin(), files.end());
  size_t n = 0;
  for (const fs::path &file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (!in) continue;
    std::fprintf(stderr, "%s\n", file.c_str()); // the last line before a crash says what it was
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
    ++n;
  }
  std::printf("%zu inputs\n", n);
  return n == 0 ? 1 : 0;
}
