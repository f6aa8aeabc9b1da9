// SPDX-License-Identifier: LGPL-2.1-or-later
// Visibility of the libraries' symbols: hidden unless marked.
#pragma once

#define GSTZC_API __attribute__((visibility("default")))
