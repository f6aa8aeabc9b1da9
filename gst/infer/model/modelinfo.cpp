// SPDX-License-Identifier: LGPL-2.1-or-later
// .modelinfo files: GStreamer's GstAnalyticsModelInfo (1.28: version 1.0, 1.30: 1.1).
//
// A key file. The section modelinfo has version=major.minor and group-id, which is that of all outputs. Each other
// section is a tensor by name: dir=input|output, type, dims (a comma list, -1: any), for outputs id and
// dims-order=row-major|col-major, for inputs ranges="min,max;min,max;…" (what 0..255 becomes, one range or one for each
// channel, in the order of the caps' format) and, from 1.1 on, caps=video/x-raw,format=….
#include "gst/infer/model/model_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

#include <sys/stat.h>

#include <glib.h>

#include "gst/infer/model/model_log.h"
#include "gst/infer/model/text_file.h"

#define GST_CAT_DEFAULT modelLog()

namespace gstzc::infer {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr int kMajor = 1, kMinor = 1;
constexpr const char *kHeader = "modelinfo",
                     *kPlaceholder = "PLACEHOLDER"; // what upstream's generator leaves to fill in
constexpr double kMaxRange = 1e6, kMinSpan = 1e-6;

constexpr const char *kTypes[] = {"int4",   "int8",   "int16",  "int32",   "int64",   "uint4",   "uint8",
                                  "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16"};

struct KeyFileFree {
  void operator()(GKeyFile *file) const { g_key_file_free(file); }
};

struct Range {
  double min = 0, max = 0;
};

std::string trim(const std::string &text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// For messages: a file that is none may have anything of any length.
std::string shown(const std::string &text) {
  constexpr glong longest = 120;
  if (g_utf8_strlen(text.c_str(), -1) <= longest) return text;
  return text.substr(0, static_cast<size_t>(g_utf8_offset_to_pointer(text.c_str(), longest) - text.c_str())) + "…";
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(trim(text.substr(at, end - at)));
    at = end + 1;
  }
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back(); // lists of GLib's may end with a separator
  return parts;
}

template <typename T> std::optional<T> number(const std::string &text) {
  T value = 0;
  const char *const first = text.data(), *const last = first + text.size();
  const auto read = std::from_chars(first, last, value);
  if (read.ec != std::errc() || read.ptr != last) return std::nullopt;
  return value;
}

// What the caps' fields say of their format, "" where nothing. gst_caps_from_string() knows all of their syntax, but
// has GLib complain of bad names, which ends programs that let it.
std::string formatOf(const std::vector<std::string> &fields) {
  for (const std::string &field : fields) {
    const size_t equals = field.find('=');
    if (equals == std::string::npos || trim(field.substr(0, equals)) != "format") continue;
    std::string value = trim(field.substr(equals + 1));
    if (value.starts_with("(string)")) value = trim(value.substr(8));
    if (value.ends_with(';')) value = trim(value.substr(0, value.size() - 1));
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
    return value;
  }
  return "";
}

class Reader {
public:
  explicit Reader(const std::string &path) : path_(path), file_(g_key_file_new()) {}

  Result<ModelConfig> read(const std::string &text) {
    GError *failed = nullptr;
    if (g_key_file_load_from_data(file_.get(), text.data(), text.size(), G_KEY_FILE_NONE, &failed) == FALSE) {
      const std::string why = failed->message;
      g_error_free(failed);
      return Error{"modelinfo file " + path_ + " is no key file: " + shown(why), 0,
                   "It begins with [modelinfo] and has a section for each tensor"};
    }
    if (auto header = readHeader(); !header) return header.error();
    gchar **const sections = g_key_file_get_groups(file_.get(), nullptr);
    Status status = Nothing{};
    for (gchar **section = sections; *section != nullptr && status; ++section)
      if (std::string(*section) != kHeader) status = readTensor(*section);
    g_strfreev(sections);
    if (!status) return status.error();
    return config_;
  }

private:
  // What of `value` is wrong, and what would be right.
  Error bad(const std::string &section, const char *key, const std::string &value, const std::string &why,
            const std::string &right) const {
    return {"modelinfo file " + path_ + ", section [" + shown(section) + "]: " + key + "=" + shown(value) + " " + why,
            0, right};
  }

  // Nothing where there is no such key.
  std::optional<std::string> value(const std::string &section, const char *key) const {
    gchar *const found = g_key_file_get_string(file_.get(), section.c_str(), key, nullptr);
    if (found == nullptr) return std::nullopt;
    std::string text = trim(found);
    g_free(found);
    return text;
  }

