// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/offers.h"

#include <map>
#include <mutex>

namespace gstzc {
namespace {

struct Offers {
  std::mutex mutex;
  std::map<std::string, AnyFunction> functions;
};

Offers &offers() {
  static auto &all = *new Offers; // asked for until the process ends
  return all;
}

} // namespace

void offer(const std::string &name, AnyFunction function) {
  const std::lock_guard lock(offers().mutex);
  if (function != nullptr)
    offers().functions[name] = function;
  else
    offers().functions.erase(name);
}

AnyFunction offered(const std::string &name) {
  const std::lock_guard lock(offers().mutex);
  const auto found = offers().functions.find(name);
  return found != offers().functions.end() ? found->second : nullptr;
}

} // namespace gstzc
