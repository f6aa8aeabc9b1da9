/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Visibility of the public functions: the library's other symbols are hidden. Plain C. */
#pragma once

#define GSTZC_API __attribute__((visibility("default")))