  // As value(), but nothing where the file was not filled in.
  std::optional<std::string> id(const std::string &section, const char *key) const {
    auto text = value(section, key);
    if (!text || text->empty()) return std::nullopt;
    if (text->starts_with(kPlaceholder)) {
      GST_WARNING("modelinfo file %s, section [%s]: %s=%s was not filled in", path_.c_str(), section.c_str(), key,
                  text->c_str());
      return std::nullopt;
    }
    return text;
  }

  Status readHeader() {
    constexpr const char *right = "The file begins with a section [modelinfo] that has version=1.0";
    if (g_key_file_has_group(file_.get(), kHeader) == FALSE)
      return Error{"modelinfo file " + path_ + " has no section [modelinfo]", 0, right};
    const auto version = value(kHeader, "version");
    if (!version) return Error{"modelinfo file " + path_ + ", section [modelinfo]: there is no version", 0, right};
    const auto parts = split(*version, '.');
    const auto major = parts.size() == 2 ? number<int>(parts[0]) : std::nullopt;
    const auto minor = parts.size() == 2 ? number<int>(parts[1]) : std::nullopt;
    if (!major || !minor || *minor < 0) return bad(kHeader, "version", *version, "is no version", "Write version=1.0");
    if (*major != kMajor)
      return bad(kHeader, "version", *version, "is not understood", "Write a file of version 1.0 or 1.1");
    if (*minor > kMinor)
      GST_WARNING("modelinfo file %s: version %s is newer than 1.%d; keys it adds are not read", path_.c_str(),
                  version->c_str(), kMinor);
    group_id_ = id(kHeader, "group-id").value_or("");
    return Nothing{};
  }

  Status readTensor(const std::string &section) {
    const auto direction = value(section, "dir");
    if (direction && *direction != "input" && *direction != "output")
      return bad(section, "dir", *direction, "is no direction", "Write dir=input or dir=output");
    if (const auto type = value(section, "type");
        type && std::find(std::begin(kTypes), std::end(kTypes), *type) == std::end(kTypes))
      return bad(section, "type", *type, "is no type of a tensor",
                 "Write float32, uint8 or another type by its full name");
    auto dims = readDims(section);
    if (!dims) return dims.error();
    config_.claims.push_back({section, direction ? std::optional(*direction == "input") : std::nullopt,
                              value(section, "type").value_or(""), *dims,
                              value(section, "dims-order").value_or("") == "col-major"});
    // upstream takes a tensor without a direction for either
    const bool input = direction ? *direction == "input" : value(section, "ranges") || value(section, "caps");
    return input ? readInput(section, *dims) : readOutput(section);
  }

  Result<std::vector<int64_t>> readDims(const std::string &section) const {
    std::vector<int64_t> dims;
    const auto text = value(section, "dims");
    if (!text) return dims;
    for (const std::string &part : split(*text, ',')) {
      const auto dim = number<int64_t>(part);
      if (!dim || *dim == 0 || *dim < -1)
        return bad(section, "dims", *text, "is no list of dimensions",
                   "Write whole numbers with commas between, -1 for one that is left open: dims=1,3,-1,-1");
      dims.push_back(*dim);
    }
    return dims;
  }

  Status readOutput(const std::string &section) {
    const auto order = value(section, "dims-order");
    if (order && *order != "row-major" && *order != "col-major")
      return bad(section, "dims-order", *order, "is no order", "Write dims-order=row-major or dims-order=col-major");
    if (const auto tensor = id(section, "id"))
      config_.tensors[section] = {*tensor, group_id_, order && *order == "col-major"};
    return Nothing{};
  }

  Status readInput(const std::string &section, const std::vector<int64_t> &dims) {
    int channels = 0; // not known
    if (auto read = readCaps(section, channels); !read) return read;
    if (dims.size() == 4) {
      const auto isChannels = [](int64_t dim) { return dim == 3 || dim == 1; };
      const bool first = isChannels(dims[1]), last = isChannels(dims[3]);
      if (first != last) {
        config_.layout = first ? TensorLayout::Nchw : TensorLayout::Nhwc;
        if (channels == 0) channels = static_cast<int>(first ? dims[1] : dims[3]);
        if (auto size = readSize(section, dims, first ? 2 : 1); !size) return size;
      }
    }
    return readRanges(section, channels);
  }

  Status readSize(const std::string &section, const std::vector<int64_t> &dims, size_t height) {
    for (size_t i = height; i < height + 2; ++i)
      if (dims[i] > kMaxPictureSide)
        return bad(section, "dims", *value(section, "dims"),
                   "has a picture of " + std::to_string(dims[i]) + " pixels a side",
                   "It may have " + std::to_string(kMaxPictureSide));
    if (dims[height] > 0) config_.height = static_cast<int>(dims[height]);
    if (dims[height + 1] > 0) config_.width = static_cast<int>(dims[height + 1]);
    return Nothing{};
  }

