// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// A block's values on their way to the wire: H D x but for the last steps.
#pragma once

#include "blocks.h"

INLINE void take_rows(const struct signs *signs, const float *x, float *v, size_t d, int rows) {
  const size_t stride = d / (size_t)rows;
  for (size_t column = 0; column < stride; column += WIDTH) {
    vector r[RADIX];
    UNROLL for (int i = 0; i < rows; i++) {
      const size_t at = (size_t)i * stride + column;
      r[i] = flipped(signs, load(x + at), at);
    }
    steps(r, rows, DOWN);
    store_rows(r, v + column, stride, rows);
  }
}

// H D x of d values, at most PASS, but for the steps within runs. They begin at value `first` of their block.
__attribute__((noinline)) static void take(const float *x, uint64_t key, uint64_t first, float *v, size_t d) {
  struct signs signs;
  put_signs(&signs, key, first, d);
  const size_t rows = smaller(d / RUN, RADIX), inner = d / rows;
  // The usual block, by constants.
  if (d == PASS) take_rows(&signs, x, v, PASS, OUTER);
  else if (rows == RADIX) take_rows(&signs, x, v, d, RADIX);
  else if (rows == 8) take_rows(&signs, x, v, d, 8);
  else take_rows(&signs, x, v, d, 4);
  for (size_t i = 0; i < d; i += inner) wide_steps_down(v + i, inner, RUN);
}

// The values of a block at x; with zeros after them, in v, if they do not fill it.
static const float *padded(const float *x, uint64_t here, float *v, uint64_t d) {
  if (here == d) return x;
  memcpy(v, x, here * sizeof *v);
  memset(v + here, 0, (d - here) * sizeof *v);
  return v;
}
