// SPDX-License-Identifier: LGPL-2.1-or-later
// What becomes of one pixel, from the samples round it to the number in the tensor. V is a float, or as many of them as
// a register holds: anything with + and -, and mulAdd(a, b, c) = a * b + c and limited(v, low, high) beside it.
//
// Included inside the namespace of its user, once for each set of instructions (so without a guard), and where those
// two functions are known. GSTZC_PIXEL: what the user's compiler wants before a function, "inline" at least.

// Of `a` and `b` with the weight of `b`.
template <class V> GSTZC_PIXEL V between(V a, V b, V weight) { return mulAdd(b - a, weight, a); }

// Bilinear: the samples of two rows, the weights of the right column and of the lower row.
template <class V> GSTZC_PIXEL V between(V upper_left, V upper_right, V lower_left, V lower_right, V right, V lower) {
  return between(between(upper_left, upper_right, right), between(lower_left, lower_right, right), lower);
}

// One channel of the tensor from the three components of a frame's pixel.
template <class V> struct ChannelOf {
  V factors[3], constant; // of the components; the colour, 0..255, that they give
  V scale, bias;          // from the colour to the number
};

template <class V> GSTZC_PIXEL V numberOf(const ChannelOf<V> &channel, V colour, V black, V white) {
  return mulAdd(limited(colour, black, white), channel.scale, channel.bias);
}

template <class V> GSTZC_PIXEL V channelValue(const ChannelOf<V> &channel, V a, V b, V c, V black, V white) {
  const V colour =
      mulAdd(a, channel.factors[0], mulAdd(b, channel.factors[1], mulAdd(c, channel.factors[2], channel.constant)));
  return numberOf(channel, colour, black, white);
}
