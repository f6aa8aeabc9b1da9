// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/bench/infer_models.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <glib.h>

namespace gstzc::bench {
namespace {

std::string fileOf(const char *variable, const std::string &below = "") {
  const char *value = std::getenv(variable);
  const std::string file = value != nullptr ? value + below : "";
  return std::filesystem::exists(file) ? file : "";
}

// Protocol buffers: a field whose value is bytes (wire type 2), with its length as a varint.
std::string field(int number, const std::string &bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t length = bytes.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>((length & 0x7f) | 0x80);
  return out + static_cast<char>(length) + bytes;
}

// ModelProto.metadata_props, a list of StringStringEntryProto {key, value}. What repeats a field of a message adds to
// its list, so an entry can be written behind the whole file.
std::string metadataEntry(const std::string &key, const std::string &value) {
  return field(14, field(1, key) + field(2, value));
}

std::string listed(const std::vector<int> &dims) {
  std::string text;
  for (const int d : dims) text += (text.empty() ? "" : ",") + std::to_string(d);
  return text;
}

std::string number(double value) {
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];
  return g_ascii_dtostr(text, sizeof text, value);
}

std::string modelInfo(const BenchModel &m) {
  std::string text = "[modelinfo]\nversion=1.0\ngroup-id=" + m.group_id + "\n\n[" + m.input +
                     "]\ntype=float32\ndir=input\ndims=" + listed(m.input_dims) +
                     "\nranges=" + number((0 - m.mean) / m.divisor) + "," + number((255 - m.mean) / m.divisor) + "\n";
  for (const auto &output : m.outputs)
    text += "\n[" + output.name + "]\nid=" + output.id + "\ntype=float32\ndir=output\ndims=" + listed(output.dims) +
            "\ndims-order=row-major\n";
  return text;
}

bool write(const std::string &path, const std::string &bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.flush();
  return out.good();
}

} // namespace

BenchModel blazeFaceFront() {
  return {.name = "BlazeFace-128",
          .file = fileOf("GSTZC_BLAZEFACE_MODEL"),
          .width = 128,
          .height = 128,
          .mean = 127.5f,
          .divisor = 127.5f,
          .input = "input:0",
          .input_dims = {1, 128, 128, 3},
          .outputs = {{"Identity:0", "blazeface-scores-fine", {1, 512, 1}},
                      {"Identity_1:0", "blazeface-scores-coarse", {1, 384, 1}},
                      {"Identity_2:0", "blazeface-numbers-fine", {1, 512, 16}},
                      {"Identity_3:0", "blazeface-numbers-coarse", {1, 384, 16}}},
          .group_id = "blazeface"};
}

BenchModel rfb320() {
  return {.name = "RFB-320",
          .file = fileOf("GSTZC_SHARED", "/models/version-RFB-320.onnx"),
          .width = 320,
          .height = 240,
          .channels_first = true,
          .mean = 127,
          .divisor = 128,
          .input = "input",
          .input_dims = {1, 3, 240, 320},
          .outputs = {{"scores", "ultra-lightweight-face-detection-rfb-320-v1-variant-1-out-scores", {1, 4420, 2}},
                      {"boxes", "ssd-mobilenet-v1-variant-1-out-boxes", {1, 4420, 4}}},
          .group_id = "ultra-lightweight-face-detection-rfb-320-v1-variant-1-out"};
}

BenchModel yuNet() { return {.name = "YuNet-320", .file = fileOf("GSTZC_SHARED", "/models/yunet_n_dynamic.onnx")}; }

bool copyForOnnxInference(const BenchModel &model, const std::string &path) {
  std::ifstream in(model.file, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (!in || bytes.empty()) return false;
  for (const auto &output : model.outputs) bytes += metadataEntry(output.name, output.id);
  return write(path, bytes) && write(path + ".modelinfo", modelInfo(model));
}

} // namespace gstzc::bench
