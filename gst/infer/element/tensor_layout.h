// SPDX-License-Identifier: LGPL-2.1-or-later
// Asking upstream for frames that are the model's input tensor already, so that nothing has to be preprocessed.
#pragma once

#include <gst/gst.h>

#include "gst/infer/model/model.h"

namespace gstzc::infer {

// The caps of such frames, in the three notations; null where no video format is the model's tensor (it takes other
// than unsigned bytes, or they are normalised). To be unreferenced. Where the model's pictures are not stretched their
// pixels are square: a scaler then keeps the picture's shape, with black borders, instead of handing on pixels that are
// not.
GstCaps *tensorCaps(const Model &model);

// What a scaler makes of a frame, with those caps, is what the model's own resize mode would: stretched, or in the
// middle of black. Else only who says so gets frames that are the tensor.
bool scalersDoTheSame(const Model &model);

// Upstream is asked for the same by both: a model that takes over need not have it negotiate again.
bool sameTensorCaps(const Model &a, const Model &b);

// What the sink pad answers: `possible` (taken) with what is also in `tensor` before the rest; only that, where `only`.
GstCaps *preferTensor(GstCaps *possible, GstCaps *tensor, bool only);

// Nobody behind this source pad shows or keeps the frames: all ways lead through elements that hand frames on as they
// are, to fakesinks. False where there is no peer yet.
bool endsUnseen(GstPad *src);

} // namespace gstzc::infer
