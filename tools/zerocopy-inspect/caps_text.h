// SPDX-License-Identifier: LGPL-2.1-or-later
// Caps as values, and in words that fit on a line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <gst/gst.h>

namespace gstzc::inspect {

// A reference to caps, or none.
class Caps {
public:
  Caps() = default;
  explicit Caps(GstCaps *owned) : caps_(owned) {}
  Caps(const Caps &other) : caps_(other.caps_ != nullptr ? gst_caps_ref(other.caps_) : nullptr) {}
  Caps(Caps &&other) noexcept : caps_(std::exchange(other.caps_, nullptr)) {}
  Caps &operator=(Caps other) noexcept {
    std::swap(caps_, other.caps_);
    return *this;
  }
  ~Caps() {
    if (caps_ != nullptr) gst_caps_unref(caps_);
  }
  static Caps reference(GstCaps *caps) { return Caps(caps != nullptr ? gst_caps_ref(caps) : nullptr); }

  GstCaps *get() const { return caps_; }
  explicit operator bool() const { return caps_ != nullptr; }
  bool empty() const { return caps_ != nullptr && gst_caps_is_empty(caps_); }
  std::string text() const; // gst_caps_to_string(); "" for none

private:
  GstCaps *caps_ = nullptr;
};

constexpr size_t kFormatsShown = 8; // of a structure

// A line for each structure: "video/x-raw(memory:DMABuf) NV12 linear, NV12 I915_X_TILED and 12 more; 1920x1080;
// framerate 30/1". Without structures: "nothing". Fields other than formats, sizes and those every raw video has are
// left out.
std::vector<std::string> capsLines(const GstCaps *caps);

} // namespace gstzc::inspect
