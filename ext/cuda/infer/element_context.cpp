// SPDX-License-Identifier: LGPL-2.1-or-later
// Which CUDA context an element that is no element of CUDA works in.
#include <cerrno>
#include <memory>
#include <string>

#include <gst/cuda/gstcuda.h>

#include "ext/cuda/infer/cuda_tensor_device.h"
#include "ext/cuda/memory/import_memory.h"

namespace gstzc::cuda {
namespace {

struct Unref {
  void operator()(gpointer object) const { gst_object_unref(object); }
};
using CudaContextRef = std::unique_ptr<GstCudaContext, Unref>;

// Null: it is none of CUDA's, or has none in it. Takes it.
CudaContextRef contextIn(GstElement *element, GstContext *context) {
  GstCudaContext *found = nullptr;
  if (context == nullptr) return nullptr;
  gst_cuda_handle_set_context(element, context, -1, &found);
  gst_context_unref(context);
  return CudaContextRef(found);
}

// What was given to the element, by its bin or by the application.
CudaContextRef given(GstElement *element) {
  return contextIn(element, gst_element_get_context(element, GST_CUDA_CONTEXT_TYPE));
}

// What elements beyond one of the pads have.
CudaContextRef askPad(GstElement *element, GstPad *pad) {
  GstQuery *query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
  GstContext *context = nullptr;
  if (gst_pad_peer_query(pad, query)) gst_query_parse_context(query, &context);
  CudaContextRef found = contextIn(element, context != nullptr ? gst_context_ref(context) : nullptr);
  gst_query_unref(query);
  return found;
}

CudaContextRef askNeighbours(GstElement *element) {
  for (const char *name : {"src", "sink"}) { // downstream decides, as with gst-cuda's own elements
    GstPad *pad = gst_element_get_static_pad(element, name);
    if (pad == nullptr) continue;
    CudaContextRef found = askPad(element, pad);
    gst_object_unref(pad);
    if (found != nullptr) return found;
  }
  return nullptr;
}

// The device's primary context: the one of CUDA's runtime, so that an inference library reads what is in it. Null where
// the driver has none for us.
CudaContextRef primaryContext(const Driver &driver) {
  CUdevice device = 0;
  CUcontext handle = nullptr;
  if (driver.cuDevicePrimaryCtxRetain == nullptr || driver.cuDevicePrimaryCtxRelease == nullptr) return nullptr;
  if (driver.cuDeviceGet(&device, 0) != CUDA_SUCCESS) return nullptr;
  if (driver.cuDevicePrimaryCtxRetain(&handle, device) != CUDA_SUCCESS) return nullptr;
  GstCudaContext *made = gst_cuda_context_new_wrapped(handle, device); // does not own it
  if (made == nullptr) {
    driver.cuDevicePrimaryCtxRelease(device);
    return nullptr;
  }
  struct Retained {
    const Driver &driver;
    CUdevice device;
  };
  g_object_set_data_full(G_OBJECT(made), "gstzc-primary-context", new Retained{driver, device}, [](gpointer data) {
    const auto *retained = static_cast<Retained *>(data);
    retained->driver.cuDevicePrimaryCtxRelease(retained->device);
    delete retained;
  });
  return CudaContextRef(made);
}

CudaContextRef newContext(GstElement *element, const Driver &driver) {
  CudaContextRef made = primaryContext(driver);
  if (made == nullptr) made.reset(gst_cuda_context_new(0));
  if (made == nullptr) return nullptr;
  GstContext *context = gst_context_new_cuda_context(made.get());
  gst_element_set_context(element, context);
  gst_element_post_message(element, gst_message_new_have_context(GST_OBJECT(element), context));
  return made;
}

} // namespace

Result<std::shared_ptr<infer::TensorDevice>> cudaTensorDeviceFor(GstElement *element) {
  auto driver = Driver::get();
  if (!driver) return driver.error();
  if (!gst_cuda_load_library())
    return Error{"libgstcuda cannot use the CUDA driver", ENODEV, "GST_DEBUG=cudaloader:5 says what is missing"};
  CudaContextRef context = given(element);
  if (context == nullptr) context = askNeighbours(element);
  if (context == nullptr) {
    gst_element_post_message(element, gst_message_new_need_context(GST_OBJECT(element), GST_CUDA_CONTEXT_TYPE));
    context = given(element); // a bin or the application answers before that returns
  }
  if (context == nullptr) context = newContext(element, **driver);
  if (context == nullptr)
    return Error{"a CUDA context on device 0", ENODEV, "Is there a CUDA device? nvidia-smi lists them"};
  ContextPtr ours = contextOf(context.get());
  if (ours == nullptr) return Error{"the CUDA context of the pipeline has no driver", ENODEV, ""};
  return makeCudaTensorDevice(std::move(ours), allRoutes, context.get());
}

} // namespace gstzc::cuda
