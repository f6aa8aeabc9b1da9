// SPDX-License-Identifier: LGPL-2.1-or-later
// The whole main job on the laboratory's devices: a picture or a camera, a neural net, a display plane, and an account
// of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gst/zerocopy/core/result.h"

namespace firstlight {

struct Options {
  std::string model;            // BlazeFace front, ONNX
  std::string photo;            // PNG with a face; run `photo` only
  std::string display = "vkms"; // kernel driver of the display
  std::string card;             // node that the sink opens itself, instead; then there is no picture
  unsigned frames = 60;         // run `camera` only
  std::string picture;          // PNG of what the display showed at the end; empty: none
};

struct Box {
  std::string label;
  double score = 0;
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0; // pixels of the frame, x2 and y2 one past the last
};

// Intersection over union, 0…1.
double overlap(const Box &a, const Box &b);

struct Report {
  std::string name;
  unsigned frames = 0;    // that reached the sink
  unsigned shown = 0;     // that were flipped to
  unsigned foreign = 0;   // frames at the sink that are not, memory by memory, the ones that left the source
  unsigned buffers = 0;   // different dma-bufs seen, by device and inode
  std::vector<Box> boxes; // every detection of the run
  uint64_t copies = 0, bytes_copied = 0, fence_waits = 0; // summed over the elements
  std::vector<std::string> devices;
  std::vector<double> latencies_ms; // frame leaves the source → flip, per shown frame
};

// One frame; the display is read back while it shows the frame.
gstzc::Result<Report> runPhoto(const Options &options);
// NV12 dma-bufs of the first vivid capture device.
gstzc::Result<Report> runCamera(const Options &options);

// p in 0…1, nearest rank; 0 for no values
double percentile(std::vector<double> values, double p);

// {"runs": […]}, see docs/laboratory.md
std::string toJson(const std::vector<Report> &reports);

} // namespace firstlight
