// SPDX-License-Identifier: LGPL-2.1-or-later
// Imports that succeed and are wrong, as drivers exist.
#include <cstdlib>
#include <mutex>

#include "tests/softcuda/exchange/exchange.h"
#include "tests/softcuda/interop.h"
#include "tests/softcuda/softcuda.h"

namespace softcuda {
namespace {

struct Faults {
  std::mutex lock;
  std::string text = getenv("SOFTCUDA_IMPORT_FAULT") ? getenv("SOFTCUDA_IMPORT_FAULT") : "";
};
Faults &faults() {
  static Faults *const all = new Faults; // never destroyed: other libraries ask while the process ends
  return *all;
}

} // namespace

uint64_t importFault(const char *kind) {
  const std::lock_guard<std::mutex> guard(faults().lock);
  return parseImportFault(faults().text, kind);
}

} // namespace softcuda

extern "C" __attribute__((visibility("default"))) void softcuda_set_import_fault(const char *what) {
  const std::lock_guard<std::mutex> guard(softcuda::faults().lock);
  const char *const start = getenv("SOFTCUDA_IMPORT_FAULT");
  softcuda::faults().text = what ? what : start ? start : "";
}

extern "C" __attribute__((visibility("default"))) uint64_t softcuda_import_fault(const char *kind) {
  return softcuda::importFault(kind);
}