  Status readCaps(const std::string &section, int &channels) {
    const auto text = value(section, "caps");
    if (!text || text->starts_with(kPlaceholder)) return Nothing{};
    constexpr const char *right = "Write caps=video/x-raw,format=RGB, or with RGBP, BGR, BGRP or GRAY8";
    const auto fields = split(*text, ',');
    if (fields[0].substr(0, fields[0].find_first_of("(;")) != "video/x-raw")
      return bad(section, "caps", *text, "are no caps of video", right);
    const std::string format = formatOf(fields);
    if (format == "GRAY8") {
      channels = 1;
      return Nothing{};
    }
    const bool rgb = format == "RGB" || format == "RGBP", bgr = format == "BGR" || format == "BGRP";
    if (!rgb && !bgr) return bad(section, "caps", *text, "have no format that pictures are converted to", right);
    channels = 3;
    config_.bgr = bgr;
    return Nothing{};
  }

  Status readRanges(const std::string &section, int channels) {
    const auto text = value(section, "ranges");
    if (!text) return Nothing{};
    constexpr const char *right = "Write what 0 and what 255 becomes, for each channel: ranges=0.0,1.0;0.0,1.0;0.0,1.0";
    if (text->starts_with(kPlaceholder)) return bad(section, "ranges", *text, "was not filled in", right);
    std::vector<Range> ranges;
    for (const std::string &part : split(*text, ';')) {
      const auto ends = split(part, ',');
      const auto min = ends.size() == 2 ? number<double>(ends[0]) : std::nullopt;
      const auto max = ends.size() == 2 ? number<double>(ends[1]) : std::nullopt;
      if (!min || !max) return bad(section, "ranges", *text, "has \"" + shown(part) + "\", which is no range", right);
      // not finite fails these too
      if (!(std::abs(*min) <= kMaxRange && std::abs(*max) <= kMaxRange && std::abs(*max - *min) >= kMinSpan))
        return bad(section, "ranges", *text, "has \"" + shown(part) + "\", which is no useful range", right);
      ranges.push_back({*min, *max});
      if (ranges.size() > 3)
        return bad(section, "ranges", *text, "has more ranges than the 3 channels of a picture", right);
    }
    const bool fits =
        ranges.size() == 1 || (channels == 0 ? ranges.size() == 3 : ranges.size() == static_cast<size_t>(channels));
    if (!fits)
      return bad(section, "ranges", *text,
                 "has " + std::to_string(ranges.size()) + " ranges for " +
                     (channels == 0 ? "the channels" : std::to_string(channels) + " channels"),
                 "Write one range for all channels or one for each");
    setRanges(ranges);
    return Nothing{};
  }

  // value = colour * (max - min) / 255 + min, as Normalisation has it: (colour - mean) * scale.
  void setRanges(const std::vector<Range> &ranges) {
    std::array<float, 3> mean = {}, scale = {};
    for (size_t channel = 0; channel < 3; ++channel) {
      const Range &range = ranges[ranges.size() == 1 ? 0 : channel];
      // the ranges are in the tensor's order, Normalisation in that of red, green, blue
      const size_t colour = config_.bgr.value_or(false) ? 2 - channel : channel;
      const double span = range.max - range.min;
      scale[colour] = static_cast<float>(span / 255);
      mean[colour] = range.min == 0 ? 0.0f : static_cast<float>(-range.min * 255 / span);
    }
    config_.mean = mean;
    config_.scale = scale;
  }

  const std::string path_;
  const std::unique_ptr<GKeyFile, KeyFileFree> file_;
  std::string group_id_;
  ModelConfig config_;
};

bool isFile(const std::string &path) {
  struct stat st = {};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

} // namespace

Result<ModelConfig> configFromModelInfo(const std::string &path) {
  auto text = readTextFile("modelinfo file", path, kMaxBytes);
  if (!text) return text.error();
  return configFromModelInfoText(*text, path);
}

Result<ModelConfig> configFromModelInfoText(const std::string &text, const std::string &path) {
  return Reader(path).read(text);
}

std::string modelInfoBeside(const std::string &model_file) {
  if (model_file.empty()) return "";
  if (const std::string beside = model_file + ".modelinfo"; isFile(beside)) return beside;
  const size_t dot = model_file.rfind('.'), slash = model_file.rfind('/');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash)) return "";
  const std::string beside = model_file.substr(0, dot) + ".modelinfo";
  return isFile(beside) ? beside : "";
}

} // namespace gstzc::infer
