// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include <glib.h>

namespace gstzc::test {

// While it lives, GLib's criticals are counted instead of ending the process: what a misuse of an API is answered with.
class Criticals {
public:
  Criticals()
      : fatal_(g_log_set_always_fatal(static_cast<GLogLevelFlags>(G_LOG_FATAL_MASK))),
        handler_(g_log_set_default_handler(&Criticals::log, this)) {}
  ~Criticals() {
    g_log_set_default_handler(handler_, nullptr);
    g_log_set_always_fatal(fatal_);
  }
  Criticals(const Criticals &) = delete;
  Criticals &operator=(const Criticals &) = delete;

  int count() const { return count_; }
  const std::string &last() const { return last_; }

private:
  static void log(const gchar *domain, GLogLevelFlags level, const gchar *message, gpointer data) {
    auto *self = static_cast<Criticals *>(data);
    if ((level & G_LOG_LEVEL_CRITICAL) == 0) return g_log_default_handler(domain, level, message, nullptr);
    ++self->count_;
    self->last_ = message;
  }

  GLogLevelFlags fatal_;
  GLogFunc handler_;
  int count_ = 0;
  std::string last_;
};

} // namespace gstzc::test
