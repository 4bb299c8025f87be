// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Sums over chunks, by halves: value i of the second half is added to value i of the first, until one value is left.
// The order is fixed (sumwire.codec.norms), so that torch and these kernels give equal bits.
#include <math.h>
#include <string.h>

#include "codec.h"

enum { VALUES = CODEC_CHUNK_VALUES, HALF = VALUES / 2 };

static inline float square(float x) {
  return x * x;
}

static inline double wide_square(float x) {
  return (double)x * (double)x;
}

static inline double wide_magnitude(float x) {
  return fabs((double)x);
}

#define SUM_OF(name, TERM, TYPE)                                                                 \
  static TYPE name##_of_chunk(const float *x) {                                                  \
    TYPE t[HALF];                                                                                \
    for (int i = 0; i < HALF; i++) t[i] = TERM(x[i]) + TERM(x[i + HALF]);                        \
    for (int half = HALF / 2; half > 0; half /= 2)                                               \
      for (int i = 0; i < half; i++) t[i] += t[i + half];                                        \
    return t[0];                                                                                 \
  }                                                                                              \
                                                                                                 \
  void name(const float *x, uint64_t length, TYPE *sums) {                                       \
    const uint64_t whole = length / VALUES;                                                      \
    for (uint64_t chunk = 0; chunk < whole; chunk++) sums[chunk] = name##_of_chunk(x + chunk * VALUES); \
    if (whole * VALUES == length) return;                                                        \
    float last[VALUES] = {0};                                                                    \
    memcpy(last, x + whole * VALUES, (length - whole * VALUES) * sizeof *x);                     \
    sums[whole] = name##_of_chunk(last);                                                         \
  }

SUM_OF(codec_square_sums, square, float)
SUM_OF(codec_wide_square_sums, wide_square, double)
SUM_OF(codec_magnitude_sums, wide_magnitude, double)
