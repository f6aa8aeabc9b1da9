// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/model/model_config.h"
