// SPDX-License-Identifier: LGPL-2.1-or-later
#include "ext/cuda/sync/behind.h"

#include <csignal>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>

namespace gstzc::cuda {

void callBehind(std::function<void()> work) {
  const auto shared = std::make_shared<std::function<void()>>(std::move(work));
  // signals are the application's: its handlers run on its threads
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  bool started = true;
  try {
    std::thread thread([shared] {
      (*shared)();
      *shared = nullptr; // what it holds goes here, too
    });
    pthread_setname_np(thread.native_handle(), "gstzc-behind");
    thread.detach();
  } catch (const std::system_error &) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) (*shared)();
}

} // namespace gstzc::cuda
