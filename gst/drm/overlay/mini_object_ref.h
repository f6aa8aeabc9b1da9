// SPDX-License-Identifier: LGPL-2.1-or-later
// A reference on a mini object (a buffer, mostly), held without an allocation.
#pragma once

#include <utility>

#include <gst/gst.h>

namespace gstzc {

template <typename T> class MiniObjectRef {
public:
  MiniObjectRef() = default;
  // Takes a reference of its own.
  explicit MiniObjectRef(T *object) : object_(object) {
    if (object_ != nullptr) gst_mini_object_ref(GST_MINI_OBJECT_CAST(object_));
  }
  // Takes over the caller's.
  static MiniObjectRef adopt(T *object) {
    MiniObjectRef ref;
    ref.object_ = object;
    return ref;
  }
  ~MiniObjectRef() {
    if (object_ != nullptr) gst_mini_object_unref(GST_MINI_OBJECT_CAST(object_));
  }
  MiniObjectRef(const MiniObjectRef &other) : MiniObjectRef(other.object_) {}
  MiniObjectRef(MiniObjectRef &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  MiniObjectRef &operator=(MiniObjectRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T *get() const { return object_; }
  bool operator==(const MiniObjectRef &other) const { return object_ == other.object_; }

private:
  T *object_ = nullptr;
};

using BufferRef = MiniObjectRef<GstBuffer>;

} // namespace gstzc
