/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Kernels that run on the stand-in for libcuda.so.1: functions of the host in a library that needs nothing of it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct softcuda_launch {
  unsigned int grid[3], block[3], shared_bytes;
  /* Where the kernel finds [device, device + bytes); NULL unless it may use all of that. */
  void *(*pointer)(uint64_t device, size_t bytes);
} softcuda_launch;

/* Runs a whole launch. `parameters` point to copies made at the launch. A C++ exception is a device fault. */
typedef void (*softcuda_run)(const softcuda_launch *launch, void *const *parameters);

/* A library of kernels exports an array `softcuda_kernels` of these that ends with an entry whose name is NULL. It is
 * found through SOFTCUDA_KERNELS=a.so:b.so, or among the libraries that are loaded. */
typedef struct softcuda_kernel {
  const char *name; /* as cuModuleGetFunction has it */
  softcuda_run run;
  unsigned int n_parameters;
  const size_t *parameter_sizes;
} softcuda_kernel;

/* What a CUtexObject points to. */
typedef struct softcuda_texture {
  const unsigned char *data;
  size_t width, height, pitch;
  int format, channels; /* CUarray_format */
  int linear, normalized, as_integer;
  int address_mode[2]; /* CUaddress_mode */
  float border[4];
  int live; /* 0 after cuTexObjectDestroy */
} softcuda_texture;

#ifdef __cplusplus
}
#endif
