// SPDX-License-Identifier: LGPL-2.1-or-later
// A libgbm from before gbm_bo_create_with_modifiers2().
extern "C" {
void *gbm_create_device(int) { return nullptr; }
void gbm_device_destroy(void *) {}
const char *gbm_device_get_backend_name(void *) { return ""; }
}
