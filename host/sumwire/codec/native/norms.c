// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Sums over chunks, by halves: value i of the second half is added to value i of the first, until one value is left.
// The order is fixed (sumwire.codec.scales), so that torch and these kernels give equal bits.
#include <math.h>

#include "codec.h"
#include "threads.h"
#include "vectors.h"

enum { VALUES = CODEC_CHUNK_VALUES, HALF = VALUES / 2, QUARTER = VALUES / 4 };

struct squares {
  const float *x, *y;  // y: NULL, or added to x
  uint64_t length;
  float *total, *sums;
  int past;
};

INLINE vector square(const float *x) {
  return load(x) * load(x);
}

// The sum of a quarter of a chunk's values, by halves. Overwrites them.
INLINE float add_vectors(vector *t) {
  for (int half = QUARTER / WIDTH / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) t[i] += t[i + half];
  return add_lanes(t[0]);
}

INLINE float square_sum(const float *x) {
  vector t[QUARTER / WIDTH];
  for (int i = 0; i < QUARTER / WIDTH; i++) {
    const float *here = x + (size_t)i * WIDTH;
    t[i] = (square(here) + square(here + HALF)) + (square(here + QUARTER) + square(here + HALF + QUARTER));
  }
  return add_vectors(t);
}

// The square of x + y, which goes to `total`.
INLINE vector added(const float *x, const float *y, float *total, int past) {
  const vector here = load(x) + load(y);
  if (past) stream(total, here);
  else store(total, here);
  return here * here;
}

// The sum of squares of x + y of a chunk, which goes to `total`.
INLINE float add_chunk(const float *x, const float *y, float *total, int past) {
  vector t[QUARTER / WIDTH];
  for (int i = 0; i < QUARTER / WIDTH; i++) {
    const size_t a = (size_t)i * WIDTH, b = a + QUARTER, c = a + HALF, d = b + HALF;
    const vector first = added(x + a, y + a, total + a, past) + added(x + c, y + c, total + c, past);
    t[i] = first + (added(x + b, y + b, total + b, past) + added(x + d, y + d, total + d, past));
  }
  return add_vectors(t);
}

// Of whole chunks first..last-1.
INLINE void square_sums(const struct squares *job, uint64_t first, uint64_t last, int past) {
  for (uint64_t chunk = first; chunk < last; chunk++) {
    const uint64_t at = chunk * VALUES;
    const float *x = job->x + at;
    job->sums[chunk] = job->y ? add_chunk(x, job->y + at, job->total + at, past) : square_sum(x);
  }
}

// The tensor's last chunk, which is shorter.
static void last_square_sum(const struct squares *job, uint64_t chunk) {
  float x[VALUES] = {0}, y[VALUES] = {0}, total[VALUES];
  const uint64_t at = chunk * VALUES, size = (job->length - at) * sizeof *x;
  memcpy(x, job->x + at, size);
  if (job->y) memcpy(y, job->y + at, size);
  job->sums[chunk] = add_chunk(x, y, total, 0);
  if (job->y) memcpy(job->total + at, total, size);
}

static void chunks(const void *context, unsigned thread, uint64_t first, uint64_t last) {
  (void)thread;
  const struct squares *job = context;
  const uint64_t whole = job->length / VALUES;
  if (job->past) square_sums(job, first, last < whole ? last : whole, 1);
  else square_sums(job, first, last < whole ? last : whole, 0);
  if (last > whole) last_square_sum(job, whole);
  if (job->past) end_streams();
}

void codec_square_sums(const float *x, uint64_t length, float *sums, uint64_t threads) {
  const struct squares job = {x, NULL, length, NULL, sums, 0};
  codec_share(chunks, &job, (length + VALUES - 1) / VALUES, threads);
}

void codec_add_square_sums(const float *x, const float *y, uint64_t length, float *total, float *sums,
                           uint64_t threads) {
  const struct squares job = {x, y, length, total, sums, goes_past(total, length)};
  codec_share(chunks, &job, (length + VALUES - 1) / VALUES, threads);
}

static inline double wide_square(float x) {
  return (double)x * (double)x;
}

static inline double wide_magnitude(float x) {
  return fabs((double)x);
}

#define SUM_OF(name, TERM)                                                                       \
  static double name##_of_chunk(const float *x) {                                                \
    double t[HALF];                                                                              \
    for (int i = 0; i < HALF; i++) t[i] = TERM(x[i]) + TERM(x[i + HALF]);                        \
    for (int half = HALF / 2; half > 0; half /= 2)                                               \
      for (int i = 0; i < half; i++) t[i] += t[i + half];                                        \
    return t[0];                                                                                 \
  }                                                                                              \
                                                                                                 \
  void name(const float *x, uint64_t length, double *sums) {                                     \
    const uint64_t whole = length / VALUES;                                                      \
    for (uint64_t chunk = 0; chunk < whole; chunk++) sums[chunk] = name##_of_chunk(x + chunk * VALUES); \
    if (whole * VALUES == length) return;                                                        \
    float last[VALUES] = {0};                                                                    \
    memcpy(last, x + whole * VALUES, (length - whole * VALUES) * sizeof *x);                     \
    sums[whole] = name##_of_chunk(last);                                                         \
  }

SUM_OF(codec_wide_square_sums, wide_square)
SUM_OF(codec_magnitude_sums, wide_magnitude)
