// SPDX-License-Identifier: LGPL-2.1-or-later
// The controls of the stand-in for libcuda (tests/softcuda/softcuda.h), where the library that is loaded has them: the
// same tests run on a real driver.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <dlfcn.h>

namespace gstzc::test {

class SoftCuda {
public:
  static const SoftCuda &get() {
    static const SoftCuda control;
    return control;
  }
  bool there() const { return fail_ != nullptr; }

  void fail(const char *function, unsigned nth, int error) const {
    if (fail_ != nullptr) fail_(function, nth, error);
  }
  void failOnDevice(const char *function, unsigned nth, int error) const {
    if (fail_on_device_ != nullptr) fail_on_device_(function, nth, error);
  }
  void setDelay(unsigned microseconds) const {
    if (set_delay_ != nullptr) set_delay_(microseconds);
  }
  uint64_t calls(const char *function) const { return calls_ != nullptr ? calls_(function) : 0; }
  std::vector<std::string> callNames() const {
    std::vector<std::string> names;
    std::istringstream lines(call_names_ != nullptr ? call_names_() : "");
    for (std::string line; std::getline(lines, line);) names.push_back(line);
    return names;
  }
  uint64_t live(const char *kind = nullptr) const { return live_ != nullptr ? live_(kind) : 0; }
  std::string liveList() const { return live_list_ != nullptr ? live_list_() : ""; }
  uint64_t misuses() const { return misuses_ != nullptr ? misuses_() : 0; }
  std::string misuseList() const { return misuse_list_ != nullptr ? misuse_list_() : ""; }
  void loseDevice(int device, int error) const {
    if (device_lost_ != nullptr) device_lost_(device, error);
  }
  // "register:2M,egl:2M": imports that succeed and are wrong from there on; null: as the environment says
  void setImportFault(const char *what) const {
    if (set_import_fault_ != nullptr) set_import_fault_(what);
  }
  void setProfile(const char *key) const { // null: as the environment says
    if (set_profile_ != nullptr) set_profile_(key);
  }
  void reset() const {
    if (reset_ != nullptr) reset_();
  }

private:
  SoftCuda() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return;
    const auto look = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    look(fail_, "softcuda_fail");
    look(fail_on_device_, "softcuda_fail_on_device");
    look(set_delay_, "softcuda_set_delay_us");
    look(calls_, "softcuda_calls");
    look(call_names_, "softcuda_call_names");
    look(live_, "softcuda_live");
    look(live_list_, "softcuda_live_list");
    look(misuses_, "softcuda_misuses");
    look(misuse_list_, "softcuda_misuse_list");
    look(device_lost_, "softcuda_device_lost");
    look(set_import_fault_, "softcuda_set_import_fault");
    look(set_profile_, "softcuda_set_profile");
    look(reset_, "softcuda_reset");
  }

  void (*fail_)(const char *, unsigned, int) = nullptr;
  void (*fail_on_device_)(const char *, unsigned, int) = nullptr;
  void (*set_delay_)(unsigned) = nullptr;
  uint64_t (*calls_)(const char *) = nullptr;
  const char *(*call_names_)() = nullptr;
  uint64_t (*live_)(const char *) = nullptr;
  const char *(*live_list_)() = nullptr;
  uint64_t (*misuses_)() = nullptr;
  const char *(*misuse_list_)() = nullptr;
  void (*device_lost_)(int, int) = nullptr;
  void (*set_import_fault_)(const char *) = nullptr;
  void (*set_profile_)(const char *) = nullptr;
  void (*reset_)() = nullptr;
};

} // namespace gstzc::test
