// SPDX-License-Identifier: LGPL-2.1-or-later
// Writes ONNX files for tests, so that they need no weights: the protobuf wire format by hand, as far as small models
// go (onnx.proto: field numbers in the comments).
#pragma once

#include <bit>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace gstzc::test {

// One protobuf message, growing.
class Message {
public:
  Message &number(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message &bytes(int field, const std::string &value) {
    varint((static_cast<uint64_t>(field) << 3) | 2);
    varint(value.size());
    data_ += value;
    return *this;
  }
  Message &message(int field, const Message &value) { return bytes(field, value.data_); }
  const std::string &data() const { return data_; }

private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) data_ += static_cast<char>(value | 0x80);
    data_ += static_cast<char>(value);
  }
  std::string data_;
};

enum OnnxType { kOnnxFloat = 1, kOnnxUInt8 = 2, kOnnxInt64 = 7, kOnnxFloat16 = 10 };

class OnnxModel {
public:
  using Dims = std::vector<int64_t>; // -1: open

  OnnxModel &input(const std::string &name, OnnxType type, const Dims &dims) {
    graph_.message(11, valueInfo(name, type, dims)); // GraphProto.input
    return *this;
  }
  OnnxModel &output(const std::string &name, OnnxType type, const Dims &dims) {
    graph_.message(12, valueInfo(name, type, dims)); // GraphProto.output
    return *this;
  }
  OnnxModel &constant(const std::string &name, const Dims &dims, const std::vector<float> &values) {
    static_assert(std::endian::native == std::endian::little);
    return initializer(name, kOnnxFloat, dims, values.data(), values.size() * sizeof(float));
  }
  OnnxModel &constant(const std::string &name, const Dims &dims, const std::vector<int64_t> &values) {
    return initializer(name, kOnnxInt64, dims, values.data(), values.size() * sizeof(int64_t));
  }
  OnnxModel &node(const std::string &op, const std::vector<std::string> &inputs, const std::string &output,
                  const std::vector<std::pair<std::string, std::vector<int64_t>>> &int_lists = {}) {
    Message node;
    for (const std::string &name : inputs) node.bytes(1, name); // NodeProto.input
    node.bytes(2, output).bytes(4, op);                         // output, op_type
    for (const auto &[name, values] : int_lists) {
      Message attribute;
      attribute.bytes(1, name);                              // AttributeProto.name
      for (const int64_t v : values) attribute.number(8, v); // ints
      attribute.number(20, 7);                               // type INTS
      node.message(5, attribute);
    }
    graph_.message(1, node); // GraphProto.node
    return *this;
  }

  std::string serialize() const {
    Message opset;
    opset.bytes(1, "").number(2, 13); // OperatorSetIdProto.domain, version
    Message graph = graph_;
    graph.bytes(2, "test"); // GraphProto.name
    Message model;
    model.number(1, 8).message(7, graph).message(8, opset); // ModelProto.ir_version, graph, opset_import
    return model.data();
  }
  void save(const std::string &path) const {
    std::ofstream file(path, std::ios::binary);
    file << serialize();
  }

private:
  static Message valueInfo(const std::string &name, OnnxType type, const Dims &dims) {
    Message shape;
    for (const int64_t dim : dims) {
      Message dimension;
      if (dim < 0)
        dimension.bytes(2, "open"); // Dimension.dim_param
      else
        dimension.number(1, dim);  // dim_value
      shape.message(1, dimension); // TensorShapeProto.dim
    }
    Message tensor, type_proto, info;
    tensor.number(1, type).message(2, shape); // TypeProto.Tensor.elem_type, shape
    type_proto.message(1, tensor);            // TypeProto.tensor_type
    info.bytes(1, name).message(2, type_proto);
    return info;
  }
  OnnxModel &initializer(const std::string &name, OnnxType type, const Dims &dims, const void *data, size_t bytes) {
    Message tensor;
    for (const int64_t dim : dims) tensor.number(1, dim);                 // TensorProto.dims
    tensor.number(2, type).bytes(8, name);                                // data_type, name
    tensor.bytes(9, std::string(static_cast<const char *>(data), bytes)); // raw_data
    graph_.message(5, tensor);                                            // GraphProto.initializer
    return *this;
  }

  Message graph_;
};

} // namespace gstzc::test
