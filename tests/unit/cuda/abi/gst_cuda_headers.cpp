// SPDX-License-Identifier: LGPL-2.1-or-later
// The headers of gst-cuda compile with our cuda.h and cudaGL.h, and mean the same types.
#include <gst/cuda/cuda-gst.h>
#include <gst/cuda/gstcuda.h>
#include <gst/cuda/gstcudabufferpool.h>
#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/cuda/gstcudamemorypool.h>
#include <gst/cuda/gstcudanvrtc.h>
#include <gst/cuda/gstcudastream.h>
#include <gst/cuda/gstcudautils.h>

#include <type_traits>

static_assert(std::is_same_v<decltype(CuMemcpy2DAsync), decltype(cuMemcpy2DAsync_v2)>);
static_assert(std::is_same_v<decltype(CuEventRecord), decltype(cuEventRecord)>);
static_assert(std::is_same_v<decltype(CuImportExternalMemory), decltype(cuImportExternalMemory)>);
static_assert(std::is_same_v<decltype(CuLaunchKernel), decltype(cuLaunchKernel)>);
