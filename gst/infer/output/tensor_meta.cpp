// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/infer/output/tensor_meta.h"

#include <optional>
#include <string>

#include <gst/analytics/analytics.h>

#include "gst/zerocopy/tensor_keep.h"

namespace gstzc::infer {
namespace {

std::optional<GstTensorDataType> gstType(TensorType type) {
  switch (type) {
  case TensorType::Float32: return GST_TENSOR_DATA_TYPE_FLOAT32;
  case TensorType::Float16: return GST_TENSOR_DATA_TYPE_FLOAT16;
  case TensorType::UInt8: return GST_TENSOR_DATA_TYPE_UINT8;
  case TensorType::Int8: return GST_TENSOR_DATA_TYPE_INT8;
  case TensorType::Int32: return GST_TENSOR_DATA_TYPE_INT32;
  case TensorType::Int64: return GST_TENSOR_DATA_TYPE_INT64;
  case TensorType::Other: break;
  }
  return {};
}

Error refused(const TensorInfo &info, const std::string &why) {
  return {"output " + info.describe() + " cannot be attached to the frame: " + why, 0,
          "Set output=relation-meta, or use a model whose outputs other elements understand"};
}

Status check(const Outputs &outputs, const std::vector<TensorInfo> &infos, std::span<const BufferRef> on_device) {
  if (outputs.tensors.size() != infos.size())
    return Error{"the model has " + std::to_string(infos.size()) + " outputs and gave " +
                     std::to_string(outputs.tensors.size()),
                 0, ""};
  if (!on_device.empty() && on_device.size() != infos.size())
    return Error{"the device shares " + std::to_string(on_device.size()) + " of " + std::to_string(infos.size()) +
                     " outputs",
                 0, ""};
  for (size_t i = 0; i < infos.size(); ++i) {
    const TensorView &view = outputs.tensors[i];
    if (!gstType(view.type)) return refused(infos[i], "GStreamer has no such type");
    if (view.space != MemorySpace::Host && on_device.empty()) return refused(infos[i], "it is in the device's memory");
    const auto bytes = tensorBytes(view.type, view.dims);
    if (!bytes || *bytes != view.bytes || (view.data == nullptr && view.bytes > 0))
      return refused(infos[i], std::to_string(view.bytes) + " bytes are not of its shape");
  }
  return Nothing{};
}

using Owner = std::shared_ptr<void>;

GstBuffer *wrap(const TensorView &view, const Owner &owner) {
  GstBuffer *buffer = gst_buffer_new();
  if (view.bytes == 0) return buffer; // there is no memory of nothing
  gst_buffer_append_memory(buffer, gst_memory_new_wrapped(GST_MEMORY_FLAG_READONLY, view.data, view.bytes, 0,
                                                          view.bytes, new Owner(owner),
                                                          [](gpointer held) { delete static_cast<Owner *>(held); }));
  return buffer;
}

// Takes `data`.
GstTensor *makeTensor(const TensorView &view, const TensorInfo &info, const TensorTag &tag, GstBuffer *data) {
  GstTensor *tensor = gst_tensor_alloc(view.dims.size());
  tensor->id = g_quark_from_string((tag.id.empty() ? info.name : tag.id).c_str());
  tensor->layout = GST_TENSOR_LAYOUT_CONTIGUOUS;
  tensor->data_type = *gstType(view.type);
  tensor->data = data;
  tensor->dims_order = tag.column_major ? GST_TENSOR_DIM_ORDER_COL_MAJOR : GST_TENSOR_DIM_ORDER_ROW_MAJOR;
  tensor->num_dims = view.dims.size();
  for (size_t d = 0; d < view.dims.size(); ++d) tensor->dims[d] = static_cast<gsize>(view.dims[d]);
  return tensor;
}

} // namespace

Status attachTensors(GstBuffer *buffer, const Outputs &outputs, const std::vector<TensorInfo> &infos,
                     const std::vector<TensorTag> &tags, std::span<const BufferRef> on_device) {
  if (auto fits = check(outputs, infos, on_device); !fits) return fits;
  const TensorTag none;
  GstTensor **list = g_new0(GstTensor *, infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    GstBuffer *data = on_device.empty() ? wrap(outputs.tensors[i], outputs.owner) : gst_buffer_ref(on_device[i].get());
    list[i] = makeTensor(outputs.tensors[i], infos[i], i < tags.size() ? tags[i] : none, data);
  }
  // Not gst_buffer_add_tensor_meta(): before 1.26.6 it gives the meta of the model before us, and decoders look for
  // one that has precisely their tensors.
  auto *meta = reinterpret_cast<GstTensorMeta *>(gst_buffer_add_meta(buffer, GST_TENSOR_META_INFO, nullptr));
  gst_tensor_meta_set(meta, static_cast<guint>(infos.size()), list);
  keepTensorsOnCopies(buffer);
  return Nothing{};
}

} // namespace gstzc::infer
