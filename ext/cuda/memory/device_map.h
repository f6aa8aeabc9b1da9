// SPDX-License-Identifier: LGPL-2.1-or-later
// The address of CUDA memory of GStreamer.
#pragma once

#include <gst/cuda/gstcuda.h>
#include <gst/gst.h>

namespace gstzc::cuda {

// Mapped for the device, for reading, for as long as its address is asked for. Who reads there holds the memory until
// the device is done: so such a map is told from those of other elements.
class DeviceMap {
public:
  explicit DeviceMap(GstMemory *memory) {
    ++depth();
    mapped_ = gst_memory_map(memory, &info_, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA)) != FALSE;
    --depth();
  }
  ~DeviceMap() {
    if (mapped_) gst_memory_unmap(info_.memory, &info_);
  }
  DeviceMap(const DeviceMap &) = delete;
  DeviceMap &operator=(const DeviceMap &) = delete;
  explicit operator bool() const { return mapped_; }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(info_.data); }
  static bool beingMade() { return depth() > 0; } // by this thread

private:
  static int &depth() {
    thread_local int depth = 0;
    return depth;
  }

  GstMapInfo info_ = {};
  bool mapped_ = false;
};

} // namespace gstzc::cuda
