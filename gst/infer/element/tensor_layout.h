// SPDX-License-Identifier: LGPL-2.1-or-later
// Asking upstream for frames that are the model's input tensor already, so that nothing has to be preprocessed.
#pragma once

#include <gst/gst.h>

#include "gst/infer/model/model.h"

namespace gstzc::infer {

// The caps of such frames, in the three notations; null where no video format is the model's tensor (it takes other
// than unsigned bytes, or they are normalised). To be unreferenced.
GstCaps *tensorCaps(const Model &model);

// Upstream is asked for the same by both: a model that takes over need not have it negotiate again.
bool sameTensorCaps(const Model &a, const Model &b);

// What the sink pad answers: `possible` (taken) with what is also in `tensor` before the rest; only that, where `only`.
GstCaps *preferTensor(GstCaps *possible, GstCaps *tensor, bool only);

// Nobody behind this source pad shows or keeps the frames: all ways lead through elements that hand frames on as they
// are, to fakesinks. False where there is no peer yet.
bool endsUnseen(GstPad *src);

} // namespace gstzc::infer
