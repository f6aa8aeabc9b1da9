// SPDX-License-Identifier: LGPL-2.1-or-later
// Errors of the core for callers of the public C functions.
#pragma once

#include <cerrno>

#include <gst/gst.h>

#include "gst/zerocopy/core/result.h"

namespace gstzc {

// GST_RESOURCE_ERROR with the code that the errno stands for, FAILED where it stands for none.
inline void setGError(GError **error, const Error &cause) {
  GstResourceError code = GST_RESOURCE_ERROR_FAILED;
  switch (cause.code) {
  case EBADF:
  case EINVAL:
  case EPERM: code = GST_RESOURCE_ERROR_SETTINGS; break;
  case EBUSY:
  case ETIMEDOUT: code = GST_RESOURCE_ERROR_BUSY; break;
  case EMFILE:
  case ENFILE:
  case ENOMEM: code = GST_RESOURCE_ERROR_NO_SPACE_LEFT; break;
  default: break;
  }
  g_set_error_literal(error, GST_RESOURCE_ERROR, code, cause.message().c_str());
}

} // namespace gstzc
