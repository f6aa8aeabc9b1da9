// SPDX-License-Identifier: LGPL-2.1-or-later
// What a model found, as analytics metadata of the frame; and what others found there before.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gst/gst.h>

#include "gst/infer/output/frame_result.h"
#include "gst/infer/preprocess/preprocess.h"

namespace gstzc::infer {

struct OutputOptions {
  std::optional<guint> object; // the object detection whose part of the frame was looked at; absent: all of the frame
  const std::vector<std::string> *labels = nullptr; // of a segmentation's classes; null: there are none
};

// Adds the findings to the GstAnalyticsRelationMeta of `buffer`, which is writable; makes one where there is none, also
// for no findings, so that "looked and found nothing" differs from "did not look". Gives the ids of the boxes' object
// detections, in their order. A class without a label is named by its number.
//
//   box             an object detection; CONTAIN its keypoints, RELATE_TO its mask
//   keypoints       upstream's group of keypoints from 1.30 on, else GstZcKeypointsMtd; IS_PART_OF the box
//   mask            an instance segmentation: regions 0 (not the object) and 1, 2…, another one for each object;
//                   RELATE_TO the box
//   classes         one classification, best first
//   segmentation    a semantic segmentation; N_TO_N to a classification that names its regions. Regions are the classes
//                   from 0 to the highest that occurs, so that index and id of a region are the same
//
// With OutputOptions::object that one CONTAINs the boxes and RELATEs_TO the classes and the segmentation; from these to
// it IS_PART_OF and RELATE_TO.
std::vector<guint> attachFindings(GstBuffer *buffer, const FrameFindings &findings, const OutputOptions &options = {});

// An object detection on a frame.
struct RegionObject {
  guint id = 0;     // in the frame's GstAnalyticsRelationMeta
  GQuark label = 0; // of its class; 0 where it has none
  Region region;    // may leave the frame
};

// "person, car" → {"person", "car"}; "" → {}.
std::vector<std::string> parseObjectClasses(const std::string &list);

// The object detections of these classes, or where none is given all, in the order they were added; without those that
// have no area.
std::vector<RegionObject> objectsOf(GstBuffer *buffer, const std::vector<std::string> &classes);

} // namespace gstzc::infer
