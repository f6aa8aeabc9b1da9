// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/cuda/routes/device_fixture.h"

const char *const gstzc::cuda::test::kProfile = "dgpu";
