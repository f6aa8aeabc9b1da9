// SPDX-License-Identifier: LGPL-2.1-or-later
// The process's driver with counted calls, one of which fails on request: whatever library it is.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ext/cuda/driver/objects.h"

namespace gstzc::cuda::test {

// One at a time. Contexts made of it call the tap; it has to outlive them.
class DriverTap {
  struct State {
    std::mutex mutex;
    const Driver *real = nullptr;
    int fail_nth = 0;
    CUresult error = CUDA_SUCCESS;
    std::map<std::string, CUresult> fail_all;
    std::vector<std::string> calls;
    std::map<std::string, int> succeeded;
    State &operator=(const State &other) {
      real = other.real;
      fail_nth = other.fail_nth;
      fail_all = other.fail_all;
      calls = other.calls;
      succeeded = other.succeeded;
      return *this;
    }
  };
  static State &s() {
    static State state;
    return state;
  }
  template <typename F> static auto with(F &&f) {
    const std::lock_guard lock(s().mutex);
    return f(s());
  }

  static bool isText(std::string_view name) { return name == "cuGetErrorName" || name == "cuGetErrorString"; }
  static bool frees(std::string_view name) {
    for (const char *part : {"Free", "Destroy", "Unregister", "PopCurrent", "Unload"})
      if (name.find(part) != std::string_view::npos) return true;
    return false;
  }

  template <auto Member, typename F> struct Call;
  template <auto Member, typename... A> struct Call<Member, CUresult (*)(A...)> {
    static inline const char *name = "";
    static CUresult at(A... arguments) {
      if (isText(name)) return (s().real->*Member)(arguments...);
      const CUresult fail = with([&](State &state) {
        state.calls.push_back(name);
        if (const auto it = state.fail_all.find(name); it != state.fail_all.end()) return it->second;
        return state.fail_nth > 0 && --state.fail_nth == 0 ? state.error : CUDA_SUCCESS;
      });
      if (fail != CUDA_SUCCESS && !frees(name)) return fail;
      const CUresult result = (s().real->*Member)(arguments...);
      if (result == CUDA_SUCCESS) with([&](State &state) { ++state.succeeded[name]; });
      return fail != CUDA_SUCCESS ? fail : result;
    }
  };

public:
  explicit DriverTap(const Driver &real) : tapped(real) {
    s() = State{};
    s().real = &real;
#define GSTZC_TAP(member, symbol)                                                                \
  if (real.member != nullptr) tapped.member = &Call<&Driver::member, decltype(real.member)>::at; \
  Call<&Driver::member, decltype(real.member)>::name = #member;
    GSTZC_CUDA_REQUIRED(GSTZC_TAP)
    GSTZC_CUDA_OPTIONAL(GSTZC_TAP)
#undef GSTZC_TAP
  }

  // The nth call from now on (1: the next) of all that can fail, or each call of a function, returns `error`. Functions
  // that free something free it nevertheless, as a driver does that reports an earlier failure.
  void failNth(int nth, CUresult error) {
    with([&](State &s) { s.calls.clear(), s.fail_nth = nth, s.error = error; });
  }
  void failAll(const std::string &name, CUresult error) {
    with([&](State &s) { s.fail_all[name] = error; });
  }
  void stopFailing() {
    with([](State &s) {
      s.fail_nth = 0;
      s.fail_all.clear();
    });
  }

  std::vector<std::string> calls() const {
    return with([](State &s) { return s.calls; });
  } // that can fail
  int succeeded(const std::string &name) const {
    return with([&](State &s) { return s.succeeded[name]; });
  }

  // What was made and not freed, by kind.
  std::map<std::string, int> left() const {
    static const std::map<std::string, std::pair<std::vector<std::string>, std::string>> kinds = {
        {"device memory", {{"cuMemAlloc", "cuMemAllocPitch", "cuExternalMemoryGetMappedBuffer"}, "cuMemFree"}},
        {"pinned memory", {{"cuMemHostAlloc"}, "cuMemFreeHost"}},
        {"registration", {{"cuMemHostRegister"}, "cuMemHostUnregister"}},
        {"external memory", {{"cuImportExternalMemory"}, "cuDestroyExternalMemory"}},
        {"stream", {{"cuStreamCreate"}, "cuStreamDestroy"}},
        {"event", {{"cuEventCreate"}, "cuEventDestroy"}},
        {"current context", {{"cuCtxPushCurrent"}, "cuCtxPopCurrent"}},
    };
    std::map<std::string, int> result;
    for (const auto &[kind, functions] : kinds) {
      int n = -succeeded(functions.second);
      for (const std::string &maker : functions.first) n += succeeded(maker);
      if (n != 0) result[kind] = n;
    }
    return result;
  }

  Driver tapped;
};

} // namespace gstzc::cuda::test
