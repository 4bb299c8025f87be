// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Four steps of butterflies are made on sixteen SIMD vectors held in registers. So the twelve steps of 4096 values
// pass them through the first-level cache only twice.
#include "hadamard.h"

#include "constants.h"
#include "vectors.h"

enum { RUN = 256 };

// a, b become a + b and (a + b) - 2 b.
INLINE void butterfly(vector *a, vector *b) {
  vector sum = *a + *b;
  *b = sum - (*b + *b);
  *a = sum;
}

INLINE void step_2(vector *r) {
  butterfly(&r[0], &r[1]);
}

INLINE void steps_4(vector *r) {
  butterfly(&r[0], &r[2]);
  butterfly(&r[1], &r[3]);
  step_2(r);
  step_2(r + 2);
}

INLINE void steps_8(vector *r) {
  for (int i = 0; i < 4; i++) butterfly(&r[i], &r[i + 4]);
  steps_4(r);
  steps_4(r + 4);
}

INLINE void steps_16(vector *r) {
  for (int i = 0; i < 8; i++) butterfly(&r[i], &r[i + 8]);
  steps_8(r);
  steps_8(r + 8);
}

INLINE void steps(vector *r, int rows) {
  if (rows == 16) steps_16(r);
  if (rows == 8) steps_8(r);
  if (rows == 4) steps_4(r);
  if (rows == 2) step_2(r);
}

// All butterflies between `rows` rows that lie `stride` values apart.
INLINE void rows_pass(float *v, size_t stride, int rows) {
  for (size_t column = 0; column < stride; column += WIDTH) {
    vector r[16];
    for (int i = 0; i < rows; i++) r[i] = load(v + (size_t)i * stride + column);
    steps(r, rows);
    for (int i = 0; i < rows; i++) store(v + (size_t)i * stride + column, r[i]);
  }
}


#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

// One step of a transposition of 16 x 16 values: values whose place in the vector has this bit set change places with
// vectors whose number has it set.
#define EXCHANGE(r, half, LOW, HIGH)                              \
  for (int i = 0; i < WIDTH; i++) {                               \
    if (i & (half)) continue;                                     \
    vector low_ = __builtin_shufflevector((r)[i], (r)[i + (half)], LOW); \
    (r)[i + (half)] = __builtin_shufflevector((r)[i], (r)[i + (half)], HIGH); \
    (r)[i] = low_;                                                \
  }

INLINE void transpose(vector *r) {
  EXCHANGE(r, 8, LOW_8, HIGH_8)
  EXCHANGE(r, 4, LOW_4, HIGH_4)
  EXCHANGE(r, 2, LOW_2, HIGH_2)
  EXCHANGE(r, 1, LOW_1, HIGH_1)
}

// H of 256 values.
static void run_pass(float *v) {
  vector r[WIDTH];
  for (int i = 0; i < WIDTH; i++) r[i] = load(v + i * WIDTH);
  steps_16(r);
  // The last four steps combine values of one vector.
  transpose(r);
  steps_16(r);
  transpose(r);
  for (int i = 0; i < WIDTH; i++) store(v + i * WIDTH, r[i]);
}

static void short_rows(float *v, size_t stride, size_t rows) {
  if (rows == 16) rows_pass(v, stride, 16);
  if (rows == 8) rows_pass(v, stride, 8);
  if (rows == 4) rows_pass(v, stride, 4);
  if (rows == 2) rows_pass(v, stride, 2);
}

static void short_transform(float *v, size_t d) {
  short_rows(v, RUN, d / RUN);
  for (size_t i = 0; i < d; i += RUN) run_pass(v + i);
}

void codec_hadamard(float *v, size_t d) {
  if (d <= CODEC_PASS_VALUES) {
    short_transform(v, d);
    return;
  }
  const size_t low = CODEC_PASS_VALUES / 4;
  for (size_t i = 0; i < d; i += low) short_transform(v + i, low);
  // The steps between rows of `low` values, the widest first, up to four at a time.
  for (size_t span = d; span > low;) {
    size_t rows = span / low < 16 ? span / low : 16;
    for (size_t i = 0; i < d; i += span) short_rows(v + i, span / rows, rows);
    span /= rows;
  }
}
