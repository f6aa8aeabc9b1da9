// SPDX-License-Identifier: LGPL-2.1-or-later
// Writes ONNX files for tests, so that they need no weights: the protobuf wire format by hand, as far as small models
// go (onnx.proto: field numbers in the comments).
#pragma once

#include <bit>
#include <cstddef>
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
  Message &real(int field, float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    varint((static_cast<uint64_t>(field) << 3) | 5);
    for (int shift = 0; shift < 32; shift += 8) data_ += static_cast<char>(bits >> shift & 0xff);
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

// TensorProto.DataType
enum OnnxType {
  kOnnxFloat = 1,
  kOnnxUInt8 = 2,
  kOnnxInt8 = 3,
  kOnnxInt32 = 6,
  kOnnxInt64 = 7,
  kOnnxString = 8,
  kOnnxBool = 9,
  kOnnxFloat16 = 10
};

// One dimension of an input or output: a size, -1 for one that is open, or the name of one that is open.
struct OnnxDim {
  OnnxDim(int64_t v) : value(v) {}
  template <size_t N> OnnxDim(const char (&text)[N]) : value(-1), name(text) {}
  int64_t value;
  std::string name;
};

// An attribute of a node: {"axes", {0, 1}} is a list of integers; the functions make the other kinds.
struct OnnxAttribute {
  OnnxAttribute(const std::string &name, const std::vector<int64_t> &values) {
    proto.bytes(1, name);                              // AttributeProto.name
    for (const int64_t v : values) proto.number(8, v); // ints
    proto.number(20, 7);                               // type INTS
  }
  static OnnxAttribute integer(const std::string &name, int64_t value) {
    return OnnxAttribute(Message().bytes(1, name).number(3, value).number(20, 2)); // i, INT
  }
  static OnnxAttribute real(const std::string &name, float value) {
    return OnnxAttribute(Message().bytes(1, name).real(2, value).number(20, 1)); // f, FLOAT
  }
  static OnnxAttribute text(const std::string &name, const std::string &value) {
    return OnnxAttribute(Message().bytes(1, name).bytes(4, value).number(20, 3)); // s, STRING
  }
  // OnnxModel::graph() of the body of a Loop or an If
  static OnnxAttribute body(const std::string &name, const Message &graph) {
    return OnnxAttribute(Message().bytes(1, name).message(6, graph).number(20, 5)); // g, GRAPH
  }
  Message proto;

private:
  explicit OnnxAttribute(Message made) : proto(std::move(made)) {}
};

class OnnxModel {
public:
  using Dims = std::vector<OnnxDim>;
  using Sizes = std::vector<int64_t>;
  using Attributes = std::vector<OnnxAttribute>;

  OnnxModel &input(const std::string &name, OnnxType type, const Dims &dims) {
    graph_.message(11, valueInfo(name, type, dims)); // GraphProto.input
    return *this;
  }
  OnnxModel &output(const std::string &name, OnnxType type, const Dims &dims) {
    graph_.message(12, valueInfo(name, type, dims)); // GraphProto.output
    return *this;
  }

  // `values` in the machine's own form; of float16 the bits
  OnnxModel &constant(const std::string &name, const Sizes &dims, const std::vector<float> &values) {
    return constantOf(name, kOnnxFloat, dims, values);
  }
  OnnxModel &constant(const std::string &name, const Sizes &dims, const std::vector<int64_t> &values) {
    return constantOf(name, kOnnxInt64, dims, values);
  }
  OnnxModel &constant(const std::string &name, const Sizes &dims, const std::vector<int32_t> &values) {
    return constantOf(name, kOnnxInt32, dims, values);
  }
  OnnxModel &constant(const std::string &name, const Sizes &dims, const std::vector<int8_t> &values) {
    return constantOf(name, kOnnxInt8, dims, values);
  }
  OnnxModel &constant(const std::string &name, const Sizes &dims, const std::vector<uint8_t> &values) {
    return constantOf(name, kOnnxUInt8, dims, values);
  }
  OnnxModel &constantHalf(const std::string &name, const Sizes &dims, const std::vector<uint16_t> &bits) {
    return constantOf(name, kOnnxFloat16, dims, bits);
  }
  // Floats that are in a file of their own, `file`, beside the model's.
  OnnxModel &constantFile(const std::string &name, const Sizes &dims, const std::string &file) {
    Message tensor = tensorProto(name, kOnnxFloat, dims);
    tensor.message(13, pair("location", file)).number(14, 1); // TensorProto.external_data, data_location EXTERNAL
    graph_.message(5, tensor);                                // GraphProto.initializer
    return *this;
  }

  OnnxModel &node(const std::string &op, const std::vector<std::string> &inputs, const std::string &output,
                  const Attributes &attributes = {}) {
    return nodeOfMany(op, inputs, std::vector<std::string>(1, output), attributes);
  }
  // of several outputs
  OnnxModel &nodeOfMany(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs, const Attributes &attributes = {}) {
    Message node;
    for (const std::string &name : inputs) node.bytes(1, name);  // NodeProto.input
    for (const std::string &name : outputs) node.bytes(2, name); // output
    node.bytes(4, op);                                           // op_type
    for (const OnnxAttribute &attribute : attributes) node.message(5, attribute.proto);
    graph_.message(1, node); // GraphProto.node
    return *this;
  }

  OnnxModel &metadata(const std::string &key, const std::string &value) {
    metadata_.message(14, pair(key, value)); // ModelProto.metadata_props
    return *this;
  }
  OnnxModel &opset(int64_t version) {
    opset_ = version;
    return *this;
  }

  Message graph() const {
    Message graph = graph_;
    return graph.bytes(2, "test"); // GraphProto.name
  }
  std::string serialize() const {
    Message opset;
    opset.bytes(1, "").number(2, opset_); // OperatorSetIdProto.domain, version
    Message model;
    model.number(1, 8).message(7, graph()).message(8, opset); // ModelProto.ir_version, graph, opset_import
    return model.data() + metadata_.data();                   // the fields of a message may come in any order
  }
  void save(const std::string &path) const {
    std::ofstream file(path, std::ios::binary);
    file << serialize();
  }

private:
  static Message valueInfo(const std::string &name, OnnxType type, const Dims &dims) {
    Message shape;
    for (const OnnxDim &dim : dims) {
      Message dimension;
      if (dim.value >= 0)
        dimension.number(1, dim.value); // Dimension.dim_value
      else if (!dim.name.empty())
        dimension.bytes(2, dim.name); // dim_param
      shape.message(1, dimension);    // TensorShapeProto.dim
    }
    Message tensor, type_proto, info;
    tensor.number(1, type).message(2, shape); // TypeProto.Tensor.elem_type, shape
    type_proto.message(1, tensor);            // TypeProto.tensor_type
    info.bytes(1, name).message(2, type_proto);
    return info;
  }
  static Message pair(const std::string &key, const std::string &value) {
    return Message().bytes(1, key).bytes(2, value); // StringStringEntryProto.key, value
  }
  static Message tensorProto(const std::string &name, OnnxType type, const Sizes &dims) {
    Message tensor;
    for (const int64_t dim : dims) tensor.number(1, dim); // TensorProto.dims
    return tensor.number(2, type).bytes(8, name);         // data_type, name
  }
  template <typename T>
  OnnxModel &constantOf(const std::string &name, OnnxType type, const Sizes &dims, const std::vector<T> &values) {
    static_assert(std::endian::native == std::endian::little);
    Message tensor = tensorProto(name, type, dims);
    tensor.bytes(9, std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T))); // raw_data
    graph_.message(5, tensor); // GraphProto.initializer
    return *this;
  }

  Message graph_, metadata_;
  int64_t opset_ = 13;
};

} // namespace gstzc::test
