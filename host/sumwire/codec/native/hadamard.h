// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The Walsh-Hadamard transform of sumwire.codec.rotation: the same additions in the same order. Butterflies are made on
// RADIX vectors held in registers, so 4096 values pass through the first-level cache two or three times. Downwards,
// the widest butterflies come first; upwards, the narrowest.
#pragma once

#include <stddef.h>

#include "vectors.h"

// Values that a pass over neighbours holds in registers.
enum { RUN = RADIX * WIDTH };

enum way { DOWN, UP };

// All butterflies between `rows` vectors.
INLINE void steps(vector *r, int rows, enum way way) {
  const vector one = ones();
  UNROLL for (int step = 1; step < RADIX; step *= 2) {
    const int half = way == UP ? step : RADIX / 2 / step;
    if (half >= rows) continue;
    UNROLL for (int i = 0; i < RADIX; i++)
      if (i < rows && !(i & half)) butterfly(&r[i], &r[i + half], one);
  }
}

INLINE void lane_steps(vector *r, enum way way) {
  UNROLL for (int step = 0; step < WIDTH_BITS; step++)
    UNROLL for (int i = 0; i < RADIX; i++) r[i] = lane_step(r[i], way == UP ? step : WIDTH_BITS - 1 - step);
}

// H of RUN neighbours.
INLINE void run_steps(vector *r, enum way way) {
  if (way == UP) lane_steps(r, UP);
  steps(r, RADIX, way);
  if (way == DOWN) lane_steps(r, DOWN);
}

INLINE void load_rows(vector *r, const float *v, size_t stride, int rows) {
  UNROLL for (int i = 0; i < rows; i++) r[i] = load(v + (size_t)i * stride);
}

INLINE void store_rows(const vector *r, float *v, size_t stride, int rows) {
  UNROLL for (int i = 0; i < rows; i++) store(v + (size_t)i * stride, r[i]);
}

// All butterflies between `rows` rows that lie `stride` values apart.
INLINE void rows_pass(float *v, size_t stride, int rows, enum way way) {
  for (size_t column = 0; column < stride; column += WIDTH) {
    vector r[RADIX];
    load_rows(r, v + column, stride, rows);
    steps(r, rows, way);
    store_rows(r, v + column, stride, rows);
  }
}

INLINE void rows_steps(float *v, size_t stride, size_t rows, enum way way) {
  if (rows == RADIX) rows_pass(v, stride, RADIX, way);
  else if (rows == 8) rows_pass(v, stride, 8, way);
  else if (rows == 4) rows_pass(v, stride, 4, way);
  else rows_pass(v, stride, 2, way);
}

// The steps between rows of `low` values among d, up to log2 RADIX at a time.
static inline void wide_steps_down(float *v, size_t d, size_t low) {
  for (size_t span = d; span > low;) {
    const size_t rows = span / low < RADIX ? span / low : RADIX;
    for (size_t i = 0; i < d; i += span) rows_steps(v + i, span / rows, rows, DOWN);
    span /= rows;
  }
}

static inline void wide_steps_up(float *v, size_t d, size_t low) {
  for (size_t span = low; span < d;) {
    const size_t rows = d / span < RADIX ? d / span : RADIX;
    for (size_t i = 0; i < d; i += span * rows) rows_steps(v + i, span, rows, UP);
    span *= rows;
  }
}
