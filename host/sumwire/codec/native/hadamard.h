// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// The Walsh-Hadamard transform of sumwire.codec.rotation: the same additions in the same order. Butterflies are made on
// RADIX vectors held in registers, so 4096 values pass through the first-level cache two or three times.
#pragma once

#include <stddef.h>

#include "vectors.h"

// Values that a last pass holds in registers.
enum { RUN = RADIX * WIDTH };

// a, b become a + b and (a + b) - 2 b.
INLINE void butterfly(vector *a, vector *b) {
  const vector sum = *a + *b;
  *b = less_twice(sum, *b);
  *a = sum;
}

// All butterflies between `rows` vectors.
INLINE void steps(vector *r, int rows) {
  UNROLL for (int half = RADIX / 2; half > 0; half /= 2) {
    if (half >= rows) continue;
    UNROLL for (int i = 0; i < RADIX; i++)
      if (i < rows && !(i & half)) butterfly(&r[i], &r[i + half]);
  }
}

// All butterflies between `rows` rows that lie `stride` values apart.
INLINE void rows_pass(float *v, size_t stride, int rows) {
  for (size_t column = 0; column < stride; column += WIDTH) {
    vector r[RADIX];
    UNROLL for (int i = 0; i < rows; i++) r[i] = load(v + (size_t)i * stride + column);
    steps(r, rows);
    UNROLL for (int i = 0; i < rows; i++) store(v + (size_t)i * stride + column, r[i]);
  }
}

static void rows_steps(float *v, size_t stride, size_t rows) {
  if (rows == RADIX) return rows_pass(v, stride, RADIX);
  if (rows == 8) return rows_pass(v, stride, 8);
  if (rows == 4) return rows_pass(v, stride, 4);
  rows_pass(v, stride, 2);
}

// The steps between rows of `low` values, the widest first, up to log2 RADIX at a time.
static void wide_steps(float *v, size_t d, size_t low) {
  for (size_t span = d; span > low;) {
    const size_t rows = span / low < RADIX ? span / low : RADIX;
    for (size_t i = 0; i < d; i += span) rows_steps(v + i, span / rows, rows);
    span /= rows;
  }
}

// H of RUN values: first between vectors, then between lanes.
INLINE void run_steps(vector *r) {
  steps(r, RADIX);
  UNROLL for (int i = 0; i < RADIX; i++) LANE_STEPS(r[i]);
}
