// SPDX-License-Identifier: LGPL-2.1-or-later
#include "gst/zerocopy/core/drm_format.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <drm_fourcc.h>
#include <xf86drm.h>

namespace gstzc {
namespace {

constexpr std::string_view kBigEndian = "_BE";

bool isBroadcom(uint64_t modifier) { return (modifier >> 56) == DRM_FORMAT_MOD_VENDOR_BROADCOM; }

struct Free {
  void operator()(char *text) const { std::free(text); }
};
using Text = std::unique_ptr<char, Free>;

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%016" PRIx64, value);
  return text;
}

Error wrong(std::string_view text, const std::string &why, const std::string &remedy) {
  return {"drm-format \"" + std::string(text) + "\": " + why, 0, remedy};
}

Result<uint32_t> parseFourcc(std::string_view text, std::string_view whole) {
  std::string_view code = text;
  const bool big = code.ends_with(kBigEndian) && code.size() > 4;
  if (big) code.remove_suffix(kBigEndian.size());
  if (code.size() != 4)
    return wrong(whole, "a fourcc has 4 characters, not " + std::to_string(code.size()),
                 "Short ones end in spaces, such as \"R8  \"");
  uint32_t fourcc = 0;
  bool space = false;
  for (size_t i = 0; i < 4; ++i) {
    const char c = code[i];
    const bool letter = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (space ? c != ' ' : !letter && (c != ' ' || i == 0))
      return wrong(whole, "a fourcc consists of capitals, digits and final spaces", "Write it like NV12");
    space = c == ' ';
    fourcc |= static_cast<uint32_t>(c) << (8 * i);
  }
  return big ? fourcc | DRM_FORMAT_BIG_ENDIAN : fourcc;
}

} // namespace

Result<DrmFormat> parseDrmFormat(std::string_view text) {
  const size_t colon = text.find(':');
  auto fourcc = parseFourcc(text.substr(0, colon), text);
  if (!fourcc) return fourcc.error();
  DrmFormat format{*fourcc, DRM_FORMAT_MOD_LINEAR};
  if (colon == std::string_view::npos) return format;

  const std::string_view digits = text.substr(colon + 1);
  const char *const end = digits.data() + digits.size();
  const bool prefix = digits.starts_with("0x") || digits.starts_with("0X");
  const auto parsed = prefix ? std::from_chars(digits.data() + 2, end, format.modifier, 16)
                             : std::from_chars_result{digits.data(), std::errc::invalid_argument};
  if (parsed.ec != std::errc() || parsed.ptr != end)
    return wrong(text, "the modifier is not 0x and up to 16 hexadecimal digits", "Write it like 0x0100000000000002");
  if (format.modifier == DRM_FORMAT_MOD_LINEAR)
    return wrong(text, "the linear layout is written without a modifier",
                 "Write " + std::string(text.substr(0, colon)));
  if (format.modifier == DRM_FORMAT_MOD_INVALID)
    return wrong(text, "modifier INVALID says that the layout is known to the driver only",
                 "Let the producer name its modifier, or ask it for the linear layout");
  return format;
}

std::string toString(const DrmFormat &format) {
  std::string text;
  for (int shift = 0; shift < 32; shift += 8) {
    const auto c = static_cast<char>((format.fourcc >> shift) & 0x7f);
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  if (format.fourcc & DRM_FORMAT_BIG_ENDIAN) text += kBigEndian;
  if (format.modifier != DRM_FORMAT_MOD_LINEAR) text += ":" + hex(format.modifier);
  return text;
}

std::string modifierName(uint64_t modifier) {
  if (modifier == DRM_FORMAT_MOD_LINEAR) return "linear";
  if (modifier == DRM_FORMAT_MOD_INVALID) return "implicit layout";
  std::string parameter;
  Text name(drmGetFormatModifierName(modifier));
  if (!name && isBroadcom(modifier)) { // known without the parameter
    name.reset(drmGetFormatModifierName(comparableModifier(modifier)));
    parameter = " of height " + std::to_string(fourcc_mod_broadcom_param(modifier));
  }
  const Text vendor(drmGetFormatModifierVendor(modifier));
  if (!name) return vendor ? std::string(vendor.get()) + " " + hex(modifier) : hex(modifier);
  return (vendor ? std::string(vendor.get()) + "_" : "") + name.get() + parameter;
}

std::string describe(const DrmFormat &format) {
  const Text name(drmGetFormatName(format.fourcc));
  return (name ? std::string(name.get()) : toString({format.fourcc, 0})) + " " + modifierName(format.modifier);
}

uint64_t comparableModifier(uint64_t modifier) {
  return isBroadcom(modifier) ? fourcc_mod_broadcom_mod(modifier) : modifier;
}

bool sameLayout(const DrmFormat &a, const DrmFormat &b) {
  return a.fourcc == b.fourcc && comparableModifier(a.modifier) == comparableModifier(b.modifier);
}

DrmFormatSet::DrmFormatSet(std::initializer_list<DrmFormat> formats) {
  for (const DrmFormat &format : formats) add(format);
}

bool DrmFormatSet::add(const DrmFormat &format) {
  if (contains(format)) return false;
  formats_.push_back(format);
  return true;
}

bool DrmFormatSet::contains(const DrmFormat &format) const {
  return std::any_of(formats_.begin(), formats_.end(), [&](const DrmFormat &f) { return sameLayout(f, format); });
}

std::vector<uint64_t> DrmFormatSet::modifiersOf(uint32_t fourcc) const {
  std::vector<uint64_t> result;
  for (const DrmFormat &format : formats_)
    if (format.fourcc == fourcc) result.push_back(format.modifier);
  return result;
}

DrmFormatSet DrmFormatSet::intersect(const DrmFormatSet &other) const {
  DrmFormatSet result;
  for (const DrmFormat &format : formats_)
    for (const DrmFormat &candidate : other.formats_)
      if (sameLayout(format, candidate)) {
        const bool without = format.modifier == comparableModifier(format.modifier);
        result.formats_.push_back(without ? candidate : format);
        break;
      }
  return result;
}

DrmFormatSet DrmFormatSet::unite(const DrmFormatSet &other) const {
  DrmFormatSet result = *this;
  for (const DrmFormat &format : other.formats_) result.add(format);
  return result;
}

std::string DrmFormatSet::toString() const {
  std::string text;
  for (const DrmFormat &format : formats_) text += (text.empty() ? "" : ", ") + gstzc::toString(format);
  return text;
}

} // namespace gstzc
