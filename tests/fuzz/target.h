// SPDX-License-Identifier: LGPL-2.1-or-later
// What a fuzz target is: a function of any bytes. libFuzzer calls it with inputs that it makes up, replay.cpp with the
// files of tests/fuzz/corpus. It must neither crash nor take long, and says with GSTZC_FUZZ_CHECK what else must not
// be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GSTZC_FUZZ_CHECK(condition)                                                \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)
